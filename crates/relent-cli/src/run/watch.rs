//! Waiting for several things at once.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Signals.
    Signals,
    /// Our standard input has something.
    Input,
    /// The command takes input, or has stopped to.
    Feed,
    /// The command's output, by the index of the stream.
    Source(usize),
    /// Our output takes something, by the index of the stream.
    Sink(usize),
    /// Our standard output has lost its reader.
    Downstream,
}

/// The things that are waited for.
#[derive(Debug, Default)]
pub(super) struct Watch<'fd> {
    whats: Vec<What>,
    fds: Vec<PollFd<'fd>>,
}

impl<'fd> Watch<'fd> {
    /// Also waits for `what`: for `events`, and for errors and the other side's leaving, which always count.
    pub(super) fn add(&mut self, what: What, fd: &'fd impl AsFd, events: PollFlags) {
        let fd: BorrowedFd<'fd> = fd.as_fd();
        self.whats.push(what);
        self.fds.push(PollFd::new(fd, events));
    }

    /// Waits until something has happened or `timeout` is over; says what. May return early, with nothing.
    pub(super) fn wait(mut self, timeout: Option<Duration>) -> Vec<(What, PollFlags)> {
        let timeout = match timeout {
            None => PollTimeout::NONE,
            Some(timeout) => {
                // Rounded up: waking a moment too early would mean to turn in circles until the time has come.
                let millis = timeout.as_nanos().div_ceil(1_000_000);
                PollTimeout::try_from(i32::try_from(millis).unwrap_or(i32::MAX)).unwrap_or(PollTimeout::MAX)
            }
        };
        if poll(&mut self.fds, timeout).is_err() {
            return Vec::new();
        }
        let happened = self.whats.into_iter().zip(self.fds);
        happened
            .filter_map(|(what, fd)| Some((what, fd.revents()?)))
            .filter(|(_, events)| !events.is_empty())
            .collect()
    }
}
