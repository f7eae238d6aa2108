//! Schedules: the waits before cap and jitter.

use alloc::boxed::Box;
use core::time::Duration;

use crate::Multiplier;
use crate::time::nanos;

/// The waits between attempts, before cap and jitter.
///
/// Also called: backoff strategy, interval function, delay type. `n` below is the number of the wait, from 1.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Schedule {
    /// The same wait each time.
    Constant {
        /// The wait.
        initial: Duration,
    },
    /// `initial + (n − 1)·step`.
    Linear {
        /// The first wait.
        initial: Duration,
        /// What each further wait adds.
        step: Duration,
    },
    /// `initial · multiplier^(n − 1)`.
    Exponential {
        /// The first wait.
        initial: Duration,
        /// The growth per wait.
        multiplier: Multiplier,
    },
    /// `initial` × 1, 1, 2, 3, 5, 8 …
    Fibonacci {
        /// The first wait.
        initial: Duration,
    },
    /// Exactly these waits; the last one repeats.
    List(Box<[Duration]>),
    /// One stage after another by the time since the call began, as mail servers do it; the last one goes on.
    Stages(Box<[Stage]>),
    /// Ethernet's truncated binary exponential backoff (IEEE 802.3): a whole number of slots, drawn from
    /// `[0, 2^min(n, max_exponent))`. It draws by itself and takes no jitter.
    Csma {
        /// The slot time: 51.2 µs at 10 Mb/s.
        slot: Duration,
        /// Where the doubling ends: 10 in the standard.
        max_exponent: u32,
    },
}

/// A stage of [`Schedule::Stages`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// The stage holds while less than this has passed since the call began. None: for ever.
    pub until: Option<Duration>,
    /// The stage's first wait, and its shortest.
    pub initial: Duration,
    /// Each wait is the one before it times this. 1: always `initial`.
    pub multiplier: Multiplier,
}

impl Schedule {
    /// Exponential, doubling.
    pub const fn exponential(initial: Duration) -> Self {
        Self::Exponential { initial, multiplier: Multiplier::TWO }
    }

    /// The schedule's word in a policy file.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Constant { .. } => "constant",
            Self::Linear { .. } => "linear",
            Self::Exponential { .. } => "exponential",
            Self::Fibonacci { .. } => "fibonacci",
            Self::List(_) => "list",
            Self::Stages(_) => "stages",
            Self::Csma { .. } => "csma",
        }
    }

    /// The wait before the first retry, before cap and jitter; for `csma` the slot.
    pub fn initial(&self) -> Duration {
        match self {
            Self::Constant { initial }
            | Self::Linear { initial, .. }
            | Self::Exponential { initial, .. }
            | Self::Fibonacci { initial } => *initial,
            Self::List(waits) => waits.first().copied().unwrap_or(Duration::ZERO),
            Self::Stages(stages) => stages.first().map_or(Duration::ZERO, |stage| stage.initial),
            Self::Csma { slot, .. } => *slot,
        }
    }

    /// Wait number `n` (from 1) in nanoseconds, `elapsed` after the call began, where `previous` was the last one.
    #[inline]
    pub(crate) fn raw(&self, n: u32, elapsed: u64, previous: u64) -> u64 {
        let steps = n.saturating_sub(1);
        match self {
            Self::Exponential { initial, multiplier } => multiplier.grow(nanos(*initial), steps),
            Self::Constant { initial } => nanos(*initial),
            Self::Linear { initial, step } => {
                nanos(*initial).saturating_add(nanos(*step).saturating_mul(u64::from(steps)))
            }
            Self::Fibonacci { initial } => nanos(*initial).saturating_mul(fibonacci(steps)),
            Self::List(waits) => {
                let last = waits.len().saturating_sub(1);
                let index = usize::try_from(steps).map_or(last, |steps| steps.min(last));
                waits.get(index).map_or(0, |wait| nanos(*wait))
            }
            Self::Stages(stages) => staged(stages, elapsed, previous),
            Self::Csma { slot, max_exponent } => nanos(*slot).saturating_mul(slots(n, *max_exponent)),
        }
    }
}

/// How many slots wait `n` is drawn from: 2^min(n, limit).
pub(crate) fn slots(n: u32, max_exponent: u32) -> u64 {
    1u64.checked_shl(n.min(max_exponent)).unwrap_or(u64::MAX)
}

/// 1, 1, 2, 3, 5 …; saturates at number 92.
fn fibonacci(index: u32) -> u64 {
    let (mut this, mut next) = (1u64, 1u64);
    for _ in 0..index.min(93) {
        (this, next) = (next, this.saturating_add(next));
    }
    this
}

fn staged(stages: &[Stage], elapsed: u64, previous: u64) -> u64 {
    let holds = |stage: &&Stage| stage.until.is_none_or(|until| elapsed < nanos(until));
    let Some(stage) = stages.iter().find(holds).or(stages.last()) else { return 0 };
    let initial = nanos(stage.initial);
    if stage.multiplier == Multiplier::ONE {
        return initial;
    }
    // Exim's rule for a geometric stage: from the wait before it, at least the stage's own start.
    initial.max(stage.multiplier.grow(previous, 1))
}
