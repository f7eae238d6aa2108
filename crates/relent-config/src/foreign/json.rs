//! JSON texts as tables with places, and what all readers of them ask.

use std::collections::btree_map::Entry as Slot;
use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use crate::diagnostic::{Code, Diagnostic, Errors, Problem, Severity};
use crate::names;
use crate::source::{Place, Source, Sources};
use crate::text::{one_of, shorten};
use crate::tree::{Layer, Node, Table, Value};

/// The largest text that is read, in bytes: the most that Step Functions takes for a definition.
pub(super) const MAX_JSON: usize = 1 << 20;

/// How deep a text may nest. What is read here needs about twenty levels, and a Map within a Map ten more.
const MAX_DEPTH: usize = 128;

/// What a reader of a JSON text holds: the text and what is wrong with it.
pub(super) struct Reader {
    sources: Sources,
    /// Which of them is read.
    index: usize,
    problems: Vec<Problem>,
}

/// Reads one text alone. `name` is the file's name, for messages.
pub(super) fn alone<T>(
    text: &str,
    name: &str,
    read: impl FnOnce(&Sources, usize) -> Result<(T, Vec<Problem>), Vec<Problem>>,
) -> Result<(T, Vec<Diagnostic>), Errors> {
    let sources = Sources(vec![Arc::new(Source::file(name, text))]);
    match read(&sources, 0) {
        Ok((read, warnings)) => Ok((read, Errors::locate(warnings, &sources).iter().cloned().collect())),
        Err(problems) => Err(Errors::locate(problems, &sources)),
    }
}

impl Reader {
    /// The value that one of the texts is.
    pub(super) fn parse(sources: &Sources, index: usize) -> Result<(Self, Node), Vec<Problem>> {
        let mut reader = Self { sources: sources.clone(), index, problems: Vec::new() };
        match reader.document() {
            Some(node) => Ok((reader, node)),
            None => Err(reader.problems),
        }
    }

    fn document(&mut self) -> Option<Node> {
        let source = self.sources.0.get(self.index).map(Arc::clone)?;
        let text = source.text.as_str();
        if text.len() > MAX_JSON {
            let message = format!("the text has {} bytes; at most {MAX_JSON} are read", text.len());
            self.problems.push(Problem::new(Code::Limit, &Place::new(self.index, 0..0), message));
            return None;
        }
        if let Some(at) = too_deep(text) {
            let problem = Problem::new(Code::Limit, &Place::new(self.index, at..at + 1), "nested too deep");
            self.problems.push(problem.label(format!("at most {MAX_DEPTH} levels are read")));
            return None;
        }
        let strict = ParseOptions {
            allow_comments: false,
            allow_loose_object_property_names: false,
            allow_trailing_commas: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        match parse_to_ast(text, &CollectOptions::default(), &strict) {
            Ok(parsed) => match parsed.value {
                Some(value) => Some(self.node(self.place(&value), &value)),
                None => {
                    let problem =
                        Problem::new(Code::Syntax, &Place::new(self.index, 0..0), "this is not JSON");
                    self.problems.push(problem.label("expected a value"));
                    None
                }
            },
            Err(error) => {
                let range = error.range();
                let what = error.kind().to_string().to_lowercase();
                let message = format!("this is not JSON: {what}");
                self.problems.push(Problem::new(
                    Code::Syntax,
                    &Place::new(self.index, range.start..range.end),
                    message,
                ));
                None
            }
        }
    }

    fn place(&self, ranged: &impl Ranged) -> Place {
        let range = ranged.range();
        Place::new(self.index, range.start..range.end)
    }

    /// The text nests only so deep: it is safe to recurse.
    fn node(&mut self, key: Place, value: &ast::Value<'_>) -> Node {
        let place = self.place(value);
        let value = match value {
            ast::Value::StringLit(text) => Value::String(text.value.clone().into_owned()),
            ast::Value::NumberLit(number) => number_of(number.value),
            ast::Value::BooleanLit(boolean) => Value::Boolean(boolean.value),
            ast::Value::NullKeyword(_) => Value::Null,
            ast::Value::Array(array) => Value::Array(
                array.elements.iter().map(|element| self.node(self.place(element), element)).collect(),
            ),
            ast::Value::Object(object) => Value::Table(self.table(object)),
        };
        Node { key, place, layer: Layer(0), value }
    }

    fn table(&mut self, object: &ast::Object<'_>) -> Table {
        let mut table = Table::new();
        for property in &object.properties {
            let key = self.place(&property.name);
            let node = self.node(key.clone(), &property.value);
            match table.entry(property.name.as_str().to_owned()) {
                Slot::Vacant(slot) => {
                    slot.insert(node);
                }
                // Which of them counts differs from parser to parser.
                Slot::Occupied(slot) => {
                    let message = format!("`{}` is given twice", shorten(slot.key()));
                    self.problems.push(Problem::new(Code::DuplicateKey, &key, message));
                }
            }
        }
        table
    }

    /// What was read, if nothing is wrong with it, and what is to be told about it.
    pub(super) fn finish<T>(self, read: T) -> Result<(T, Vec<Problem>), Vec<Problem>> {
        let (errors, warnings): (Vec<_>, Vec<_>) =
            self.problems.into_iter().partition(|problem| problem.severity == Severity::Error);
        if errors.is_empty() { Ok((read, warnings)) } else { Err(errors) }
    }

    pub(super) fn push(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Whether nothing is wrong so far.
    pub(super) fn is_clean(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity == Severity::Warning)
    }

    /// Refuses the type, or the range, of a value. `expected` goes on after "expected".
    pub(super) fn mistyped(&mut self, node: &Node, path: &str, expected: &str) {
        let what = match (&node.value, is_expression(node)) {
            (_, true) => "an expression".to_owned(),
            (Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_), _) => {
                self.sources.text(&node.place).to_owned()
            }
            (value, _) => value.kind().to_owned(),
        };
        let problem = Problem::new(Code::WrongType, &node.place, format!("`{path}` is {}", shorten(&what)));
        self.problems.push(problem.label(format!("expected {expected}")));
    }

    pub(super) fn missing(&mut self, node: &Node, path: &str, key: &str, help: &str) {
        let problem = Problem::new(Code::Missing, &node.place, format!("`{path}` has no `{key}`"));
        self.problems.push(problem.help(help));
    }

    /// The object that a value must be.
    pub(super) fn object<'n>(&mut self, node: &'n Node, path: &str) -> Option<&'n Table> {
        if node.table().is_none() {
            self.mistyped(node, path, "an object");
        }
        node.table()
    }

    /// The elements of the array that a value must be.
    pub(super) fn array<'n>(&mut self, node: &'n Node, path: &str) -> Option<&'n [Node]> {
        let Value::Array(elements) = &node.value else {
            self.mistyped(node, path, "an array");
            return None;
        };
        Some(elements)
    }

    /// The string that a value must be.
    pub(super) fn string<'n>(&mut self, node: &'n Node, path: &str) -> Option<&'n str> {
        if node.string().is_none() {
            self.mistyped(node, path, "a string");
        }
        node.string()
    }

    /// The whole number within `bounds` that a value must be; 1.0 is one.
    pub(super) fn whole(
        &mut self,
        node: &Node,
        path: &str,
        bounds: std::ops::RangeInclusive<u32>,
    ) -> Option<u32> {
        let number = match node.value {
            Value::Integer(number) => number.and_then(|number| u32::try_from(number).ok()),
            Value::Float(number)
                if number.fract() == 0.0 && number >= 0.0 && number <= f64::from(u32::MAX) =>
            {
                Some(number as u32)
            }
            _ => None,
        };
        let number = number.filter(|number| bounds.contains(number));
        if number.is_none() {
            let (least, most) = (bounds.start(), bounds.end());
            self.mistyped(node, path, &format!("a whole number from {least} to {most}"));
        }
        number
    }

    /// The number that a value must be.
    pub(super) fn number(
        &mut self,
        node: &Node,
        path: &str,
        expected: &str,
        fits: impl Fn(f64) -> bool,
    ) -> Option<f64> {
        let number = match node.value {
            Value::Integer(Some(number)) => Some(number as f64),
            Value::Float(number) => Some(number),
            _ => None,
        };
        let number = number.filter(|number| number.is_finite() && fits(*number));
        if number.is_none() {
            self.mistyped(node, path, expected);
        }
        number
    }

    /// Tells of the keys of an object that are none of these.
    pub(super) fn only_keys(&mut self, table: &Table, path: &str, known: &[&str], severity: Severity) {
        for (key, node) in table.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let message = format!("unknown key `{}` in `{path}`", shorten(key));
            let problem = Problem { severity, ..Problem::new(Code::UnknownKey, &node.key, message) };
            let near = names::nearest(key, known.iter().copied());
            self.problems.push(match near {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.label(format!("expected {}", one_of(known))),
            });
        }
    }
}

/// Whether a string is an expression of the query languages of Step Functions, or a placeholder of a template.
fn is_expression(node: &Node) -> bool {
    node.string().is_some_and(|text| text.starts_with("{%") || text.starts_with('$'))
}

fn number_of(text: &str) -> Value {
    if text.contains(['.', 'e', 'E']) {
        Value::Float(text.parse().unwrap_or(f64::NAN))
    } else {
        Value::Integer(text.parse().ok())
    }
}

/// Where the brackets of a text nest too deep.
fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Some(at);
                }
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}
