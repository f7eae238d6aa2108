//! `relent run`: what it says, to people and to programs, and what the command is told.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod run_support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use run_support::*;
use serde_json::Value;

#[test]
fn one_line_for_each_retry_and_one_for_the_end() {
    let done = finish(&mut run(&["--max-attempts", "3"], &sh("exit 7")));
    let said: Vec<_> = done.stderr.lines().collect();
    assert_eq!(said.len(), 3, "{done:?}");
    assert!(said[0].starts_with("relent: attempt 1 of 3 failed (exit code 7), next in "), "{done:?}");
    assert!(said[1].starts_with("relent: attempt 2 of 3 failed (exit code 7), next in "), "{done:?}");
    assert_eq!(said[2], "relent: gave up after 3 attempts: exit code 7");
    assert!(!done.stderr.contains('\r') && !done.stderr.contains('\x1b'), "no terminal, no tricks");
    assert_eq!(finish(&mut run(&["-q", "--max-attempts", "3"], &sh("exit 7"))).stderr, "");
    assert_eq!(finish(&mut run(&[], &["true"])).stderr, "", "a success says nothing");
}

/// The command knows which attempt it is.
#[test]
fn the_environment_tells_the_command() {
    let script = "echo $RELENT_ATTEMPT/$RELENT_MAX_ATTEMPTS ${RELENT_LAST_CODE-unset} ${RELENT_LAST_CLASS-unset} \
                  ${RELENT_DEADLINE-unset}; echo $RELENT_IDEMPOTENCY_KEY >&2; exit $((RELENT_ATTEMPT + 6))";
    let mut command = run(&["-q", "--max-attempts", "3"], &sh(script));
    command.env("RELENT_LAST_CODE", "99").env("RELENT_LAST_CLASS", "stale");
    let done = finish(&mut command);
    assert_eq!(done.stdout, "1/3 unset unset unset\n2/3 7 transient unset\n3/3 8 transient unset\n");
    let keys: Vec<_> = done.stderr.lines().collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0] && key.len() == 36), "one key for all attempts: {keys:?}");
    let done = finish(&mut run(&["-q", "--max-attempts", "unlimited", "--stop-on", "9"], &sh(script)));
    assert!(done.stdout.ends_with("3/unlimited 8 transient unset\n"), "{done:?}");
}

/// An outer deadline can only shorten.
#[test]
fn an_outer_deadline_is_inherited() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let inherited = |deadline: u64, options: &[&str], script: &str| {
        finish(run(&[&["-q"], options].concat(), &sh(script)).env("RELENT_DEADLINE", deadline.to_string()))
    };
    let told = |done: &Done| done.stdout.trim().parse::<u64>().unwrap();
    let done = inherited(now + 3_600_000, &[], "echo $RELENT_DEADLINE");
    assert!(told(&done).abs_diff(now + 3_600_000) <= 2, "handed on: {done:?}");
    let done = inherited(now + 3_600_000, &["--deadline", "10s"], "echo $RELENT_DEADLINE");
    assert!(told(&done) < now + 3_000_000, "our own is shorter: {done:?}");
    let done = inherited(now + 3_600_000, &["--deadline", "5h"], "echo $RELENT_DEADLINE");
    assert!(told(&done).abs_diff(now + 3_600_000) <= 2, "theirs is shorter: {done:?}");
    let done = inherited(now + 3_600_000, &["--deadline", "5h"], "exit 7");
    assert_eq!(done.code(), 7);
    // It ends an attempt.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    assert_eq!(inherited(now + 300, &[], "exec sleep 1000").code(), 124);
    // Once it has passed, nothing is attempted.
    let done = inherited(now - 1000, &[], "echo attempted");
    assert_eq!((done.code(), done.stdout.as_str()), (124, ""), "{done:?}");
    // A malformed one is not guessed at.
    let done = finish(run(&[], &["true"]).env("RELENT_DEADLINE", "soon"));
    assert_eq!(done.code(), 125, "{done:?}");
    assert!(done.stderr.contains("RELENT_DEADLINE=soon"), "{done:?}");
    let done = finish(run(&[], &["true"]).env("RELENT_DEADLINE", OsStr::from_bytes(b"\xff")));
    assert_eq!(done.code(), 125, "{done:?}");
    // An empty one is none, and a far one is far.
    assert_eq!(finish(run(&[], &["true"]).env("RELENT_DEADLINE", "")).code(), 0);
    assert_eq!(inherited(u64::MAX, &[], "echo $RELENT_DEADLINE").stdout, format!("{}\n", u64::MAX));
}

/// Layers multiply, and that is said, once, where it happens.
#[test]
fn layers_are_noticed() {
    let relent = env!("CARGO_BIN_EXE_relent");
    let inner = format!("exec {relent} run --initial 1ms --max-attempts 4 -- false");
    let done = finish(&mut run(&["--max-attempts", "1"], &sh(&inner)));
    assert!(!done.stderr.contains("multiply"), "one attempt multiplies nothing... {done:?}");
    let done = finish(&mut run(&["--max-attempts", "3"], &sh(&inner)));
    let said = "relent: this is attempt 2 of 3 of another relent run; the attempts of both multiply: up to 12 in all";
    assert_eq!(done.stderr.lines().filter(|line| *line == said).count(), 1, "{done:?}");
    // Somebody else's variable of the same name is nothing to print.
    let mut odd = run(&["--max-attempts", "2"], &["false"]);
    let done = finish(odd.env("RELENT_ATTEMPT", "\x1b[31m").env("RELENT_MAX_ATTEMPTS", "many"));
    assert!(done.code() == 1 && !done.stderr.contains("multiply"), "{done:?}");
    let quiet = format!("exec {relent} run -q --initial 1ms --max-attempts 4 -- false");
    let done = finish(&mut run(&["--max-attempts", "3"], &sh(&quiet)));
    assert!(!done.stderr.contains("multiply"), "{done:?}");
}

/// A machine can read what happened: the attempts, the codes, the waits.
#[test]
fn events_tell_the_whole_story() {
    let directory = scratch("events");
    let path = directory.join("events");
    let script = "case $RELENT_ATTEMPT in 1) exit 7;; 2) kill -KILL $$;; *) exit 9;; esac";
    let options = ["--max-attempts", "3", "--deadline", "1h", "--events", path.to_str().unwrap()];
    assert_eq!(finish(&mut run(&options, &sh(script))).code(), 9);
    let events: Vec<Value> = lines(&path).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let pair = ["attempt_started", "decision"];
    assert_eq!(kinds, [&pair[..], &pair, &pair, &["gave_up"]].concat());
    for event in &events {
        assert_eq!(event["v"], 1);
        assert_eq!(event["command"], "sh");
        assert_eq!(event["max_attempts"], 3);
        assert!(event["elapsed_ms"].as_f64().unwrap() >= 0.0);
        assert!(event["remaining_ms"].as_f64().unwrap() > 3_000_000.0);
    }
    let attempts: Vec<_> = events.iter().map(|event| event["attempt"].as_u64().unwrap()).collect();
    assert_eq!(attempts, [1, 1, 2, 2, 3, 3, 3]);
    assert_eq!((&events[1]["code"], &events[1]["class"]), (&7.into(), &"transient".into()));
    assert_eq!((&events[3]["signal"], &events[3]["code"]), (&9.into(), &Value::Null));
    assert_eq!(events[3]["source"], "schedule");
    assert!(events[1]["wait_ms"].as_f64().unwrap() <= 10.0);
    assert_eq!((&events[5]["code"], &events[5]["reason"]), (&9.into(), &"attempts_exhausted".into()));
    assert_eq!(events[6]["reason"], "attempts_exhausted");
    // A second run adds to the file.
    assert_eq!(finish(&mut run(&options, &["true"])).code(), 0);
    let last: Value = serde_json::from_str(lines(&path).last().unwrap()).unwrap();
    assert_eq!((&last["class"], &last["reason"]), (&"success".into(), &"succeeded".into()));
}

/// Events that cannot be written are said, and do not end the call.
#[test]
fn events_are_not_worth_a_failure() {
    let done = finish(&mut run(&["--events", "/dev/full"], &["true"]));
    assert_eq!(done.code(), 0);
    assert!(done.stderr.contains("the events cannot be written any more"), "{done:?}");
    // A FIFO that nobody reads, or reads no further, does not hold the call.
    let fifo = scratch("fifo").join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let events = ["--max-attempts", "500", "--events", fifo.to_str().unwrap()];
    let done = finish(&mut run(&events, &["true"]));
    assert_eq!(done.code(), 125, "{done:?}");
    assert!(done.stderr.contains("nobody reads from it"), "{done:?}");
    let lazy = fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let done = finish(&mut plain_run(&[&events[..], &["--initial", "0s"]].concat(), &["false"]));
    assert_eq!(done.code(), 1, "{done:?}");
    assert!(done.stderr.contains("the events cannot be written any more"), "{done:?}");
    drop(lazy);
    let done = finish(&mut run(&["--events", "-"], &["true"]));
    assert_eq!(done.code(), 125, "{done:?}");
    // A file that cannot even be opened is a mistake in the options.
    let done = finish(&mut run(&["--events", "/no/such/directory/events"], &["true"]));
    assert_eq!(done.code(), 125, "{done:?}");
}

/// `--initial-spread` waits before the first attempt; the deadline bounds it as any other wait.
#[test]
fn a_start_can_be_spread() {
    let directory = scratch("spread");
    let path = directory.join("attempted");
    let script = format!("echo attempted >> {}", path.display());
    let mut wrapper = run(&["--initial-spread", "1000h"], &sh(&script)).spawn().unwrap();
    // Over and done with by now, if it had not waited; a signal ends the wait.
    finish(&mut run(&[], &["true"]));
    assert!(wrapper.try_wait().unwrap().is_none());
    send(&wrapper, nix::sys::signal::Signal::SIGTERM);
    let status = ended(&mut wrapper);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    assert!(!path.exists());
    assert_eq!(finish(&mut run(&["--initial-spread", "5ms"], &sh(&script))).code(), 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), "attempted\n");
}
