//! `cargo +nightly fuzz run flags`: one option per line, `path=value`; a text that fails goes into the corpus.
#![no_main]

#[path = "../../tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|text: &str| {
    checks::flags(&text.lines().filter_map(|line| line.split_once('=')).collect::<Vec<_>>());
});
