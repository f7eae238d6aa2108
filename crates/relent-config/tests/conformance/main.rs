//! Other systems' figures, as data: what a case gives goes to the code, what comes out is compared with what it expects.
//!
//! A case is `{ "id", "kind", "given", "expected" }`. The runner never looks at `id` and never shows `expected` to the
//! code: a change of any expectation fails, which is tried for each of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod aws;
mod backoff;
mod given;
mod grpc;
mod shared;
mod step_functions;

use serde_json::Value;

use given::{Map, array};

type Run = fn(&Map) -> Map;

/// The kinds of cases, each with the code that it goes to.
const KINDS: &[(&str, Run)] = &[
    ("policy-validation", given::validation),
    ("aws-steps", aws::steps),
    ("aws-calls", aws::calls),
    ("aws-sum", aws::sum),
    ("aws-numbers", aws::numbers),
    ("aws-burst", aws::burst),
    ("aws-classes", aws::classes),
    ("aws-polls", aws::polls),
    ("adaptive", aws::adaptive),
    ("adaptive-curve", aws::curve),
    ("waits", backoff::waits),
    ("timeline", backoff::timeline),
    ("healthy", backoff::healthy),
    ("hints", backoff::hints),
    ("budget", shared::budget),
    ("breaker", shared::breaker),
    ("rejection", shared::rejection),
    ("grpc", grpc::method),
    ("grpc-throttling", grpc::throttling),
    ("grpc-hedging", grpc::hedging),
    ("grpc-pushback", grpc::pushback),
    ("grpc-validation", grpc::validation),
    ("state", step_functions::state),
    ("state-test", step_functions::one_error),
    ("state-validation", step_functions::validation),
];

/// The differences that come from the figures' own rounding, where a case says nothing else.
const ROUNDING: f64 = 1e-9;

struct Case(Value);

impl Case {
    fn part(&self, key: &str) -> &Map {
        self.0[key].as_object().unwrap_or_else(|| panic!("no `{key}` in {}", self.0))
    }

    fn within(&self) -> f64 {
        self.0.get("within").map_or(ROUNDING, |within| within.as_f64().unwrap())
    }

    fn computed(&self) -> Map {
        let kind = self.0["kind"].as_str().unwrap();
        let (_, run) =
            KINDS.iter().find(|(name, _)| *name == kind).unwrap_or_else(|| panic!("no kind {kind}"));
        run(self.part("given"))
    }

    /// Where the expectations differ from what was computed.
    fn differences(&self, expected: &Map, computed: &Map) -> Vec<String> {
        let mut differences = vec![];
        for (key, expected) in expected {
            match computed.get(key) {
                Some(computed) => compare(key, expected, computed, self.within(), &mut differences),
                None => differences.push(format!("nothing was computed for `{key}`")),
            }
        }
        differences
    }
}

fn compare(path: &str, expected: &Value, computed: &Value, within: f64, differences: &mut Vec<String>) {
    match (expected, computed) {
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}[{index}]"), one, other, within, differences);
            }
        }
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            if (one - other).abs() > within * one.abs().max(1.0) {
                differences.push(format!("{path}: {one} expected, {other} computed"));
            }
        }
        (one, other) if one == other => {}
        (one, other) => differences.push(format!("{path}: {one} expected, {other} computed")),
    }
}

/// Every way to change one thing about `value`, by more than `within`.
fn changed(value: &Value, within: f64) -> Vec<Value> {
    match value {
        Value::Null => vec![Value::from(1)],
        Value::Bool(value) => vec![Value::from(!value)],
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            let step = 3.0 * within * number.abs().max(1.0);
            vec![Value::from(number + step), Value::from(number - step)]
        }
        Value::String(text) => vec![Value::from(format!("{text}x"))],
        Value::Array(elements) => {
            let mut all = vec![Value::Array([elements.clone(), vec![Value::from("more")]].concat())];
            if let Some((_, fewer)) = elements.split_last() {
                all.push(Value::Array(fewer.to_vec()));
            }
            for (index, element) in elements.iter().enumerate() {
                for element in changed(element, within) {
                    let mut elements = elements.clone();
                    elements[index] = element;
                    all.push(Value::Array(elements));
                }
            }
            all
        }
        Value::Object(_) => panic!("expectations are flat"),
    }
}

fn cases() -> Vec<Case> {
    let texts = [
        include_str!("aws-standard.json"),
        include_str!("aws-classes.json"),
        include_str!("aws-adaptive.json"),
        include_str!("step-functions.json"),
        include_str!("step-functions-validation.json"),
        include_str!("grpc.json"),
        include_str!("systems.json"),
    ];
    let cases = texts.into_iter().flat_map(|text| {
        let file: Value = serde_json::from_str(text).unwrap();
        array(file.as_object().unwrap(), "cases").clone()
    });
    cases.map(Case).collect()
}

#[test]
fn every_case_holds() {
    let mut failures = vec![];
    let cases = cases();
    for case in &cases {
        for difference in case.differences(case.part("expected"), &case.computed()) {
            failures.push(format!("{}: {difference}", case.0["id"]));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(cases.len() > 60, "{}", cases.len());
}

#[test]
fn every_change_of_an_expectation_is_seen() {
    let mut changes = 0;
    for case in cases() {
        let (expected, computed) = (case.part("expected"), case.computed());
        assert!(!expected.is_empty(), "{} expects nothing", case.0["id"]);
        for (key, value) in expected {
            for changed in changed(value, case.within()) {
                let mut expected = expected.clone();
                expected.insert(key.clone(), changed.clone());
                let seen = case.differences(&expected, &computed);
                assert!(!seen.is_empty(), "{}: `{key}` may be {changed}", case.0["id"]);
                changes += 1;
            }
        }
    }
    assert!(changes > 500, "{changes}");
}
