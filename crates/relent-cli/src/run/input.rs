//! Standard input: the same for each attempt.

use std::fs::File;
use std::io::{self, IsTerminal, Seek, SeekFrom, Stdin};
use std::os::fd::AsFd;
use std::process::{ChildStdin, Stdio};

use clap::ValueEnum;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::PollFlags;
use nix::unistd::{read, write};

use super::place;
use super::spool::Spool;
use super::watch::{Watch, What};

/// What the command gets as its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// The same bytes in each attempt: a file is rewound, a pipe is kept and replayed
    #[default]
    Replay,
    /// Ours, as it is: what one attempt has read, the next does not get
    Inherit,
    /// Nothing
    Null,
}

/// Standard input, for one attempt after another.
#[derive(Debug)]
pub(super) enum Input {
    Null,
    Inherit,
    /// A file, and where its reading began.
    File(File, u64),
    Pipe(Box<Replay>),
}

impl Input {
    /// `repeats`: whether there can be a second attempt. `limit`: how many bytes are kept of a pipe.
    pub(super) fn new(mode: Mode, repeats: bool, limit: u64) -> Self {
        let stdin = io::stdin();
        match mode {
            Mode::Null => Self::Null,
            Mode::Replay if repeats && place::is_pipe(&stdin) && !stdin.is_terminal() => {
                Self::Pipe(Box::new(Replay::new(stdin, limit)))
            }
            Mode::Replay if repeats && place::is_rewindable(&stdin) => Self::of_file(&stdin),
            Mode::Replay | Mode::Inherit => Self::Inherit,
        }
    }

    fn of_file(stdin: &Stdin) -> Self {
        // The copy shares the position with ours, and so with the command and with whoever reads on after us.
        let file = stdin.as_fd().try_clone_to_owned().map(File::from);
        match file.and_then(|mut file| file.stream_position().map(|start| (file, start))) {
            Ok((file, start)) => Self::File(file, start),
            Err(_) => Self::Inherit,
        }
    }

    /// What the next attempt's command is given.
    pub(super) fn next(&mut self) -> io::Result<Stdio> {
        Ok(match self {
            Self::Null => Stdio::null(),
            Self::Inherit => Stdio::inherit(),
            Self::File(file, start) => {
                file.seek(SeekFrom::Start(*start))?;
                Stdio::inherit()
            }
            Self::Pipe(_) => Stdio::piped(),
        })
    }

    /// Begins to feed a command.
    pub(super) fn feed(&mut self, child: Option<ChildStdin>) {
        if let (Self::Pipe(replay), Some(child)) = (self, child) {
            replay.begin(child);
        }
    }

    /// Ends it.
    pub(super) fn stop(&mut self) {
        if let Self::Pipe(replay) = self {
            replay.child = None;
        }
    }

    pub(super) fn watch<'fd>(&'fd self, watch: &mut Watch<'fd>) {
        if let Self::Pipe(replay) = self {
            replay.watch(watch);
        }
    }

    pub(super) fn happened(&mut self, what: What, events: PollFlags) {
        if let Self::Pipe(replay) = self {
            replay.happened(what, events);
        }
    }

    /// Why another attempt would not get the same input, if it would not.
    pub(super) fn lost(&self) -> Option<&Lost> {
        match self {
            Self::Pipe(replay) => replay.lost.as_ref(),
            _ => None,
        }
    }
}

/// Why the input cannot be replayed.
#[derive(Debug)]
pub(super) enum Lost {
    /// It was longer than this.
    OverLimit(u64),
    /// It could not be kept.
    Unwritable(io::Error),
}

/// A pipe, kept as far as the command has taken it.
#[derive(Debug)]
pub(super) struct Replay {
    stdin: Stdin,
    spool: Spool,
    limit: u64,
    lost: Option<Lost>,
    /// Our standard input has ended.
    ended: bool,
    /// The command that is being fed, until it has everything or wants no more.
    child: Option<ChildStdin>,
    /// How much of the spool it has got.
    position: u64,
    /// What it gets next.
    chunk: Vec<u8>,
    /// Whether its pipe is known to take a chunk.
    room: bool,
}

/// A pipe that says it is writable takes this much at once.
const CHUNK: usize = 4096;

impl Replay {
    fn new(stdin: Stdin, limit: u64) -> Self {
        Self {
            stdin,
            spool: Spool::default(),
            limit,
            lost: None,
            ended: false,
            child: None,
            position: 0,
            chunk: Vec::new(),
            room: false,
        }
    }

    fn begin(&mut self, child: ChildStdin) {
        // Our end only; the command's end blocks as ever.
        let nonblocking = fcntl(&child, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        self.child = nonblocking.is_ok().then_some(child);
        self.position = 0;
        self.chunk.clear();
        self.room = false;
        self.advance();
    }

    /// Nothing is read from our standard input before the command's pipe has room: what we read and the command does
    /// not take is lost to whoever reads after us.
    fn watch<'fd>(&'fd self, watch: &mut Watch<'fd>) {
        let Some(child) = &self.child else { return };
        if self.room {
            watch.add(What::Feed, child, PollFlags::empty());
            watch.add(What::Input, &self.stdin, PollFlags::POLLIN);
        } else {
            watch.add(What::Feed, child, PollFlags::POLLOUT);
        }
    }

    fn happened(&mut self, what: What, events: PollFlags) {
        match what {
            What::Feed
                if events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL) =>
            {
                self.child = None
            }
            What::Feed if events.contains(PollFlags::POLLOUT) => self.room = true,
            What::Input => self.read(),
            _ => return,
        }
        self.advance();
    }

    fn read(&mut self) {
        let mut buffer = [0; CHUNK];
        match read(&self.stdin, &mut buffer) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                let fresh = buffer.get(..count).unwrap_or_default();
                self.chunk.extend_from_slice(fresh);
                self.keep(count);
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => self.ended = true,
        }
    }

    /// Keeps the last `count` bytes of the chunk for the next attempts.
    fn keep(&mut self, count: usize) {
        if self.lost.is_some() {
            return;
        }
        let fresh = self.chunk.get(self.chunk.len() - count..).unwrap_or_default();
        let lost = if self.spool.len() + count as u64 > self.limit {
            Lost::OverLimit(self.limit)
        } else if let Err(error) = self.spool.append(fresh) {
            Lost::Unwritable(error)
        } else {
            self.position += count as u64;
            return;
        };
        self.lost = Some(lost);
        self.spool.clear();
        self.position = 0;
    }

    /// Moves on as far as possible without waiting.
    fn advance(&mut self) {
        while self.child.is_some() {
            if self.chunk.is_empty() && !self.refill() {
                if self.ended {
                    self.child = None;
                }
                return;
            }
            let Some(child) = self.child.as_ref().filter(|_| self.room) else { return };
            match write(child, &self.chunk) {
                Ok(count) => {
                    self.chunk.drain(..count);
                    // It is asked again before the next one.
                    self.room = false;
                }
                Err(Errno::EAGAIN | Errno::EINTR) => self.room = false,
                Err(_) => self.child = None,
            }
        }
    }

    /// Takes the next chunk from the spool; false where there is none.
    fn refill(&mut self) -> bool {
        let mut buffer = [0; CHUNK];
        match self.spool.read_at(self.position, &mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.position += count as u64;
                self.chunk.extend_from_slice(buffer.get(..count).unwrap_or_default());
                true
            }
            Err(error) => {
                self.lost = Some(Lost::Unwritable(error));
                // Half of an input is worse than none: the command must not take it for the whole.
                self.child = None;
                false
            }
        }
    }
}
