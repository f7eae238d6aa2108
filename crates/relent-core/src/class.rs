//! The words that outcomes and decisions are made of. Each has one spelling, in code in CamelCase, in files,
//! events and errors in snake_case.

use core::fmt;
use core::str::FromStr;

/// What an outcome says about whether another try would help.
///
/// Whether another try is *safe* is a second question: see [`Repeat`](crate::Repeat).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// It worked.
    Success,
    /// It failed, and may work next time: a reset connection, an overloaded server.
    Transient,
    /// The other side asked for fewer calls: HTTP 429, `SlowDown`.
    Throttled,
    /// The *attempt* ran out of time. The end of the whole call is its deadline, which is no class.
    Timeout,
    /// Nothing reached the other side, so that another try is safe even where a repeat is not: connection refused.
    NotSent,
    /// It failed and will fail again: bad input, no permission.
    Permanent,
    /// The caller gave up. Never retried, and no failure of the target.
    Cancelled,
    /// Says nothing about the target's health, and is not retried: a cache miss, a 404 that was expected.
    Ignored,
}

impl Class {
    /// All classes, in order.
    pub const ALL: [Self; 8] = [
        Self::Success,
        Self::Transient,
        Self::Throttled,
        Self::Timeout,
        Self::NotSent,
        Self::Permanent,
        Self::Cancelled,
        Self::Ignored,
    ];

    /// The class's stable word: `"success"`, `"transient"`, `"not_sent"` …
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Transient => "transient",
            Self::Throttled => "throttled",
            Self::Timeout => "timeout",
            Self::NotSent => "not_sent",
            Self::Permanent => "permanent",
            Self::Cancelled => "cancelled",
            Self::Ignored => "ignored",
        }
    }

    /// Whether it counts as a failure of the target (`transient`, `throttled`, `timeout`, `not_sent`). `success`
    /// and `permanent` show that the target answers; `cancelled` and `ignored` show nothing.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Transient | Self::Throttled | Self::Timeout | Self::NotSent)
    }
}

/// A set of [`Class`]es.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Classes(u8);

impl Classes {
    /// No class.
    pub const NONE: Self = Self(0);
    /// What is retried unless a policy says otherwise: `transient`, `throttled`, `timeout`, `not_sent`.
    pub const RETRYABLE: Self =
        Self::NONE.with(Class::Transient).with(Class::Throttled).with(Class::Timeout).with(Class::NotSent);

    /// This set and `class`.
    #[must_use]
    pub const fn with(self, class: Class) -> Self {
        Self(self.0 | 1 << class as u8)
    }

    /// Whether `class` is in the set.
    pub const fn contains(self, class: Class) -> bool {
        self.0 & 1 << class as u8 != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The classes in the set, in order.
    pub fn iter(self) -> impl Iterator<Item = Class> {
        Class::ALL.into_iter().filter(move |class| self.contains(*class))
    }
}

impl FromIterator<Class> for Classes {
    fn from_iter<I: IntoIterator<Item = Class>>(classes: I) -> Self {
        classes.into_iter().fold(Self::NONE, Self::with)
    }
}

impl From<Class> for Classes {
    fn from(class: Class) -> Self {
        Self::NONE.with(class)
    }
}

impl<const N: usize> From<[Class; N]> for Classes {
    fn from(classes: [Class; N]) -> Self {
        classes.into_iter().collect()
    }
}

/// Why a call ended, or was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// An attempt succeeded.
    Succeeded,
    /// The outcome's class is not one that the policy retries.
    NotRetryable,
    /// The policy's `max_attempts`, or the matching rule's, is reached.
    AttemptsExhausted,
    /// The next attempt would start at or after the deadline, so that waiting for it is pointless.
    DeadlineWouldPass,
    /// The deadline passed during an attempt or a wait.
    DeadlinePassed,
    /// The retry budget has nothing left.
    BudgetExhausted,
    /// The circuit breaker is open, or will still be when the wait ends.
    CircuitOpen,
    /// The rate limit would make the call wait too long.
    RateLimited,
    /// The bulkhead is full.
    BulkheadFull,
    /// The server asked for a longer wait than the policy accepts.
    HintOverMax,
    /// The server said not to try again.
    PushbackStop,
    /// A repeat might do the thing twice.
    NotIdempotent,
    /// The request body cannot be sent again.
    BodyNotReplayable,
    /// The caller gave up.
    Cancelled,
}

impl Reason {
    /// All reasons, in order.
    pub const ALL: [Self; 14] = [
        Self::Succeeded,
        Self::NotRetryable,
        Self::AttemptsExhausted,
        Self::DeadlineWouldPass,
        Self::DeadlinePassed,
        Self::BudgetExhausted,
        Self::CircuitOpen,
        Self::RateLimited,
        Self::BulkheadFull,
        Self::HintOverMax,
        Self::PushbackStop,
        Self::NotIdempotent,
        Self::BodyNotReplayable,
        Self::Cancelled,
    ];

    /// The reason's stable word: `"succeeded"`, `"deadline_would_pass"` …
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::NotRetryable => "not_retryable",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::DeadlineWouldPass => "deadline_would_pass",
            Self::DeadlinePassed => "deadline_passed",
            Self::BudgetExhausted => "budget_exhausted",
            Self::CircuitOpen => "circuit_open",
            Self::RateLimited => "rate_limited",
            Self::BulkheadFull => "bulkhead_full",
            Self::HintOverMax => "hint_over_max",
            Self::PushbackStop => "pushback_stop",
            Self::NotIdempotent => "not_idempotent",
            Self::BodyNotReplayable => "body_not_replayable",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Where a wait comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The policy's schedule, jittered.
    Schedule,
    /// The server's hint, such as `Retry-After`.
    Hint,
    /// gRPC's pushback: the server set this very wait.
    Pushback,
    /// The initial spread before a first attempt.
    Spread,
    /// A rate limit.
    Limiter,
    /// A bulkhead's queue: the longest that the wait may take.
    Bulkhead,
    /// A wait that the caller's own code chose.
    Custom,
}

impl Source {
    /// All sources, in order.
    pub const ALL: [Self; 7] = [
        Self::Schedule,
        Self::Hint,
        Self::Pushback,
        Self::Spread,
        Self::Limiter,
        Self::Bulkhead,
        Self::Custom,
    ];

    /// The source's stable word: `"schedule"`, `"hint"` …
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Hint => "hint",
            Self::Pushback => "pushback",
            Self::Spread => "spread",
            Self::Limiter => "limiter",
            Self::Bulkhead => "bulkhead",
            Self::Custom => "custom",
        }
    }
}

/// A word that names no [`Class`], [`Reason`] or [`Source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWord;

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a word that relent knows")
    }
}

impl core::error::Error for UnknownWord {}

macro_rules! words {
    ($($kind:ty),*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $kind {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                Self::ALL.into_iter().find(|known| known.as_str() == word).ok_or(UnknownWord)
            }
        }
    )*};
}

words!(Class, Reason, Source);
