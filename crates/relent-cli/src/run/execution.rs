//! One attempt of the command: started in its own process group, fed, listened to, and ended with all of its group.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getpgrp, getpid};

use crate::durations;

use super::input::Input;
use super::output::Output;
use super::place;
use super::processes;
use super::rules::{Rules, Watcher};
use super::signals::{self, Meaning, Signals};
use super::takeover;
use super::terminal::Terminal;
use super::watch::{Watch, What};

/// What all attempts share.
#[derive(Debug)]
pub(super) struct Wrapper {
    pub(super) signals: Signals,
    pub(super) terminal: Option<Terminal>,
    pub(super) input: Input,
    pub(super) output: Output,
    pub(super) rules: Rules,
    /// Time between TERM and KILL.
    pub(super) kill_after: Duration,
    /// Whether processes that leave their group are ours to end too.
    pub(super) subreaper: bool,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum How {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It was ended because its time was over.
    TimedOut(Limit),
    /// It could not be started.
    NotStarted {
        error: io::Error,
        /// Whether the system was merely short of something.
        busy: bool,
    },
    /// Somebody else took the exit code away.
    Lost,
    /// Its time was over, but we may not end it, or cannot.
    Unkillable,
}

/// How long an attempt may take, and by whose say.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// By the attempt timeout.
    Timeout(Duration),
    /// By what is left of the deadline.
    Deadline(Duration),
}

impl Limit {
    const fn time(self) -> Duration {
        match self {
            Self::Timeout(time) | Self::Deadline(time) => time,
        }
    }
}

/// How an attempt ended, and whether anything may follow.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) how: How,
    /// What it means.
    pub(super) outcome: relent_core::Outcome,
    /// The signal that ends the whole call.
    pub(super) cancelled_by: Option<Signal>,
    /// Where our output cannot be written, other than for want of a reader.
    pub(super) output_failed: Option<Errno>,
    /// Whether something that the command had started could not be ended.
    pub(super) survived: bool,
}

impl How {
    /// The exit code that says it: a success's own, 124 for a timeout, 126 and 127 for what cannot be run, 128 + n for
    /// a signal.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(*code).unwrap_or(1),
            Self::Killed(signal) => u8::try_from(128 + signal).unwrap_or(255),
            Self::TimedOut(_) | Self::Unkillable => 124,
            Self::NotStarted { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            Self::NotStarted { .. } => 126,
            Self::Lost => 125,
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Killed(number) => match Signal::try_from(*number) {
                Ok(signal) => write!(f, "killed by {signal}"),
                Err(_) => write!(f, "killed by signal {number}"),
            },
            Self::TimedOut(Limit::Timeout(time)) => write!(f, "timed out after {}", durations::short(*time)),
            Self::TimedOut(Limit::Deadline(time)) => {
                write!(f, "ended by the deadline after {}", durations::short(*time))
            }
            Self::NotStarted { error, .. } if error.kind() == io::ErrorKind::NotFound => {
                f.write_str("command not found")
            }
            Self::NotStarted { error, .. } => write!(f, "cannot be run: {error}"),
            Self::Lost => f.write_str("the exit code was lost"),
            Self::Unkillable => f.write_str("timed out and cannot be ended"),
        }
    }
}

impl Ended {
    /// A signal that came between a wait and the attempt after it.
    fn before_it_began(signal: Signal) -> Self {
        let outcome = relent_core::Outcome::of(relent_core::Class::Cancelled);
        Self::of_nothing_started(How::Killed(signal as i32), outcome, Some(signal))
    }

    /// Nothing was started.
    fn of_nothing_started(how: How, outcome: relent_core::Outcome, cancelled_by: Option<Signal>) -> Self {
        Self { how, outcome, cancelled_by, output_failed: None, survived: false }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.how.fmt(f)
    }
}

impl Wrapper {
    /// Whether orphans become our children. Those of the first process of a container do in any case.
    pub(super) fn adopts(&self) -> bool {
        self.subreaper || signals::is_init()
    }

    /// Makes one attempt, which may take `limit.and_then(|limit| now.checked_add(limit.time()))`.
    pub(super) fn attempt(
        &mut self,
        command: &[OsString],
        environment: &[(&str, Option<String>)],
        limit: Option<Limit>,
    ) -> Ended {
        if let Some(signal) = self.signals.take_ending() {
            return Ended::before_it_began(signal);
        }
        let mut watcher = self.rules.watcher();
        let child = match self.start(command, environment) {
            Ok(child) => child,
            Err(error) => {
                let how = not_started(error);
                let outcome = self.rules.outcome(&how, &watcher);
                return Ended::of_nothing_started(how, outcome, None);
            }
        };
        let group = Pid::from_raw(child.id().cast_signed());
        let lent = self.terminal.as_ref().is_some_and(|terminal| {
            terminal.lends && (terminal.lend(group) || terminal.foreground() == Some(group))
        });
        let now = Instant::now();
        let execution = Execution {
            wrapper: self,
            watcher: &mut watcher,
            child,
            group,
            limit,
            ends: limit.and_then(|limit| now.checked_add(limit.time())),
            status: None,
            reaped: false,
            outcome: None,
            stage: Stage::Running,
            timed_out: false,
            cancelled_by: None,
            lent,
            stopped: false,
            resumed: false,
            drained_by: None,
            owed: 0,
            patience: Duration::from_millis(1),
            told: Vec::new(),
            survived: false,
        };
        execution.run()
    }

    fn start(&mut self, command: &[OsString], environment: &[(&str, Option<String>)]) -> io::Result<Child> {
        let mut command = match &self.terminal {
            Some(terminal) if terminal.lends && terminal.is_ours() => takeover::command(command)?,
            _ => plain(command)?,
        };
        let [stdout, stderr] = self.output.next();
        command.stdin(self.input.next()?).stdout(stdout).stderr(stderr).process_group(0);
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.spawn()?;
        self.input.feed(child.stdin.take());
        self.output.attach(&mut child);
        Ok(child)
    }
}

pub(super) fn plain(command: &[OsString]) -> io::Result<Command> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut plain = Command::new(program);
    plain.args(arguments);
    Ok(plain)
}

pub(super) fn not_started(error: io::Error) -> How {
    let busy = matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE | Errno::ETXTBSY)
    );
    How::NotStarted { error, busy }
}

/// An attempt under way.
struct Execution<'a> {
    wrapper: &'a mut Wrapper,
    watcher: &'a mut Watcher,
    child: Child,
    /// Its process group: the id of its first process.
    group: Pid,
    limit: Option<Limit>,
    ends: Option<Instant>,
    /// How the first process ended. Until it is reaped, nobody else can get its id, and so its group's.
    status: Option<Status>,
    reaped: bool,
    outcome: Option<relent_core::Outcome>,
    stage: Stage,
    timed_out: bool,
    cancelled_by: Option<Signal>,
    /// Whether it has, or has had, the terminal's foreground.
    lent: bool,
    stopped: bool,
    /// Whether we have already continued after the last stop, so that the signal that woke us says nothing new.
    resumed: bool,
    /// Until when its output is waited for, once the first process has ended.
    drained_by: Option<Instant>,
    /// Up to how many bytes of output can be the command's own, and not of what it has left running.
    owed: u64,
    /// How long until the group is looked at again.
    patience: Duration,
    /// The strays that have got TERM.
    told: Vec<Pid>,
    /// Whether something of it could not be ended.
    survived: bool,
}

#[derive(Clone, Copy, Debug)]
enum Status {
    Exited(i32),
    Killed(i32),
    /// What was to become the command could not.
    NotStarted(Errno),
    Lost,
}

/// How far the ending of a group has come.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Nobody ends it.
    Running,
    /// It was asked to end, and has until then.
    Ending { kill_at: Instant },
    /// It was killed, and should be gone before then.
    Killed { until: Instant },
}

/// How long a pipe that somebody else still holds is read after the command itself has ended.
const DRAIN: Duration = Duration::from_millis(100);

/// What the two pipes hold at most.
const PIPES: u64 = 2 * 65_536;

/// How long a killed group may take to be gone. Only what hangs in the kernel, or belongs to somebody else, takes long.
const GRACE: Duration = Duration::from_secs(2);

/// How long to wait until a dying group is looked at again, at most: nobody tells us of grandchildren.
const MOST_PATIENCE: Duration = Duration::from_millis(20);

impl Execution<'_> {
    fn run(mut self) -> Ended {
        loop {
            self.take_signals();
            self.look_at_child();
            let now = Instant::now();
            self.keep_time(now);
            if self.is_over(now) {
                return self.conclude();
            }
            let happened = self.wait(now);
            let now = Instant::now();
            for (what, events) in happened {
                self.wrapper.input.happened(what, events);
                self.wrapper.output.happened(what, now, self.watcher);
            }
            self.wrapper.output.pass_due(now);
        }
    }

    fn take_signals(&mut self) {
        for meaning in self.wrapper.signals.take() {
            match meaning {
                Meaning::End(signal) => {
                    self.cancelled_by.get_or_insert(signal);
                    self.signal(signal);
                    // A stopped process sees no signal but this one.
                    self.signal(Signal::SIGCONT);
                }
                Meaning::Forward(signal) => self.signal(signal),
                // Where no shell could continue us, the kernel would not have stopped us either.
                Meaning::Stop if processes::own_group_is_orphaned() => {}
                Meaning::Stop => self.pause(),
                Meaning::Continue if self.resumed => self.resumed = false,
                Meaning::Continue => self.resume(),
                Meaning::Child if self.wrapper.adopts() => processes::reap_children(Some(self.group)),
                Meaning::Child | Meaning::Nothing => {}
            }
        }
    }

    /// To all of the group; but not to whoever may have its id after it has gone.
    fn signal(&self, signal: Signal) {
        if !self.reaped || processes::group_lives(self.group) {
            let _ = processes::signal_group(self.group, signal);
        }
    }

    fn look_at_child(&mut self) {
        if self.status.is_some() {
            return;
        }
        let stops = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        if let Ok(WaitStatus::Stopped(_, signal)) = waitid(Id::Pid(self.group), stops) {
            self.child_stopped(signal);
        }
        let ends = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        self.status = match waitid(Id::Pid(self.group), ends) {
            Ok(WaitStatus::Exited(_, code)) => Some(Status::Exited(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(Status::Killed(signal as i32)),
            Ok(_) | Err(Errno::EINTR) => None,
            // A real-time signal, of which nix has no name.
            Err(Errno::EINVAL) => Some(self.reap()),
            Err(_) => Some(Status::Lost),
        };
        if let Some(Status::Exited(126 | 127)) = self.status
            && let Some(error) = takeover::failure(self.group)
        {
            self.status = Some(Status::NotStarted(error));
        }
        if self.status.is_some() {
            self.wrapper.input.stop();
            self.drained_by = Instant::now().checked_add(DRAIN);
            self.owed = self.wrapper.output.taken() + PIPES;
        }
    }

    fn reap(&mut self) -> Status {
        self.reaped = true;
        match self.child.wait() {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Status::Exited(code),
                (None, Some(signal)) => Status::Killed(signal),
                (None, None) => Status::Lost,
            },
            Err(_) => Status::Lost,
        }
    }

    /// The command was stopped: by Ctrl-Z, or because it touched the terminal from the background.
    fn child_stopped(&mut self, signal: Signal) {
        self.stopped = true;
        let Some(terminal) = &self.wrapper.terminal else { return };
        let foreground = terminal.foreground() == Some(self.group);
        match signal {
            Signal::SIGTTIN | Signal::SIGTTOU => {
                if foreground || terminal.lend(self.group) {
                    self.lent = true;
                    self.go_on();
                } else if processes::own_group_is_orphaned() {
                    // There is no terminal to be had and no shell to ask. The kernel's answer to such a group is this.
                    self.signal(Signal::SIGHUP);
                    self.go_on();
                } else {
                    self.lent = true;
                    self.stop_ourselves();
                }
            }
            Signal::SIGTSTP => self.stop_ourselves(),
            // Somebody stops the command alone: that is between them, unless it sits on the terminal.
            _ if foreground => self.stop_ourselves(),
            _ => {}
        }
    }

    fn go_on(&mut self) {
        self.stopped = false;
        self.signal(Signal::SIGCONT);
    }

    /// Stops all of our own group, as Ctrl-Z would: a script around us has to stop too, or the shell does not notice.
    fn stop_ourselves(&mut self) {
        if !self.wrapper.signals.catches(Signal::SIGTSTP) || processes::own_group_is_orphaned() {
            self.go_on();
        } else {
            // Before the others stop: from then on the terminal is the shell's to give.
            if let Some(terminal) = &self.wrapper.terminal {
                terminal.take_back(self.group);
            }
            // It comes back as `Meaning::Stop`.
            let _ = processes::signal_group(getpgrp(), Signal::SIGTSTP);
        }
    }

    fn pause(&mut self) {
        if !self.stopped {
            self.signal(Signal::SIGTSTP);
        }
        let since = Instant::now();
        let _ = raise(Signal::SIGSTOP);
        // Here the shell has continued us. What stood still does not count against the attempt.
        let paused = since.elapsed();
        self.ends = self.ends.and_then(|ends| ends.checked_add(paused));
        self.resume();
        self.resumed = true;
    }

    fn resume(&mut self) {
        if let Some(terminal) = &self.wrapper.terminal
            && (terminal.lends || self.lent)
        {
            self.lent |= terminal.lend(self.group);
        }
        self.go_on();
    }

    fn keep_time(&mut self, now: Instant) {
        match self.stage {
            Stage::Running if self.status.is_none() && self.ends.is_some_and(|ends| now >= ends) => {
                self.timed_out = true;
                self.end_group(now);
            }
            Stage::Ending { kill_at } if now >= kill_at => {
                self.signal(Signal::SIGKILL);
                self.end_strays(Signal::SIGKILL);
                self.stage = Stage::Killed { until: now + GRACE };
            }
            Stage::Killed { .. } => self.end_strays(Signal::SIGKILL),
            Stage::Ending { .. } => self.end_strays(Signal::SIGTERM),
            Stage::Running => {}
        }
    }

    fn end_group(&mut self, now: Instant) {
        self.signal(Signal::SIGTERM);
        // A stopped process sees no signal but this one.
        self.signal(Signal::SIGCONT);
        let kill_at =
            now.checked_add(self.wrapper.kill_after).unwrap_or(now + Duration::from_secs(86_400 * 365));
        self.stage = Stage::Ending { kill_at };
        self.end_strays(Signal::SIGTERM);
    }

    /// Ends what has left the group, as far as it has been handed to us as the subreaper, and reaps it.
    fn end_strays(&mut self, signal: Signal) {
        for id in self.strays() {
            if signal == Signal::SIGKILL || !self.told.contains(&id) {
                let _ = nix::sys::signal::kill(id, signal);
                let _ = nix::sys::signal::kill(id, Signal::SIGCONT);
                self.told.push(id);
            }
        }
    }

    fn strays(&mut self) -> Vec<Pid> {
        if !self.wrapper.subreaper {
            return Vec::new();
        }
        let mut strays = Vec::new();
        for process in processes::children(getpid()) {
            if process.id == self.group {
                continue;
            }
            if process.ended {
                let _ = nix::sys::wait::waitpid(process.id, Some(WaitPidFlag::WNOHANG));
                self.told.retain(|told| *told != process.id);
            } else {
                strays.push(process.id);
            }
        }
        strays
    }

    /// Whether the attempt, and all that it started and must not outlive it, has ended.
    fn is_over(&mut self, now: Instant) -> bool {
        if self.status.is_none() {
            return matches!(self.stage, Stage::Killed { until } if now >= until);
        }
        if !self.is_drained(now) {
            return false;
        }
        let failed = self.outcome().class != relent_core::Class::Success || self.cancelled_by.is_some();
        // What a success leaves running, it leaves on purpose; what a failure leaves would meet the next attempt.
        if !failed {
            return true;
        }
        if let Stage::Running = self.stage {
            self.end_group(now);
        }
        if !self.reaped {
            self.reap();
        }
        let gone = !processes::group_lives(self.group) && self.strays().is_empty();
        let waited_enough = matches!(self.stage, Stage::Killed { until } if now >= until);
        self.survived = !gone && waited_enough;
        gone || waited_enough
    }

    fn is_drained(&mut self, now: Instant) -> bool {
        if !self.wrapper.output.ended() {
            let output = &self.wrapper.output;
            // Time in which a slow reader keeps us from reading does not count: there is output in the pipes.
            if output.is_held_back() && output.taken() < self.owed && self.cancelled_by.is_none() {
                self.drained_by = now.checked_add(DRAIN);
            }
            if self.drained_by.is_some_and(|by| now < by) {
                return false;
            }
            self.wrapper.output.detach(self.watcher);
        }
        self.wrapper.output.is_flushed() || self.cancelled_by.is_some()
    }

    fn outcome(&mut self) -> relent_core::Outcome {
        let how = self.how();
        *self.outcome.get_or_insert_with(|| self.wrapper.rules.outcome(&how, self.watcher))
    }

    fn how(&self) -> How {
        match self.status {
            None => How::Unkillable,
            Some(_) if let (true, Some(limit)) = (self.timed_out, self.limit) => How::TimedOut(limit),
            Some(Status::Exited(code)) => How::Exited(code),
            Some(Status::Killed(signal)) => How::Killed(signal),
            Some(Status::NotStarted(error)) => not_started(error.into()),
            Some(Status::Lost) => How::Lost,
        }
    }

    fn wait(&mut self, now: Instant) -> Vec<(What, PollFlags)> {
        let next = self.next_moment(now);
        let mut watch = Watch::default();
        watch.add(What::Signals, &self.wrapper.signals, PollFlags::POLLIN);
        self.wrapper.input.watch(&mut watch);
        self.wrapper.output.watch(&mut watch);
        watch.wait(next.map(|next| next.saturating_duration_since(now)))
    }

    /// When to look again, whatever happens.
    fn next_moment(&mut self, now: Instant) -> Option<Instant> {
        let stage = match self.stage {
            Stage::Running if self.status.is_none() => self.ends,
            Stage::Running => None,
            Stage::Ending { kill_at } => Some(kill_at),
            Stage::Killed { until } => Some(until),
        };
        let group = (!matches!(self.stage, Stage::Running)
            && (self.status.is_some() || self.wrapper.subreaper))
            .then(|| {
                let again = now + self.patience;
                self.patience = (self.patience * 2).min(MOST_PATIENCE);
                again
            });
        let drain = self.drained_by.filter(|_| !self.wrapper.output.ended());
        [stage, group, drain, self.wrapper.output.due()].into_iter().flatten().min()
    }

    fn conclude(mut self) -> Ended {
        let how = self.how();
        if self.status.is_some() && !self.reaped {
            self.reap();
        }
        self.wrapper.input.stop();
        self.wrapper.output.detach(self.watcher);
        if let Some(terminal) = &self.wrapper.terminal {
            terminal.take_back(self.group);
            if self.lent && !matches!(how, How::Exited(_)) {
                terminal.restore_modes();
            }
        }
        let mut outcome = self.outcome();
        let output_failed = self.wrapper.output.failed();
        if self.cancelled_by.is_none() {
            self.cancelled_by = self.cancelled_by_user(&how);
        }
        let failed = outcome.class != relent_core::Class::Success;
        if self.survived && failed {
            // Another attempt would meet it.
            outcome = relent_core::Outcome::of(relent_core::Class::Permanent);
        }
        if self.cancelled_by.is_none()
            && (output_failed == Some(Errno::EPIPE) || failed && place::reader_is_gone(io::stdout()))
        {
            self.cancelled_by = Some(Signal::SIGPIPE);
        }
        Ended { how, outcome, cancelled_by: self.cancelled_by, output_failed, survived: self.survived }
    }

    /// A command that had the terminal got Ctrl-C in our place.
    fn cancelled_by_user(&self, how: &How) -> Option<Signal> {
        match how {
            How::Killed(number) if self.lent => {
                let signal = Signal::try_from(*number).ok()?;
                matches!(signal, Signal::SIGINT | Signal::SIGQUIT | Signal::SIGHUP).then_some(signal)
            }
            // What shells and many programs exit with after they have caught it.
            How::Exited(130) if self.lent => Some(Signal::SIGINT),
            _ => None,
        }
    }
}
