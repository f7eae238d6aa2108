//! What a hook is told: the core's event, with names and the last error beside it.

use std::any::Any;
use std::fmt::{self, Write as _};
use std::time::Duration;

use relent_core::{BreakerChange, BudgetRefusal, Class, Decision, Event as Happened, Hedge, Reason, Source};

/// Something that happened in a call. All events are sent from one place, and [`Record`] is their one schema.
#[derive(Debug)]
#[non_exhaustive]
pub struct Event<'a, E> {
    /// What happened, in numbers.
    pub happened: Happened,
    /// The call's name, if it was given one.
    pub name: Option<&'a str>,
    /// The endpoint of the attempt, if one was named.
    pub target: Option<&'a str>,
    /// The call's priority, if it was given one.
    pub priority: Option<u8>,
    /// How many attempts there may be; none: unlimited.
    pub max_attempts: Option<u32>,
    /// In a decision, the error of the attempt that ended: none where it succeeded or was cut off. Else the last error
    /// that an attempt returned.
    pub error: Option<&'a E>,
    /// Since the start of the call.
    pub elapsed: Option<Duration>,
    /// What is left of the deadline, where there is one.
    pub remaining: Option<Duration>,
    /// Which of the target's budgets refused the retry, from 0, where one did.
    pub budget: Option<usize>,
    pub(crate) context: Option<&'a (dyn Any + Send + Sync)>,
}

impl<E> Event<'_, E> {
    /// The event's stable word: `"attempt_started"`, `"decision"`, `"hedge"`, `"gave_up"`, `"fallback"`.
    pub fn kind(&self) -> &'static str {
        self.happened.as_str()
    }

    /// The number of the attempt; for `gave_up` and `fallback`, how many were made.
    pub fn attempt(&self) -> u32 {
        match self.happened {
            Happened::AttemptStarted { attempt }
            | Happened::Decision { attempt, .. }
            | Happened::Hedge { attempt, .. }
            | Happened::BreakerState { attempt, .. }
            | Happened::Budget { attempt, .. } => attempt,
            Happened::GaveUp { attempts, .. } | Happened::Fallback { attempts, .. } => attempts,
            _ => 0,
        }
    }

    /// What the attempt ended as: in a decision, and where it lost against another.
    pub fn class(&self) -> Option<Class> {
        match self.happened {
            Happened::Decision { class, .. } | Happened::Hedge { hedge: Hedge::Lost { class }, .. } => {
                Some(class)
            }
            _ => None,
        }
    }

    /// The wait before the next attempt and where it comes from, where there will be one.
    pub fn wait(&self) -> Option<(Duration, Source)> {
        match self.happened {
            Happened::Decision { decision: Decision::Retry { after, source }, .. } => Some((after, source)),
            _ => None,
        }
    }

    /// What happened to an attempt beside others, in a `hedge` event.
    pub fn hedge(&self) -> Option<Hedge> {
        match self.happened {
            Happened::Hedge { hedge, .. } => Some(hedge),
            _ => None,
        }
    }

    /// How the breaker changed its state, in a `breaker_state` event.
    pub fn breaker(&self) -> Option<BreakerChange> {
        match self.happened {
            Happened::BreakerState { change, .. } => Some(change),
            _ => None,
        }
    }

    /// Which budget refused and what it held, in a `budget` event.
    pub fn refusal(&self) -> Option<BudgetRefusal> {
        match self.happened {
            Happened::Budget { refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    /// Why the call ends, where it does, or why a hedge is not made.
    pub fn reason(&self) -> Option<Reason> {
        match self.happened {
            Happened::Hedge { hedge: Hedge::Suppressed { reason }, .. }
            | Happened::Decision { decision: Decision::Stop { reason, .. }, .. }
            | Happened::GaveUp { reason, .. }
            | Happened::Fallback { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// Whether a fallback answered, where one was asked.
    pub fn answered(&self) -> Option<bool> {
        match self.happened {
            Happened::Fallback { answered, .. } => Some(answered),
            _ => None,
        }
    }

    /// The context that the caller gave with [`With::context`](crate::With::context), if it is a `C`.
    pub fn context<C: 'static>(&self) -> Option<&C> {
        self.context?.downcast_ref()
    }
}

impl<E: fmt::Display> Event<'_, E> {
    /// The error as text, with the secrets of its URLs cut ([`redact`](fn@crate::redact)).
    pub fn error_text(&self) -> Option<String> {
        self.error.map(|error| crate::redact(&error.to_string()).into_owned())
    }

    /// The event as a record of the events schema.
    pub fn record(&self) -> Record {
        let (rule, wait) = match self.happened {
            Happened::Decision { rule, .. } => (rule.map(|rule| rule.0), self.wait()),
            _ => (None, None),
        };
        Record {
            v: 1,
            event: self.kind(),
            name: self.name.map(Into::into),
            target: self.target.map(|target| crate::redact(target).into_owned()),
            priority: self.priority,
            attempt: self.attempt(),
            max_attempts: self.max_attempts,
            class: self.class().map(Class::as_str),
            rule,
            error: self.error_text(),
            wait_ms: wait.map(|(wait, _)| millis(wait)),
            source: wait.map(|(_, source)| source.as_str()),
            reason: self.reason().map(Reason::as_str),
            hedge: self.hedge().map(|hedge| hedge.as_str()),
            from: self.breaker().map(|change| change.from.as_str()),
            to: self.breaker().map(|change| change.to.as_str()),
            generation: self.breaker().map(|change| change.generation),
            balance: self.refusal().map(|refusal| refusal.balance as f64 / 1e3),
            answered: self.answered(),
            budget: self.budget,
            elapsed_ms: self.elapsed.map(millis),
            remaining_ms: self.remaining.map(millis),
        }
    }
}

/// One line, for a log: `charge to host:443: attempt 2 of 4 failed (throttled: slow down), next in 350ms (hint)`. Secrets
/// of URLs are cut, and line breaks and other control characters of an error's text are escaped.
impl<E: fmt::Display> fmt::Display for Event<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name, self.target.map(crate::redact)) {
            (Some(name), Some(target)) => write!(f, "{name} to {target}: ")?,
            (Some(name), None) => write!(f, "{name}: ")?,
            (None, Some(target)) => write!(f, "{target}: ")?,
            (None, None) => {}
        }
        let attempt = self.attempt();
        match self.happened {
            Happened::GaveUp { reason, .. } => {
                let plural = if attempt == 1 { "" } else { "s" };
                write!(f, "gave up after {attempt} attempt{plural}: {reason}")?;
                return self.write_error(f, "; ");
            }
            Happened::Fallback { answered, .. } => {
                let plural = if attempt == 1 { "" } else { "s" };
                let did = if answered { "answered" } else { "could not answer" };
                write!(f, "a fallback {did} after {attempt} attempt{plural}")?;
                return self.write_error(f, "; ");
            }
            Happened::BreakerState { change: BreakerChange { from, to, .. }, .. } => {
                return write!(f, "the breaker was {} and is {}", from.as_str(), to.as_str());
            }
            Happened::Budget { refusal: BudgetRefusal { budget, balance }, .. } => {
                return write!(f, "budget {budget} refused with {} left", balance as f64 / 1e3);
            }
            _ => write!(f, "attempt {attempt}")?,
        }
        if let Some(max) = self.max_attempts {
            write!(f, " of {max}")?;
        }
        match self.hedge() {
            Some(Hedge::Suppressed { reason }) => return write!(f, " not started as a hedge: {reason}"),
            Some(Hedge::Started) => return f.write_str(" is a hedge"),
            Some(Hedge::Won) => return f.write_str(" won"),
            Some(Hedge::Lost { class: Class::Cancelled }) => return f.write_str(" lost"),
            _ => {}
        }
        match self.class() {
            None => f.write_str(" started"),
            Some(Class::Success) => f.write_str(" succeeded"),
            Some(class) => {
                write!(f, " failed ({class}")?;
                self.write_error(f, ": ")?;
                f.write_str(")")
            }
        }?;
        match self.wait() {
            Some((wait, source)) => write!(f, ", next in {:?} ({source})", to_three_digits(wait)),
            None => Ok(()),
        }
    }
}

impl<E: fmt::Display> Event<'_, E> {
    fn write_error(&self, f: &mut fmt::Formatter<'_>, before: &str) -> fmt::Result {
        let Some(error) = self.error_text() else { return Ok(()) };
        f.write_str(before)?;
        error.chars().try_for_each(|char| match char {
            control if control.is_control() => write!(f, "{}", control.escape_default()),
            char => f.write_char(char),
        })
    }
}

/// As much of a wait as a reader wants to see: three digits.
fn to_three_digits(wait: Duration) -> Duration {
    let nanos = wait.as_nanos();
    let unit = 10u128.pow(nanos.checked_ilog10().unwrap_or(0).saturating_sub(2));
    Duration::from_nanos(u64::try_from(nanos.saturating_add(unit / 2) / unit * unit).unwrap_or(u64::MAX))
}

/// An event as the events schema has it, version 1: one JSON object a line with the feature `serde`. Absent fields are
/// left out.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Record {
    /// The schema's version.
    pub v: u32,
    /// What happened: `attempt_started`, `decision`, `hedge`, `gave_up`, `fallback`.
    pub event: &'static str,
    /// The call's name.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub name: Option<String>,
    /// The endpoint.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub target: Option<String>,
    /// The call's priority.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub priority: Option<u8>,
    /// The attempt's number from 1; in `gave_up` and `fallback` how many were made.
    pub attempt: u32,
    /// The limit; absent: unlimited.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub max_attempts: Option<u32>,
    /// The outcome's class.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub class: Option<&'static str>,
    /// The number of the policy's rule that the outcome met, from 0.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub rule: Option<u8>,
    /// The error's text, secrets cut: see [`Event::error`].
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub error: Option<String>,
    /// The wait before the next attempt, in milliseconds.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub wait_ms: Option<f64>,
    /// Where the wait comes from.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub source: Option<&'static str>,
    /// Why the call ends, or the hedge is not made.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub reason: Option<&'static str>,
    /// What happened to an attempt beside others: `started`, `suppressed`, `won`, `lost`.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub hedge: Option<&'static str>,
    /// Whether the fallback answered.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub answered: Option<bool>,
    /// Where the breaker was: `closed`, `open`, `half_open`, `returning`.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub from: Option<&'static str>,
    /// Where the breaker is now.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub to: Option<&'static str>,
    /// The number of the breaker's new state.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub generation: Option<u64>,
    /// What the budget that refused held: tokens, or retries.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub balance: Option<f64>,
    /// Which of the target's budgets refused the retry, from 0.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub budget: Option<usize>,
    /// Milliseconds since the start of the call.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub elapsed_ms: Option<f64>,
    /// Milliseconds left of the deadline.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub remaining_ms: Option<f64>,
}

/// Milliseconds, to the microsecond.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
