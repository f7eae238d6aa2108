//! What the compiler says when relent cannot know something: each message names the way out.
//!
//! Only the words that matter are looked for, not the compiler's own, which differ between its versions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what is wrong by panicking

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// What the compiler says to `tests/ui/{name}.rs`, in a package of its own that has relent with `features`.
fn compiler_on(name: &str, features: &str) -> String {
    let (relent, package) = (env!("CARGO_MANIFEST_DIR"), Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
    fs::create_dir_all(package.join("src")).unwrap();
    fs::copy(format!("{relent}/tests/ui/{name}.rs"), package.join("src/main.rs")).unwrap();
    // The workspace's own choice of versions: nothing is fetched.
    let _ = fs::copy(format!("{relent}/../../Cargo.lock"), package.join("Cargo.lock"));
    let manifest = format!(
        "[package]\nname = \"{name}\"\nedition = \"2024\"\n[workspace]\n[dependencies.relent]\npath = {relent:?}\n\
         default-features = false\nfeatures = [{features}]\n"
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    let mut cargo = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_fail");
    let checked = cargo.args(["check", "--offline", "--color=never"]).current_dir(package);
    let checked = checked.env("CARGO_TARGET_DIR", target).output().unwrap();
    let said = String::from_utf8(checked.stderr).unwrap();
    assert!(!checked.status.success(), "{name} compiles:\n{said}");
    said
}

/// Each of `words` is said.
fn all_said(said: &str, words: &[&str]) {
    for words in words {
        assert!(said.contains(words), "not said: \"{words}\" in\n{said}");
    }
}

const WAYS_OUT: [&str; 4] = [
    "relent cannot tell whether a `Mystery` is worth another try",
    "the operation fails with `Mystery`, which says nothing about trying again",
    "say it for this call: `relent::with(&policy).when(|error| …).retry(…)`",
    "or once for the type: `impl relent::Classify for Mystery`",
];

#[test]
fn an_unclassified_error() {
    for (name, features) in [("unclassified", ""), ("unclassified_async", "\"tokio\"")] {
        let said = compiler_on(name, features);
        all_said(&said, &WAYS_OUT);
        // In one line and with options.
        for line in ["main.rs:7:", "main.rs:8:"] {
            all_said(&said, &[line]);
        }
    }
}

#[test]
fn a_missing_feature() {
    let said = compiler_on("no_retry", "");
    all_said(&said, &["feature = \"tokio\"", "main.rs:5:"]);
}

#[test]
fn a_missing_timer() {
    let said = compiler_on("no_timer", "");
    all_said(
        &said,
        &["is no timer: the async driver does not know how to wait", "enable relent's feature `tokio`"],
    );
}
