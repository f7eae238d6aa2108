//! `cargo +nightly fuzz run response`: the status and our time, headers, an empty line, a body; a text that fails goes into
//! the corpus.
#![no_main]

#[path = "../../tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|text: &str| checks::response(text));
