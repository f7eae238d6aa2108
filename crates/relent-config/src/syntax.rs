//! From text to a table with places, within bounds.

use toml::de::DeTable;
use toml_parser::lexer::TokenKind;

use crate::diagnostic::{Code, Problem};
use crate::source::{Place, Source};
use crate::text::shorten;
use crate::tree::{self, Layer, Table};

/// The largest text that is read, in bytes. Real files have a few kilobytes.
pub const MAX_TEXT: usize = 1 << 18;

/// How deep brackets may nest, and how many parts a dotted key may have: policies need 7 at most.
const MAX_DEPTH: usize = 16;

/// Reads a whole text.
pub(crate) fn document(source: &Source, index: usize) -> Result<Table, Vec<Problem>> {
    check_bounds(&source.text, index).map_err(|problem| vec![problem])?;
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    if errors.is_empty() {
        return Ok(tree::from_toml(table.get_ref(), Layer(0), index));
    }
    let mut problems: Vec<Problem> = errors.iter().map(|error| syntax(error, source, index)).collect();
    problems.sort_by(|one, other| one.place.cmp(&other.place));
    // What follows on the same line is mostly confusion.
    let line = |problem: &Problem| problem.place.as_ref().map(|place| source.line_of(place.start));
    problems.dedup_by(|one, other| line(one) == line(other));
    // And what follows an inline table or array without an end is nothing else.
    let astray = ["missing comma", "missing assignment", "unclosed array", "unclosed inline table"];
    let lost = |problem: &Problem| astray.iter().any(|what| problem.message.contains(what));
    if let Some(first) = problems.iter().position(lost) {
        problems.truncate(first + 1);
    }
    Err(problems)
}

fn syntax(error: &toml::de::Error, source: &Source, index: usize) -> Problem {
    let end = source.text.len();
    let place = Place::new(index, error.span().unwrap_or(end..end));
    let (what, expected) = match error.message().split_once(", expected ") {
        Some((what, expected)) => (what, format!("expected {expected}")),
        None => (error.message(), String::new()),
    };
    if what == "duplicate key" {
        let key = source.text.get(place.start..place.end).unwrap_or_default();
        return Problem::new(Code::DuplicateKey, &place, format!("`{}` is given twice", shorten(key.trim())));
    }
    if let Some(problem) = bare_value(source, &place, &expected) {
        return problem;
    }
    Problem::new(Code::Syntax, &place, format!("this is not TOML: {what}")).label(expected)
}

/// A value that is missing or has no quotes is the commonest slip, and told least well by the parser.
fn bare_value(source: &Source, place: &Place, expected: &str) -> Option<Problem> {
    if !matches!(
        expected,
        "expected literal string" | "expected `nan`" | "expected `true`" | "expected `false`"
    ) {
        return None;
    }
    let rest = source.text.get(place.start..)?;
    let is_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let word = rest.get(..rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()))?;
    if word.is_empty() {
        let nothing = rest.trim_start_matches([' ', '\t']);
        if !nothing.is_empty() && !nothing.starts_with(['\n', '\r', '#', ',', '}', ']']) {
            return None;
        }
        return Some(Problem::new(Code::Syntax, place, "this is not TOML: a value is missing"));
    }
    let place = Place { end: place.start + word.len(), ..place.clone() };
    let problem = Problem::new(Code::Syntax, &place, "this is not TOML: a string has quotes");
    Some(if word.len() <= 40 { problem.help(format!("write `\"{word}\"`")) } else { problem })
}

/// Refuses what is too large or nests too deep before anything walks over it recursively (a dotted key of a million
/// parts is a table a million deep).
pub(crate) fn check_bounds(text: &str, index: usize) -> Result<(), Problem> {
    if text.len() > MAX_TEXT {
        let message = format!("the text has {} bytes; at most {MAX_TEXT} are read", text.len());
        return Err(Problem::new(Code::Limit, &Place::new(index, 0..0), message));
    }
    let mut depth = 0usize;
    let mut parts = 0usize;
    for token in toml_parser::Source::new(text).lex() {
        match token.kind() {
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => (depth, parts) = (depth + 1, 0),
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => {
                (depth, parts) = (depth.saturating_sub(1), 0);
            }
            TokenKind::Dot => parts += 1,
            TokenKind::Equals | TokenKind::Comma | TokenKind::Newline => parts = 0,
            _ => {}
        }
        if depth > MAX_DEPTH || parts > MAX_DEPTH {
            let place = Place::new(index, token.span().start()..token.span().end());
            return Err(Problem::new(Code::Limit, &place, "nested too deep")
                .label(format!("at most {MAX_DEPTH} levels are read")));
        }
    }
    Ok(())
}
