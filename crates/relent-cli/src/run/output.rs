//! Standard output and standard error: passed on as they come, or held until it is known which attempt was the last.

use std::io::{self, Stderr, Stdout};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::PollFlags;
use nix::unistd::{read, write};

use super::place;
use super::rules::Watcher;
use super::spool::Spool;
use super::watch::{Watch, What};

/// Which attempts' output is passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// All, as it comes
    #[default]
    Stream,
    /// That of the last attempt, when it has ended
    Last,
    /// That of a successful attempt, when it has ended
    Success,
}

/// One of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

impl Stream {
    const BOTH: [Self; 2] = [Self::Out, Self::Err];

    fn index(self) -> usize {
        self as usize
    }

    fn other(self) -> Self {
        match self {
            Self::Out => Self::Err,
            Self::Err => Self::Out,
        }
    }
}

/// What is done with a command's output.
#[derive(Debug)]
pub(super) struct Output {
    mode: Mode,
    /// Which streams come through us, rather than going straight to where ours go.
    piped: [bool; 2],
    sources: [Source; 2],
    /// The stream whose unfinished line is the last thing that was passed on, and since when. The other one waits.
    open: Option<(Stream, Instant)>,
    live: Live,
    held: Spool,
    /// How many bytes have been read from commands.
    taken: u64,
}

impl Output {
    /// `watched`: the streams that rules look at.
    pub(super) fn new(mode: Mode, watched: [bool; 2]) -> Self {
        let live = Live::new();
        let piped = match mode {
            // Half of what goes to one place cannot be kept in whole lines.
            Mode::Stream if live.together && watched != [false; 2] => [true; 2],
            Mode::Stream => watched,
            Mode::Last | Mode::Success => [true; 2],
        };
        Self { mode, piped, sources: Default::default(), open: None, live, held: Spool::default(), taken: 0 }
    }

    /// What the next attempt's command is given as standard output and standard error.
    pub(super) fn next(&mut self) -> [Stdio; 2] {
        self.held.clear();
        self.piped.map(|piped| if piped { Stdio::piped() } else { Stdio::inherit() })
    }

    /// Begins to read from a command.
    pub(super) fn attach(&mut self, child: &mut Child) {
        let pipes = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        self.sources = pipes.map(Source::new);
        self.open = None;
    }

    /// Reads no more from it.
    pub(super) fn detach(&mut self, watcher: &mut Watcher) {
        for stream in Stream::BOTH {
            self.end(stream, watcher);
        }
        for stream in Stream::BOTH {
            self.pass_ready(stream);
        }
    }

    /// Whether the command has closed both streams.
    pub(super) fn ended(&self) -> bool {
        self.sources.iter().all(|source| source.pipe.is_none())
    }

    /// Whether something is not read because our own output is not taken.
    pub(super) fn is_held_back(&self) -> bool {
        let mut sources = self.sources.iter().enumerate();
        sources.any(|(index, source)| source.pipe.is_some() && !self.can_read(index, source))
    }

    fn can_read(&self, index: usize, source: &Source) -> bool {
        self.live.has_room(index) && source.ready.len() < FULL
    }

    /// How many bytes have been read from commands.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether all that was to be passed on has been.
    pub(super) fn is_flushed(&self) -> bool {
        self.live.queues.iter().all(Vec::is_empty)
    }

    /// Why our own output cannot be written, if it cannot.
    pub(super) fn failed(&self) -> Option<Errno> {
        self.live.failed
    }

    /// When something has waited long enough.
    pub(super) fn due(&self) -> Option<Instant> {
        let unfinished =
            self.sources.iter().filter_map(|source| source.held_since).map(|since| since + PATIENCE);
        let ready = self.sources.iter().any(|source| !source.ready.is_empty());
        let blocked = self.open.filter(|_| ready).map(|(_, since)| since + COURTESY);
        unfinished.chain(blocked).min()
    }

    pub(super) fn watch<'fd>(&'fd self, watch: &mut Watch<'fd>) {
        for (index, source) in self.sources.iter().enumerate() {
            if let Some(pipe) = &source.pipe
                && self.can_read(index, source)
            {
                watch.add(What::Source(index), pipe, PollFlags::POLLIN);
            }
        }
        self.live.watch(watch);
    }

    pub(super) fn happened(&mut self, what: What, now: Instant, watcher: &mut Watcher) {
        match what {
            What::Source(0) => self.read(Stream::Out, now, watcher),
            What::Source(1) => self.read(Stream::Err, now, watcher),
            What::Sink(index) => self.live.write(index),
            _ => {}
        }
        if self.live.failed.is_some() {
            // The command learns it as it would have without us: by SIGPIPE.
            self.source(Stream::Out).pipe = None;
        }
    }

    /// Passes on what has waited long enough: unfinished lines that nobody finishes (a prompt must be seen), and what
    /// waits behind such a line of the other stream.
    pub(super) fn pass_due(&mut self, now: Instant) {
        if self.open.is_some_and(|(_, since)| since + COURTESY <= now) {
            self.open = None;
        }
        for stream in Stream::BOTH {
            self.settle(stream, now);
        }
    }

    /// Passes on what is whole, and what is not if it has waited, unless the other stream is in the middle of a line.
    fn settle(&mut self, stream: Stream, now: Instant) {
        if self.open.is_some_and(|(open, _)| open != stream) {
            return;
        }
        self.pass_ready(stream);
        let source = self.source(stream);
        if source.held_since.is_some_and(|since| since + PATIENCE <= now) {
            let rest = source.take_rest();
            self.open = Some((stream, now));
            self.pass(stream, &rest);
        }
    }

    fn pass_ready(&mut self, stream: Stream) {
        let ready = std::mem::take(&mut self.source(stream).ready);
        if ready.is_empty() {
            return;
        }
        if self.open.is_some_and(|(open, _)| open == stream) {
            self.open = None;
        }
        self.pass(stream, &ready);
    }

    /// Queues what was held of the last attempt, as far as it is to be shown: the next piece of it; false at the end.
    pub(super) fn release(&mut self, released: &mut u64, succeeded: bool) -> bool {
        if self.mode == Mode::Success && !succeeded {
            return false;
        }
        match read_frame(&self.held, released) {
            Some((stream, bytes)) => {
                self.live.put(stream, &bytes);
                true
            }
            None => false,
        }
    }

    fn source(&mut self, stream: Stream) -> &mut Source {
        let [out, err] = &mut self.sources;
        match stream {
            Stream::Out => out,
            Stream::Err => err,
        }
    }

    /// Writes what waits, if `what` is one of our outputs.
    pub(super) fn write(&mut self, what: What) {
        if let What::Sink(index) = what {
            self.live.write(index);
        }
    }

    fn read(&mut self, stream: Stream, now: Instant, watcher: &mut Watcher) {
        let mut buffer = [0; 1 << 16];
        let source = self.source(stream);
        let Some(pipe) = &source.pipe else { return };
        match read(pipe, &mut buffer) {
            Ok(0) => self.end(stream, watcher),
            Ok(count) => {
                self.taken += count as u64;
                let source = self.source(stream);
                source.add(buffer.get(..count).unwrap_or_default(), stream, watcher);
                self.hold_rest(stream, now);
                // This line may have been what the other stream was waiting for.
                for stream in [stream, stream.other()] {
                    self.settle(stream, now);
                }
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => self.end(stream, watcher),
        }
    }

    /// Only where two streams meet has an unfinished line to wait: for a moment, or to its end where all is held anyway.
    fn hold_rest(&mut self, stream: Stream, now: Instant) {
        let (meet, streams) = (self.live.together, self.mode == Mode::Stream);
        let source = self.source(stream);
        if !meet {
            let rest = source.take_rest();
            source.ready.extend_from_slice(&rest);
        } else if streams {
            source.held_since = source.has_rest().then_some(now);
        }
    }

    fn end(&mut self, stream: Stream, watcher: &mut Watcher) {
        let source = self.source(stream);
        source.pipe = None;
        if !source.line.is_empty() {
            watcher.see(stream, &source.line);
        }
        let rest = source.take_rest();
        source.line.clear();
        source.passed = 0;
        source.ready.extend_from_slice(&rest);
        if self.open.is_none_or(|(open, _)| open == stream) {
            self.pass_ready(stream);
            self.open = None;
        }
    }

    fn pass(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.mode == Mode::Stream {
            self.live.put(stream, bytes);
        } else if write_frame(&mut self.held, stream, bytes).is_err() {
            self.give_up_holding(stream, bytes);
        }
    }

    /// No room to hold it (a full disk): what there is goes out now, and the rest as it comes. Late is bad, lost is
    /// worse.
    fn give_up_holding(&mut self, stream: Stream, bytes: &[u8]) {
        let mut released = 0;
        while let Some((stream, held)) = read_frame(&self.held, &mut released) {
            self.live.put(stream, &held);
            self.live.flush();
        }
        self.held.clear();
        self.mode = Mode::Stream;
        self.live.put(stream, bytes);
    }
}

/// How long an unfinished line waits for its end before the other stream may break it.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long one stream waits for the end of a line that the other has begun to show.
const COURTESY: Duration = Duration::from_secs(1);

/// Longer lines are broken.
const LONGEST_LINE: usize = 1 << 16;

/// One stream of the command.
#[derive(Debug, Default)]
struct Source {
    pipe: Option<OwnedFd>,
    /// The unfinished line.
    line: Vec<u8>,
    /// How much of it has been passed on.
    passed: usize,
    /// Since when the rest waits.
    held_since: Option<Instant>,
    /// Whole lines that can be passed on.
    ready: Vec<u8>,
}

impl Source {
    fn new(pipe: Option<OwnedFd>) -> Self {
        let pipe = pipe.filter(|pipe| fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_ok());
        Self { pipe, ..Self::default() }
    }

    /// Takes bytes in; what can be passed on as whole lines is ready then.
    fn add(&mut self, bytes: &[u8], stream: Stream, watcher: &mut Watcher) {
        self.line.extend_from_slice(bytes);
        let whole = match self.line.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if self.line.len() >= LONGEST_LINE => self.line.len(),
            None => return,
        };
        let rest = self.line.split_off(whole);
        let lines = std::mem::replace(&mut self.line, rest);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            watcher.see(stream, line);
        }
        self.ready.extend_from_slice(lines.get(self.passed..).unwrap_or_default());
        self.passed = 0;
        self.held_since = None;
    }

    fn has_rest(&self) -> bool {
        self.passed < self.line.len()
    }

    /// The part of the unfinished line that has not been passed on.
    fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.line.get(self.passed..).unwrap_or_default().to_vec();
        self.passed = self.line.len();
        self.held_since = None;
        rest
    }
}

/// Our own output.
#[derive(Debug)]
struct Live {
    stdout: Stdout,
    stderr: Stderr,
    /// Whether both go to one place, and so through one queue.
    together: bool,
    queues: [Vec<u8>; 2],
    failed: Option<Errno>,
}

/// Above this, no more is read from the command until some has been written.
const FULL: usize = 1 << 16;

/// What is written at once: a pipe that says it is writable takes this much without blocking, and in one piece.
const PIECE: usize = 4096;

impl Live {
    fn new() -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let together = place::same(&stdout, &stderr);
        Self { stdout, stderr, together, queues: Default::default(), failed: None }
    }

    fn queue(&self, index: usize) -> usize {
        if self.together { 0 } else { index }
    }

    fn has_room(&self, index: usize) -> bool {
        self.queues.get(self.queue(index)).is_none_or(|queue| queue.len() < FULL)
    }

    fn put(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Out && self.failed.is_some() {
            return;
        }
        let queue = self.queue(stream.index());
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.extend_from_slice(bytes);
        }
    }

    fn watch<'fd>(&'fd self, watch: &mut Watch<'fd>) {
        if !self.queues[0].is_empty() {
            watch.add(What::Sink(0), &self.stdout, PollFlags::POLLOUT);
        }
        if !self.queues[1].is_empty() {
            watch.add(What::Sink(1), &self.stderr, PollFlags::POLLOUT);
        }
    }

    /// Writes one piece, which ends with a line where it can.
    fn write(&mut self, index: usize) {
        let fd: BorrowedFd<'_> = if index == 0 { self.stdout.as_fd() } else { self.stderr.as_fd() };
        let Some(queue) = self.queues.get_mut(index) else { return };
        let most = queue.get(..queue.len().min(PIECE)).unwrap_or_default();
        let piece = match most.iter().rposition(|byte| *byte == b'\n') {
            Some(last) if queue.len() > PIECE => most.get(..=last).unwrap_or(most),
            _ => most,
        };
        match write(fd, piece) {
            Ok(count) => drop(queue.drain(..count)),
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(error) => {
                queue.clear();
                // Whoever closed standard error does not want to hear from us; the command's output is another matter.
                if index == 0 {
                    self.failed = Some(error);
                }
            }
        }
    }

    /// Writes all of it, however long that takes.
    fn flush(&mut self) {
        while self.queues.iter().any(|queue| !queue.is_empty()) {
            let mut watch = Watch::default();
            self.watch(&mut watch);
            for (what, _) in watch.wait(None) {
                if let What::Sink(index) = what {
                    self.write(index);
                }
            }
        }
    }
}

/// A piece of held output: which stream, how long, the bytes.
fn write_frame(spool: &mut Spool, stream: Stream, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut frame = Vec::with_capacity(5 + bytes.len());
    frame.push(u8::from(stream == Stream::Err));
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(bytes);
    spool.append(&frame)
}

fn read_frame(spool: &Spool, position: &mut u64) -> Option<(Stream, Vec<u8>)> {
    let mut head = [0; 5];
    let got = spool.read_at(*position, &mut head).ok()?;
    let [stream, length @ ..] = head;
    if got < head.len() {
        return None;
    }
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    let got = spool.read_at(*position + 5, &mut bytes).ok()?;
    bytes.truncate(got);
    *position += 5 + bytes.len() as u64;
    Some((if stream == 0 { Stream::Out } else { Stream::Err }, bytes))
}
