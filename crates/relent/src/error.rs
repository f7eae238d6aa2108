//! How a call that did not succeed comes back.

use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use relent_core::{Class, Reason, Source};

/// A call that gave up: why, after how many attempts, and the last error.
///
/// No bounds on `E`. The last error is the `source`; for errors that are not [`std::error::Error`] themselves but lead
/// to one (`anyhow::Error`, `Box<dyn Error>`) the second parameter is [`Dynamic`], and what they lead to is the source.
/// Eight bytes; what it holds is behind a pointer.
pub struct Error<E, K = Typed> {
    inner: Box<Inner<E>>,
    kind: PhantomData<fn() -> K>,
}

/// [`Error`]'s `E` is a [`std::error::Error`], or does not lead to one.
#[derive(Debug)]
pub enum Typed {}

/// [`Error`]'s `E` leads to a `dyn Error`.
#[derive(Debug)]
pub enum Dynamic {}

struct Inner<E> {
    reason: Reason,
    attempts: u32,
    class: Option<Class>,
    last: Option<E>,
}

impl<E, K> Error<E, K> {
    #[cold]
    pub(crate) fn new(reason: Reason, attempts: u32, class: Option<Class>, last: Option<E>) -> Self {
        Self { inner: Box::new(Inner { reason, attempts, class, last }), kind: PhantomData }
    }

    /// Why the call ended.
    pub fn reason(&self) -> Reason {
        self.inner.reason
    }

    /// How many attempts were made; 0 if none was admitted. After a time of health (the backoff's `reset_after`) they are
    /// counted anew.
    pub fn attempts(&self) -> u32 {
        self.inner.attempts
    }

    /// What the last attempt ended as: [`Class::Timeout`] where it was cut off, which leaves no error of its own.
    pub fn class(&self) -> Option<Class> {
        self.inner.class
    }

    /// The last error that an attempt returned; none if none did.
    pub fn last(&self) -> Option<&E> {
        self.inner.last.as_ref()
    }

    /// The last error that an attempt returned, by value.
    pub fn into_last(self) -> Option<E> {
        self.inner.last
    }

    /// Whether the caller cancelled the call.
    pub fn is_cancelled(&self) -> bool {
        self.inner.reason == Reason::Cancelled
    }

    /// Whether the call's deadline ended it, or would have passed before the next attempt.
    pub fn is_deadline(&self) -> bool {
        matches!(self.inner.reason, Reason::DeadlinePassed | Reason::DeadlineWouldPass)
    }

    /// The same error, in another kind: [`Dynamic`] makes an `anyhow::Error` or a boxed error its source where the
    /// compiler was not told that `E` is one, after [`With::when`](crate::With::when).
    pub fn into_kind<L>(self) -> Error<E, L> {
        Error { inner: self.inner, kind: PhantomData }
    }
}

impl<E, K> fmt::Display for Error<E, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(answered) = crate::classify::answer(f) {
            return answered;
        }
        let attempts = self.inner.attempts;
        let why = in_words(self.inner.reason);
        match (self.inner.reason, attempts) {
            (Reason::NotRetryable, 1) => f.write_str("failed in a way that another try does not help"),
            (_, 0) => write!(f, "not attempted: {why}"),
            (_, 1) => write!(f, "gave up after 1 attempt: {why}"),
            _ => write!(f, "gave up after {attempts} attempts: {why}"),
        }?;
        if self.inner.class == Some(Class::Timeout) {
            f.write_str(" (the last attempt timed out)")?;
        }
        Ok(())
    }
}

fn in_words(reason: Reason) -> &'static str {
    match reason {
        Reason::NotRetryable => "another try does not help",
        Reason::AttemptsExhausted => "no attempts left",
        Reason::DeadlineWouldPass => "the next attempt would start past the deadline",
        Reason::DeadlinePassed => "the deadline passed",
        Reason::BudgetExhausted => "the retry budget is empty",
        Reason::CircuitOpen => "the circuit breaker is open",
        Reason::RateLimited => "the rate limit would make it wait too long",
        Reason::BulkheadFull => "the bulkhead is full",
        Reason::HintOverMax => "the server asked for a longer wait than the policy accepts",
        Reason::PushbackStop => "the server said not to try again",
        Reason::NotIdempotent => "another try might do the thing twice",
        Reason::BodyNotReplayable => "the body cannot be sent again",
        Reason::Cancelled => "cancelled",
        other => other.as_str(),
    }
}

impl<E: fmt::Debug, K> fmt::Debug for Error<E, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("reason", &self.inner.reason)
            .field("attempts", &self.inner.attempts)
            .field("class", &self.inner.class)
            .field("last", &self.inner.last)
            .finish()
    }
}

impl<E: StdError + 'static> StdError for Error<E, Typed> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.last.as_ref().map(|last| last as &(dyn StdError + 'static))
    }
}

impl<E: Leads> StdError for Error<E, Dynamic> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.last.as_ref().map(Leads::to)
    }
}

/// What leads to a `dyn Error`, as far as [`Error`] has to know.
trait Leads: fmt::Debug {
    fn to(&self) -> &(dyn StdError + 'static);
}

impl<D: std::ops::Deref<Target: AsDyn> + fmt::Debug> Leads for D {
    fn to(&self) -> &(dyn StdError + 'static) {
        self.deref().as_dyn()
    }
}

/// The targets that such errors dereference to: `dyn Error` with and without its auto traits.
trait AsDyn {
    fn as_dyn(&self) -> &(dyn StdError + 'static);
}

impl AsDyn for dyn StdError + 'static {
    fn as_dyn(&self) -> &(dyn StdError + 'static) {
        self
    }
}

impl AsDyn for dyn StdError + Send + 'static {
    fn as_dyn(&self) -> &(dyn StdError + 'static) {
        self
    }
}

impl AsDyn for dyn StdError + Send + Sync + 'static {
    fn as_dyn(&self) -> &(dyn StdError + 'static) {
        self
    }
}

/// A call with its history: what the `…_report` forms return.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report<T, E, K = Typed> {
    /// What the call returned.
    pub result: Result<T, Error<E, K>>,
    /// Why it ended: also beside an `Ok` that was classed retryable and came back because nothing was left.
    pub reason: Reason,
    /// How many attempts were made, as [`Error::attempts`] counts them.
    pub attempts: u32,
    /// Each attempt, in order, those before a time of health too.
    pub history: Vec<Tried>,
    /// From the start of the call to its end, where the policy needs a clock anyway.
    pub elapsed: Option<Duration>,
    /// Whether the result is a fallback's.
    pub fallback: bool,
}

/// One attempt in a [`Report`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// Its number, from 1.
    pub attempt: u32,
    /// What it ended as.
    pub class: Class,
    /// The wait after it and where that came from; none after the last.
    pub wait: Option<(Duration, Source)>,
    /// When it ended, from the start of the call, where the policy needs a clock anyway.
    pub ended: Option<Duration>,
}
