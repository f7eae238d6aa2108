//! `relent run` under attack: killed itself, a fork bomb, a hundred at once, ten thousand retries.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod run_support;

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use run_support::*;

fn id(text: &str) -> Pid {
    Pid::from_raw(text.trim().parse().unwrap())
}

/// Nobody can do anything about KILL. What is left, as documented: the command goes on, alone in its process group, and
/// the spool has no name, so that nothing stays on the disk. No further attempt is made.
#[test]
fn a_wrapper_that_is_killed_leaves_the_command_and_no_file() {
    let directory = scratch("killed");
    let ids = directory.join("ids");
    let spool = directory.join("spool");
    fs::create_dir(&spool).unwrap();
    let script = format!("cat > /dev/null; echo $$ >> {}; exec sleep 1000", ids.display());
    let mut wrapper = run(&[], &sh(&script)).env("TMPDIR", &spool).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut wrapper.stdin.take().unwrap(), &vec![b'x'; 3_000_000]).unwrap();
    let command = line(&ids, 0);
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 0, "the spool has no name even while it is in use");
    send(&wrapper, Signal::SIGKILL);
    let status = ended(&mut wrapper);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    assert!(lives(&command));
    // Its group is its own: whoever cleans up can end all of it.
    killpg(id(&command), Signal::SIGKILL).unwrap();
    until("the end of the command", || (!lives(&command)).then_some(()));
    assert_eq!(lines(&ids).len(), 1);
}

/// Two generations of processes that ignore TERM, started as fast as they can be, under a timeout.
#[test]
fn a_fork_bomb_of_depth_two_is_defused() {
    let directory = scratch("bomb");
    let ids = directory.join("ids");
    let text = format!(
        "trap '' TERM\necho $$ >> {0}\ncase $1 in\n2) exec sleep 1000;;\n*) for i in 1 2 3 4 5 6 7 8 9 10; do sh $0 $(($1 + 1)) & done; wait;;\nesac\n",
        ids.display()
    );
    let bomb = directory.join("bomb");
    fs::write(&bomb, text).unwrap();
    let options = ["--max-attempts", "2", "--attempt-timeout", "1s", "--kill-after", "100ms"];
    let done = finish(&mut run(&options, &["sh", bomb.to_str().unwrap(), "0"]));
    assert_eq!(done.code(), 124, "{done:?}");
    assert!(done.took < Duration::from_secs(30), "{done:?}");
    assert!(lines(&ids).len() > 100, "it went off: {}", lines(&ids).len());
    let left: Vec<_> = lines(&ids).into_iter().filter(|id| lives(id)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A command that moves to the root, closes everything and leaves its group and session: a daemon of the old school.
#[test]
fn a_daemon_does_not_hold_the_wrapper() {
    let directory = scratch("double-fork");
    let ids = directory.join("ids");
    let script = format!(
        "cd /; exec <&- >&- 2>&-; (setsid sh -c 'echo $$ >> {0}; exec sleep 1000' &) ; \
         while ! [ -s {0} ]; do sleep 0.01; done; exit 0",
        ids.display()
    );
    for output in ["stream", "last"] {
        let _ = fs::remove_file(&ids);
        let done = finish(&mut run(&["--output", output], &sh(&script)));
        assert_eq!(done.code(), 0, "{done:?}");
        assert!(done.took < Duration::from_secs(20), "{done:?}");
        let daemon = line(&ids, 0);
        assert!(lives(&daemon));
        kill(id(&daemon), Signal::SIGKILL).unwrap();
    }
}

/// A command that stops itself is not waited for beyond its time.
#[test]
fn a_stopped_command_can_be_ended() {
    let options = ["--max-attempts", "2", "--attempt-timeout", "200ms", "--kill-after", "200ms"];
    let done = finish(&mut run(&options, &sh("kill -STOP $$")));
    assert_eq!(done.code(), 124, "{done:?}");
    let mut wrapper = run(&["--max-attempts", "2"], &sh("kill -STOP $$")).spawn().unwrap();
    let child = until("the stopped command", || stopped_child(&wrapper));
    send(&wrapper, Signal::SIGTERM);
    let status = ended(&mut wrapper);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    assert!(!lives(&child));
}

fn stopped_child(wrapper: &Child) -> Option<String> {
    let id = wrapper.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    let child = children.split_whitespace().next()?.to_owned();
    let stat = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
    stat.contains(") T ").then_some(child)
}

/// As the first process of a container it is sent what it catches and nothing else, and it gets all orphans.
#[test]
fn the_first_process_of_a_container_behaves() {
    let container = "exec unshare --user --map-root-user --pid --fork --mount-proc --kill-child \"$@\"";
    if finish(&mut in_shell(container, std::process::Command::new("true").arg("-"))).status.code() != Some(0)
    {
        println!("skipped: no namespaces here");
        return;
    }
    // It cannot die by a signal; the code still says so.
    let done = finish(&mut in_shell(container, &run(&[], &sh("kill -TERM $PPID; exec sleep 1000"))));
    assert_eq!(done.code(), 143, "{done:?}");
    // Orphans are reaped while the command runs.
    let script = "sh -c 'sh -c \"exit 0\" & echo $! > /proc/self/fd/1 &' & wait; \
                  for i in $(seq 500); do grep -l '^State:.Z' /proc/[0-9]*/status > /dev/null 2>&1 || exit 0; sleep 0.01; done; exit 9";
    let done = finish(&mut in_shell(container, &run(&["--max-attempts", "1"], &sh(script))));
    assert_eq!(done.code(), 0, "{done:?}");
}

/// A disk that is really full, under the spool of the input and of the output.
#[test]
fn a_real_disk_can_be_full() {
    let directory = scratch("full-disk");
    let disk = directory.display();
    let with_disk = format!(
        "exec unshare --user --map-root-user --mount sh -c \
         'mount -t tmpfs -o size=1m none {disk} && TMPDIR={disk} exec \"$@\"' sh \"$@\""
    );
    if finish(&mut in_shell(&with_disk, std::process::Command::new("true").arg("-"))).status.code() != Some(0)
    {
        println!("skipped: no disk can be mounted here");
        return;
    }
    let input = vec![b'x'; 5_000_000];
    let done = feed(in_shell(&with_disk, &run(&[], &sh("wc -c; exit 1"))).stdin(Stdio::piped()), &input);
    assert_eq!((done.code(), done.stdout.as_str()), (1, "5000000\n"), "the attempt gets all of it: {done:?}");
    assert!(done.stderr.contains("standard input cannot be kept: No space left on device"), "{done:?}");
    let options = ["--output", "last", "--max-attempts", "2"];
    let script = "head -c 5000000 /dev/zero; exit $((2 - RELENT_ATTEMPT))";
    let done = finish(&mut in_shell(&with_disk, &run(&options, &sh(script))));
    assert_eq!((done.code(), done.stdout.len()), (0, 10_000_000), "late or too much, not lost");
}

/// What belongs to another user may not be ours to kill. Two attempts must not overlap, so no other follows.
#[test]
fn what_cannot_be_ended_ends_the_call() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root can start something that others may not end");
        return;
    }
    let directory = scratch("foreign");
    let (ids, go) = (directory.join("ids"), directory.join("go"));
    fs::write(&ids, "").unwrap();
    for path in [&directory, &ids] {
        std::os::unix::fs::chown(path, Some(NOBODY), None).unwrap();
    }
    for (last, code) in [("exit 5", 5), ("exec sleep 1000", 124)] {
        let _ = fs::remove_file(&go);
        fs::write(&ids, "").unwrap();
        let script = format!(
            "echo $$ >> {}; while ! [ -e {} ]; do sleep 0.01; done; {last}",
            ids.display(),
            go.display()
        );
        let options = ["--max-attempts", "3", "--attempt-timeout", "2s", "--kill-after", "100ms"];
        let Ok(wrapper) = as_nobody(&mut run(&options, &sh(&script))).stderr(Stdio::piped()).spawn() else {
            println!("skipped: others may not run the program here");
            return;
        };
        let group = id(&line(&ids, 0)).as_raw();
        let mut foreign = std::os::unix::process::CommandExt::process_group(
            &mut std::process::Command::new("sleep"),
            group,
        )
        .arg("1000")
        .spawn()
        .unwrap();
        fs::write(&go, "").unwrap();
        let done = wrapper.wait_with_output().unwrap();
        foreign.kill().unwrap();
        foreign.wait().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!((done.status.code(), lines(&ids).len()), (Some(code), 1), "{last}: {said}");
        assert!(said.contains("something that the command has started cannot be ended"), "{last}: {said}");
    }
}

const NOBODY: u32 = 65_534;

fn as_nobody(command: &mut std::process::Command) -> &mut std::process::Command {
    std::os::unix::process::CommandExt::uid(command, NOBODY)
}

/// In a directory under one that its user may not look into (`sudo -u nobody` at somebody's home).
#[test]
fn a_locked_directory_above_is_no_obstacle() {
    let directory = scratch("locked");
    let inner = directory.join("inner");
    fs::create_dir(&inner).unwrap();
    let script = format!("cd {} && chmod 0 .. && exec \"$@\"", inner.display());
    let mut command = in_shell(&script, &run(&[], &["echo", "done"]));
    if nix::unistd::geteuid().is_root() {
        for path in [&directory, &inner] {
            std::os::unix::fs::chown(path, Some(NOBODY), None).unwrap();
        }
        as_nobody(&mut command);
    }
    let done = finish(&mut command);
    fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    if done.code() == 126 {
        println!("skipped: others may not run the program here");
        return;
    }
    assert_eq!((done.code(), done.stdout.as_str()), (0, "done\n"), "{done:?}");
}

/// A hundred at once, each with input, output, a retry and its own events.
#[test]
fn a_hundred_wrappers_do_not_mind_each_other() {
    let directory = scratch("hundred");
    let wrappers: Vec<(usize, Child)> = (0..100)
        .map(|number| {
            let events = directory.join(format!("events-{number}"));
            let options = ["--output", "last", "--max-attempts", "4", "--events", events.to_str().unwrap()];
            let script = format!("read word; echo {number}-$word-$RELENT_ATTEMPT; [ $RELENT_ATTEMPT = 3 ]");
            let mut wrapper = run(&options, &sh(&script));
            wrapper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut wrapper = wrapper.spawn().unwrap();
            std::io::Write::write_all(&mut wrapper.stdin.take().unwrap(), b"word\n").unwrap();
            (number, wrapper)
        })
        .collect();
    for (number, wrapper) in wrappers {
        let output = wrapper.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{number}-word-3\n"));
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(lines(&directory.join(format!("events-{number}"))).len(), 6);
    }
}

/// Ten thousand retries: nothing grows. The command itself looks at its parent, early and late.
#[test]
fn ten_thousand_retries_leak_nothing() {
    let directory = scratch("leak");
    let seen = directory.join("seen");
    let script = format!(
        "#!/bin/sh\ncase $RELENT_ATTEMPT in *000)\n\
         set -- /proc/$PPID/fd/*; echo fds $# >> {0}\n\
         read -r children < /proc/$PPID/task/$PPID/children; echo children $children >> {0}\n\
         while read -r name size unit; do case $name in VmRSS:|VmData:|Threads:) echo $name $size >> {0};; esac; done < /proc/$PPID/status\n\
         esac\nexit 1\n",
        seen.display()
    );
    let path = directory.join("script");
    fs::write(&path, script).unwrap();
    let options = [
        "--quiet",
        "--max-attempts",
        "10000",
        "--backoff",
        "constant",
        "--jitter",
        "none",
        "--output",
        "last",
    ];
    let mut command = relent();
    command.arg("run").args(options).args(["--initial", "0s", "--", "sh", path.to_str().unwrap()]);
    let done = feed(&mut command, b"input");
    assert_eq!(done.code(), 1, "{done:?}");
    let values = |what: &str| -> Vec<u64> { numbers(&seen, what) };
    assert_eq!(values("fds").len(), 10);
    for what in ["fds", "VmData:", "Threads:"] {
        let values = values(what);
        // The command may look before the wrapper has closed its copies of the pipes: the smallest count is the quiet one.
        let (early, late) = (values[..5].iter().min(), values[5..].iter().min());
        assert!(late <= early, "{what} {values:?}");
    }
    let resident = values("VmRSS:");
    assert!(resident[9] <= resident[0] + 64, "{resident:?} KiB");
    let children = lines(&seen).into_iter().filter(|line| line.starts_with("children"));
    assert!(children.into_iter().all(|line| line.split_whitespace().count() == 2), "one child at a time");
}

fn numbers(path: &Path, what: &str) -> Vec<u64> {
    lines(path).iter().filter_map(|line| line.strip_prefix(what)?.trim().parse().ok()).collect()
}
