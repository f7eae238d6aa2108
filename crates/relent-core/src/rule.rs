//! Rules: entries that give some outcomes their own limit or schedule.

use core::num::NonZeroU32;

use crate::{Backoff, Class, Classes};

/// How many rules a policy may have: their counters live inside the [`Call`](crate::Call).
pub const MAX_RULES: usize = 6;

/// The most attempts that a rule may allow: its counter is a byte.
pub(crate) const MAX_RULE_ATTEMPTS: u32 = 254;

/// The number of a rule in its policy, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u8);

/// An entry that gives some outcomes their own limit or schedule.
///
/// The first matching rule decides, even when it is exhausted. A rule matches an outcome whose classifier named it,
/// or, where none was named, one whose class it lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub(crate) classes: Classes,
    pub(crate) max_attempts: Option<NonZeroU32>,
    pub(crate) zero_attempts: bool,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) count: Count,
}

/// Which failures a rule's schedule counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Count {
    /// The rule's own (Step Functions). Beyond 255 of them in one call its schedule stays where it is.
    #[default]
    Own,
    /// All of the call (AWS SDKs).
    All,
}

impl Rule {
    /// A rule for these classes.
    pub fn on(classes: impl Into<Classes>) -> Self {
        let classes = classes.into();
        Self { classes, max_attempts: None, zero_attempts: false, backoff: None, count: Count::Own }
    }

    /// A rule that matches only where a classifier names it.
    pub fn named() -> Self {
        Self::on(Classes::NONE)
    }

    /// The call stops at the rule's failure number `attempts` (at most 254). 1: its outcomes are never retried.
    /// Default: only the policy's own limit.
    #[must_use]
    pub fn max_attempts(self, attempts: u32) -> Self {
        Self { max_attempts: NonZeroU32::new(attempts), zero_attempts: attempts == 0, ..self }
    }

    /// The rule's own backoff. Default: the policy's. Its `initial_spread` and `reset_after` are not looked at: both
    /// are the whole call's.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff: Some(backoff), ..self }
    }

    /// Which failures its schedule counts. Default: [`Count::Own`]. Has an effect only with a backoff of its own.
    #[must_use]
    pub fn count(self, count: Count) -> Self {
        Self { count, ..self }
    }

    /// The classes it matches without being named.
    pub fn classes(&self) -> Classes {
        self.classes
    }

    /// Its own limit.
    pub fn limit(&self) -> Option<u32> {
        self.max_attempts.map(NonZeroU32::get)
    }

    /// Its own backoff.
    pub fn own_backoff(&self) -> Option<&Backoff> {
        self.backoff.as_ref()
    }

    /// Which failures its schedule counts.
    pub fn counts(&self) -> Count {
        self.count
    }

    pub(crate) fn matches(&self, class: Class) -> bool {
        self.classes.contains(class)
    }
}
