//! How a command gets the terminal before it begins.
//!
//! Only a process that exists can be put into the foreground, and between its start and that moment it would already
//! run; some programs look only once whether they are in the background (wget then writes to a log). So on a terminal
//! the wrapper starts itself once more, in the command's process group: that process takes the foreground and then
//! becomes the command.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::execution::{How, not_started, plain};
use super::processes;
use super::terminal::Terminal;

/// The command by way of a process that takes the terminal.
pub(super) fn command(command: &[OsString]) -> io::Result<Command> {
    let Ok(program) = ourselves() else { return plain(command) };
    let mut takeover = Command::new(program);
    takeover.arg0("relent").args(["run", "--take-terminal", "--"]).args(command);
    Ok(takeover)
}

/// This program, even if its file has been replaced or removed since it began.
fn ourselves() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { env::current_exe() }
}

/// Why such a process, which has ended with 126 or 127 and is not reaped yet, did not become the command; none if it
/// did. Linux only.
pub(super) fn failure(process: Pid) -> Option<Errno> {
    let number = processes::name(process)?.strip_prefix(FAILED)?.parse().ok()?;
    Some(Errno::from_raw(number))
}

/// What it calls itself then, with the number of the error: an exit code alone could be the command's own. A name has
/// 15 bytes at most.
const FAILED: &str = "relent-err-";

#[cfg(target_os = "linux")]
fn tell_failure(error: &io::Error) {
    let name =
        error.raw_os_error().and_then(|number| std::ffi::CString::new(format!("{FAILED}{number}")).ok());
    if let Some(name) = name {
        let _ = nix::sys::prctl::set_name(&name);
    }
}

#[cfg(not(target_os = "linux"))]
fn tell_failure(_: &io::Error) {}

/// What that process does. Comes back, with an exit code, only where the command cannot be run.
pub(super) fn become_command(command: &[OsString]) -> u8 {
    if let Some(terminal) = Terminal::open() {
        terminal.take_from_parent();
    }
    let error = match plain(command) {
        Ok(mut plain) => plain.exec(),
        Err(error) => error,
    };
    tell_failure(&error);
    How::code(&not_started(error))
}
