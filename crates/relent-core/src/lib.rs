//! The decision core of relent: *whether, when and why to try again*, decided in one place.
//!
//! A failed call deserves another try; a fleet that tries again in step turns a blip into an outage. This crate
//! holds the part of that problem that is arithmetic: it is told what happened, what time it is and a random
//! number, and it answers what to do and why. It does no I/O, reads no clock, owns no randomness and knows no
//! runtime, so the same code decides in a blocking loop, in an async one, around a shell command and in a
//! simulator with millions of clients.
//!
//! ```
//! use core::time::Duration;
//! use relent_core::{Alone, Call, Class, Decision, Moment, Outcome, Policy, Reason, Start};
//!
//! let policy = Policy::exponential(Duration::from_millis(100)).max_attempts(3).build()?;
//! let mut call = Call::new(None);
//! assert_eq!(call.start(&policy, &mut Alone, Moment::timeless(7)), Start::Go);
//!
//! // The first attempt failed: wait (here half of the range, because the random number is half of its own).
//! let failed = Outcome::of(Class::Transient);
//! let decision = call.decide(&policy, &mut Alone, failed, Moment::timeless(u64::MAX / 2 + 1));
//! assert!(matches!(decision, Decision::Retry { after, .. } if after == Duration::from_millis(50)));
//!
//! // So did the second and the third: that was the last one.
//! call.decide(&policy, &mut Alone, failed, Moment::timeless(7));
//! let decision = call.decide(&policy, &mut Alone, failed, Moment::timeless(7));
//! assert_eq!(decision, Decision::Stop { reason: Reason::AttemptsExhausted, after: None });
//! # Ok::<(), relent_core::PolicyError>(())
//! ```
//!
//! What was asked for is a [`Policy`]; one call is a [`Call`] (32 bytes of plain data, no heap); what calls share
//! stands behind [`Shared`]: a [`Breaker`], [`Budget`]s, a [`Limiter`], a [`Bulkhead`], a [`Throttle`], an
//! [`AdaptiveRate`], a [`BackoffMemory`], of which each call has its [`Share`]. A hedged call is a [`Race`]. All of them are told the time,
//! as the call is, and know no locks: whoever shares them between threads brings those. Times are [`Timestamp`]s and waits are [`Duration`](core::time::Duration)s; inside,
//! all is saturating integer nanoseconds, so a wait is at most 2⁶⁴ − 1 ns (584 years). Nothing here panics.

#![no_std]

extern crate alloc;

mod adaptive;
mod backoff;
mod breaker;
mod budget;
mod bulkhead;
mod call;
mod chaos;
mod class;
mod common;
mod entropy;
mod event;
mod hedge;
mod hint;
mod jitter;
mod latency;
mod limiter;
mod memory;
mod multiplier;
mod outcome;
mod plan;
mod policy;
mod ratio;
mod rule;
mod schedule;
mod shared;
mod slots;
mod step_functions;
mod throttle;
mod time;

pub use adaptive::AdaptiveRate;
pub use backoff::{Backoff, Bound, First, Memory, Range, Waits};
pub use breaker::{
    Breaker, BreakerMode, BreakerPolicy, BreakerSnapshot, BreakerState, BreakerStatistics, BreakerUnderWay,
    BreakerWindow, Permit, Refused, Standing, WindowSnapshot,
};
pub use budget::{
    Budget, BudgetPolicy, BudgetSnapshot, ConcurrentBudget, Priority, Quota, Stake, TokenBucket, WindowBudget,
};
pub use bulkhead::{Bulkhead, BulkheadPolicy, Entry, Place, Ticket};
pub use call::{Call, Decision, Moment, Start};
pub use chaos::{ChaosPolicy, Fault, Harm};
pub use class::{Class, Classes, Reason, Source, UnknownWord};
pub use common::{Common, Held, MAX_BUDGETS, Parts, Share};
pub use entropy::{Dice, entropy};
pub use event::{BreakerChange, BudgetRefusal, Event, Hedge, News};
pub use hedge::{HedgeAfter, HedgePolicy, HedgeStep, Race, RaceEnd};
pub use hint::{Hint, HintMode, HintPolicy, OverMax};
pub use jitter::Jitter;
pub use latency::Latencies;
pub use limiter::{Limiter, LimiterPolicy, Pace, Reservation, Turn};
pub use memory::{BackoffMemory, MemoryPolicy};
pub use multiplier::Multiplier;
pub use outcome::{Outcome, Repeat};
pub use plan::CommonPolicy;
pub use policy::{Deadline, OnBudget, OnDeadline, Policy, PolicyBuilder, PolicyError};
pub use ratio::{Rate, Ratio};
pub use rule::{Count, MAX_RULES, Rule, RuleId};
pub use schedule::{Schedule, Stage};
pub use shared::{Alone, Shared};
pub use step_functions::{ErrorNames, Retrier, StateExecution, StateRetry};
pub use throttle::{Throttle, ThrottleCurve, ThrottlePolicy};
pub use time::Timestamp;
