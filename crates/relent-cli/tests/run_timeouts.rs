//! `relent run` and time: attempt timeouts and deadlines end all that an attempt has started.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod run_support;

use std::fs;
use std::time::Duration;

use run_support::*;

/// F40: a killed attempt is retried, with the wait in between, and ends in 124.
#[test]
fn a_timeout_is_retried_and_ends_in_124() {
    let directory = scratch("timeout-events");
    let events = directory.join("events");
    let options = ["--attempt-timeout", "100ms", "--max-attempts", "3", "--events", events.to_str().unwrap()];
    let done = finish(&mut run(&options, &["sleep", "1000"]));
    assert_eq!(done.code(), 124, "{done:?}");
    let waits = lines(&events).iter().filter(|line| line.contains(r#""class":"timeout""#)).count();
    assert_eq!(waits, 3, "three attempts");
    assert_eq!(lines(&events).iter().filter(|line| line.contains("wait_ms")).count(), 2, "two waits");
    assert!(done.took >= Duration::from_millis(300), "each attempt has all of its time: {done:?}");
    assert!(done.stderr.contains("timed out after 100ms"), "{done:?}");
}

/// The deadline ends an attempt too.
#[test]
fn a_deadline_during_an_attempt_ends_in_124() {
    let done = finish(&mut run(&["--deadline", "200ms", "--max-attempts", "3"], &["sleep", "1000"]));
    assert_eq!(done.code(), 124, "{done:?}");
    assert!(done.stderr.contains("deadline"), "{done:?}");
    // One that would pass in the wait leaves the last attempt's own code.
    let options = ["--deadline", "10s", "--initial", "1h", "--cap", "1h", "--jitter", "none"];
    let done = finish(&mut plain_run(&options, &sh("exit 7")));
    assert_eq!(done.code(), 7, "{done:?}");
    assert!(done.stderr.contains("the next attempt would start past the deadline"), "{done:?}");
}

/// F41: TERM, then KILL, to the whole group; standard output is a pipe that a grandchild holds.
#[test]
fn a_group_that_ignores_term_is_killed() {
    let directory = scratch("group-killed");
    let ids = directory.join("ids");
    let script =
        format!("trap '' TERM; sleep 1000 & echo $! >> {0}; echo $$ >> {0}; sleep 1000", ids.display());
    for output in ["stream", "last"] {
        let _ = fs::remove_file(&ids);
        let options = [
            "--max-attempts",
            "1",
            "--attempt-timeout",
            "200ms",
            "--kill-after",
            "200ms",
            "--output",
            output,
        ];
        let done = finish(&mut run(&options, &sh(&script)));
        assert_eq!(done.code(), 124, "{done:?}");
        let took = done.took.as_millis();
        assert!((400..10_000).contains(&took), "TERM, then KILL, then no more waiting: {done:?}");
        assert_eq!(lines(&ids).len(), 2);
        assert!(lines(&ids).iter().all(|id| !lives(id)), "nobody of the group is left");
    }
}

/// F41: the leader goes at the first TERM, one of its group does not.
#[test]
fn a_group_is_killed_even_when_its_leader_has_gone() {
    let directory = scratch("leader-gone");
    let ids = directory.join("ids");
    let inner = format!("trap \"\" TERM; echo $$ >> {}; while :; do sleep 0.01; done", ids.display());
    let script = format!("sh -c '{inner}' & while :; do sleep 0.01; done");
    let options = ["--max-attempts", "2", "--attempt-timeout", "300ms", "--kill-after", "200ms"];
    let done = finish(&mut run(&options, &sh(&script)));
    assert_eq!(done.code(), 124, "{done:?}");
    assert!(done.took.as_millis() < 10_000, "{done:?}");
    assert_eq!(lines(&ids).len(), 2, "one in each attempt");
    assert!(lines(&ids).iter().all(|id| !lives(id)));
}

/// F41: what has left the group and holds the pipe cannot hold the wrapper.
#[test]
fn a_stray_that_keeps_the_pipe_does_not_keep_the_wrapper() {
    let directory = scratch("stray");
    let ids = directory.join("ids");
    let inner = format!("echo $$ >> {}; exec sleep 1000", ids.display());
    let script =
        format!("setsid sh -c '{inner}' & while ! [ -s {} ]; do sleep 0.01; done; sleep 1000", ids.display());
    let options =
        ["--max-attempts", "1", "--attempt-timeout", "500ms", "--kill-after", "200ms", "--output", "last"];
    // Our own pipes are another matter: nobody but the stray holds them.
    let done = finish(run(&options, &sh(&script)).stderr(std::process::Stdio::null()));
    assert_eq!(done.code(), 124, "{done:?}");
    assert!(done.took.as_millis() < 10_000, "{done:?}");
    let stray = line(&ids, 0);
    assert!(lives(&stray), "without --subreaper it lives on, as documented");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(stray.parse().unwrap()),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
}

/// `--subreaper` finds it, and its own descendants in turn.
#[test]
fn a_subreaper_ends_strays_too() {
    let directory = scratch("subreaper");
    let ids = directory.join("ids");
    let innermost = format!("trap \\\"\\\" TERM; echo $$ >> {}; while :; do sleep 0.01; done", ids.display());
    let inner = format!("setsid sh -c \"{innermost}\" & echo $$ >> {}; exec sleep 1000", ids.display());
    let script = format!(
        "setsid sh -c '{inner}' & while [ \"$(wc -l < {0} 2>/dev/null || echo 0)\" -lt 2 ]; do sleep 0.01; done; exit 7",
        ids.display()
    );
    let options = ["--max-attempts", "1", "--kill-after", "200ms", "--subreaper"];
    let done = finish(&mut run(&options, &sh(&script)));
    assert_eq!(done.code(), 7, "{done:?}");
    assert_eq!(lines(&ids).len(), 2);
    assert!(lines(&ids).iter().all(|id| !lives(id)), "{:?}", lines(&ids));
}

/// A wrapper inside a wrapper hands it on: the inner command has a group that the outer one knows nothing of.
#[test]
fn a_timeout_reaches_through_an_inner_wrapper() {
    let directory = scratch("nested-timeout");
    let ids = directory.join("ids");
    let script = format!("echo $$ >> {}; exec sleep 1000", ids.display());
    let inner = [env!("CARGO_BIN_EXE_relent"), "run", "--", "sh", "-c", &script];
    let done = finish(&mut run(&["--attempt-timeout", "500ms", "--max-attempts", "2"], &inner));
    assert_eq!(done.code(), 124, "{done:?}");
    assert_eq!(lines(&ids).len(), 2);
    assert!(lines(&ids).iter().all(|id| !lives(id)));
}

/// A failed attempt's leftovers would meet the next attempt.
#[test]
fn what_a_failure_leaves_is_ended_before_the_next_attempt() {
    let directory = scratch("leftovers");
    let ids = directory.join("ids");
    let script = format!(
        "for id in $(cat {0} 2>/dev/null); do grep -qs 'State:.[^ZX]' /proc/$id/status && exit 99; done; \
         sleep 1000 > /dev/null & echo $! >> {0}; exit 7",
        ids.display()
    );
    let done = finish(&mut run(&["--max-attempts", "3"], &sh(&script)));
    assert_eq!(done.code(), 7, "no attempt met a leftover: {done:?}");
    assert_eq!(lines(&ids).len(), 3);
    assert!(lines(&ids).iter().all(|id| !lives(id)));
}

/// What a success leaves running was meant to run.
#[test]
fn what_a_success_leaves_lives_on() {
    let directory = scratch("daemon");
    let ids = directory.join("ids");
    let script = format!("sleep 1000 > /dev/null 2>&1 & echo $! >> {}; exit 0", ids.display());
    for output in ["stream", "last"] {
        let done = finish(&mut run(&["--output", output], &sh(&script)));
        assert_eq!(done.code(), 0, "{done:?}");
        let daemon = lines(&ids).pop().unwrap();
        assert!(lives(&daemon));
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(daemon.parse().unwrap()),
            nix::sys::signal::Signal::SIGKILL,
        )
        .unwrap();
    }
}

/// It is told by the kernel when the command ends: nothing polls (a public wrapper took 10.5 s for 5.3).
#[test]
fn a_timeout_that_is_not_needed_costs_no_time() {
    let done = finish(&mut run(&["--attempt-timeout", "1h"], &["sleep", "0.3"]));
    assert_eq!(done.code(), 0);
    assert!(done.took < Duration::from_secs(5), "{done:?}");
}
