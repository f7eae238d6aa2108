//! `relent run` and signals: they reach the command, the loop ends, the wrapper dies by the same one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod run_support;

use std::io::Read;
use std::process::{Child, Stdio};

use nix::sys::signal::Signal;
use run_support::*;

const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// Waits until all processes that have the child's standard error, grandchildren included, are gone; what they said.
fn all_gone(child: &mut Child) -> String {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

/// F43, mid-attempt: the signal goes to the wrapper alone, which all eight public wrappers leave their child over.
#[test]
fn a_signal_during_an_attempt_reaches_the_command_and_ends_the_call() {
    for signal in ENDING {
        let directory = scratch(&format!("signal-{signal}"));
        let log = directory.join("log");
        let script = format!(
            "trap 'echo got $RELENT_ATTEMPT >> {log}; kill $! 2>/dev/null; exit 0' {name}; sleep 1000 & echo ready >> {log}; wait",
            log = log.display(),
            name = signal.as_str().trim_start_matches("SIG"),
        );
        let mut wrapper = run(&["--max-attempts", "5"], &sh(&script)).stderr(Stdio::piped()).spawn().unwrap();
        line(&log, 0);
        send(&wrapper, signal);
        // Reading to the end means that nobody of the group lives on.
        let said = all_gone(&mut wrapper);
        let status = ended(&mut wrapper);
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(signal as i32),
            "{signal}: {said}"
        );
        assert_eq!(
            lines(&log),
            ["ready", "got 1"],
            "{signal}: handed on once, waited for, no further attempt"
        );
        assert_eq!(said, "", "whoever sent it knows");
    }
}

/// F43, mid-wait.
#[test]
fn a_signal_during_a_wait_ends_it_at_once() {
    for signal in ENDING {
        let directory = scratch(&format!("signal-in-wait-{signal}"));
        let log = directory.join("log");
        let script = format!("echo $RELENT_ATTEMPT >> {}; exit 7", log.display());
        let options =
            ["--max-attempts", "5", "--initial", "1h", "--cap", "1h", "--jitter", "none", "--events"];
        let events = directory.join("events");
        let mut wrapper = plain_run(&[&options[..], &[events.to_str().unwrap()]].concat(), &sh(&script))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        until("the wait", || lines(&events).iter().any(|line| line.contains("wait_ms")).then_some(()));
        send(&wrapper, signal);
        let status = ended(&mut wrapper);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(signal as i32));
        assert_eq!(lines(&log), ["1"]);
        assert!(lines(&events).last().unwrap().contains(r#""reason":"cancelled""#));
    }
}

/// A command that takes its time to end is waited for, and its output still arrives.
#[test]
fn a_graceful_end_is_waited_for() {
    let directory = scratch("graceful");
    let log = directory.join("log");
    let go = directory.join("go");
    let script = format!(
        "trap 'echo asked >> {log}; while ! [ -e {go} ]; do sleep 0.01; done; echo bye; exit 0' TERM; echo ready >> {log}; \
         while :; do sleep 0.01; done",
        log = log.display(),
        go = go.display(),
    );
    for output in ["stream", "last"] {
        let _ = std::fs::remove_file(&log);
        let _ = std::fs::remove_file(&go);
        let mut wrapper = run(&["--output", output], &sh(&script)).stdout(Stdio::piped()).spawn().unwrap();
        line(&log, 0);
        send(&wrapper, Signal::SIGTERM);
        line(&log, 1);
        assert!(wrapper.try_wait().unwrap().is_none(), "it waits for the command");
        std::fs::write(&go, "").unwrap();
        let status = ended(&mut wrapper);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
        let mut said = String::new();
        wrapper.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "bye\n", "{output}");
    }
}

/// Somebody who reads standard error no further holds the wrapper's lines, but not the signal.
#[test]
fn a_pager_that_stands_still_does_not_make_it_deaf() {
    let directory = scratch("full-pipe");
    let full = directory.join("full");
    let (reader, writer) = std::io::pipe().unwrap();
    // Fills the pipe, as far as it goes, and fails.
    let script = format!(
        "dd if=/dev/zero bs=1024 count=1000 oflag=nonblock 3>&2 of=/dev/fd/3 2> /dev/null; echo full > {}; exit 7",
        full.display()
    );
    let options = ["--initial", "0s", "--max-attempts", "3"];
    let mut wrapper = plain_run(&options, &sh(&script)).stderr(writer).spawn().unwrap();
    line(&full, 0);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(wrapper.try_wait().unwrap().is_none(), "it waits for the reader");
    send(&wrapper, Signal::SIGTERM);
    let status = ended(&mut wrapper);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    drop(reader);
}

/// USR1 and USR2 would end the wrapper and leave the command alone; they are only handed on.
#[test]
fn user_signals_are_handed_on() {
    let directory = scratch("usr1");
    let log = directory.join("log");
    let script = format!(
        "trap 'echo usr1 >> {log}; exit 0' USR1; echo ready >> {log}; while :; do sleep 0.01; done",
        log = log.display(),
    );
    let mut wrapper = run(&[], &sh(&script)).spawn().unwrap();
    line(&log, 0);
    send(&wrapper, Signal::SIGUSR1);
    assert_eq!(ended(&mut wrapper).code(), Some(0));
    assert_eq!(lines(&log), ["ready", "usr1"]);
}

/// `nohup` goes on working, for the wrapper and for the command.
#[test]
fn what_was_ignored_stays_ignored() {
    let directory = scratch("nohup");
    let (log, go) = (directory.join("log"), directory.join("go"));
    let script = format!(
        "grep SigIgn /proc/$$/status >> {log}; while ! [ -e {go} ]; do sleep 0.01; done; exit 0",
        log = log.display(),
        go = go.display(),
    );
    let relent = env!("CARGO_BIN_EXE_relent");
    let mut wrapper = std::process::Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh", relent, "run", "--", "sh", "-c", &script])
        .spawn()
        .unwrap();
    let ignored = line(&log, 0);
    send(&wrapper, Signal::SIGHUP);
    std::fs::write(&go, "").unwrap();
    assert_eq!(ended(&mut wrapper).code(), Some(0));
    let bits = u64::from_str_radix(ignored.split_whitespace().last().unwrap(), 16).unwrap();
    assert_eq!(bits & 1, 1, "the command ignores HUP too");
    assert_eq!(bits & (1 << 20 | 1 << 21), 0, "and nothing of our own (TTIN, TTOU)");
}

/// A parent may have blocked signals; the death of the command is heard all the same.
#[test]
fn blocked_signals_do_not_make_it_deaf() {
    let mut mask = nix::sys::signal::SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block().unwrap();
    let mut wrapper = run(&["--max-attempts", "2"], &sh("exit 7")).stderr(Stdio::null()).spawn().unwrap();
    mask.thread_unblock().unwrap();
    assert_eq!(ended(&mut wrapper).code(), Some(7));
}
