//! `relent run`: which ends are worth another try, and waits that the command asks for.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod run_support;

use run_support::*;

/// How many attempts a command gets, of four, and the exit code.
fn attempts(options: &[&str], script: &str) -> (usize, i32) {
    let script = format!("echo attempt; {script}");
    let done = finish(&mut run(&[&["--max-attempts", "4", "--quiet"], options].concat(), &sh(&script)));
    (done.stdout.matches("attempt").count(), done.code())
}

#[test]
fn codes_ranges_signals_and_timeouts() {
    let cases: [(&[&str], &str, usize, i32); 22] = [
        (&[], "exit 1", 4, 1),
        (&["--retry-on", "75"], "exit 1", 1, 1),
        (&["--retry-on", "75"], "exit 75", 4, 75),
        (&["--retry-on", "64-78"], "exit 78", 4, 78),
        (&["--retry-on", "64-78"], "exit 79", 1, 79),
        (&["--retry-on", "1,64-78,111"], "exit 111", 4, 111),
        (&["--retry-on", "1", "--retry-on", "2"], "exit 2", 4, 2),
        (&["--stop-on", "2"], "exit 2", 1, 2),
        (&["--stop-on", "2"], "exit 3", 4, 3),
        (&["--retry-on", "any", "--stop-on", "2-5"], "exit 4", 1, 4),
        (&["--retry-on", "any"], "exit 4", 4, 4),
        (&["--retry-on", "any"], "exit 0", 1, 0),
        (&["--retry-on", "127"], "exit 127", 4, 127),
        (&["--retry-on", "signal"], "kill -KILL $$", 4, 137),
        (&["--retry-on", "signal:KILL"], "kill -KILL $$", 4, 137),
        (&["--retry-on", "signal:sigterm"], "kill -KILL $$", 1, 137),
        (&["--stop-on", "signal:9"], "kill -KILL $$", 1, 137),
        (&["--retry-on", "1"], "kill -KILL $$", 1, 137),
        (&["--retry-on", "timeout", "--attempt-timeout", "50ms"], "exec sleep 1000", 4, 124),
        (&["--retry-on", "1", "--attempt-timeout", "50ms"], "exec sleep 1000", 1, 124),
        (&["--retry-on", "1,timeout", "--attempt-timeout", "1h"], "exit 1", 4, 1),
        (&["--stop-on", "timeout", "--attempt-timeout", "50ms"], "exec sleep 1000", 1, 124),
    ];
    for (options, script, expected, code) in cases {
        assert_eq!(attempts(options, script), (expected, code), "{options:?} {script}");
    }
}

#[test]
fn expressions_on_the_output() {
    let says = "printf 'one\\nconnection reset \\377by peer\\nthree'; echo DISK FULL >&2; exit 1";
    let cases: [(&[&str], usize); 14] = [
        (&["--retry-on", "stdout:reset"], 4),
        (&["--retry-on", "stderr:reset"], 1),
        (&["--retry-on", "output:reset"], 4),
        (&["--retry-on", "stdout:^three$"], 4),
        (&["--retry-on", "stdout:^connection.*peer$"], 4),
        (&["--retry-on", "stdout:one.*three"], 1),
        (&["--retry-on", "stderr:(?i)disk full"], 4),
        (&["--stop-on", "stderr:^DISK"], 1),
        (&["--stop-on", "stdout:^DISK"], 4),
        (&["--retry-on", "stdout:reset", "--stop-on", "stderr:DISK"], 1),
        (&["--retry-on", "stdout:nothing", "--retry-on", "stdout:a,b", "--retry-on", "stderr:FULL"], 4),
        (&["--retry-on", "stdout:\\xFF"], 4),
        (&["--success-on", "stdout:three"], 1),
        (&["--success-on", "stdout:four"], 4),
    ];
    for (options, expected) in cases {
        assert_eq!(attempts(options, says).0, expected, "{options:?}");
    }
}

/// Output alone makes no failure of exit code 0; `--success-on` does.
#[test]
fn what_a_success_says_does_not_matter() {
    assert_eq!(attempts(&["--retry-on", "stdout:warning"], "echo warning"), (1, 0));
    assert_eq!(attempts(&["--stop-on", "stdout:warning"], "echo warning"), (1, 0));
    assert_eq!(
        attempts(&["--success-on", "stdout:ready", "--stop-on", "stdout:fatal"], "echo fatal"),
        (1, 1)
    );
    assert_eq!(attempts(&["--success-on", "stdout:ready", "--retry-on", "any"], "true"), (4, 1));
    assert_eq!(
        attempts(&["--success-on", "stdout:ready"], "[ $RELENT_ATTEMPT = 3 ] && echo ready; true"),
        (3, 0)
    );
}

/// A line of any length is looked at, in pieces of 64 KiB, and memory does not grow.
#[test]
fn long_lines_are_looked_at() {
    let script = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo needle >&2; exit 1";
    assert_eq!(attempts(&["--stop-on", "output:needle"], script).0, 1);
}

/// `--hint-regex` reads a wait.
#[test]
fn the_command_can_ask_for_a_wait() {
    let directory = scratch("hint");
    let events = directory.join("events");
    let cases = [
        ("retry after (\\S+)", "retry after 0.05", Some("50")),
        ("retry after (.*)", "retry after 50 ms", Some("50")),
        ("(?i)Retry-After: (\\d+)", "retry-after: 0", Some("0")),
        ("[0-9]+ms", "wait 50ms", Some("50")),
        ("retry after (.*)", "retry after a while", None),
        ("retry after (.*)", "retry after -5", None),
        ("retry after (.*)", "retry after nan", None),
        ("retry after (.*)", "retry after infinity", None),
        ("retry after (.*)", "no word of it", None),
    ];
    for (pattern, says, asked) in cases {
        let _ = std::fs::remove_file(&events);
        let options = ["--max-attempts", "2", "--hint-regex", pattern, "--hint", "exact", "--events"];
        let options = [&options[..], &[events.to_str().unwrap()]].concat();
        let script = format!("echo '{says}' >&2; exit 1");
        let done = finish(&mut run(&options, &sh(&script)));
        assert_eq!(done.code(), 1, "{done:?}");
        let decision = lines(&events).into_iter().find(|line| line.contains("wait_ms")).unwrap();
        let decision: serde_json::Value = serde_json::from_str(&decision).unwrap();
        let waited = decision["wait_ms"].as_f64().unwrap();
        match asked {
            Some(asked) => {
                let asked: f64 = asked.parse().unwrap();
                assert_eq!(decision["source"], "hint", "{pattern}");
                assert_eq!(decision["class"], "throttled", "{pattern}");
                assert!((asked..=asked * 1.11).contains(&waited), "{pattern}: {waited}");
            }
            None => assert_eq!(decision["source"], "schedule", "{pattern}"),
        }
    }
    // Longer than the policy accepts, or than any duration: it ends at once.
    let options = ["--hint-regex", "retry after (.*)"];
    for wait in ["3600", "3000000", "18446744073709551616", "1e400", &"9".repeat(400)] {
        let done = finish(&mut run(&options, &sh(&format!("echo retry after {wait}; exit 1"))));
        assert_eq!((done.code(), done.stdout.lines().count()), (1, 1), "{wait}: {done:?}");
        assert!(done.stderr.contains("asked for a longer wait"), "{wait}: {done:?}");
    }
}

/// A line ends before its CR LF, as servers and Windows write it.
#[test]
fn lines_of_windows_are_lines() {
    let script = "printf 'refused\\r\\nmore\\r\\n'; exit 1";
    assert_eq!(attempts(&["--retry-on", "stdout:^refused$"], script).0, 4);
    // What is passed on keeps it.
    let done = finish(&mut run(&["--stop-on", "stdout:^more$"], &sh(script)));
    assert_eq!(done.stdout, "refused\r\nmore\r\n");
}

/// The same as the table `run` of a policy; an option replaces its key.
#[test]
fn a_policy_can_say_the_same() {
    let directory = scratch("policy-rules");
    let file = directory.join("relent.toml");
    let text = "version = 1\n\
                [policies.base]\nmax_attempts = 4\nbackoff = { initial = \"1ms\", cap = \"5ms\" }\n\
                run = { retry_on = [7, \"64-78\", \"stderr:busy\"], stop_on = [70] }\n\
                [policies.nightly]\nbase = \"base\"\nrun = { success_on = [0, 3], hint_regex = \"wait (.*)\" }\n";
    std::fs::write(&file, text).unwrap();
    let with = |options: &[&str], script: &str| {
        let script = format!("echo attempt; {script}");
        let file = ["--config", file.to_str().unwrap(), "--quiet"];
        let done = finish(&mut plain_run(&[&file, options].concat(), &sh(&script)));
        (done.stdout.matches("attempt").count(), done.code())
    };
    let base = ["--policy", "base"];
    assert_eq!(with(&base, "exit 7"), (4, 7));
    assert_eq!(with(&base, "exit 78"), (4, 78));
    assert_eq!(with(&base, "exit 70"), (1, 70));
    assert_eq!(with(&base, "exit 1"), (1, 1));
    assert_eq!(with(&base, "echo busy >&2; exit 1"), (4, 1));
    assert_eq!(with(&["--policy", "base", "--stop-on", "7"], "exit 7"), (1, 7));
    assert_eq!(with(&["--policy", "base", "--stop-on", "7"], "exit 70"), (4, 70), "replaced, not added to");
    let nightly = ["--policy", "nightly"];
    assert_eq!(with(&nightly, "exit 3"), (1, 3));
    assert_eq!(with(&nightly, "exit 7"), (4, 7), "the base's table is merged");
}

/// What is wrong in the table is shown in its place.
#[test]
fn mistakes_in_the_table_are_shown() {
    let directory = scratch("policy-mistakes");
    let file = directory.join("relent.toml");
    let text = "version = 1\n[policies.default]\n\
                run = { retry_onn = [7], stop_on = [700, true], hint_regex = \"(\" }\n";
    std::fs::write(&file, text).unwrap();
    let done = finish(&mut run(&["--config", file.to_str().unwrap()], &["true"]));
    assert_eq!(done.code(), 125, "{done:?}");
    for said in
        ["did you mean `retry_on`?", "700", "expected an exit code", "unclosed group", "relent.toml:3:"]
    {
        assert!(done.stderr.contains(said), "{said:?} in {}", done.stderr);
    }
    // `explain` shows the same mistakes.
    let explained = finish(relent().args(["explain", "--config", file.to_str().unwrap()]));
    assert_eq!(explained.code(), 2, "{explained:?}");
    assert_eq!(explained.stderr, done.stderr);
}
