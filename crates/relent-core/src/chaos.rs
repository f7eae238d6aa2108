//! Chaos: which operations fail, and how slowly, when one wants to see what the program makes of it.

use core::time::Duration;

use crate::jitter::scale;
use crate::policy::refuse;
use crate::ratio::WHOLE;
use crate::time::nanos;
use crate::{Dice, PolicyError, Ratio};

/// What harm is done: at which rates, and when. Nothing, as it begins.
///
/// ```
/// use core::time::Duration;
/// use relent_core::{ChaosPolicy, Dice, Fault, Ratio};
///
/// let policy = ChaosPolicy::new()
///     .faults(Ratio::percent(5))
///     .latency(Ratio::percent(10), Duration::from_millis(200))
///     .outages(Duration::from_secs(60), Duration::from_secs(10));
/// policy.check()?;
///
/// let mut dice = Dice::new(7);
/// let harms: Vec<_> = (0..10_000).map(|_| policy.harm(Duration::ZERO, dice.roll())).collect();
/// assert_eq!(harms.iter().filter(|harm| harm.fault == Some(Fault::NotSent)).count(), 481);
/// assert_eq!(harms.iter().filter(|harm| harm.delay > Duration::ZERO).count(), 997);
/// // A minute after it began, for ten seconds: all of them.
/// assert_eq!(policy.harm(Duration::from_secs(61), dice.roll()).fault, Some(Fault::Outage));
/// # Ok::<(), relent_core::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChaosPolicy {
    faults: Ratio,
    lost_answers: Ratio,
    slowed: Ratio,
    /// The shortest and the longest delay, in nanoseconds.
    delay: (u64, u64),
    /// How often an outage comes and how long it lasts, in nanoseconds; 0: never.
    every: u64,
    lasts: u64,
}

/// What happens to one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Harm {
    /// What is waited before anything else: zero where nothing is.
    pub delay: Duration,
    /// How it fails, if it is to.
    pub fault: Option<Fault>,
}

/// How an operation is made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// It is not done at all.
    NotSent,
    /// It is done, and its answer is lost: what shows whether doing it again does harm.
    AnswerLost,
    /// It is not done, nor is any other while the outage lasts.
    Outage,
}

impl ChaosPolicy {
    /// No harm.
    pub const fn new() -> Self {
        Self {
            faults: Ratio::ZERO,
            lost_answers: Ratio::ZERO,
            slowed: Ratio::ZERO,
            delay: (0, 0),
            every: 0,
            lasts: 0,
        }
    }

    /// The share of the operations, from 0 to 1, that fail without having been done. Default: none.
    #[must_use]
    pub const fn faults(self, share: Ratio) -> Self {
        Self { faults: share, ..self }
    }

    /// The share of the operations, from 0 to 1, that are done and yet fail. Together with [`faults`](Self::faults) at most
    /// 1. Default: none.
    #[must_use]
    pub const fn lost_answers(self, share: Ratio) -> Self {
        Self { lost_answers: share, ..self }
    }

    /// The share of the operations, from 0 to 1, that begin `delay` late, those that then fail among them. Default: none.
    #[must_use]
    pub const fn latency(self, share: Ratio, delay: Duration) -> Self {
        self.latency_between(share, delay, delay)
    }

    /// The same, each late by a time of its own, drawn uniformly from `shortest` (included) to `longest`.
    #[must_use]
    pub const fn latency_between(self, share: Ratio, shortest: Duration, longest: Duration) -> Self {
        Self { slowed: share, delay: (nanos(shortest), nanos(longest)), ..self }
    }

    /// Outages, in which every operation fails: the first begins when `every` has passed, the next after as much again, and
    /// each lasts for `lasts`, which is less. Default: none.
    #[must_use]
    pub const fn outages(self, every: Duration, lasts: Duration) -> Self {
        Self { every: nanos(every), lasts: nanos(lasts), ..self }
    }

    /// Whether it can work.
    ///
    /// # Errors
    ///
    /// What cannot work, by the key of a policy file.
    pub fn check(&self) -> Result<(), PolicyError> {
        let shares = [self.faults, self.lost_answers, self.slowed];
        if shares.iter().any(|share| *share > Ratio::ONE) {
            return Err(refuse("chaos", "a share of the operations is at most 1"));
        }
        if self.faults.millionths_of(1) + self.lost_answers.millionths_of(1) > WHOLE {
            return Err(refuse("lost_answers", "and `faults` are more than all operations together"));
        }
        if self.delay.0 > self.delay.1 {
            return Err(refuse("latency", "its shortest delay is longer than its longest"));
        }
        if self.slowed > Ratio::ZERO && self.delay.1 == 0 {
            return Err(refuse("latency", "delays by nothing; leave it out instead"));
        }
        if self.lasts > 0 && self.lasts >= self.every {
            return Err(refuse("outages", "would never end: they must be shorter than what is between them"));
        }
        if self.lasts == 0 && self.every > 0 {
            return Err(refuse("outages", "last for no time; leave them out instead"));
        }
        Ok(())
    }

    /// What happens to an operation that begins `elapsed` after the chaos did, by a number drawn uniformly from all of
    /// `u64`. The same number does the same harm.
    pub fn harm(&self, elapsed: Duration, entropy: u64) -> Harm {
        let mut dice = Dice::new(entropy);
        let (by_fault, by_delay, within) = (dice.roll(), dice.roll(), dice.roll());
        let delay = if scale(WHOLE, by_delay) < self.slowed.millionths_of(1) {
            let (shortest, longest) = self.delay;
            shortest.saturating_add(scale(longest.saturating_sub(shortest), within))
        } else {
            0
        };
        let (faults, lost) = (self.faults.millionths_of(1), self.lost_answers.millionths_of(1));
        let fault = match scale(WHOLE, by_fault) {
            _ if self.is_outage(nanos(elapsed)) => Some(Fault::Outage),
            drawn if drawn < faults => Some(Fault::NotSent),
            drawn if drawn < faults.saturating_add(lost) => Some(Fault::AnswerLost),
            _ => None,
        };
        Harm { delay: Duration::from_nanos(delay), fault }
    }

    fn is_outage(&self, elapsed: u64) -> bool {
        let into = elapsed.checked_rem(self.every);
        elapsed >= self.every && into.is_some_and(|into| into < self.lasts)
    }
}
