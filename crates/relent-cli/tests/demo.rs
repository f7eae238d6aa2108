//! `relent demo` as a whole process.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

mod support;

use std::process::Command;
use std::sync::OnceLock;

use support::{Place, stdout};

/// The demo waits for real, so one run serves several tests.
fn wide() -> &'static str {
    static SHOWN: OnceLock<String> = OnceLock::new();
    SHOWN.get_or_init(|| shown(&["demo"], "80", "C.UTF-8"))
}

fn shown(args: &[&str], columns: &str, language: &str) -> String {
    let place = Place::new(&format!("demo-{columns}-{language}"));
    stdout(place.relent(args).env("COLUMNS", columns).env("LANG", language), 0)
}

fn sentence(text: &str) -> String {
    let told = &text[text.find("Without jitter").unwrap()..text.find("3. Next").unwrap()];
    told.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_flaky_service_is_called_until_it_answers() {
    let text = wide();
    // What the service did, in its order, is what the caller saw.
    let seen = ["attempt 1  503", "attempt 2  no answer (timeout)", "attempt 3  429", "attempt 4  answered"];
    let places: Vec<_> =
        seen.iter().map(|line| text.find(line).unwrap_or_else(|| panic!("{line}: {text}"))).collect();
    assert!(places.is_sorted(), "{text}");
    assert!(text.contains("because the service asked for it"), "{text}");
    assert!(text.contains("The caller got \"hello\"; the service saw 4 requests."), "{text}");
}

/// One descriptor beside the standard ones is enough for a service, and too few to call it.
#[test]
fn without_a_network_the_rest_is_shown() {
    let place = Place::new("demo-offline");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 4 && exec \"$0\" demo", env!("CARGO_BIN_EXE_relent")]);
    let text = stdout(shell.current_dir(place.path()).env_clear().env("LANG", "C.UTF-8"), 0);
    assert!(text.contains("No service can be called on 127.0.0.1 here"), "{text}");
    assert!(text.contains("Without jitter") && text.contains("3. Next"), "{text}");
}

#[test]
fn the_sentence_agrees_with_the_chart() {
    let text = wide();
    let words: Vec<_> = text.split_whitespace().collect();
    let after = |mark: &[&str]| -> Vec<&str> {
        let found = words.windows(mark.len()).enumerate().filter(|(_, window)| window == &mark);
        found.filter_map(|(index, _)| words.get(index + mark.len()).copied()).collect()
    };
    let peaks: Vec<u32> = after(&["up", "to"]).iter().map(|peak| peak.parse().unwrap()).collect();
    let [without, with] = peaks[..] else { panic!("{text}") };
    assert!(without > 3 * with, "{text}");
    // The vertical axis ends at the higher peak.
    assert_eq!(text.matches(&format!(" {without}│")).count(), 2, "{text}");
    let drained = after(&["served", "everybody"]);
    assert_eq!(drained.len(), 2, "{text}");
    assert!(text.contains("relent explain") && text.contains("relent run"), "{text}");
}

#[test]
fn it_works_on_a_narrow_terminal_without_unicode_and_with_other_luck() {
    let text = shown(&["demo", "--seed", "2"], "40", "C");
    assert!(text.is_ascii() && text.contains('#'), "{text}");
    // Only the timeline of the real call is as wide as what happened.
    let fleet = &text[text.find("2. 1000 clients").unwrap()..];
    let lines = fleet.lines().filter(|line| !line.contains("relent "));
    let widest = lines.map(str::len).max().unwrap();
    assert!(widest <= 40, "{widest}: {text}");
    assert_ne!(sentence(&text), sentence(wide()));
}
