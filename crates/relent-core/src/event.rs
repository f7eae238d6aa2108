//! What happened in a call, in ids and numbers. The `relent` crate adds names, targets and texts.

use crate::{BreakerState, Class, Decision, Reason, RuleId};

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
    /// The breaker has changed its state: by this call's attempt, or because time has passed when it asked.
    BreakerState {
        /// The number of the attempt that ended, or that asked to be admitted.
        attempt: u32,
        /// How.
        change: BreakerChange,
    },
    /// A budget had not enough for a retry or a hedge.
    Budget {
        /// The number of the attempt that ended, or the one that a hedge would have had.
        attempt: u32,
        /// Which one, and what it held.
        refusal: BudgetRefusal,
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
            Self::BreakerState { .. } => "breaker_state",
            Self::Budget { .. } => "budget",
            Self::GaveUp { .. } => "gave_up",
            Self::Fallback { .. } => "fallback",
        }
    }
}

/// A breaker's change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerChange {
    /// Where it was.
    pub from: BreakerState,
    /// Where it is now.
    pub to: BreakerState,
    /// The number of the new state ([`Breaker::generation`](crate::Breaker::generation)).
    pub generation: u64,
}

/// That a budget had not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetRefusal {
    /// Its place among the target's budgets, from 0.
    pub budget: u8,
    /// What it held ([`Budget::balance`](crate::Budget::balance)), in thousandths.
    pub balance: u64,
}

/// What a call has to tell of what it shares, since it was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// The breaker has changed its state.
    pub breaker: Option<BreakerChange>,
    /// A budget has refused.
    pub budget: Option<BudgetRefusal>,
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
