//! `relent run` and the command's output.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod run_support;

use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, Stdio};

use run_support::*;

/// Fails twice, then succeeds; says so on both streams.
const THIRD_TIME: &str = "echo out $RELENT_ATTEMPT; echo err $RELENT_ATTEMPT >&2; [ $RELENT_ATTEMPT = 3 ]";

#[test]
fn it_streams_unless_told_otherwise() {
    let done = finish(&mut run(&["--quiet"], &sh(THIRD_TIME)));
    assert_eq!(done.stdout, "out 1\nout 2\nout 3\n");
    assert_eq!(done.stderr, "err 1\nerr 2\nerr 3\n");
}

#[test]
fn failed_attempts_can_be_kept_quiet() {
    let done = finish(&mut run(&["--quiet", "--output", "last"], &sh(THIRD_TIME)));
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out 3\n", "err 3\n"));
    let done = finish(&mut run(&["--quiet", "--output", "success"], &sh(THIRD_TIME)));
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out 3\n", "err 3\n"));
    let options = ["--quiet", "--max-attempts", "2", "--output"];
    let done = finish(&mut run(&[&options[..], &["last"]].concat(), &sh(THIRD_TIME)));
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out 2\n", "err 2\n"));
    let done = finish(&mut run(&[&options[..], &["success"]].concat(), &sh(THIRD_TIME)));
    assert_eq!((done.stdout.as_str(), done.stderr.as_str(), done.code()), ("", "", 1));
}

/// Bytes, however many, in order; past 1 MiB they are held in a file.
#[test]
fn what_is_held_comes_out_as_it_went_in() {
    let directory = scratch("held");
    let path = directory.join("bytes");
    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(&path, &bytes).unwrap();
    for options in [
        &["--output", "last"][..],
        &["--output", "success"],
        &["--retry-on", "stdout:x", "--success-on", "0"],
    ] {
        let mut run = run(options, &["cat", path.to_str().unwrap()]);
        let output = run.env("TMPDIR", &directory).output().unwrap();
        assert!(output.stdout == bytes, "{options:?}: {} bytes", output.stdout.len());
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing is left");
}

/// Where both streams go to one place, lines stay whole and prompts are seen.
#[test]
fn lines_stay_whole_in_one_place() {
    let directory = scratch("whole-lines");
    let path = directory.join("both");
    let script = "(for i in $(seq 300); do printf 'ooooo'; printf 'OOOOO\\n'; done) & \
                  (for i in $(seq 300); do printf 'eeeee' >&2; printf 'EEEEE\\n' >&2; done) & wait; \
                  printf 'no end'";
    for options in [&["--output", "last"][..], &["--stop-on", "output:nothing"]] {
        let file = File::create(&path).unwrap();
        let status =
            run(options, &sh(script)).stdout(file.try_clone().unwrap()).stderr(file).status().unwrap();
        assert!(status.success());
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.pop(), Some("no end"));
        assert_eq!(lines.len(), 600, "{options:?}");
        assert!(lines.iter().all(|line| ["oooooOOOOO", "eeeeeEEEEE"].contains(line)), "{options:?}: {text}");
    }
}

/// An unfinished line is shown, though it comes through us: somebody may have to answer it.
#[test]
fn a_prompt_is_seen() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command =
        run(&["--stop-on", "output:nothing"], &sh("printf 'name? '; read name; echo hello $name >&2"));
    command.stdin(Stdio::piped()).stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut wrapper = command.spawn().unwrap();
    drop(command);
    let mut prompt = [0; 6];
    reader.read_exact(&mut prompt).unwrap();
    assert_eq!(&prompt, b"name? ");
    std::io::Write::write_all(&mut wrapper.stdin.take().unwrap(), b"you\n").unwrap();
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "hello you\n");
    assert_eq!(ended(&mut wrapper).code(), Some(0));
}

/// `head -1` downstream ends it, quietly, as it would end the command alone.
#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let relent = env!("CARGO_BIN_EXE_relent");
    let directory = scratch("head");
    for options in ["", "--stop-on stdout:nothing", "--output last", "--output success"] {
        let says = directory.join("says");
        let held = options.contains("--output");
        // What is held is shown when it has ended; so there it must end by itself.
        let command = if held { "seq 1000000" } else { "yes" };
        let script = format!(
            "{relent} run --initial 1h --cap 1h --jitter none {options} -- {command} 2>{} | head -1; exit ${{PIPESTATUS[0]}}",
            says.display()
        );
        let done = finish(Command::new("bash").args(["-c", &script]));
        assert_eq!(done.stdout.lines().count(), 1, "{options} {done:?}");
        assert_eq!(done.code(), 141, "{options}: by SIGPIPE: {done:?}");
        assert_eq!(fs::read_to_string(says).unwrap(), "", "{options}: quietly");
    }
}

/// The reader leaves while the next attempt is waited for.
#[test]
fn a_reader_that_leaves_ends_a_wait() {
    let mut wrapper =
        plain_run(&["--initial", "1h", "--cap", "1h", "--jitter", "none"], &sh("echo once; exit 7"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    let mut byte = [0];
    wrapper.stdout.take().unwrap().read_exact(&mut byte).unwrap();
    let status = ended(&mut wrapper);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(13));
    // The reader of a socket (a journal that is restarted, say) is not heard to leave but by a hang-up.
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut wrapper =
        plain_run(&["--initial", "1h", "--cap", "1h", "--jitter", "none"], &sh("echo once; exit 7"))
            .stdout(std::os::fd::OwnedFd::from(theirs))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    ours.read_exact(&mut byte).unwrap();
    drop(ours);
    let status = ended(&mut wrapper);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(13));
}

/// Whoever reads slowly, and late, gets all of it: what the command had written before it ended may still be in its
/// pipe. What goes on writing after it cannot hold the wrapper.
#[test]
fn a_slow_reader_loses_nothing() {
    let relent = env!("CARGO_BIN_EXE_relent");
    for lines in [30_000, 33_000] {
        let script =
            format!("{relent} run --retry-on stdout:nothing -- seq {lines} | {{ sleep 0.5; tail -n 1; }}");
        let done = finish(Command::new("bash").args(["-c", &script]));
        assert_eq!(done.stdout.trim(), lines.to_string(), "{done:?}");
    }
    let script = "setsid yes & echo $! >&2; sleep 0.1; exit 0";
    let mut wrapper = run(&["--retry-on", "stdout:nothing"], &sh(script))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = wrapper.stdout.take().unwrap();
    let reader = std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()).unwrap());
    assert_eq!(ended(&mut wrapper).code(), Some(0));
    assert!(reader.join().unwrap() > 0);
}

/// Whoever reads slowly holds the command back and not the signals.
#[test]
fn a_reader_that_stops_does_not_make_it_deaf() {
    let directory = scratch("slow-reader");
    let log = directory.join("log");
    let script = format!("echo ready >> {}; exec yes", log.display());
    let mut wrapper =
        run(&["--stop-on", "stdout:nothing"], &sh(&script)).stdout(Stdio::piped()).spawn().unwrap();
    line(&log, 0);
    let mut byte = [0];
    wrapper.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    send(&wrapper, nix::sys::signal::Signal::SIGTERM);
    let status = ended(&mut wrapper);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
}

/// A full disk under the output is said, and is no success.
#[test]
fn output_that_cannot_be_written_is_no_success() {
    for options in [&["--output", "last"][..], &["--stop-on", "stdout:nothing"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut run = run(options, &["seq", "100000"]);
        run.stderr(Stdio::piped()).stdout(full);
        let output = run.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{options:?} {said}");
        assert!(
            said.contains("standard output cannot be written: No space left on device"),
            "{options:?} {said}"
        );
    }
    // Where the command writes for itself, it is the command's failure.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = run(&["--max-attempts", "2"], &["seq", "100000"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

/// No room to hold the output: late or mixed is bad, lost is worse.
#[test]
fn a_full_disk_loses_no_output() {
    let relent = env!("CARGO_BIN_EXE_relent");
    let script = format!("ulimit -f 2000; {relent} run --output last -- seq 1000000 | sha256sum");
    let done = finish(Command::new("bash").args(["-c", &script]));
    let plain = finish(Command::new("bash").args(["-c", "seq 1000000 | sha256sum"]));
    assert_eq!(done.stdout, plain.stdout, "{done:?}");
}

/// A command that closes its streams is not taken for one that has ended.
#[test]
fn closed_streams_are_no_end() {
    for options in [&[][..], &["--output", "last"], &["--stop-on", "output:x"]] {
        let done =
            finish(&mut run(options, &sh("exec <&- >&- 2>&-; sleep 0.2; exit $((RELENT_ATTEMPT + 6))")));
        assert_eq!(done.code(), 11, "{options:?} {done:?}");
    }
}
