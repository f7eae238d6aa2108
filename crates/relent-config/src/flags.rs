//! Command-line options as one more layer.

use std::sync::Arc;

use toml::de::DeValue;

use crate::diagnostic::{Code, Problem};
use crate::source::{Place, Source, Sources};
use crate::syntax;
use crate::tree::{Layer, Node, Table, Value};

/// A command-line option: it lies over the policy as one more policy would, with the same checks.
///
/// ```
/// use relent_config::{BuiltIn, Flag};
///
/// let flags = [Flag::new("--max-attempts", "max_attempts", "2"), Flag::new("--cap", "backoff.cap", "5s")];
/// let resolved = BuiltIn::Library.with(&flags)?;
/// assert_eq!(resolved.policy().max_attempts(), Some(2));
/// # Ok::<(), relent_config::Errors>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag<'a> {
    /// The option as it was given, for messages: `"--cap"`.
    pub flag: &'a str,
    /// The key's path from the policy: `"backoff.cap"`.
    pub path: &'a str,
    /// The value's text: without quotes, lists with commas, tables and arrays as in TOML.
    pub value: &'a str,
}

impl<'a> Flag<'a> {
    /// A flag.
    pub const fn new(flag: &'a str, path: &'a str, value: &'a str) -> Self {
        Self { flag, path, value }
    }
}

/// The flags as a policy's table. Each becomes one of the `sources`.
pub(crate) fn table(flags: &[Flag<'_>], sources: &mut Sources) -> Result<Table, Vec<Problem>> {
    let mut table = Table::new();
    let mut problems = Vec::new();
    for flag in flags {
        let index = sources.0.len();
        sources.0.push(Arc::new(Source::flag(flag.flag, flag.value)));
        match value(flag, index) {
            Ok(node) => {
                if let Err(problem) = insert(&mut table, flag.path, node, flag) {
                    problems.push(problem);
                }
            }
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(table) } else { Err(problems) }
}

fn value(flag: &Flag<'_>, index: usize) -> Result<Node, Problem> {
    let start = flag.flag.len() + 1;
    let place = Place::new(index, start..start + flag.value.len());
    let text = flag.value;
    let node = |value| Node { key: place.clone(), place: place.clone(), layer: Layer::FLAGS, value };
    if text.starts_with(['[', '{']) {
        syntax::check_bounds(text, index)
            .map_err(|problem| Problem { place: Some(place.clone()), ..problem })?;
        let parsed = DeValue::parse(text).map_err(|error| {
            Problem::new(Code::Syntax, &place, format!("this is not TOML: {}", error.message()))
        })?;
        let mut node = Node::alone(&parsed, Layer::FLAGS, index, start);
        node.key = place;
        return Ok(node);
    }
    let key = flag.path.rsplit('.').next().unwrap_or(flag.path);
    if matches!(key, "retry_on" | "waits" | "classes" | "rejected") || key == "budget" && text.contains(',') {
        return Ok(node(Value::Array(list(text, index, start))));
    }
    Ok(node(match text {
        _ if key == "description" => Value::String(text.to_owned()),
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        _ => match (text.parse::<i128>(), text.parse::<f64>()) {
            (Ok(number), _) => Value::Integer(Some(number)),
            (Err(_), Ok(number)) => Value::Float(number),
            (Err(_), Err(_)) => Value::String(text.to_owned()),
        },
    }))
}

/// `a,b,c`
fn list(text: &str, index: usize, start: usize) -> Vec<Node> {
    let mut elements = Vec::new();
    let mut at = start;
    for part in text.split(',') {
        let word = part.trim();
        let begin = at + (part.len() - part.trim_start().len());
        let place = Place::new(index, begin..begin + word.len());
        let value = Value::String(word.to_owned());
        elements.push(Node { key: place.clone(), place, layer: Layer::FLAGS, value });
        at += part.len() + 1;
    }
    elements
}

/// Puts `node` where `path` says. A value on the way that is a short form becomes the table that it stands for.
fn insert(table: &mut Table, path: &str, node: Node, flag: &Flag<'_>) -> Result<(), Problem> {
    let Some((key, rest)) = path.split_once('.') else {
        match table.get_mut(path) {
            // The table came first: `--deadline-reserve 1s --deadline 10s`.
            Some(Node { value: Value::Table(inner), .. }) if path == "deadline" => {
                inner.insert("total".to_owned(), node);
            }
            Some(Node { value: Value::Table(inner), .. }) if path == "jitter" => {
                inner.insert("kind".to_owned(), node);
            }
            Some(_) => {
                let message = format!("{} is given twice, or contradicts another option", flag.flag);
                return Err(Problem::new(Code::DuplicateKey, &node.place, message));
            }
            None => {
                table.insert(path.to_owned(), node);
            }
        }
        return Ok(());
    };
    let outer = table
        .entry(key.to_owned())
        .or_insert_with(|| Node { value: Value::Table(Table::new()), ..node.clone() });
    if let Some(short) = crate::tree::expanded(key, outer) {
        outer.value = Value::Table(short);
    }
    match &mut outer.value {
        Value::Table(inner) => insert(inner, rest, node, flag),
        _ => {
            let message = format!("{} contradicts another option", flag.flag);
            Err(Problem::new(Code::Conflict, &node.place, message))
        }
    }
}
