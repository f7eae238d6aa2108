//! A share of what is under way.

use super::{Stake, Withdrawal};
use crate::policy::refuse;
use crate::ratio::WHOLE;
use crate::{PolicyError, Ratio};

/// Of the calls that are under way, a share may be retrying (Envoy's retry budget, failsafe-go's).
///
/// A call is under way from its beginning to its end, its waits included, and a retry from the decision to make it:
/// those that wait count. It knows no time, so it asks for no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConcurrentBudget {
    /// Retries per call under way.
    pub ratio: Ratio,
    /// Retries that are allowed however few calls there are.
    pub floor: u32,
}

impl ConcurrentBudget {
    /// So many retries per call under way, and 3 in any case (Envoy's `min_retry_concurrency`; its ratio is 0.2).
    pub const fn new(ratio: Ratio) -> Self {
        Self { ratio, floor: 3 }
    }

    /// Retries under way that are allowed however few calls there are. Default: 3.
    #[must_use]
    pub const fn floor(self, retries: u32) -> Self {
        Self { floor: retries, ..self }
    }

    pub(super) fn check(&self) -> Result<(), PolicyError> {
        if self.ratio == Ratio::ZERO && self.floor == 0 {
            return Err(refuse("ratio", "allows no retry at all; leave retries out instead"));
        }
        Ok(())
    }
}

/// What is under way.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    policy: ConcurrentBudget,
    calls: u64,
    retries: u64,
}

impl UnderWay {
    pub(super) fn new(policy: ConcurrentBudget) -> Self {
        Self { policy, calls: 0, retries: 0 }
    }

    pub(super) fn begin(&mut self) {
        self.calls = self.calls.saturating_add(1);
    }

    pub(super) fn settle(&mut self, stake: &mut Stake) {
        if stake.taken.take().is_some() {
            self.retries = self.retries.saturating_sub(1);
        }
    }

    pub(super) fn withdraw(&mut self, kept: Ratio, stake: &mut Stake, now: u64) -> bool {
        let allowed = self.allowed();
        let taken = self.retries.saturating_add(1).saturating_mul(WHOLE);
        if taken.saturating_add(kept.of(allowed)) > allowed {
            return false;
        }
        self.retries += 1;
        stake.taken = Some(Withdrawal { amount: 1, at: now });
        true
    }

    pub(super) fn put_back(&mut self) {
        self.retries = self.retries.saturating_sub(1);
    }

    pub(super) fn end(&mut self) {
        self.calls = self.calls.saturating_sub(1);
    }

    pub(super) fn balance(&self) -> u64 {
        self.allowed().saturating_sub(self.retries.saturating_mul(WHOLE)) / (WHOLE / 1_000)
    }

    /// In millionths of a retry.
    fn allowed(&self) -> u64 {
        let floor = u64::from(self.policy.floor) * WHOLE;
        self.policy.ratio.millionths_of(self.calls).max(floor)
    }
}
