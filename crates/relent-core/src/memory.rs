//! Backoff memory: a call to a target that struggles does not begin its waits anew.

use core::time::Duration;

use crate::policy::refuse;
use crate::time::nanos;
use crate::{Class, Outcome, PolicyError, Timestamp};

/// What a backoff memory is to be: `memory = { half_life = "30s", steps = 8 }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPolicy {
    /// After how long without failures a level is half of what it was.
    pub half_life: Duration,
    /// At which wait a call begins where everything fails.
    pub steps: u32,
}

impl MemoryPolicy {
    /// The half-life of what it remembers, above zero: after so long without failures the target's level is half of what
    /// it was. A policy file's default is 30 s: about as long as a blip, and less than an outage.
    pub const fn new(half_life: Duration) -> Self {
        Self { half_life, steps: 8 }
    }

    /// The wait of the schedule, counted from 1, at which a call begins where everything fails; from 1 (which changes
    /// nothing) to 64. Default: 8, with which 100 ms doubled have come to 12.8 s.
    #[must_use]
    pub const fn steps(self, steps: u32) -> Self {
        Self { steps, ..self }
    }

    /// Looks whether it can work.
    ///
    /// # Errors
    ///
    /// What cannot, by the key of a policy file.
    pub fn check(&self) -> Result<(), PolicyError> {
        if self.half_life.is_zero() {
            return Err(refuse("half_life", "remembers nothing; leave `memory` out instead"));
        }
        if self.steps == 0 || self.steps > 64 {
            return Err(refuse("steps", "must be from 1 to 64"));
        }
        Ok(())
    }
}

/// What a target's calls remember of its failures: a level from 0 to 1, about the share of the last while in which
/// attempts failed.
///
/// A call's schedule begins with the first wait. Where the target has been failing for a minute that is wrong: it is the
/// hundredth call that waits 100 ms, and one success in between does not show that the target is well. So a call begins
/// with wait number [`step`](Self::step) of its schedule, which is the level's share of [`steps`](MemoryPolicy::steps),
/// and goes on from there.
///
/// - The level halves with each half-life, whatever happens.
/// - A failure (`transient`, `throttled`, `timeout`, `not_sent`) adds what time has taken since the outcome before it: with
///   nothing but failures the level goes to 1, with failures every other time to a half, however many calls there
///   are. But it adds at most one step, so that failures after a long quiet time are not taken for a long failure.
/// - A success (or `permanent`, which is an answer too) adds nothing. It does not take the level to 0 either.
/// - `ignored` and `cancelled` say nothing.
///
/// A call whose target nobody else calls waits as if nothing were remembered: its own failures never
/// amount to more steps than its schedule has made. Times that step back count as the latest time seen.
///
/// ```
/// use core::time::Duration;
/// use relent_core::{BackoffMemory, Class, MemoryPolicy, Outcome, Timestamp};
///
/// let mut memory = BackoffMemory::new(MemoryPolicy::new(Duration::from_secs(30)))?;
/// let at = |secs| Timestamp::from_duration(Duration::from_secs(secs));
/// for secs in 0..=60 {
///     memory.settle(&Outcome::of(Class::Transient), at(secs));
/// }
/// assert_eq!(memory.step(at(60)), 6);
/// // A success does not change its mind at once; time does.
/// memory.settle(&Outcome::of(Class::Success), at(61));
/// assert_eq!(memory.step(at(61)), 6);
/// assert_eq!(memory.step(at(91)), 3);
/// # Ok::<(), relent_core::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BackoffMemory {
    policy: MemoryPolicy,
    /// The level at the time of the last outcome.
    level: f64,
    /// When that was, in nanoseconds; none before the first.
    heard: Option<u64>,
}

impl BackoffMemory {
    /// One that remembers nothing yet.
    ///
    /// # Errors
    ///
    /// What cannot work about the policy, by the key of a policy file.
    pub fn new(policy: MemoryPolicy) -> Result<Self, PolicyError> {
        policy.check()?;
        Ok(Self { policy, level: 0.0, heard: None })
    }

    /// Takes in how an attempt ended.
    pub fn settle(&mut self, outcome: &Outcome, now: Timestamp) {
        if matches!(outcome.class, Class::Cancelled | Class::Ignored) {
            return;
        }
        let left = self.left(now);
        self.level *= left;
        if outcome.class.is_failure() {
            self.level += (1.0 - left).min(1.0 / f64::from(self.policy.steps));
        }
        self.heard = Some(self.heard.unwrap_or(0).max(now.as_nanos()));
    }

    /// The level, from 0 (well) to 1 (nothing but failures, for several half-lives).
    pub fn level(&self, now: Timestamp) -> f64 {
        self.level * self.left(now)
    }

    /// The wait of a schedule with which a call begins now, counted from 1; 0 where nothing is remembered, which leaves
    /// schedules as they are, as 1 does.
    pub fn step(&self, now: Timestamp) -> u32 {
        libm::round(self.level(now) * f64::from(self.policy.steps)) as u32
    }

    /// Forgets everything, as after a repair that one knows of.
    pub fn forget(&mut self) {
        (self.level, self.heard) = (0.0, None);
    }

    /// What it is to be.
    pub const fn policy(&self) -> &MemoryPolicy {
        &self.policy
    }

    /// The share of what was known at the last outcome that is left now.
    fn left(&self, now: Timestamp) -> f64 {
        let Some(heard) = self.heard else { return 0.0 };
        let since = now.as_nanos().saturating_sub(heard);
        libm::exp2(-(since as f64) / nanos(self.policy.half_life) as f64)
    }
}
