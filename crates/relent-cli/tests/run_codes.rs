//! `relent run`: exit codes, and arguments as they were given.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod run_support;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use run_support::*;

/// F38: no path turns "no exit code" into 0.
#[test]
fn a_command_that_kills_itself_is_no_success() {
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("INT", 130), ("HUP", 129), ("SEGV", 139)] {
        let script = format!("ulimit -c 0; kill -s {signal} $$");
        let done = finish(&mut run(&["--max-attempts", "2"], &sh(&script)));
        assert_eq!(done.code(), code, "{done:?}");
        assert!(done.stderr.contains("gave up after 2 attempts"), "{done:?}");
    }
    // A real-time signal has no name.
    let done = finish(&mut run(&["--max-attempts", "2"], &["bash", "-c", "kill -s RTMIN+3 $$"]));
    assert_eq!(done.code(), 128 + 37, "{done:?}");
}

/// F38, its kin: a parent that ignores SIGCHLD has the kernel throw exit codes away.
#[test]
fn a_parent_that_ignores_the_death_of_children_changes_nothing() {
    let relent = env!("CARGO_BIN_EXE_relent");
    let script = format!("trap '' CHLD; exec {relent} run --max-attempts 1 -- sh -c 'exit 7'");
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", &script]);
    assert_eq!(finish(&mut bash).code(), 7);
}

/// F39: the code of the last attempt.
#[test]
fn the_last_attempt_gives_the_code() {
    let script = "case $RELENT_ATTEMPT in 3) exit 9;; *) exit 7;; esac";
    assert_eq!(finish(&mut run(&["--max-attempts", "3"], &sh(script))).code(), 9);
    let script = "case $RELENT_ATTEMPT in 3) exit 0;; *) exit 7;; esac";
    assert_eq!(finish(&mut run(&["--max-attempts", "3"], &sh(script))).code(), 0);
    assert_eq!(finish(&mut run(&["--max-attempts", "1"], &sh("exit 255"))).code(), 255);
}

/// F39: what cannot be run is not run again.
#[test]
fn what_cannot_be_run_burns_no_attempts() {
    let cases: [(&[&str], i32, &str); 5] = [
        (&["no-such-command"], 127, "no-such-command: command not found"),
        (&["/no/such/command"], 127, "command not found"),
        (&["/etc/passwd"], 126, "cannot be run: Permission denied"),
        (&["/"], 126, "cannot be run"),
        (&sh("no-such-command 2>/dev/null"), 127, "exit code 127"),
    ];
    for (command, code, said) in cases {
        // The default waits: a retry would show in the time, and on standard error.
        let done = finish(&mut plain_run(&["--initial", "1h", "--cap", "1h", "--jitter", "none"], command));
        assert_eq!(done.code(), code, "{done:?}");
        assert!(done.stderr.contains(said), "{done:?}");
    }
}

#[test]
fn a_file_that_is_no_program_cannot_be_run() {
    let directory = scratch("no-program");
    let path = directory.join("text");
    fs::write(&path, "just text").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(finish(&mut run(&[], &[path.to_str().unwrap()])).code(), 126);
}

#[test]
fn bad_usage_is_the_wrappers_own_code() {
    let cases: [&[&str]; 8] = [
        &["run", "--no-such-option", "--", "true"],
        &["run"],
        &["run", "--max-attempts", "0", "--", "true"],
        &["run", "--initial", "5", "--", "true"],
        &["run", "--retry-on", "256", "--", "true"],
        &["run", "--retry-on", "9-3", "--", "true"],
        &["run", "--retry-on", "stderr:(", "--", "true"],
        &["run", "--stop-on", "signal:NOPE", "--", "true"],
    ];
    for arguments in cases {
        let done = finish(relent().args(arguments));
        assert_eq!(done.code(), 125, "{arguments:?} {done:?}");
        assert!(!done.stderr.is_empty());
    }
}

/// A command knows its key, but nobody knows whether it uses it: such a promise is refused, where there is something to
/// repeat.
#[test]
fn idempotency_cannot_be_promised() {
    let done = finish(&mut run(&["--require-idempotency"], &["true"]));
    assert_eq!(done.code(), 125, "{done:?}");
    for said in ["--require-idempotency: whether a command is idempotent", "RELENT_IDEMPOTENCY_KEY"] {
        assert!(done.stderr.contains(said), "{done:?}");
    }
    assert_eq!(finish(&mut run(&["--require-idempotency", "--max-attempts", "1"], &["true"])).code(), 0);
    let file = scratch("promise").join("relent.toml");
    fs::write(&file, "version = 1\n[policies.default]\nidempotency = { require = true }\n").unwrap();
    let done = finish(&mut run(&["--config", file.to_str().unwrap()], &["true"]));
    assert_eq!(done.code(), 125, "{done:?}");
    assert!(done.stderr.contains("relent.toml:3"), "{done:?}");
}

/// A success that was not one by the rules does not end in 0.
#[test]
fn zero_is_always_a_success() {
    let done = finish(&mut run(&["--max-attempts", "2", "--success-on", "stdout:ready"], &sh("echo busy")));
    assert_eq!(done.code(), 1, "{done:?}");
    let done = finish(&mut run(&["--max-attempts", "2", "--retry-on", "0"], &["true"]));
    assert_eq!(done.code(), 1, "{done:?}");
    let done = finish(&mut run(&["--max-attempts", "2", "--stop-on", "0"], &["true"]));
    assert_eq!(done.code(), 1, "{done:?}");
    // And a success keeps the code that it has.
    let done = finish(&mut run(&["--success-on", "0,3"], &sh("exit 3")));
    assert_eq!((done.code(), done.stderr.as_str()), (3, ""), "{done:?}");
}

/// Nobody evaluates the arguments, in no attempt.
#[test]
fn arguments_arrive_as_they_were_given() {
    let odd = [
        "it's",
        "\"",
        "$HOME",
        "`id`",
        "$(id)",
        "\\",
        "a b",
        "",
        "*",
        "~",
        ";",
        "&",
        "|",
        "\n",
        "\t",
        "-x",
        "--",
        "\u{1b}[0m",
        "ä🦀",
        "!",
        "#",
        "%s",
        "--max-attempts",
        "@",
        "=",
    ];
    let mut command = run(&["--max-attempts", "2"], &sh("printf '<%s>' \"$@\"; [ \"$RELENT_ATTEMPT\" = 2 ]"));
    command.arg("name").args(odd);
    command.arg(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    command.stdout(std::process::Stdio::piped());
    let output = command.output().unwrap();
    let mut once: Vec<u8> = odd.iter().flat_map(|argument| format!("<{argument}>").into_bytes()).collect();
    once.extend(b"<\xff\xfe>");
    let expected = [once.clone(), once].concat();
    assert!(output.stdout == expected, "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(0));
}

/// Options end where the command begins, with and without `--`.
#[test]
fn the_command_keeps_its_own_options() {
    let done = finish(relent().args(["run", "--max-attempts", "1", "sh", "-c", "exit 6", "--quiet"]));
    assert_eq!(done.code(), 6, "{done:?}");
    assert!(done.stderr.contains("exit code 6"), "--quiet belongs to the command: {done:?}");
}
