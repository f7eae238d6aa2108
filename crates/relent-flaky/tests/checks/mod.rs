//! What must hold for every input, whoever makes it up: properties, the fuzzer, its corpus.

use std::fmt::Debug;
use std::str::FromStr;

use relent_flaky::{Capacity, Keys, Latency, Outage, Scope, Script, ScriptError, Step};

/// Any text: it is read, or refused at a place that lies in it.
pub(crate) fn all(text: &str) {
    if let Some(script) = one::<Script>(text) {
        for n in [0, 1, 2, 1000, u64::MAX] {
            let _ = script.step(n);
        }
    }
    one::<Step>(text);
    one::<Latency>(text);
    one::<Outage>(text);
    one::<Capacity>(text);
    one::<Scope>(text);
    one::<Keys>(text);
}

fn one<T: FromStr<Err = ScriptError> + Debug>(text: &str) -> Option<T> {
    let error = match text.parse() {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let span = error.span();
    assert!(text.get(span.clone()).is_some(), "{span:?} of {text:?}: {error}");
    let (line, column) = error.place();
    assert!(line >= 1 && column >= 1);
    assert!(!error.message().is_empty());
    let told = error.to_string();
    assert!(!told.chars().any(|letter| letter.is_control() && letter != '\n'), "{told:?}");
    assert!(told.len() < 4_000, "{} bytes", told.len());
    // Nothing but the caret and the line's length may be far to the right.
    assert!(told.lines().skip(1).all(|line| line.chars().count() < 400), "{told}");
    None
}
