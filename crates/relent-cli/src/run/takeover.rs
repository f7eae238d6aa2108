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
use std::process::Command;

use super::execution::{How, not_started, plain};
use super::terminal::Terminal;

/// The command by way of a process that takes the terminal.
pub(super) fn command(command: &[OsString]) -> io::Result<Command> {
    let mut takeover = Command::new(env::current_exe()?);
    takeover.args(["run", "--take-terminal", "--"]).args(command);
    Ok(takeover)
}

/// What that process does. Comes back, with an exit code, only where the command cannot be run.
pub(super) fn become_command(command: &[OsString]) -> u8 {
    if let Some(terminal) = Terminal::open() {
        terminal.take_from_parent();
    }
    let error = match plain(command) {
        Ok(mut plain) => plain.exec(),
        Err(error) => error,
    };
    How::code(&not_started(error))
}
