//! Tables that belong to other crates: their values with places, and the means to tell what is wrong with them.

use std::time::Duration;

use crate::diagnostic::{Code, Errors, Problem};
use crate::duration::parse_duration;
use crate::names;
use crate::read::{bad_duration, mistyped, no_duration};
use crate::source::Sources;
use crate::text::{one_of, shorten};
use crate::tree::{Node, Value};

/// A value of a table that another crate owns.
///
/// ```
/// use relent_config::{Code, Reader};
///
/// let file = Reader::new().policy_table("http").parse(
///     "version = 1\n[policies.default]\nhttp = { transient = [409, 999], transientt = 1 }\n",
///     "relent.toml",
/// )?;
/// let resolved = file.resolved("default")?;
/// let mut checks = resolved.checks();
/// let http = resolved.extension("http").unwrap();
/// checks.only_keys(&http, &["transient", "permanent"]);
/// for status in http.get("transient").iter().flat_map(|list| list.items()) {
///     if !status.integer().is_some_and(|status| (100..600).contains(&status)) {
///         checks.wrong_type(&status, "an HTTP status from 100 to 599");
///     }
/// }
/// let errors = checks.finish().unwrap_err();
/// assert_eq!(errors.iter().map(|error| error.code()).collect::<Vec<_>>(), [Code::WrongType, Code::UnknownKey]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    path: String,
    node: &'a Node,
}

impl<'a> Entry<'a> {
    pub(crate) fn new(path: &str, node: &'a Node) -> Self {
        Self { path: path.to_owned(), node }
    }

    /// The path of its key from the policy: `"http.transient"`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value of `key`, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<Self> {
        let node = self.node.table()?.get(key)?;
        Some(Self { path: format!("{}.{key}", self.path), node })
    }

    /// Each key with its value, if this is a table.
    pub fn entries(&self) -> Vec<(&'a str, Self)> {
        let entry = |(key, node): (&'a String, &'a Node)| {
            (key.as_str(), Self { path: format!("{}.{key}", self.path), node })
        };
        self.node.table().map(|table| table.iter().map(entry).collect()).unwrap_or_default()
    }

    /// The elements, if this is an array.
    pub fn items(&self) -> Vec<Self> {
        let Value::Array(elements) = &self.node.value else { return Vec::new() };
        elements.iter().map(|node| Self { path: self.path.clone(), node }).collect()
    }

    /// Whether this is a table.
    pub fn is_table(&self) -> bool {
        self.node.table().is_some()
    }

    /// Whether this is an array.
    pub fn is_array(&self) -> bool {
        matches!(self.node.value, Value::Array(_))
    }

    /// The string.
    pub fn string(&self) -> Option<&'a str> {
        self.node.string()
    }

    /// The integer.
    pub fn integer(&self) -> Option<i128> {
        match self.node.value {
            Value::Integer(number) => number,
            _ => None,
        }
    }

    /// The number, integer or not. TOML knows `nan` and `inf`, too: check the range.
    pub fn number(&self) -> Option<f64> {
        match self.node.value {
            Value::Integer(number) => number.map(|number| number as f64),
            Value::Float(number) => Some(number),
            _ => None,
        }
    }

    /// The boolean.
    pub fn boolean(&self) -> Option<bool> {
        match self.node.value {
            Value::Boolean(value) => Some(value),
            _ => None,
        }
    }
}

/// Collects what is wrong with the tables of another crate, in the form of all errors.
#[derive(Debug)]
pub struct Checks {
    sources: Sources,
    problems: Vec<Problem>,
}

impl Checks {
    pub(crate) fn new(sources: &Sources) -> Self {
        Self { sources: sources.clone(), problems: Vec::new() }
    }

    /// Refuses all keys of a table but these.
    pub fn only_keys(&mut self, table: &Entry<'_>, known: &[&str]) {
        for (key, entry) in table.entries().iter().filter(|(key, _)| !known.contains(key)) {
            let message = format!("unknown key `{}` in `{}`", shorten(key), table.path);
            let problem = Problem::new(Code::UnknownKey, &entry.node.key, message);
            self.problems.push(match names::nearest(key, known.iter().copied()) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.label(format!("expected {}", one_of(known))),
            });
        }
    }

    /// Reads a duration.
    pub fn duration(&mut self, entry: &Entry<'_>) -> Option<Duration> {
        let problem = match entry.string().map(parse_duration) {
            Some(Ok(duration)) => return Some(duration),
            Some(Err(error)) => bad_duration(&self.sources, entry.node, &entry.path, &error),
            None => no_duration(entry.node, &entry.path),
        };
        self.problems.push(problem);
        None
    }

    /// Refuses the type, or the range, of a value. `expected` goes on after "expected".
    pub fn wrong_type(&mut self, entry: &Entry<'_>, expected: &str) {
        self.problems.push(mistyped(entry.node, &entry.path, expected));
    }

    /// Refuses a value for any other reason.
    pub fn refuse(&mut self, code: Code, entry: &Entry<'_>, message: &str, help: Option<&str>) {
        let problem = Problem::new(code, &entry.node.place, message);
        self.problems.push(problem.maybe_help(help.map(str::to_owned)));
    }

    /// The verdict.
    ///
    /// # Errors
    ///
    /// All that was refused, in order of place.
    pub fn finish(self) -> Result<(), Errors> {
        match self.problems {
            problems if problems.is_empty() => Ok(()),
            problems => Err(Errors::locate(problems, &self.sources)),
        }
    }
}
