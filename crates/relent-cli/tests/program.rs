//! The program's manners: help, completions, manual, colours, widths, closed pipes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use support::{Place, stderr, stdout};

#[test]
fn help_has_examples_and_no_command_is_a_usage_error() {
    let place = Place::new("help");
    for args in [&["--help"][..], &["explain", "--help"], &["man", "--help"], &["completions", "--help"]] {
        let help = stdout(&mut place.relent(args), 0);
        assert!(help.contains("Example"), "{args:?}: {help}");
    }
    assert!(stderr(&mut place.relent(&[]), 2).contains("Usage: relent"));
    assert!(stderr(&mut place.relent(&["explian"]), 2).contains("explain"));
}

/// So that an alias can have a default.
#[test]
fn of_an_option_given_twice_the_last_counts_and_lists_add_up() {
    let place = Place::new("twice");
    let explained = stdout(&mut place.relent(&["explain", "--max-attempts", "3", "--max-attempts", "2"]), 0);
    assert!(explained.contains(" 2 attempts"), "{explained}");
    let twice = ["run", "--max-attempts", "9", "--retry-on", "1", "--retry-on", "2", "--max-attempts", "2"];
    let command = ["--initial", "1ms", "--", "sh", "-c", "exit 2"];
    let told = stderr(&mut place.relent(&[&twice[..], &command].concat()), 2);
    assert!(told.contains("gave up after 2 attempts"), "{told}");
}

#[test]
fn options_of_other_systems_are_translated() {
    let place = Place::new("foreign");
    let cases = [
        ("--max-retries", "'--max-attempts' (one more than the retries"),
        ("--retries=3", "'--max-attempts' (one more"),
        ("--tries", "'--max-attempts'\n"),
        ("--maxDelay", "'--cap'\n"),
        ("--delay", "'--initial'\n"),
        ("--factor", "'--multiplier'\n"),
        ("--timeout", "'--deadline' (for the whole call"),
        ("--per-try-timeout", "'--attempt-timeout'\n"),
        ("--interval-seconds", "'--initial'\n"),
    ];
    for (option, ours) in cases {
        for (command, code) in [("explain", 2), ("run", 125)] {
            let complaint = stderr(&mut place.relent(&[command, option, "3"]), code);
            assert!(complaint.contains(&format!("relent calls it {ours}")), "{option}: {complaint}");
            assert!(!complaint.contains("to pass '--"), "{complaint}");
        }
    }
    // What nobody calls anything, and what is nearly one of ours.
    assert!(!stderr(&mut place.relent(&["explain", "--colour-me"]), 2).contains("relent calls it"));
    assert!(stderr(&mut place.relent(&["explain", "--jiter", "full"]), 2).contains("'--jitter'"));
    // Of other commands they are not.
    assert!(!stderr(&mut place.relent(&["demo", "--retries"]), 2).contains("relent calls it"));
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let place = Place::new("full");
    let status = place.relent(&["--help"]).stdout(full).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn completions_and_manual_come_from_the_same_definition() {
    let place = Place::new("definition");
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&mut place.relent(&["completions", shell]), 0);
        assert!(script.contains("explain") && script.contains("failure-rate"), "{shell}");
    }
    assert!(stdout(&mut place.relent(&["man"]), 0).contains(".TH relent 1"));
    let page = stdout(&mut place.relent(&["man", "explain"]), 0);
    assert!(page.contains(".TH relent-explain 1") && page.contains("failure\\-rate"), "{page}");
    assert!(stderr(&mut place.relent(&["man", "expalin"]), 2).contains("one of: demo, explain"));
}

#[test]
fn colours_only_where_they_are_wanted() {
    let place = Place::new("colours");
    let coloured = |args: &[&str], variable: &str| {
        let mut command = place.relent(&[&["explain"], args].concat());
        stdout(command.env(variable, "1"), 0).contains('\x1b')
    };
    assert!(!coloured(&[], "TERM"), "a pipe is no terminal");
    assert!(coloured(&["--color", "always"], "TERM"));
    assert!(!coloured(&["--color", "never"], "CLICOLOR_FORCE"));
    assert!(!coloured(&[], "NO_COLOR"));
    let refused = stderr(&mut place.relent(&["explain", "nothing"]), 2);
    assert!(!refused.contains('\x1b'), "{refused}");
}

#[test]
fn lines_fit_the_terminal_and_its_characters() {
    let place = Place::new("widths");
    for columns in ["1", "24", "40", "60", "80", "100", "200", "none"] {
        for language in ["C", "de_DE.UTF-8", ""] {
            let mut command = place.relent(&["explain", "--failure-rate", "0.5", "--deadline", "1s"]);
            let text = stdout(command.env("COLUMNS", columns).env("LANG", language), 0);
            assert_eq!(text.is_ascii(), !language.contains("UTF"), "{columns} {language:?}: {text}");
            if let Ok(columns @ 40..) = columns.parse::<usize>() {
                let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
                assert!(widest <= columns.max(44), "{columns}: {widest}\n{text}");
            }
        }
    }
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let place = Place::new("pipe");
    for args in
        [&["explain", "--max-attempts", "1000", "--rows", "1000"][..], &["completions", "zsh"], &["demo"]]
    {
        let mut child = place.relent(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut reader = BufReader::with_capacity(16, child.stdout.take().unwrap());
        reader.read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        drop(reader);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{args:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_said() {
    let place = Place::new("full");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = place.relent(&["explain"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: writing the output:"));
}
