//! `relent run` on a terminal: the command has it during an attempt, the wrapper during a wait.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod run_support;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use run_support::*;

const RELENT: &str = env!("CARGO_BIN_EXE_relent");

/// An interactive shell with job control, on a terminal.
fn shell() -> OnTerminal {
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-i"]).env("PS1", "ready> ").env("HISTFILE", "/dev/null");
    let mut terminal = OnTerminal::start(&bash);
    terminal.expect("ready> ");
    terminal
}

/// Types a line that puts `word` on the screen only once it is executed.
fn ask(terminal: &mut OnTerminal, line: &str) {
    terminal.type_in(&format!("{line}\n"));
}

fn script(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    format!("sh {}", path.display())
}

/// The command is the foreground, as it would be without us, and sees terminals.
#[test]
fn the_command_has_the_terminal() {
    let directory = scratch("foreground");
    let said = directory.join("said");
    let script = format!(
        "read stat < /proc/$$/stat; set -- $stat; echo $5 $8 > {}; [ -t 0 ] && [ -t 1 ] && [ -t 2 ]",
        said.display()
    );
    let terminal = OnTerminal::start(&run(&[], &sh(&script)));
    let (status, screen) = terminal.end();
    assert_eq!(status.code(), Some(0), "{screen}");
    let said = fs::read_to_string(said).unwrap();
    let (group, foreground) = said.trim().split_once(' ').unwrap();
    assert_eq!(group, foreground);
}

/// It has it before it begins, whoever is scheduled first: some programs look only once.
#[test]
fn the_command_never_begins_in_the_background() {
    let script = "read stat < /proc/$$/stat; set -- $stat; [ $5 = $8 ] || exit 99; [ $RELENT_ATTEMPT = 50 ]";
    let options = ["--max-attempts", "50", "--retry-on", "1", "-q"];
    let (status, screen) = OnTerminal::start(&run(&options, &sh(script))).end();
    assert_eq!(status.code(), Some(0), "{screen}");
}

/// What cannot be run is told from a command that ends with the same code, on a terminal too.
#[test]
fn what_cannot_be_run_is_told_on_a_terminal() {
    for (command, code, said) in [
        (&["no-such-command"][..], 127, "no-such-command: command not found"),
        (&["/etc/passwd"], 126, "cannot be run: Permission denied"),
        (&sh("exit 127"), 127, "gave up after 2 attempts: exit code 127"),
    ] {
        let options = ["--max-attempts", "2", "--retry-on", "any"];
        let (status, screen) = OnTerminal::start(&run(&options, command)).end();
        assert_eq!(status.code(), Some(code), "{screen}");
        assert!(screen.contains(said), "{screen}");
        assert_eq!(screen.contains("attempt 1 of 2"), command.len() > 1, "{screen}");
    }
}

/// Ctrl-S stops the screen, and with it the countdown; signals are heard all the same.
#[test]
fn a_stopped_screen_does_not_make_it_deaf() {
    let directory = scratch("ctrl-s");
    let id = directory.join("id");
    let script = format!("echo $PPID > {}; exit 7", id.display());
    let options = ["--initial", "1h", "--cap", "1h", "--jitter", "none", "--max-attempts", "5"];
    let mut terminal = OnTerminal::start(&plain_run(&options, &sh(&script)));
    terminal.expect("next in 3600s");
    terminal.type_in("\x13");
    // Until it has tried to draw again.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let id = line(&id, 0);
    kill(Pid::from_raw(id.trim().parse().unwrap()), Signal::SIGTERM).unwrap();
    until("the end of the wrapper", || (!lives(&id)).then_some(()));
    terminal.type_in("\x11");
    terminal.end();
}

/// A command that asks for a password, and gets it in each attempt.
#[test]
fn a_password_can_be_asked_for() {
    let script = "stty -echo; printf 'Password: '; read word; stty echo; echo; [ \"$word\" = open-$RELENT_ATTEMPT ] && \
                  [ $RELENT_ATTEMPT = 2 ]";
    let mut terminal = OnTerminal::start(&run(&["--max-attempts", "2"], &sh(script)));
    terminal.expect("Password: ");
    terminal.type_in("open-1\n");
    terminal.expect("Password: ");
    terminal.type_in("open-2\n");
    let (status, screen) = terminal.end();
    assert_eq!(status.code(), Some(0), "{screen}");
    assert!(!screen.contains("open-"), "it is not shown: {screen}");
}

/// One that opens `/dev/tty` for it (ssh, sudo), while its streams are pipes: it gets the terminal when it asks.
#[test]
fn a_password_can_be_asked_for_behind_pipes() {
    let script = "printf 'Password: ' > /dev/tty; read word < /dev/tty; [ \"$word\" = open ]";
    let mut terminal = OnTerminal::start(&in_shell("echo | \"$@\" 2>&1 | cat", &run(&[], &sh(script))));
    terminal.expect("Password: ");
    terminal.type_in("open\n");
    let (status, screen) = terminal.end();
    assert_eq!(status.code(), Some(0), "{screen}");
    assert!(!screen.contains("attempt 1"), "{screen}");
}

/// Ctrl-C in an attempt goes to the command; that is the user's will, not a failure.
#[test]
fn ctrl_c_in_an_attempt_cancels() {
    for script in [
        "echo started; exec sleep 1000",
        // Under a shell that waits for it.
        "sh -c 'echo started; exec sleep 1000'; true",
        // What a program does that catches it and tidies up.
        "trap 'exit 130' INT; echo started; while :; do sleep 0.01; done",
    ] {
        let mut terminal = OnTerminal::start(&run(&["--max-attempts", "5"], &sh(script)));
        terminal.expect("started");
        terminal.type_in("\x03");
        let (status, screen) = terminal.end();
        // `setsid --wait` turns the signal into an exit code.
        assert_eq!(status.code().or(status.signal().map(|signal| 128 + signal)), Some(130), "{screen}");
        assert_eq!(screen.matches("started").count(), 1, "no further attempt: {screen}");
        assert!(!screen.contains("relent:"), "and nothing to say about it: {screen}");
    }
}

/// In a wait the terminal is ours, with a countdown on one line, and Ctrl-C ends it.
#[test]
fn ctrl_c_in_a_wait_cancels() {
    let options = ["--initial", "1h", "--cap", "1h", "--jitter", "none", "--max-attempts", "5"];
    let mut terminal = OnTerminal::start(&plain_run(&options, &sh("echo started; exit 7")));
    terminal.expect("relent: attempt 1 of 5 failed (exit code 7), next in 3600s");
    terminal.expect("next in 3599s");
    terminal.type_in("\x03");
    let (status, screen) = terminal.end();
    assert_eq!(status.code().or(status.signal().map(|signal| 128 + signal)), Some(130), "{screen}");
    assert_eq!(screen.matches("started").count(), 1);
    let countdown = screen.split_once("relent:").unwrap().1;
    assert!(!countdown.contains('\n'), "one line, taken back at the end: {screen:?}");
    assert!(screen.ends_with("\r\u{1b}[K"), "{screen:?}");
}

/// Ctrl-Z and `fg`, in an attempt and in a wait.
#[test]
fn ctrl_z_and_fg_work() {
    let directory = scratch("ctrl-z");
    // Nothing here starts processes of its own: a shell that is stopped halfway through that hangs in the kernel, with
    // or without us.
    let waits = script(&directory, "waits", "echo in-attempt-$RELENT_ATTEMPT; read word; echo got-$word\n");
    let mut terminal = shell();
    ask(&mut terminal, &format!("{RELENT} run -- {waits}"));
    terminal.expect("in-attempt-1");
    terminal.type_in("\x1a");
    terminal.expect("Stopped");
    terminal.expect("ready> ");
    // The shell has the terminal back.
    ask(&mut terminal, "echo $((6 * 7))-from-the-shell");
    terminal.expect("42-from-the-shell");
    ask(&mut terminal, "fg");
    terminal.expect("run -- ");
    terminal.type_in("input\n");
    terminal.expect("got-input");
    terminal.expect("ready> ");

    ask(
        &mut terminal,
        &format!("{RELENT} run --initial 1h --jitter none --cap 1h --max-attempts 2 -- sh -c 'exit 7'"),
    );
    terminal.expect("next in 3600s");
    terminal.type_in("\x1a");
    terminal.expect("Stopped");
    terminal.expect("ready> ");
    ask(&mut terminal, "fg");
    terminal.expect("next in 35");
    terminal.type_in("\x03");
    terminal.expect("ready> ");
    ask(&mut terminal, "echo code-$?");
    terminal.expect("code-130");
    ask(&mut terminal, "exit 0");
    assert_eq!(terminal.end().0.code(), Some(0));
}

/// A script around it stops and goes on with it.
#[test]
fn ctrl_z_stops_the_script_around_it() {
    let directory = scratch("ctrl-z-script");
    let text =
        format!("{RELENT} run -- sh -c 'echo in-attempt; read word; echo got-$word'\necho done-outside\n");
    let outer = script(&directory, "outer", &text);
    let mut terminal = shell();
    ask(&mut terminal, &outer);
    terminal.expect("in-attempt");
    terminal.type_in("\x1a");
    terminal.expect("Stopped");
    terminal.expect("ready> ");
    ask(&mut terminal, "fg");
    terminal.expect("outer");
    terminal.type_in("input\n");
    terminal.expect("got-input");
    terminal.expect("done-outside");
    terminal.expect("ready> ");
    ask(&mut terminal, "exit 0");
    assert_eq!(terminal.end().0.code(), Some(0));
}

/// In the background it stops when the command wants the keyboard, as the command would; `fg` brings both back.
#[test]
fn in_the_background_it_waits_for_fg() {
    let directory = scratch("background");
    let asks = script(&directory, "asks", "read word; echo got-$word\n");
    let mut terminal = shell();
    ask(&mut terminal, &format!("{RELENT} run -- {asks} &"));
    terminal.expect("ready> ");
    // The shell tells of stopped jobs before its next prompt.
    until("the stop", || {
        terminal.type_in("jobs\n");
        std::thread::sleep(std::time::Duration::from_millis(50));
        terminal.screen().contains("Stopped").then_some(())
    });
    ask(&mut terminal, "fg");
    terminal.expect("fg");
    terminal.type_in("input\n");
    terminal.expect("got-input");
    terminal.type_in("exit 0\n");
    assert_eq!(terminal.end().0.code(), Some(0));
}

/// Where nobody could continue it, Ctrl-Z does nothing, as the kernel has it for any such command.
#[test]
fn without_a_shell_ctrl_z_does_nothing() {
    let mut terminal = OnTerminal::start(&run(&[], &sh("echo started; read word; echo finished")));
    terminal.expect("started");
    terminal.type_in("\x1ainput\n");
    let (status, screen) = terminal.end();
    assert_eq!(status.code(), Some(0), "{screen}");
    assert!(screen.contains("finished"));
}

/// A neighbour in the pipeline keeps the terminal.
#[test]
fn a_pager_keeps_the_keyboard() {
    let directory = scratch("pager");
    let pager = script(&directory, "pager", "read line; read key < /dev/tty; echo $line-$key\n");
    let mut terminal = shell();
    ask(&mut terminal, &format!("{RELENT} run -- sh -c 'echo from-the-command; sleep 0.3' | {pager}"));
    terminal.type_in("key\n");
    terminal.expect("from-the-command-key");
    terminal.expect("ready> ");
    ask(&mut terminal, "exit 0");
    assert_eq!(terminal.end().0.code(), Some(0));
}

/// A command that was killed in the middle of a screen leaves the terminal as it was.
#[test]
fn the_modes_come_back_after_a_kill() {
    let mut terminal = shell();
    ask(
        &mut terminal,
        &format!(
            "{RELENT} run --attempt-timeout 300ms --max-attempts 1 -- sh -c 'stty raw -echo; exec sleep 1000'"
        ),
    );
    terminal.expect("timed out after 300ms");
    terminal.expect("ready> ");
    ask(&mut terminal, "stty -a");
    terminal.expect("icanon");
    let screen = terminal.screen();
    assert!(!screen.rsplit_once("stty -a").unwrap().1.contains("-icanon"), "{screen}");
    ask(&mut terminal, "exit 0");
    terminal.end();
}

/// Where only standard error is a terminal (a log in a file, say), the countdown still knows its manners.
#[test]
fn quiet_is_quiet_on_a_terminal_too() {
    let options = ["--quiet", "--max-attempts", "3"];
    let terminal =
        OnTerminal::start(&in_shell("\"$@\" < /dev/null > /dev/null", &run(&options, &sh("exit 7"))));
    let (status, screen) = terminal.end();
    assert_eq!((status.code(), screen.as_str()), (Some(7), ""));
}
