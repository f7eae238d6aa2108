//! What happened in a call, in ids and numbers. The `relent` crate adds names, targets and texts.

use crate::{Class, Decision, Reason, RuleId};

/// Something that happened in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An attempt began.
    AttemptStarted {
        /// Its number, from 1.
        attempt: u32,
    },
    /// An attempt ended and the core decided.
    Decision {
        /// The number of the attempt that ended.
        attempt: u32,
        /// What the outcome was.
        class: Class,
        /// The rule that decided, if one did.
        rule: Option<RuleId>,
        /// What to do next.
        decision: Decision,
    },
    /// Something about an attempt that runs beside others.
    Hedge {
        /// Its number; of one that is not made, the number it would have had.
        attempt: u32,
        /// What.
        hedge: Hedge,
    },
    /// The call ended without success.
    GaveUp {
        /// How many attempts were made; 0 where none was admitted.
        attempts: u32,
        /// Why.
        reason: Reason,
    },
    /// A fallback was asked to answer for a call that had ended without success.
    Fallback {
        /// How many attempts were made.
        attempts: u32,
        /// Why the call had ended.
        reason: Reason,
        /// Whether it did.
        answered: bool,
    },
}

impl Event {
    /// The event's stable word: `"attempt_started"`, `"decision"`, `"hedge"`, `"gave_up"`, `"fallback"`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::AttemptStarted { .. } => "attempt_started",
            Self::Decision { .. } => "decision",
            Self::Hedge { .. } => "hedge",
            Self::GaveUp { .. } => "gave_up",
            Self::Fallback { .. } => "fallback",
        }
    }
}

/// What happened to an attempt that runs beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hedge {
    /// It starts, while others run or since one has failed.
    Started,
    /// It was due, and is not made.
    Suppressed {
        /// Why not.
        reason: Reason,
    },
    /// It succeeded first.
    Won,
    /// Another one decided the call, or will.
    Lost {
        /// What it ended as: [`Class::Cancelled`] where it was still running.
        class: Class,
    },
}

impl Hedge {
    /// The stable word: `"started"`, `"suppressed"`, `"won"`, `"lost"`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Suppressed { .. } => "suppressed",
            Self::Won => "won",
            Self::Lost { .. } => "lost",
        }
    }
}
