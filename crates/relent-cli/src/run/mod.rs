//! `relent run`: a command, retried under a policy, by a process that behaves.

mod environment;
mod execution;
mod input;
mod output;
mod place;
mod processes;
mod report;
mod rules;
mod signals;
mod spool;
mod state;
mod takeover;
mod terminal;
mod watch;

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args as _, FromArgMatches as _};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::PollFlags;
use nix::sys::signal::{Signal, raise};
use relent::blocking::Timer;
use relent::{Class, Clock, Outcome, Policy, Reason, Repeat, Timestamp, Token};
use relent_config::BuiltIn;

use crate::durations;
use crate::exit::{Error, ExitCode};
use crate::policy_args::{PolicyArgs, Resolved};

use self::environment::Layer;
use self::execution::{Ended, How, Limit, Wrapper};
use self::input::{Input, Lost};
use self::output::Output;
use self::report::Report;
use self::rules::{Rules, Tests};
use self::signals::{Meaning, Signals};
use self::state::{Common, StateArgs};
use self::terminal::Terminal;
use self::watch::{Watch, What};

pub(crate) const EXAMPLES: &str = "\
Examples:
  relent run -- curl -fsS https://example.com/health
  relent run --max-attempts 8 --deadline 10m --attempt-timeout 1m -- ./deploy.sh production
  relent run --retry-on 75,signal --retry-on 'stderr:connection (reset|refused)' -- ./sync
  relent run --state ~/.local/state/relent.json -- backup   (fails every minute? not for long)
  relent run --policy nightly --initial-spread 5m --output last -- backup   (in a crontab)

What is tried when, by default or with options: relent explain --run [OPTIONS]

Exit code: that of the last attempt; 124 if its time was over, 126 or 127 if it
cannot be run, 128 + n if signal n ended it, 125 if the options make no sense,
75 if --state or the policy's breaker says that it is not the time.
0 is always a success.";

/// What `relent run` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    policy: PolicyArgs,

    /// Retry only these ends: exit codes (7 or 64-78), signal, signal:NAME, timeout, any, stdout:REGEX, stderr:REGEX,
    /// output:REGEX; lists with commas, more than once [default: all but 126 and 127]
    #[arg(long, value_name = "ENDS", help_heading = "Rules")]
    retry_on: Vec<Tests>,
    /// Never retry these ends, whatever --retry-on says
    #[arg(long, value_name = "ENDS", help_heading = "Rules")]
    stop_on: Vec<Tests>,
    /// These ends are the successes, instead of exit code 0
    #[arg(long, value_name = "ENDS", help_heading = "Rules")]
    success_on: Vec<Tests>,
    /// Finds, in a line of the output, how long to wait: its first group, in seconds or with a unit
    #[arg(long, value_name = "REGEX", value_parser = rules::parse_regex, help_heading = "Rules")]
    hint_regex: Option<regex::bytes::Regex>,

    /// What the command gets as standard input
    #[arg(long, value_name = "MODE", value_enum, default_value_t, help_heading = "Process")]
    stdin: input::Mode,
    /// How much of a piped standard input is kept for replay; beyond it there are no retries
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256MiB", help_heading = "Process")]
    stdin_limit: u64,
    /// Which attempts' output is passed on
    #[arg(long, value_name = "MODE", value_enum, default_value_t, help_heading = "Process")]
    output: output::Mode,
    /// Time between TERM and KILL for a process group that has to end
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "5s", help_heading = "Process")]
    kill_after: Duration,
    /// Also end processes that have left the command's process group (Linux)
    #[arg(long, help_heading = "Process")]
    subreaper: bool,

    #[command(flatten)]
    state: StateArgs,

    /// Write what happens to this file, as JSON lines; /dev/stderr and /dev/fd/3 work too
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    events: Option<PathBuf>,
    /// Say nothing on standard error
    #[arg(long, short, help_heading = "Reports")]
    quiet: bool,

    /// Take the terminal's foreground and become the command: how the wrapper starts it on a terminal
    #[arg(long, hide = true)]
    take_terminal: bool,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", help_heading = "Command")]
    command: Vec<OsString>,
}

impl Args {
    /// Reads the arguments that follow the program's name, from the word `run` on, as the whole definition would.
    ///
    /// # Errors
    ///
    /// What the whole definition may still understand, and can complain about better.
    pub(crate) fn parse_alone(arguments: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let definition = Self::augment_args(clap::Command::new("run"));
        Self::from_arg_matches(&definition.try_get_matches_from(arguments)?)
    }

    /// What the options say about ends, over what the policy's table `run` says.
    fn rules(&self, resolved: &Resolved) -> Result<Rules, Error> {
        let of_policy = table_of(resolved)?;
        let over = |options: &[Tests], below| if options.is_empty() { below } else { rules::joined(options) };
        Ok(Rules {
            success_on: over(&self.success_on, of_policy.success_on),
            stop_on: over(&self.stop_on, of_policy.stop_on),
            retry_on: over(&self.retry_on, of_policy.retry_on),
            hint: self.hint_regex.clone().or(of_policy.hint),
        })
    }
}

/// Refuses a policy's table `run` that `relent run` would refuse.
///
/// # Errors
///
/// Each mistake, in its place in the file.
pub(crate) fn check_table(resolved: &Resolved) -> Result<(), Error> {
    table_of(resolved).map(drop)
}

fn table_of(resolved: &Resolved) -> Result<Rules, Error> {
    let (table, mut checks) = resolved.run_table();
    let rules = table.map(|table| Rules::of_table(&table, &mut checks)).unwrap_or_default();
    checks.finish()?;
    Ok(rules)
}

/// A command is told its idempotency key, but nobody can tell whether it makes use of it. To repeat it all the same
/// would break the promise, and never to repeat it would be a surprise.
fn refuse_promise(resolved: &Resolved) -> Result<(), Error> {
    let policy = resolved.policy();
    if !policy.requires_idempotency() || policy.max_attempts() == Some(1) {
        return Ok(());
    }
    let setting = resolved.settings().iter().find(|setting| setting.path == "idempotency.require");
    let origin = setting.map_or_else(|| "idempotency.require".to_owned(), |setting| resolved.origin(setting));
    let what = format!("{origin}: whether a command is idempotent, `relent run` cannot know");
    Err(Error::usage(what).help(
        "a command that passes RELENT_IDEMPOTENCY_KEY on can be repeated without this; for one that must not run twice, \
         --max-attempts 1",
    ))
}

/// The wrapper's own failure, not that of what it wraps: bad usage above all.
pub(crate) const BAD_USAGE: ExitCode = ExitCode::Command(WRAPPER_FAILED);

const WRAPPER_FAILED: u8 = 125;

/// Nothing was attempted, and it can be later: EX_TEMPFAIL of `sysexits.h`.
const TRY_LATER: u8 = 75;

/// Runs the command until it succeeds or the policy says stop; the exit code. Where a signal ended the call, it does
/// not return: the process ends by that signal.
///
/// # Errors
///
/// Options that make no sense, or something that the wrapper itself needs and does not get.
pub(crate) fn run(args: Args) -> Result<ExitCode, Error> {
    if args.take_terminal {
        return Ok(ExitCode::Command(takeover::become_command(&args.command)));
    }
    let resolved = args.policy.resolve(BuiltIn::Run, &[])?;
    refuse_promise(&resolved)?;
    let rules = args.rules(&resolved)?;
    let layer = environment::outer()?;
    let epoch = Epoch::begin();
    let left = layer.as_ref().and_then(|layer| layer.left(epoch.since_1970));
    let policy = within(resolved.policy(), left)?;
    let common = Common::of(&args.state, &resolved, &policy, &args.command, epoch)?;
    let run = Run::begin(&args, rules, common, epoch, layer.as_ref())?;
    let end = if left.is_some_and(|left| left.is_zero()) {
        End { reason: Reason::DeadlinePassed, attempts: 0, last: None }
    } else {
        run.call(&args.command, resolved.name())
    };
    Ok(ExitCode::Command(run.finish(end)))
}

/// The policy, with a deadline no later than what an outer `relent run` has `left`.
fn within(policy: &Policy, left: Option<Duration>) -> Result<Policy, Error> {
    let Some(left) = left.filter(|left| !left.is_zero()) else { return Ok(policy.clone()) };
    if policy.deadline().is_some_and(|deadline| deadline.usable() <= left) {
        return Ok(policy.clone());
    }
    policy.to_builder().deadline(left).build().map_err(|error| Error::usage(error.to_string()))
}

/// One call on its way.
struct Run {
    wrapper: RefCell<Wrapper>,
    report: RefCell<Report>,
    /// What the attempts share, and this run with others.
    common: Common,
    epoch: Epoch,
    /// Ends the waits.
    token: Token,
    /// What ended the call from outside.
    cancelled_by: Cell<Option<Signal>>,
}

/// When a run began. Its times are those of the calendar, since other runs are told them too; within the run the clock is
/// one that nobody sets.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    since_1970: Duration,
}

impl Epoch {
    fn begin() -> Self {
        Self { began: Instant::now(), since_1970: environment::since_epoch() }
    }

    /// The point in time that lies `ahead` of the beginning, in milliseconds since 1970.
    fn millis_1970(&self, ahead: Duration) -> u64 {
        u64::try_from(self.since_1970.saturating_add(ahead).as_millis()).unwrap_or(u64::MAX)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_duration(self.since_1970.saturating_add(self.began.elapsed()))
    }
}

/// How a call ended.
struct End {
    reason: Reason,
    /// How many were made; of a success not counted.
    attempts: u32,
    last: Option<Ended>,
}

impl Run {
    fn begin(
        args: &Args,
        rules: Rules,
        common: Common,
        epoch: Epoch,
        layer: Option<&Layer>,
    ) -> Result<Self, Error> {
        let policy = common.target.policy();
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source: io::Error| Error::Failure { what, source }
        };
        let events = args.events.as_ref().map(|path| open_events(path));
        if args.subreaper {
            become_subreaper()?;
        }
        let repeats = policy.max_attempts() != Some(1);
        let command = args.command.first().map(|program| program.to_string_lossy().into_owned());
        let layers = layer.filter(|_| repeats).and_then(|layer| layer.warning(policy.max_attempts()));
        let signals = Signals::catch().map_err(failed("catching signals"))?;
        let arrivals = signals.as_fd().try_clone_to_owned().map_err(failed("catching signals"))?;
        let report =
            Report::new(args.quiet, events.transpose()?, command.unwrap_or_default(), layers, arrivals);
        let wrapper = Wrapper {
            signals,
            terminal: Terminal::open(),
            input: Input::new(args.stdin, repeats, args.stdin_limit),
            output: Output::new(args.output, rules.watched()),
            rules,
            kill_after: args.kill_after,
            subreaper: args.subreaper,
        };
        Ok(Self {
            wrapper: RefCell::new(wrapper),
            report: RefCell::new(report),
            common,
            epoch,
            token: Token::new(),
            cancelled_by: Cell::new(None),
        })
    }

    fn call(&self, command: &[OsString], name: Option<&str>) -> End {
        let policy = self.common.target.policy();
        self.tell_remarks();
        let ends = policy.deadline().map(|deadline| self.epoch.millis_1970(deadline.usable()));
        let mut call = self
            .common
            .target
            .blocking()
            .timer(Pauses(self))
            .cancel_on(&self.token)
            .notify(|event| self.report.borrow_mut().event(event))
            .when(|ended: &Ended| self.judge(ended));
        if let Some(name) = name {
            call = call.name(name);
        }
        let result = call.retry(|attempt| {
            self.report.borrow_mut().clear();
            let last = self.report.borrow().last_code();
            let environment = environment::of_attempt(&attempt, ends, last);
            let mut wrapper = self.wrapper.borrow_mut();
            let ended = wrapper.attempt(command, &environment, self.limit(policy, attempt.remaining()));
            drop(wrapper);
            self.report.borrow_mut().ended(&ended.how);
            if let Some(signal) = ended.cancelled_by {
                self.cancel(signal);
            }
            if ended.outcome.class == Class::Success
                && ended.cancelled_by.is_none()
                && ended.output_failed.is_none()
            {
                Ok(ended)
            } else {
                Err(ended)
            }
        });
        match result {
            Ok(ended) => End { reason: Reason::Succeeded, attempts: 0, last: Some(ended) },
            Err(error) => End { reason: error.reason(), attempts: error.attempts(), last: error.into_last() },
        }
    }

    /// What the state file makes worth a line.
    fn tell_remarks(&self) {
        let mut report = self.report.borrow_mut();
        self.common.remarks().iter().for_each(|remark| report.line(remark));
    }

    /// How long an attempt may take of which `remaining` is left.
    fn limit(&self, policy: &Policy, remaining: Option<Duration>) -> Option<Limit> {
        let left =
            policy.deadline().map(|deadline| deadline.usable().saturating_sub(self.epoch.began.elapsed()));
        match policy.attempt_timeout() {
            Some(timeout) if left.is_none_or(|left| timeout < left) => Some(Limit::Timeout(timeout)),
            _ => remaining.map(Limit::Deadline),
        }
    }

    /// What a failed attempt means to the decision.
    fn judge(&self, ended: &Ended) -> Outcome {
        if ended.cancelled_by.is_some() {
            return Outcome::of(Class::Cancelled);
        }
        if ended.output_failed.is_some() {
            return Outcome::of(Class::Permanent);
        }
        match self.wrapper.borrow().input.lost() {
            Some(_) => ended.outcome.repeat(Repeat::BodyNotReplayable),
            None => ended.outcome,
        }
    }

    fn cancel(&self, signal: Signal) {
        self.cancelled_by.set(self.cancelled_by.get().or(Some(signal)));
        self.token.cancel();
    }

    /// Shows what was held, says how it ended, and turns that into an exit code.
    fn finish(&self, end: End) -> u8 {
        let succeeded = end.reason == Reason::Succeeded;
        self.release(succeeded);
        self.tell_remarks();
        let mut report = self.report.borrow_mut();
        report.clear();
        if let Some(signal) = self.cancelled_by.get() {
            signals::die_by(signal);
            return How::Killed(signal as i32).code();
        }
        let wrapper = self.wrapper.borrow();
        if let Some(error) = wrapper.output.failed() {
            report.line(&format!("standard output cannot be written: {}", error.desc()));
            return WRAPPER_FAILED;
        }
        let how = end.last.as_ref().map(|ended| &ended.how);
        if succeeded {
            return how.map_or(0, How::code);
        }
        match wrapper.input.lost() {
            Some(Lost::OverLimit(limit)) if end.reason == Reason::BodyNotReplayable => {
                report.line(&format!("standard input is longer than {limit} bytes (--stdin-limit)"));
            }
            Some(Lost::Unwritable(error)) if end.reason == Reason::BodyNotReplayable => {
                report.line(&format!("standard input cannot be kept: {error}"));
            }
            _ => {}
        }
        if end.last.as_ref().is_some_and(|ended| ended.survived) {
            report.line("something that the command has started cannot be ended");
        }
        let open_for = self.common.open_for(self.epoch.now()).filter(|_| end.reason == Reason::CircuitOpen);
        report.gave_up(end.reason, end.attempts, how, open_for);
        match how {
            // Something that calls share said no, before anything was attempted.
            None if end.reason != Reason::DeadlinePassed => TRY_LATER,
            // The deadline had passed before.
            None => 124,
            // Nothing but a success ends in 0.
            Some(how) => {
                if how.code() == 0 {
                    1
                } else {
                    how.code()
                }
            }
        }
    }

    /// Passes on what was held of the last attempt, and what is still on its way. A signal ends that, and after one
    /// nobody waits for a reader that does not read.
    fn release(&self, succeeded: bool) {
        let mut released = 0;
        let mut wrapper = self.wrapper.borrow_mut();
        let Wrapper { signals, output, .. } = &mut *wrapper;
        let patience = self.cancelled_by.get().map(|_| LAST_WORDS);
        loop {
            while output.is_flushed() {
                if !output.release(&mut released, succeeded) {
                    return;
                }
            }
            let mut watch = Watch::default();
            watch.add(What::Signals, signals, PollFlags::POLLIN);
            output.watch(&mut watch);
            let happened = watch.wait(patience);
            if happened.is_empty() && patience.is_some() {
                return;
            }
            for (what, _) in happened {
                output.write(what);
            }
            if let Some(signal) = signals.take_ending() {
                return self.cancel(signal);
            }
            if output.failed() == Some(Errno::EPIPE) {
                return self.cancel(Signal::SIGPIPE);
            }
        }
    }
}

/// How long a cancelled call waits for the next bit of its output to be taken.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Waits in which signals are heard.
#[derive(Clone)]
struct Pauses<'a>(&'a Run);

impl Clock for Pauses<'_> {
    fn now(&self) -> Timestamp {
        self.0.epoch.now()
    }
}

impl Timer for Pauses<'_> {
    fn sleep(&self, wait: Duration, cancel: Option<&Token>) {
        let until = Instant::now().checked_add(wait);
        while !cancel.is_some_and(Token::is_cancelled) {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            self.pass_some(left);
        }
        self.0.report.borrow_mut().clear();
    }
}

impl Pauses<'_> {
    /// Waits until something happens, or the countdown has to be redrawn.
    fn pass_some(&self, left: Duration) {
        let mut wrapper = self.0.wrapper.borrow_mut();
        let mut report = self.0.report.borrow_mut();
        let stdout = io::stdout();
        let mut patience = left;
        if !report.counts_down() {
            // Everything has been said.
        } else if wrapper.terminal.as_ref().is_none_or(Terminal::is_ours) {
            report.countdown(left);
            let to_the_second = Duration::from_nanos(u64::from(left.subsec_nanos()));
            patience = if to_the_second.is_zero() { Duration::from_secs(1) } else { to_the_second }.min(left);
        } else {
            // In the background, somebody else draws on the screen.
            report.tell_wait(left);
        }
        let mut watch = Watch::default();
        watch.add(What::Signals, &wrapper.signals, PollFlags::POLLIN);
        if place::is_pipe(&stdout) {
            watch.add(What::Downstream, &stdout, PollFlags::empty());
        }
        let happened = watch.wait(Some(patience));
        if happened.iter().any(|(what, events)| *what == What::Downstream && place::means_no_reader(*events))
        {
            self.0.cancel(Signal::SIGPIPE);
        }
        for meaning in wrapper.signals.take() {
            match meaning {
                Meaning::End(signal) => self.0.cancel(signal),
                Meaning::Stop if !processes::own_group_is_orphaned() => {
                    report.clear();
                    let _ = raise(Signal::SIGSTOP);
                }
                Meaning::Child if wrapper.adopts() => processes::reap_children(None),
                _ => {}
            }
        }
    }
}

/// Opens it so that nobody ever waits for its reader: events are not worth that.
fn open_events(path: &Path) -> Result<File, Error> {
    if path == Path::new("-") {
        let what = "--events -: the events would get mixed up with the command's output";
        return Err(Error::usage(what).help("name a file, or /dev/stderr, or /dev/fd/3 with 3>FILE"));
    }
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = File::options().create(true).append(true).custom_flags(flags.bits()).open(path);
    opened.map_err(|source| match Errno::from_raw(source.raw_os_error().unwrap_or_default()) {
        Errno::ENXIO => Error::usage(format!("--events {}: nobody reads from it", path.display()))
            .help("start the reader first"),
        _ => Error::Failure { what: format!("--events {}", path.display()), source },
    })
}

fn become_subreaper() -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    {
        let made = nix::sys::prctl::set_child_subreaper(true);
        made.map_err(|error| Error::Failure { what: "--subreaper".to_owned(), source: error.into() })
    }
    #[cfg(not(target_os = "linux"))]
    Err(Error::usage("--subreaper works on Linux only"))
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    durations::parse(text)
}

/// `1048576`, `64KiB`, `256MiB`, `1GiB`; decimal units too.
fn parse_size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
    let (number, unit) = UNITS
        .into_iter()
        .find_map(|(name, size)| Some((text.strip_suffix(name)?, size)))
        .unwrap_or((text.strip_suffix('B').unwrap_or(text), 1));
    let number: u64 =
        number.trim_end().parse().map_err(|_| "expected a size, such as 64KiB or 256MiB".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "more than there can be".to_owned())
}
