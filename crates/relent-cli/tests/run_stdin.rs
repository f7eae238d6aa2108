//! `relent run` and standard input: the same bytes in each attempt, or the documented end of file.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod run_support;

use std::fs::{self, File};
use std::io::Write;
use std::process::Stdio;

use run_support::*;

const COUNT: &str = "wc -c; exit 1";

/// F42: a pipe is replayed.
#[test]
fn a_pipe_is_replayed() {
    let done = feed(&mut run(&["--max-attempts", "3"], &sh("wc -l; exit 1")), b"a\nb\n");
    assert_eq!(done.stdout, "2\n2\n2\n", "{done:?}");
    assert_eq!(done.code(), 1);
}

/// Bytes, in memory and in a file, whole and in order.
#[test]
fn a_replay_is_exact() {
    let input: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let directory = scratch("replay");
    for length in [1, 4095, 4096, 4097, 65_536, 65_537, 1 << 20, (1 << 20) + 1, input.len()] {
        let script = format!("cat > {}/got-$RELENT_ATTEMPT; [ $RELENT_ATTEMPT = 3 ]", directory.display());
        let done =
            feed(run(&["--max-attempts", "3"], &sh(&script)).env("TMPDIR", &directory), &input[..length]);
        assert_eq!(done.code(), 0, "{done:?}");
        for attempt in 1..=3 {
            let got = fs::read(directory.join(format!("got-{attempt}"))).unwrap();
            assert!(got == input[..length], "attempt {attempt} of {length} bytes got {}", got.len());
        }
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 3, "the spool has no name");
}

/// An attempt that reads a part does not shorten the next one's input.
#[test]
fn a_part_that_was_read_comes_again() {
    let script = "case $RELENT_ATTEMPT in 1) head -n 1 >/dev/null; exit 1;; 2) exit 1;; *) cat;; esac";
    let input = "line\n".repeat(50_000);
    let done = feed(&mut run(&[], &sh(script)), input.as_bytes());
    assert_eq!(done.code(), 0, "{:?}", done.stderr);
    assert_eq!(done.stdout.len(), input.len());
}

/// A file is rewound to where its reading began, not to its start; whoever reads after us goes on where the command
/// has stopped.
#[test]
fn a_file_is_rewound() {
    let directory = scratch("rewound");
    let path = directory.join("input");
    fs::write(&path, "one\ntwo\nthree\n").unwrap();
    let relent = env!("CARGO_BIN_EXE_relent");
    let script = format!(
        "exec < {}; read first; {relent} run --initial 1ms -q -- bash -c 'read line; echo $line; [ $RELENT_ATTEMPT = 3 ]'; \
         cat",
        path.display()
    );
    let done = finish(std::process::Command::new("bash").args(["-c", &script]));
    assert_eq!(done.stdout, "two\ntwo\ntwo\nthree\n", "{done:?}");
}

#[test]
fn inherited_input_is_read_once_and_null_never() {
    let done = feed(&mut run(&["--max-attempts", "2", "--stdin", "inherit"], &sh(COUNT)), b"123456");
    assert_eq!(done.stdout, "6\n0\n", "the documented end of file from attempt 2");
    let done = feed(&mut run(&["--max-attempts", "2", "--stdin", "null"], &sh(COUNT)), b"123456");
    assert_eq!(done.stdout, "0\n0\n");
}

/// F42: an open, silent input holds neither the wrapper nor a command that does not read it.
#[test]
fn a_silent_input_does_not_hang_the_wrapper() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut wrapper =
        run(&["--max-attempts", "3"], &sh("exit 7")).stdin(reader).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(ended(&mut wrapper).code(), Some(7));
    drop(writer);
    // One that does read it waits, as it would without us, and no longer than its time.
    let (reader, writer) = std::io::pipe().unwrap();
    let options = ["--max-attempts", "2", "--attempt-timeout", "100ms"];
    let mut wrapper = run(&options, &["cat"]).stdin(reader).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(ended(&mut wrapper).code(), Some(124));
    drop(writer);
}

/// What arrives while an attempt runs is handed on at once.
#[test]
fn a_slow_input_arrives_as_it_comes() {
    let directory = scratch("slow-input");
    let log = directory.join("log");
    let script = format!("while read line; do echo $line >> {}; done", log.display());
    let mut wrapper = run(&[], &sh(&script)).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = wrapper.stdin.take().unwrap();
    for word in ["one", "two", "three"] {
        writeln!(stdin, "{word}").unwrap();
        until(word, || lines(&log).last().is_some_and(|last| last == word).then_some(()));
    }
    drop(stdin);
    assert_eq!(ended(&mut wrapper).code(), Some(0));
}

/// What is read beyond what the command takes is at most a pipe's worth; a surrounding `while read` loop goes on.
#[test]
fn no_more_is_read_than_a_pipe_holds() {
    let directory = scratch("overread");
    let path = directory.join("input");
    let lines = 200_000;
    fs::write(&path, "0123456789abcdef\n".repeat(lines)).unwrap();
    let relent = env!("CARGO_BIN_EXE_relent");
    let script = format!("cat {} | {{ {relent} run -- true; wc -c; }}", path.display());
    let done = finish(std::process::Command::new("bash").args(["-c", &script]));
    let left: usize = done.stdout.trim().parse().unwrap();
    let taken = lines * 17 - left;
    assert!(taken <= 65_536, "{taken} bytes are gone");
    // From a file, nothing is.
    let script = format!("{{ {relent} run -- true; wc -c; }} < {}", path.display());
    let done = finish(std::process::Command::new("bash").args(["-c", &script]));
    assert_eq!(done.stdout.trim(), (lines * 17).to_string());
}

/// A command that ignores 10 MB of input succeeds (a public wrapper died of SIGPIPE).
#[test]
fn input_that_nobody_reads_is_no_failure() {
    let done = feed(&mut run(&[], &["true"]), &vec![b'x'; 10_000_000]);
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{done:?}");
}

/// Past the limit the attempt goes on, and no other follows: a retry with half of its input is wrong data.
#[test]
fn past_the_limit_there_is_no_retry() {
    let input = vec![b'x'; 200_000];
    let done = feed(&mut run(&["--stdin-limit", "100KiB"], &sh(COUNT)), &input);
    assert_eq!(done.stdout, "200000\n", "the attempt gets all of it");
    assert_eq!(done.code(), 1);
    assert!(done.stderr.contains("longer than 102400 bytes (--stdin-limit)"), "{done:?}");
    let done = feed(&mut run(&["--stdin-limit", "200000", "--max-attempts", "2"], &sh(COUNT)), &input);
    assert_eq!(done.stdout, "200000\n200000\n", "up to the limit it is kept");
    // A success needs no replay.
    let done = feed(&mut run(&["--stdin-limit", "0"], &["wc", "-c"]), &input);
    assert_eq!((done.code(), done.stdout.as_str()), (0, "200000\n"));
}

/// A gigabyte: the memory does not grow with it.
#[test]
fn a_gigabyte_goes_through() {
    let script = "wc -c; grep VmHWM /proc/$PPID/status; exit 1";
    let mut zeros = std::process::Command::new("head")
        .args(["-c", "1073741824", "/dev/zero"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut run = run(&["--max-attempts", "2"], &sh(script));
    let done = finish(run.env("TMPDIR", scratch("gigabyte")).stdin(zeros.stdout.take().unwrap()));
    zeros.wait().unwrap();
    let mut said = done.stdout.lines();
    assert_eq!(said.next(), Some("1073741824"), "{done:?}");
    let peak: u64 = said.next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(peak < 32 * 1024, "{peak} KiB");
    assert_eq!(said.next(), None, "over the limit of 256 MiB, so no second attempt");
}

/// No room for the spool: `ulimit -f` is a disk that fills up (and brings SIGXFSZ, which must not end us).
#[test]
fn a_full_disk_takes_the_retries_but_not_the_attempt() {
    let input = vec![b'x'; 5_000_000];
    let relent = env!("CARGO_BIN_EXE_relent");
    let script = format!("ulimit -f 2000; exec {relent} run -- sh -c '{COUNT}'");
    let done = feed(std::process::Command::new("bash").args(["-c", &script]), &input);
    assert_eq!(done.stdout, "5000000\n", "{done:?}");
    assert_eq!(done.code(), 1);
    assert!(done.stderr.contains("standard input cannot be kept: File too large"), "{done:?}");
    // No directory to put it in.
    let done = feed(run(&[], &sh(COUNT)).env("TMPDIR", "/no/such/directory"), &input);
    assert_eq!(done.stdout, "5000000\n", "{done:?}");
    assert!(done.stderr.contains("standard input cannot be kept"), "{done:?}");
}

/// Closed descriptors are no reason to fail.
#[test]
fn a_closed_input_is_an_empty_one() {
    let relent = env!("CARGO_BIN_EXE_relent");
    let script = format!("exec {relent} run --max-attempts 2 --initial 1ms -- sh -c '{COUNT}' <&-");
    let done = finish(std::process::Command::new("bash").args(["-c", &script]));
    assert_eq!(done.stdout, "0\n0\n", "{done:?}");
}

/// A device that never ends is not spooled.
#[test]
fn a_device_is_inherited() {
    let mut run = run(&["--max-attempts", "2"], &sh("head -c 5 | wc -c; exit 1"));
    let done = finish(run.stdin(File::open("/dev/zero").unwrap()));
    assert_eq!(done.stdout, "5\n5\n", "{done:?}");
}
