//! What a case gives, as values.

use std::time::Duration;

use relent_config::{Errors, File, Resolved};
use relent_core::{Class, Policy, Timestamp};
use serde_json::Value;

pub(crate) type Map = serde_json::Map<String, Value>;

pub(crate) fn array<'m>(given: &'m Map, key: &str) -> &'m Vec<Value> {
    given[key].as_array().unwrap_or_else(|| panic!("`{key}` is no array"))
}

pub(crate) fn text<'m>(given: &'m Map, key: &str) -> &'m str {
    given[key].as_str().unwrap_or_else(|| panic!("`{key}` is no string"))
}

pub(crate) fn number(given: &Map, key: &str) -> f64 {
    given[key].as_f64().unwrap_or_else(|| panic!("`{key}` is no number"))
}

pub(crate) fn count(given: &Map, key: &str) -> u32 {
    given[key].as_u64().unwrap_or_else(|| panic!("`{key}` is no count")).try_into().unwrap()
}

pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_nanos((seconds * 1e9).round() as u64)
}

/// To the nanosecond, in seconds.
pub(crate) fn of(duration: Duration) -> Value {
    Value::from(duration.as_nanos() as f64 / 1e9)
}

pub(crate) fn at(seconds: f64) -> Timestamp {
    Timestamp::from_duration(self::seconds(seconds))
}

/// A draw from 0 to 1, as the core takes it.
pub(crate) fn entropy(draw: f64) -> u64 {
    if draw >= 1.0 { u64::MAX } else { (draw * 2f64.powi(64)) as u64 }
}

pub(crate) fn class(word: &str) -> Class {
    word.parse().unwrap_or_else(|_| panic!("no class {word}"))
}

/// The policy of a text of the policy file, without its header.
pub(crate) fn policy(given: &Map) -> Policy {
    resolved(given).into_policy()
}

/// The same with what its calls share.
pub(crate) fn resolved(given: &Map) -> Resolved {
    let file = read(given).unwrap_or_else(|errors| panic!("{errors}"));
    file.resolved("p").unwrap().clone()
}

/// What is wrong with such a text, by the word of each thing.
pub(crate) fn validation(given: &Map) -> Map {
    let codes = match read(given) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(|error| Value::from(error.code().as_str())).collect(),
    };
    Map::from_iter([("codes".into(), Value::Array(codes))])
}

fn read(given: &Map) -> Result<File, Errors> {
    File::parse(&format!("version = 1\n[policies.p]\n{}\n", text(given, "policy")), "case.toml")
}
