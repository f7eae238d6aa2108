//! What the whole-process tests of `relent run` share.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may panic")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than anything here takes on a busy machine; only a test that fails waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// `relent run` with tiny waits. Nothing of the surroundings of the tests reaches it.
pub(crate) fn run(options: &[&str], command: &[&str]) -> Command {
    let tiny = ["--initial", "1ms", "--cap", "10ms"];
    plain_run(&[&tiny, options].concat(), command)
}

/// `relent run` with the waits of the options, or the default ones.
pub(crate) fn plain_run(options: &[&str], command: &[&str]) -> Command {
    let mut run = relent();
    run.arg("run").args(options).arg("--").args(command);
    run
}

pub(crate) fn relent() -> Command {
    let mut relent = Command::new(env!("CARGO_BIN_EXE_relent"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RELENT_") {
            relent.env_remove(name);
        }
    }
    // A policy file of the machine's must not count.
    relent.current_dir(env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null());
    relent
}

/// `sh -c` with a script.
pub(crate) fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// The same command as part of a line of shell, where it stands for `"$@"`.
pub(crate) fn in_shell(line: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", line, "sh"]).arg(command.get_program()).args(command.get_args());
    shell
}

/// What a finished command left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Done {
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("ended by a signal: {self:?}"))
    }

    pub(crate) fn signal(&self) -> i32 {
        self.status.signal().unwrap_or_else(|| panic!("not ended by a signal: {self:?}"))
    }
}

/// Runs it to its end.
pub(crate) fn finish(command: &mut Command) -> Done {
    feed(command, b"")
}

/// The same with a pipe on standard input that has these bytes, or null where there are none.
pub(crate) fn feed(command: &mut Command, input: &[u8]) -> Done {
    let began = Instant::now();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().unwrap();
    let writer = child.stdin.take().map(|mut stdin| {
        let input = input.to_vec();
        thread::spawn(move || {
            // Not all of it need be read.
            let _ = stdin.write_all(&input);
        })
    });
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let took = began.elapsed();
    if let Some(writer) = writer {
        writer.join().unwrap();
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Done { status, stdout: text(stdout), stderr: text(stderr), took }
}

/// Waits until `condition` gives something.
pub(crate) fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for the end of a child that must not hang.
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    until("the end of the wrapper", || child.try_wait().unwrap())
}

pub(crate) fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

/// Whether a process lives; one that has ended and is not yet reaped does not.
pub(crate) fn lives(id: &str) -> bool {
    match fs::read_to_string(format!("/proc/{}/stat", id.trim())) {
        Ok(stat) => !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with(['Z', 'X']),
        Err(_) => false,
    }
}

/// A directory of one test's own, empty.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{name}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// The lines of a file that others write, as far as they are whole.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or(0, |last| last + 1);
    text[..whole].lines().map(ToOwned::to_owned).collect()
}

/// Waits for line number `index` of a file.
pub(crate) fn line(path: &Path, index: usize) -> String {
    until(&format!("line {index} of {}", path.display()), || lines(path).get(index).cloned())
}

/// A program on a terminal of its own, as the leader of a session.
pub(crate) struct OnTerminal {
    pub(crate) child: Child,
    keyboard: File,
    screen: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
    seen: usize,
}

impl OnTerminal {
    /// Starts `command` by way of `setsid --ctty`, which makes the terminal its controlling one.
    pub(crate) fn start(command: &Command) -> Self {
        // Opened so that the programs of other tests, started meanwhile, do not get hold of it.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let mut options = File::options();
        let options = options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits());
        let path = ptsname_r(&master).unwrap();
        let slave = || Stdio::from(options.open(&path).unwrap());
        let mut leader = Command::new("setsid");
        leader.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => leader.env(name, value),
                None => leader.env_remove(name),
            };
        }
        leader.env("TERM", "dumb").current_dir(env!("CARGO_TARGET_TMPDIR"));
        leader.stdin(slave()).stdout(slave()).stderr(slave());
        let child = leader.spawn().unwrap();
        drop(leader);
        let keyboard = File::from(OwnedFd::from(master));
        let screen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let reader = thread::spawn({
            let (mut master, screen) = (keyboard.try_clone().unwrap(), screen.clone());
            move || {
                let mut buffer = [0; 4096];
                // Once the last process has closed the terminal, reading fails.
                while let Ok(count @ 1..) = master.read(&mut buffer) {
                    screen.lock().unwrap().extend_from_slice(&buffer[..count]);
                }
            }
        });
        Self { child, keyboard, screen, reader: Some(reader), seen: 0 }
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// All that has been shown.
    pub(crate) fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    /// Waits until `text` is shown, after what was waited for before.
    pub(crate) fn expect(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            let rest = screen.get(self.seen..).unwrap_or_default();
            if let Some(at) = rest.find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(
                Instant::now() < end,
                "waited in vain for {text:?} after byte {} of:\n{screen}",
                self.seen
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let screen = &self.screen;
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            let shown = String::from_utf8_lossy(&screen.lock().unwrap()).into_owned();
            assert!(Instant::now() < end, "it does not end; shown so far:\n{shown}");
            thread::sleep(Duration::from_millis(2));
        };
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (status, self.screen())
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
