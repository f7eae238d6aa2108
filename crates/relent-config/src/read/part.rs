//! The keys of one part of what calls share, one after another: each checked, each told with where it comes from.

use std::time::Duration;

use relent_core::{PolicyError, Rate, Ratio};

use super::Reader;
use super::value::{mistyped, unknown_keys};
use crate::diagnostic::{Code, Problem};
use crate::duration::parse_duration;
use crate::names::Section;
use crate::shared::Scope;
use crate::text::{float_text, quoted, rate_text, ratio_text, shorten, text_of, toml_string};
use crate::tree::{Node, Table, Value};

/// A table that says what a part is to be. What is bad is told, and its default stands in for it.
pub(super) struct Part<'a, 'c> {
    pub(super) reader: &'a mut Reader<'c>,
    /// The table's own path: `"breaker"`, `"budgets.outbound"`.
    pub(super) path: &'a str,
    pub(super) node: &'a Node,
    pub(super) table: &'a Table,
}

/// A value that holds where nothing is said, and why.
pub(super) type Default<T> = (T, &'static str);

impl<'a, 'c> Part<'a, 'c> {
    /// Of a table in one of `section`'s forms; what it does not know is told.
    pub(super) fn new(
        reader: &'a mut Reader<'c>,
        section: Section,
        path: &'a str,
        node: &'a Node,
        table: &'a Table,
    ) -> Self {
        reader.problems.extend(unknown_keys(section, &[], path, table));
        Self { reader, path, node, table }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Node> {
        self.table.get(key)
    }

    /// A whole number.
    pub(super) fn whole(&mut self, key: &str, default: Default<u32>) -> u32 {
        match self.get(key) {
            Some(_) => self.maybe_whole(key).unwrap_or(default.0),
            None => self.built_in(key, default.0.to_string(), default),
        }
    }

    pub(super) fn maybe_whole(&mut self, key: &str) -> Option<u32> {
        let node = self.get(key)?;
        let path = self.path_of(key);
        let Value::Integer(number) = &node.value else {
            let help = node.string().and_then(|text| text.trim().parse::<u32>().ok());
            let help = help.map(|number| format!("write `{key} = {number}`"));
            self.reader.wrong_type(node, &path, "a whole number", help);
            return None;
        };
        let found = number.and_then(|number| u32::try_from(number).ok());
        match found {
            Some(number) => self.given(key, number.to_string(), node),
            None => {
                let negative = number.is_some_and(|number| number < 0);
                let why = if negative {
                    "cannot be negative".to_owned()
                } else {
                    format!("is at most {}", u32::MAX)
                };
                self.bad(node, &format!("`{path}` {why}"));
            }
        }
        found
    }

    /// A whole number without which the part is nothing.
    pub(super) fn required_whole(&mut self, key: &str, shape: &str) -> Option<u32> {
        self.required(key, shape)?;
        self.maybe_whole(key)
    }

    /// A ratio from 0 to 1; `zero`: whether it may be nothing.
    pub(super) fn ratio(&mut self, key: &str, zero: bool, default: Default<Ratio>) -> Ratio {
        match self.get(key) {
            Some(_) => self.maybe_ratio(key, zero).unwrap_or(default.0),
            None => self.built_in(key, ratio_text(default.0), default),
        }
    }

    pub(super) fn maybe_ratio(&mut self, key: &str, zero: bool) -> Option<Ratio> {
        let node = self.get(key)?;
        let path = self.path_of(key);
        let number = self.reader.ratio(node, &path, zero)?;
        let ratio = Ratio::new(number).filter(|ratio| zero || *ratio > Ratio::ZERO);
        match ratio {
            Some(ratio) => self.given(key, ratio_text(ratio), node),
            None => self.bad(node, &format!("`{path}` must be at least 0.000001")),
        }
        ratio
    }

    /// A finite number.
    pub(super) fn number(&mut self, key: &str, default: Default<f64>) -> f64 {
        let Some(node) = self.get(key) else { return self.built_in(key, float_text(default.0), default) };
        let path = self.path_of(key);
        match self.reader.number(node, &path, "a finite number") {
            Some(number) if number.is_finite() => {
                self.given(key, float_text(number), node);
                number
            }
            Some(_) => {
                self.bad(node, &format!("`{path}` must be a finite number"));
                default.0
            }
            None => default.0,
        }
    }

    /// Tokens, in thousandths: what is written has at most three digits after the point.
    pub(super) fn tokens(&mut self, key: &str, default: Default<u32>) -> u32 {
        let Some(node) = self.get(key) else {
            return self.built_in(key, tokens_text(default.0), default);
        };
        let path = self.path_of(key);
        let Some(number) = self.reader.number(node, &path, "a number of tokens, such as 0.1") else {
            return default.0;
        };
        let thousandths = (number * 1000.0).round();
        if number < 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&thousandths) {
            self.bad(node, &format!("`{path}` must be from 0 to {}", u32::MAX / 1000));
            return default.0;
        }
        if (thousandths / 1000.0 - number).abs() > 1e-9 {
            self.bad(
                node,
                &format!("`{path}` counts in thousandths of a token: at most three digits after the point"),
            );
            return default.0;
        }
        let thousandths = thousandths as u32;
        self.given(key, tokens_text(thousandths), node);
        thousandths
    }

    pub(super) fn flag(&mut self, key: &str, default: Default<bool>) -> bool {
        let Some(node) = self.get(key) else { return self.built_in(key, default.0.to_string(), default) };
        let Value::Boolean(flag) = node.value else {
            let path = self.path_of(key);
            self.reader.wrong_type(node, &path, "true or false", None);
            return default.0;
        };
        self.given(key, flag.to_string(), node);
        flag
    }

    pub(super) fn time(&mut self, key: &str, default: Default<Duration>) -> Duration {
        match self.get(key) {
            Some(_) => self.maybe_time(key).unwrap_or(default.0),
            None => self.built_in(key, quoted(default.0), default),
        }
    }

    pub(super) fn maybe_time(&mut self, key: &str) -> Option<Duration> {
        let node = self.get(key)?;
        let path = self.path_of(key);
        let time = self.reader.duration(node, &path)?;
        self.given(key, quoted(time), node);
        Some(time)
    }

    /// A time, or without an end where the file says `"none"` or nothing.
    pub(super) fn time_or_none(&mut self, key: &str, why: &'static str) -> Duration {
        let Some(node) = self.get(key) else {
            return self.built_in(key, "\"none\"".into(), (Duration::MAX, why));
        };
        let path = self.path_of(key);
        let Some(time) = self.reader.duration_or_none(node, &path) else { return Duration::MAX };
        self.given(key, text_of(time), node);
        time.unwrap_or(Duration::MAX)
    }

    pub(super) fn maybe_rate(&mut self, key: &str) -> Option<Rate> {
        let node = self.get(key)?;
        let path = self.path_of(key);
        let rate = self.reader.rate(node, &path)?;
        self.given(key, toml_string(&rate_text(rate)), node);
        Some(rate)
    }

    pub(super) fn word<'w>(&mut self, key: &str, words: &[&'w str], default: Default<&'w str>) -> &'w str {
        let Some(node) = self.get(key) else { return self.built_in(key, toml_string(default.0), default) };
        let path = self.path_of(key);
        let Some(word) = self.reader.word(node, &path, words) else { return default.0 };
        self.given(key, toml_string(word), node);
        word
    }

    /// Who shares it.
    pub(super) fn scope(&mut self) -> Scope {
        match self.word(
            "scope",
            &["target", "process"],
            ("target", "one that is down keeps nobody from another"),
        ) {
            "process" => Scope::Process,
            _ => Scope::Target,
        }
    }

    /// A key without which the part is nothing.
    pub(super) fn required(&mut self, key: &str, shape: &str) -> Option<&'a Node> {
        let found = self.get(key);
        if found.is_none() {
            let message = format!("`{}` needs `{key}`", self.path);
            self.reader.missing(self.node, &message, &format!("write `{shape}`"));
        }
        found
    }

    /// Tells that a key which is given here does nothing.
    pub(super) fn no_effect(&mut self, key: &str, why: &str) {
        if let Some(node) = self.get(key) {
            let message = format!("`{key}` has no effect: {why}");
            self.reader.no_effect(node, &message, None);
        }
    }

    /// The core's refusal, at the key that it names.
    pub(super) fn refused(&mut self, error: PolicyError) {
        let key = error.key().rsplit_once("hedge.").map_or(error.key(), |(_, key)| key);
        self.reader.part_refused(key, error.why(), self.path, self.table, self.node);
    }

    pub(super) fn given(&mut self, key: &str, value: String, node: &Node) {
        let path = self.path_of(key);
        self.reader.given(&path, value, node);
    }

    pub(super) fn built_in<T>(&mut self, key: &str, text: String, (value, why): Default<T>) -> T {
        let path = self.path_of(key);
        self.reader.built_in(&path, text, why);
        value
    }

    pub(super) fn bad(&mut self, node: &Node, message: &str) {
        self.reader.problems.push(Problem::new(Code::BadValue, &node.place, message));
    }

    fn path_of(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }
}

impl Reader<'_> {
    /// `"10/s"`, `"5/100ms"`.
    pub(super) fn rate(&mut self, node: &Node, path: &str) -> Option<Rate> {
        const EXPECTED: &str = "a rate such as \"10/s\" or \"5/100ms\"";
        let name = path.rsplit('.').next().unwrap_or(path);
        let Some(text) = node.string() else {
            let number = match node.value {
                Value::Integer(Some(number @ 1..)) => Some(number),
                _ => None,
            };
            let help = number.map(|number| format!("write `{name} = \"{number}/s\"`"));
            self.problems.push(mistyped(node, path, EXPECTED).maybe_help(help));
            return None;
        };
        let rate = parse_rate(text);
        if rate.is_none() {
            let message = format!("`{path}` is not a rate: \"{}\"", shorten(text));
            let problem =
                Problem::new(Code::BadValue, &node.place, message).label(format!("expected {EXPECTED}"));
            let zero = text.trim_start().starts_with("0/");
            let help = zero.then(|| "nothing at all is said by leaving it out".to_owned());
            self.problems.push(problem.maybe_help(help));
        }
        rate
    }

    /// What the core refuses about a part, at the key that it names or else at the part.
    pub(super) fn part_refused(&mut self, key: &str, why: &str, path: &str, table: &Table, node: &Node) {
        let place = super::lookup(table, key).unwrap_or(node).place.clone();
        let message = format!("`{path}.{key}`: {why}");
        self.problems.push(Problem::new(Code::Conflict, &place, message));
    }
}

fn parse_rate(text: &str) -> Option<Rate> {
    let (count, per) = text.split_once('/')?;
    let (count, per) = (count.trim(), per.trim());
    if !count.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let per = parse_duration(per).or_else(|_| parse_duration(&format!("1{per}"))).ok()?;
    Rate::new(count.parse().ok()?, per)
}

pub(super) fn tokens_text(thousandths: u32) -> String {
    float_text(f64::from(thousandths) / 1000.0)
}
