//! What was seen: the counts that tests look at.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

/// What was counted since the start, or since the last reset. Requests to the admin path are not counted.
///
/// Names that clients make up are bounded: what comes after the first thousand paths (a hundred bodies, keys, attempts
/// or answers of a path) is counted under `"(other)"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// Requests, whatever became of them.
    pub requests: u64,
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that were sent away because there were too many.
    pub turned_away: u64,
    /// Requests whose body never came whole.
    pub aborted: u64,
    /// How often something was done: requests other than GET, HEAD, OPTIONS and TRACE that were carried out.
    pub effects: u64,
    /// How often the first answer was repeated for a known key.
    pub repeated: u64,
    /// Requests that came under a known key with another method, path or body: 422.
    pub mismatched: u64,
    /// What was done more than once.
    pub duplicates: Duplicates,
    /// By method.
    pub methods: BTreeMap<String, u64>,
    /// By what became of them: `"200"`, `"503"`, `"reset"`, `"200+cut"` …
    pub answers: BTreeMap<String, u64>,
    /// By what decided that: `"script"`, `"rate"`, `"outage"`, `"overload"`, `"key"`.
    pub causes: BTreeMap<String, u64>,
    /// By the attempt number that the client sent.
    pub attempts: BTreeMap<String, u64>,
    /// By path, without the query.
    pub paths: BTreeMap<String, PathCounters>,
}

/// What was done more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Duplicates {
    /// One key, carried out again: only where keys are ignored.
    pub with_key: u64,
    /// A POST or PATCH without a key, carried out again with an equal body.
    pub without_key: u64,
}

/// What was counted for one path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PathCounters {
    /// Requests, whatever became of them.
    pub requests: u64,
    /// How often something was done.
    pub effects: u64,
    /// What was done more than once.
    pub duplicates: Duplicates,
    /// By method.
    pub methods: BTreeMap<String, u64>,
    /// By what became of them.
    pub answers: BTreeMap<String, u64>,
    /// By the attempt number that the client sent.
    pub attempts: BTreeMap<String, u64>,
    /// By the body's FNV-1a hash of 64 bits (16 hexadecimal digits): whether all attempts sent the same bytes.
    pub bodies: BTreeMap<String, u64>,
    /// By `Idempotency-Key`.
    pub keys: BTreeMap<String, u64>,
    /// The waits that were decided, in microseconds: delays of the script and latencies.
    pub waits_us: u64,
}

/// What comes after the names that are kept.
const OTHER: &str = "(other)";

const MAX_PATHS: usize = 1000;
const MAX_NAMES: usize = 100;
/// Of a name that a client made up, in characters.
const MAX_NAME: usize = 200;

impl Counters {
    pub(crate) fn path(&mut self, path: &str) -> &mut PathCounters {
        let name = bounded(&self.paths, path, MAX_PATHS);
        self.paths.entry(name).or_default()
    }

    /// As a page of Prometheus: counters with their labels.
    pub fn to_prometheus(&self) -> String {
        let mut page = String::new();
        let mut metric = |name: &str, label: &str, values: &[(&str, u64)]| {
            // Writing to a string cannot fail.
            let _ = writeln!(page, "# TYPE relent_flaky_{name}_total counter");
            for (value, count) in values {
                let _ = match label {
                    "" => writeln!(page, "relent_flaky_{name}_total {count}"),
                    _ => {
                        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                        writeln!(page, "relent_flaky_{name}_total{{{label}=\"{value}\"}} {count}")
                    }
                };
            }
        };
        fn pairs(map: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
            map.iter().map(|(name, count)| (name.as_str(), *count)).collect()
        }
        let paths: Vec<(&str, u64)> =
            self.paths.iter().map(|(path, counters)| (path.as_str(), counters.requests)).collect();
        metric("requests", "path", &paths);
        metric("methods", "method", &pairs(&self.methods));
        metric("answers", "answer", &pairs(&self.answers));
        metric("causes", "cause", &pairs(&self.causes));
        metric("attempts", "attempt", &pairs(&self.attempts));
        metric("effects", "", &[("", self.effects)]);
        metric("repeated", "", &[("", self.repeated)]);
        metric("mismatched", "", &[("", self.mismatched)]);
        let duplicates = [("yes", self.duplicates.with_key), ("no", self.duplicates.without_key)];
        metric("duplicates", "key", &duplicates);
        metric("connections", "", &[("", self.connections)]);
        metric("turned_away", "", &[("", self.turned_away)]);
        metric("aborted", "", &[("", self.aborted)]);
        page
    }
}

pub(crate) fn count(map: &mut BTreeMap<String, u64>, name: &str) {
    *map.entry(bounded(map, name, MAX_NAMES)).or_default() += 1;
}

fn bounded<V>(map: &BTreeMap<String, V>, name: &str, most: usize) -> String {
    let name: String = name.chars().take(MAX_NAME).collect();
    if map.len() >= most && !map.contains_key(&name) { OTHER.to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_clients_make_up_are_bounded() {
        let mut counters = Counters::default();
        for number in 0..5_000 {
            counters.path(&format!("/{number}")).requests += 1;
            count(&mut counters.methods, &format!("M{number}{}", "x".repeat(1000)));
        }
        assert_eq!((counters.paths.len(), counters.paths[OTHER].requests), (1001, 4000));
        assert_eq!((counters.methods.len(), counters.methods[OTHER]), (101, 4900));
        assert!(counters.methods.keys().all(|name| name.len() <= MAX_NAME));
    }

    #[test]
    fn labels_of_metrics_are_escaped() {
        let mut counters = Counters::default();
        counters.path("/a\"b\\").requests = 3;
        let page = counters.to_prometheus();
        assert!(page.contains("relent_flaky_requests_total{path=\"/a\\\"b\\\\\"} 3\n"), "{page}");
        assert!(page.contains("relent_flaky_duplicates_total{key=\"no\"} 0\n"), "{page}");
    }
}
