//! `cargo +nightly fuzz run layers`: headers, one a line; a text that fails goes into the corpus.
#![no_main]

#[path = "../../tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|text: &str| checks::layers(text));
