//! The fuzzer's corpus, replayed, and texts like it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod checks;

use std::fs;
use std::path::Path;

use proptest::prelude::*;

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/script");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if let Ok(text) = String::from_utf8(fs::read(&path).unwrap()) {
            println!("{}", path.display());
            checks::all(&text);
            count += 1;
        }
    }
    assert!(count >= 10, "{} has {count} texts", folder.display());
}

/// Pieces of the language, put together in ways that nobody would.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "503",
            "200",
            "*",
            "*2",
            ",",
            "(",
            ")",
            "=",
            "\"",
            "'",
            "\\",
            "\\x",
            "\\xff",
            "slow",
            "reset",
            "loop",
            "cut",
            "refuse",
            "raw",
            "rst-stream",
            "body=",
            "delay=",
            "size=",
            "over=",
            "date(",
            "digits(9",
            "2s",
            "..",
            "/s",
            "lognormal(",
            "uniform(",
            "header:",
            " ",
            "\n",
            "é",
            "日",
            "\u{9b}",
            "\0",
            "18446744073709551616",
            "done",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_is_read_or_refused_at_its_place(text in text()) {
        checks::all(&text);
    }
}
