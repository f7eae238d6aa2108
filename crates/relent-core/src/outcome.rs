//! What the core is told about an attempt that ended.

use core::time::Duration;

use crate::{Class, Hint, RuleId};

/// How an attempt ended, as far as the decision needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Outcome {
    /// Would another try help?
    pub class: Class,
    /// Is another try safe?
    pub repeat: Repeat,
    /// The rule that the classifier named, if it named one. Otherwise the first rule that lists the class matches.
    pub rule: Option<RuleId>,
    /// What the server asked for.
    pub hint: Option<Hint>,
    /// How long the attempt was healthy before it ended: the life of a connection, say. From
    /// [`Backoff::reset_after`](crate::Backoff::reset_after) on, the failure begins a new series.
    pub healthy_for: Option<Duration>,
}

impl Outcome {
    /// An outcome of `class` that may safely be repeated, without rule or hint.
    pub const fn of(class: Class) -> Self {
        Self { class, repeat: Repeat::Safe, rule: None, hint: None, healthy_for: None }
    }

    /// The same with the server's `hint`.
    pub const fn hint(self, hint: Hint) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// The same, named to `rule`.
    pub const fn rule(self, rule: RuleId) -> Self {
        Self { rule: Some(rule), ..self }
    }

    /// The same, with what is known about repeating it.
    pub const fn repeat(self, repeat: Repeat) -> Self {
        Self { repeat, ..self }
    }

    /// The same, after having been healthy for a time.
    pub const fn healthy_for(self, time: Duration) -> Self {
        Self { healthy_for: Some(time), ..self }
    }
}

/// Whether another try is safe. A separate question from whether it would help: see [`Class`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Repeat {
    /// A repeat does no harm.
    #[default]
    Safe,
    /// A repeat might do the thing twice. Still retried where nothing was sent ([`Class::NotSent`]).
    NotIdempotent,
    /// What was sent cannot be sent again.
    BodyNotReplayable,
}

impl From<Class> for Outcome {
    fn from(class: Class) -> Self {
        Self::of(class)
    }
}

/// Whether another try may help: [`Class::Transient`] if so, else [`Class::Permanent`].
impl From<bool> for Outcome {
    fn from(again: bool) -> Self {
        Self::of(if again { Class::Transient } else { Class::Permanent })
    }
}
