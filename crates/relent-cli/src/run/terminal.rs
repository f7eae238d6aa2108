//! The terminal's foreground: lent to the command, taken back for the waits.

use std::fs::File;
use std::io::{self, IsTerminal};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgid, getpgrp, getppid, tcgetpgrp, tcsetpgrp};

use super::place;

/// The controlling terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    tty: File,
    own: Pid,
    /// How it was set when the program began.
    modes: Option<Termios>,
    /// Whether the command gets the foreground from its start. Otherwise it gets it when it asks, by being stopped for
    /// touching the terminal.
    pub(super) lends: bool,
}

impl Terminal {
    /// The controlling terminal, if there is one.
    pub(super) fn open() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        tcgetpgrp(&tty).ok()?;
        let modes = tcgetattr(&tty).ok();
        // Behind a pipe sits a neighbour that may want the terminal itself: `relent run -- CMD | less`.
        let lends = io::stdin().is_terminal() && !place::is_pipe(io::stdout());
        Some(Self { tty, own: getpgrp(), modes, lends })
    }

    /// Whether our own group has the foreground.
    pub(super) fn is_ours(&self) -> bool {
        self.foreground() == Some(self.own)
    }

    /// The group that has the foreground.
    pub(super) fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.tty).ok()
    }

    /// Hands the foreground from our group to `group`; not if a shell has put us in the background.
    pub(super) fn lend(&self, group: Pid) -> bool {
        self.is_ours() && self.set_foreground(group).is_ok()
    }

    /// Takes the foreground from our parent's group, if it has it.
    pub(super) fn take_from_parent(&self) {
        if getpgid(Some(getppid())).ok() == self.foreground() {
            let _ = self.set_foreground(self.own);
        }
    }

    /// Takes the foreground back from `group`; not if somebody else has it by now.
    pub(super) fn take_back(&self, group: Pid) {
        if self.foreground() == Some(group) {
            let _ = self.set_foreground(self.own);
        }
    }

    /// Puts the modes back as they were, after a command that had no chance to do so itself.
    pub(super) fn restore_modes(&self) {
        if let Some(modes) = &self.modes {
            let _ = quietly(|| tcsetattr(&self.tty, SetArg::TCSADRAIN, modes));
        }
    }

    fn set_foreground(&self, group: Pid) -> Result<(), Errno> {
        quietly(|| tcsetpgrp(&self.tty, group))
    }
}

/// Whoever changes a terminal from the background is stopped by SIGTTOU, unless it is blocked.
fn quietly<T>(change: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let stop = SigSet::from(Signal::SIGTTOU);
    stop.thread_block()?;
    let changed = change();
    stop.thread_unblock()?;
    changed
}
