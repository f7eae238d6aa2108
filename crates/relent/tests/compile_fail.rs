//! What the compiler says when relent cannot know something: each message names the way out.

/// The compiler whose words the `.stderr` files are: another one puts them otherwise. `TRYBUILD=overwrite` takes them anew.
const WORDED_BY: &str = "rustc 1.95.";

#[test]
fn an_unclassified_error() {
    let compiler = std::process::Command::new("rustc").arg("--version").output();
    if !compiler.is_ok_and(|compiler| compiler.stdout.starts_with(WORDED_BY.as_bytes())) {
        eprintln!("skipped: the messages are compared as {WORDED_BY}x has them");
        return;
    }
    let cases = trybuild::TestCases::new();
    // How the compiler names `retry` depends on whether there is more than one.
    #[cfg(feature = "tokio")]
    cases.compile_fail("tests/ui/unclassified*.rs");
    #[cfg(not(feature = "tokio"))]
    cases.compile_fail("tests/ui/no_timer.rs");
}
