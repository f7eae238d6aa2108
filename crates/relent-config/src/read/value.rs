//! One value at a time, and what is told about it.

use std::time::Duration;

use relent_core::{Class, Classes, Multiplier};

use super::Reader;
use crate::diagnostic::{Code, Problem};
use crate::duration::{DurationError, parse_duration};
use crate::names::{self, BACKOFF_KINDS, Section};
use crate::source::{Place, Sources};
use crate::text::{float_text, one_of, shorten, text_of};
use crate::tree::{Node, Table, Value};

/// The longest list of waits, stages or rules.
const MAX_LIST: usize = 1000;

/// The keys of `table` that `section` does not know.
pub(crate) fn unknown_keys(section: Section, extra: &[String], path: &str, table: &Table) -> Vec<Problem> {
    let known = |key: &str| section.keys().contains(&key) || extra.iter().any(|name| name == key);
    table
        .iter()
        .filter(|(key, _)| !known(key))
        .map(|(key, node)| unknown_key(section, extra, path, key, node))
        .collect()
}

pub(super) fn unknown_key(section: Section, extra: &[String], path: &str, key: &str, node: &Node) -> Problem {
    let shown = shorten(key);
    let inside = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
    if let Some(found) = names::translate(section, key, node) {
        let name = found.key.rsplit('.').next().unwrap_or(found.key);
        let ours = found.names;
        let (code, message) = match found.ours {
            true if name == key => (Code::MisplacedKey, format!("`{shown}` does not belong here")),
            true => (Code::UnknownKey, format!("unknown key `{shown}`{inside}")),
            false => (Code::ForeignKey, format!("unknown key `{shown}`{inside}: relent calls it {ours}")),
        };
        return Problem::new(code, &node.key, message).help(found.help);
    }
    let known: Vec<&str> = section.keys().iter().copied().chain(extra.iter().map(String::as_str)).collect();
    let problem = Problem::new(Code::UnknownKey, &node.key, format!("unknown key `{shown}`{inside}"));
    match names::nearest(key, known.iter().copied()) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.label(format!("expected {}", one_of(known))),
    }
}

impl Reader<'_> {
    pub(super) fn attempts(&mut self, node: &Node, path: &str, expected: &str) -> Option<u32> {
        let message = match &node.value {
            Value::Integer(Some(number)) => match u32::try_from(*number) {
                Ok(attempts) if attempts > 0 => return Some(attempts),
                Ok(_) => format!("`{path}` counts the first attempt: 0 would be no call at all"),
                Err(_) if *number < 0 => format!("`{path}` cannot be negative"),
                Err(_) => format!("`{path}` is at most {}", u32::MAX),
            },
            Value::Integer(None) => format!("`{path}` is at most {}", u32::MAX),
            _ => {
                let numeric = node
                    .string()
                    .and_then(|text| text.trim().parse::<u32>().ok())
                    .filter(|number| *number > 0);
                let word = node
                    .string()
                    .and_then(|text| names::nearest(text, ["unlimited", "infinite", "inf", "forever"]));
                let help = match (numeric, word) {
                    (Some(number), _) => Some(format!("write `{path} = {number}`")),
                    (None, Some(_)) if expected.contains("unlimited") => {
                        Some(format!("write `{path} = \"unlimited\"`"))
                    }
                    _ => None,
                };
                self.wrong_type(node, path, expected, help);
                return None;
            }
        };
        let mut problem = Problem::new(Code::BadValue, &node.place, message)
            .label(format!("expected {expected}"))
            .help("1 switches retries off");
        if expected.contains("unlimited") {
            problem = problem.help("\"unlimited\" sets no limit");
        }
        self.problems.push(problem);
        None
    }

    pub(super) fn string<'n>(&mut self, node: &'n Node, path: &str) -> Option<&'n str> {
        let text = node.string();
        if text.is_none() {
            self.wrong_type(node, path, "a string", None);
        }
        text
    }

    pub(super) fn table<'n>(&mut self, table: &'n Table, key: &str, shape: &str) -> Option<&'n Table> {
        let node = table.get(key)?;
        let found = node.table();
        if found.is_none() {
            let kinds = |words: &[(&str, &[&str])], word| words.iter().any(|(kind, _)| *kind == word);
            let help = match (key, node.string(), &node.value) {
                ("backoff", Some(word), _) if kinds(BACKOFF_KINDS, word) => {
                    format!("write `backoff = {{ kind = \"{word}\" }}`")
                }
                ("hint", Some(word @ ("minimum" | "exact" | "ignore")), _) => {
                    format!("write `hint = {{ mode = \"{word}\" }}`")
                }
                ("idempotency", _, Value::Boolean(require)) => {
                    format!("write `idempotency = {{ require = {require} }}`")
                }
                _ => format!("write `{shape}`"),
            };
            self.wrong_type(node, key, "a table", Some(help));
        }
        found
    }

    pub(super) fn array<'n>(&mut self, node: &'n Node, path: &str, expected: &str) -> Option<&'n [Node]> {
        match &node.value {
            Value::Array(elements) if elements.len() > MAX_LIST => {
                let message = format!("`{path}` has {} entries; at most {MAX_LIST} are read", elements.len());
                self.problems.push(Problem::new(Code::Limit, &node.key, message));
                None
            }
            Value::Array(elements) => Some(elements),
            _ => {
                let name = path.rsplit('.').next().unwrap_or(path);
                let help = node.string().map(|word| format!("write `{name} = [\"{}\"]`", shorten(word)));
                self.wrong_type(node, path, expected, help.filter(|_| name != "rules" && name != "stages"));
                None
            }
        }
    }

    pub(super) fn word<'w>(&mut self, node: &Node, path: &str, known: &[&'w str]) -> Option<&'w str> {
        let expected = one_of(known.iter().map(|word| format!("\"{word}\"")));
        let Some(text) = node.string() else {
            let help = match node.value {
                Value::Boolean(on) if path.ends_with("jitter") => {
                    Some(format!("write `{path} = \"{}\"`", if on { "full" } else { "none" }))
                }
                _ => None,
            };
            self.wrong_type(node, path, &expected, help);
            return None;
        };
        if let Some(word) = known.iter().find(|word| **word == text) {
            return Some(word);
        }
        let near = foreign_word(text).filter(|word| known.contains(word));
        let near = near.or_else(|| names::nearest(text, known.iter().copied()));
        let message = format!("\"{}\" is not a word for `{path}`", shorten(text));
        let problem =
            Problem::new(Code::UnknownWord, &node.place, message).label(format!("expected {expected}"));
        self.problems.push(problem.maybe_help(near.map(|word| format!("did you mean \"{word}\"?"))));
        None
    }

    pub(super) fn classes(&mut self, node: &Node, path: &str) -> Option<Classes> {
        let elements = self.array(node, path, "an array of classes, such as [\"transient\", \"timeout\"]")?;
        let before = self.problems.len();
        let mut classes = Classes::NONE;
        for element in elements {
            if let Some(word @ ("success" | "cancelled")) = element.string() {
                let message = format!("\"{word}\" is never retried");
                self.problems.push(Problem::new(Code::BadValue, &element.place, message));
                continue;
            }
            let word = self.word(element, path, Section::On.keys());
            classes =
                word.and_then(|word| word.parse().ok()).map_or(classes, |class: Class| classes.with(class));
        }
        (self.problems.len() == before).then_some(classes)
    }

    pub(super) fn duration(&mut self, node: &Node, path: &str) -> Option<Duration> {
        let read = match node.string() {
            Some(text) => parse_duration(text),
            None => {
                self.problems.push(no_duration(node, path));
                return None;
            }
        };
        let told = |error| bad_duration(self.context.sources, node, path, &error);
        read.map_err(told).map_err(|problem| self.problems.push(problem)).ok()
    }

    /// The outer none: it was bad, and that was told.
    #[allow(clippy::option_option, reason = "bad, none and some are three things")]
    pub(super) fn duration_or_none(&mut self, node: &Node, path: &str) -> Option<Option<Duration>> {
        match node.string() {
            Some("none") => Some(None),
            _ => self.duration(node, path).map(Some),
        }
    }

    pub(super) fn optional_duration(
        &mut self,
        table: &Table,
        prefix: &str,
        key: &str,
        why: &'static str,
    ) -> Option<Duration> {
        let path = format!("{prefix}{key}");
        let Some(node) = table.get(key) else {
            self.built_in(&path, "\"none\"".into(), why);
            return None;
        };
        let duration = self.duration_or_none(node, &path)?;
        self.given(&path, text_of(duration), node);
        duration
    }

    pub(super) fn number(&mut self, node: &Node, path: &str, expected: &str) -> Option<f64> {
        match node.value {
            Value::Integer(Some(number)) => Some(number as f64),
            Value::Float(number) => Some(number),
            _ => {
                let numeric = node
                    .string()
                    .and_then(|text| text.trim().parse::<f64>().ok())
                    .filter(|number| number.is_finite());
                let name = path.rsplit('.').next().unwrap_or(path);
                let help = numeric.map(|number| format!("write `{name} = {}`", float_text(number)));
                self.wrong_type(node, path, expected, help);
                None
            }
        }
    }

    pub(super) fn multiplier(&mut self, node: &Node, path: &str) -> Option<Multiplier> {
        const EXPECTED: &str = "a finite number of at least 1";
        let number = self.number(node, path, EXPECTED)?;
        let multiplier = Multiplier::new(number);
        if multiplier.is_none() {
            let message = format!("`{path}` must be a finite number of at least 1");
            self.problems.push(
                Problem::new(Code::BadValue, &node.place, message).help("1 means no growth, 2 doubling"),
            );
        }
        multiplier
    }

    pub(super) fn ratio(&mut self, node: &Node, path: &str, zero: bool) -> Option<f64> {
        let expected = if zero { "a number from 0 to 1" } else { "a number above 0 and at most 1" };
        let number = self.number(node, path, expected)?;
        if number <= 1.0 && (number > 0.0 || (zero && number == 0.0)) {
            return Some(number);
        }
        let message = format!("`{path}` must be {expected}");
        let percent = (number > 1.0 && number <= 100.0)
            .then(|| format!("if it is a percentage, write {}", number / 100.0));
        self.problems.push(Problem::new(Code::BadValue, &node.place, message).maybe_help(percent));
        None
    }

    /// Tells of keys that belong to another kind than `kind`.
    pub(super) fn keys_of_kind(
        &mut self,
        kinds: &[(&str, &[&str])],
        kind: &str,
        kind_node: Option<&Node>,
        what: &str,
        table: &Table,
    ) {
        for (key, node) in table {
            let homes: Vec<&str> = kinds
                .iter()
                .filter(|(_, keys)| keys.contains(&key.as_str()))
                .map(|(kind, _)| *kind)
                .collect();
            if homes.is_empty() || homes.contains(&kind) || self.context.incomplete && kind_node.is_none() {
                continue;
            }
            let message =
                format!("`{key}` has no effect on a backoff of kind \"{kind}\"").replace("backoff", what);
            let given = match kind_node {
                Some(node) if !self.owns(node) => format!("\"{kind}\" comes from {}; ", self.origin(node)),
                Some(_) => String::new(),
                None => format!("\"{kind}\" is the built-in kind; "),
            };
            let kinds = one_of(homes.iter().map(|home| format!("\"{home}\"")));
            self.no_effect(node, &message, Some(format!("{given}`{key}` is for {kinds}")));
        }
    }

    pub(super) fn no_effect(&mut self, node: &Node, message: &str, help: Option<String>) {
        if self.owns(node) && !self.context.incomplete {
            self.problems.push(Problem::new(Code::NoEffect, &node.key, message).maybe_help(help));
        }
    }

    pub(super) fn missing(&mut self, node: &Node, message: &str, help: &str) {
        if !self.context.incomplete {
            self.problems.push(Problem::new(Code::Missing, &node.place, message).help(help));
        }
    }

    pub(super) fn wrong_type(&mut self, node: &Node, path: &str, expected: &str, help: Option<String>) {
        self.problems.push(mistyped(node, path, expected).maybe_help(help));
    }
}

/// A value of the wrong type.
pub(crate) fn mistyped(node: &Node, path: &str, expected: &str) -> Problem {
    let message = format!("`{path}` is {}", node.value.kind());
    Problem::new(Code::WrongType, &node.place, message).label(format!("expected {expected}"))
}

const A_DURATION: &str = "expected a duration such as \"1m30s\"";

/// A string that is no duration, at the place inside it.
pub(crate) fn bad_duration(sources: &Sources, node: &Node, path: &str, error: &DurationError) -> Problem {
    let message = format!("`{path}` is not a duration: {error}");
    let text = node.string().unwrap_or_default();
    // A string without escapes reads as it is written, one quote further on; an option's has no quotes.
    let written = sources.text(&node.place);
    let inside = [0, 1].into_iter().find(|quote| written.get(*quote..*quote + text.len()) == Some(text));
    let place = match inside {
        Some(quote) if !text.is_empty() => {
            let start = node.place.start + quote;
            Place::new(node.place.source, start + error.span().start..start + error.span().end)
        }
        _ => node.place.clone(),
    };
    let quotes = if written.starts_with(['"', '\'']) { "\"" } else { "" };
    let help = error.suggestion().map(|good| match good.strip_suffix('s') {
        Some(number) if error.is_bare_number() => {
            format!("write `{quotes}{good}{quotes}` or `{quotes}{number}ms{quotes}`")
        }
        _ => format!("write `{quotes}{good}{quotes}`"),
    });
    Problem::new(Code::BadDuration, &place, message).label(A_DURATION).maybe_help(help)
}

/// What is no string, and so no duration: often a number whose unit is in its author's head.
pub(crate) fn no_duration(node: &Node, path: &str) -> Problem {
    let number = match &node.value {
        Value::Integer(Some(number)) if *number >= 0 => number.to_string(),
        Value::Float(number) if number.is_finite() && *number >= 0.0 => number.to_string(),
        _ => return mistyped(node, path, "a duration such as \"1m30s\""),
    };
    let message = format!("`{path}` is not a duration: a number without a unit");
    let problem = Problem::new(Code::BadDuration, &node.place, message).label(A_DURATION);
    if node.layer == crate::tree::Layer::FLAGS {
        return problem.help(format!("write `{number}s` or `{number}ms`"));
    }
    let name = path.rsplit('.').next().unwrap_or(path);
    problem.help(format!("write `{name} = \"{number}s\"` or `{name} = \"{number}ms\"`"))
}

fn foreign_word(word: &str) -> Option<&'static str> {
    Some(match word.to_lowercase().as_str() {
        "expo" | "exp" | "exponential_backoff" | "exponentialbackoff" | "geometric" => "exponential",
        "fixed" | "static" | "none" | "flat" => "constant",
        "incremental" | "incrementing" | "increment" => "linear",
        "fibo" => "fibonacci",
        "half" | "half_jitter" => "equal",
        "true" | "on" | "random" | "full_jitter" | "fulljitter" => "full",
        "false" | "off" | "no" => "none",
        "decorrelated_jitter" | "decorr" => "decorrelated",
        "truncate" | "shorten" => "fit",
        "retryable" | "unavailable" | "error" => "transient",
        "throttling" | "rate_limited" | "too_many_requests" => "throttled",
        "timed_out" | "timedout" => "timeout",
        "zero" | "none_first" | "now" => "immediate",
        _ => return None,
    })
}
