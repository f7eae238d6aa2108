//! What people and programs are told: lines on standard error, a countdown on a terminal, events in a file.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::PollFlags;
use relent::{Class, Event, Reason};
use serde_json::{Map, Value};

use super::LAST_WORDS;
use super::execution::{Ended, How};
use super::watch::{Watch, What};
use crate::durations::short;

/// Tells what happens.
#[derive(Debug)]
pub(super) struct Report {
    quiet: bool,
    /// Whether a line can be taken back.
    terminal: bool,
    /// The terminal once more, for what is worth no wait: with Ctrl-S the user stops the screen, and not the call.
    screen: Option<File>,
    /// Where signals arrive, to see that one waits.
    signals: OwnedFd,
    events: Option<File>,
    command: String,
    began: Instant,
    /// How the last attempt ended, as the events have it: exit code and signal.
    last: Option<(u8, Option<i32>)>,
    /// What is said while the next attempt is waited for.
    waiting: String,
    drawn: bool,
    /// Whether the wait has been told of.
    told: bool,
    /// What has to be said once, at the first retry.
    layers: Option<String>,
}

impl Report {
    /// `signals`: what can be read from where signals wait to be taken.
    pub(super) fn new(
        quiet: bool,
        events: Option<File>,
        command: String,
        layers: Option<String>,
        signals: OwnedFd,
    ) -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            quiet,
            terminal,
            screen: terminal.then(screen).flatten(),
            signals,
            events,
            command,
            began: Instant::now(),
            last: None,
            waiting: String::new(),
            drawn: false,
            told: false,
            layers,
        }
    }

    /// Notes how an attempt ended, before the decision about it.
    pub(super) fn ended(&mut self, how: &How) {
        let signal = match how {
            How::Killed(signal) => Some(*signal),
            _ => None,
        };
        self.last = Some((how.code(), signal));
    }

    /// The exit code of the last attempt, for the next one.
    pub(super) fn last_code(&self) -> Option<u8> {
        self.last.map(|(code, _)| code)
    }

    /// Takes in an event of the driver.
    pub(super) fn event(&mut self, event: &Event<'_, Ended>) {
        self.write_event(event);
        let Some(ended) = event.error else { return };
        if let Some((wait, _)) = event.wait() {
            self.waiting = attempt_failed(event, &ended.how);
            if let Some(layers) = self.layers.take() {
                self.line(&layers);
            }
            self.told = false;
            if !self.terminal {
                self.tell_wait(wait);
            }
        }
    }

    /// Says why the call ended without success.
    pub(super) fn gave_up(
        &mut self,
        reason: Reason,
        attempts: u32,
        last: Option<&How>,
        open_for: Option<Duration>,
    ) {
        let mut text = match (last, attempts) {
            (_, 0) => "not attempted".to_owned(),
            (Some(how), 1) => format!("{}: {how}", self.command),
            (Some(how), _) => format!("gave up after {attempts} attempts: {how}"),
            (None, _) => format!("gave up after {attempts} attempts"),
        };
        if let Some(why) = in_words(reason) {
            let _ = write!(text, "; {why}");
        }
        if let Some(left) = open_for {
            let _ = write!(text, ": the next attempt in {}", short(left));
        }
        self.line(&text);
    }

    /// Shows how long the wait still is, where that can be done in place.
    pub(super) fn countdown(&mut self, left: Duration) {
        if !self.counts_down() {
            return;
        }
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let text = if self.waiting.is_empty() { "first attempt" } else { &self.waiting };
        let mut line = format!("relent: {text}, next in {seconds}s");
        if self.waiting.is_empty() {
            line = format!("relent: first attempt in {seconds}s");
        }
        // A line that wraps cannot be taken back.
        let line: String = line.chars().take(78).collect();
        self.draw(&format!("\r{line}\x1b[K"));
        self.drawn = true;
    }

    /// Says once how long the wait is, where nothing can be shown in place.
    pub(super) fn tell_wait(&mut self, wait: Duration) {
        if !std::mem::replace(&mut self.told, true) && !self.waiting.is_empty() {
            self.line(&format!("{}, next in {}", self.waiting, short(wait)));
        }
    }

    /// Whether a wait is shown as a countdown.
    pub(super) fn counts_down(&self) -> bool {
        self.terminal && !self.quiet
    }

    /// Takes the countdown back.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            self.draw("\r\x1b[K");
        }
    }

    /// Says something in a line of its own.
    pub(super) fn line(&mut self, text: &str) {
        self.clear();
        if !self.quiet {
            self.put(&format!("relent: {text}\n"));
        }
    }

    /// In one write, so that lines stay whole; nobody can be told if that fails.
    fn put(&self, text: &str) {
        if self.has_room() {
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }

    /// Waits until standard error takes a line: a pager behind it may be in no hurry. But a signal that arrives
    /// meanwhile has to be heard, line or no line.
    fn has_room(&self) -> bool {
        let stderr = io::stderr();
        // A signal interrupts the waiting without a word; the next turn sees it.
        for _ in 0..TURNS {
            let mut watch = Watch::default();
            watch.add(What::Sink(1), &stderr, PollFlags::POLLOUT);
            watch.add(What::Signals, &self.signals, PollFlags::POLLIN);
            let happened = watch.wait(None);
            if happened.iter().any(|(what, _)| *what == What::Sink(1)) {
                return true;
            }
            if !happened.is_empty() {
                let mut watch = Watch::default();
                watch.add(What::Sink(1), &stderr, PollFlags::POLLOUT);
                return !watch.wait(Some(LAST_WORDS)).is_empty();
            }
        }
        true
    }

    /// The same, unless the terminal does not take it now.
    fn draw(&self, text: &str) {
        match &self.screen {
            Some(screen) => drop((&*screen).write(text.as_bytes())),
            None => self.put(text),
        }
    }

    fn write_event(&mut self, event: &Event<'_, Ended>) {
        if self.events.is_none() {
            return;
        }
        let Ok(Value::Object(mut fields)) = serde_json::to_value(event.record()) else { return };
        fields.insert("command".to_owned(), self.command.clone().into());
        if !fields.contains_key("elapsed_ms") {
            fields.insert("elapsed_ms".to_owned(), millis(self.began.elapsed()).into());
        }
        if event.class().is_some() || event.kind() == "gave_up" {
            self.add_code(&mut fields, event.class());
        }
        let mut line = Value::Object(fields).to_string();
        line.push('\n');
        let written = self.events.as_mut().map_or(Ok(()), |events| events.write_all(line.as_bytes()));
        if let Err(error) = written {
            self.events = None;
            self.line(&format!("the events cannot be written any more: {error}"));
        }
    }

    fn add_code(&self, fields: &mut Map<String, Value>, class: Option<Class>) {
        match self.last {
            Some((_, Some(signal))) => fields.insert("signal".to_owned(), signal.into()),
            Some((code, None)) if class != Some(Class::Cancelled) => {
                fields.insert("code".to_owned(), code.into())
            }
            _ => None,
        };
    }
}

/// How often waiting may end with nothing before it counts as impossible.
const TURNS: u8 = 8;

/// Standard error, opened anew, so that only we do not wait for it.
fn screen() -> Option<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    File::options().write(true).custom_flags(flags.bits()).open("/dev/fd/2").ok()
}

fn attempt_failed(event: &Event<'_, Ended>, how: &How) -> String {
    let attempt = event.attempt();
    match event.max_attempts {
        Some(max) => format!("attempt {attempt} of {max} failed ({how})"),
        None => format!("attempt {attempt} failed ({how})"),
    }
}

fn in_words(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::DeadlineWouldPass => Some("the next attempt would start past the deadline"),
        Reason::DeadlinePassed => Some("the deadline has passed"),
        Reason::HintOverMax => Some("it asked for a longer wait than the policy accepts"),
        Reason::BodyNotReplayable => Some("the input cannot be replayed"),
        Reason::CircuitOpen => Some("the circuit is open"),
        Reason::BudgetExhausted => Some("the retry budget is spent"),
        Reason::RateLimited => Some("the rate limit lets nothing through"),
        Reason::NotIdempotent => Some("another try might do it twice"),
        _ => None,
    }
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
