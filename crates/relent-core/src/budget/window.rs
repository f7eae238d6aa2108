//! A share of the calls of the last seconds.

use core::time::Duration;

use super::{BudgetSnapshot, Stake, Withdrawal};
use crate::policy::refuse;
use crate::ratio::WHOLE;
use crate::slots::{Slots, Tally};
use crate::time::nanos;
use crate::{PolicyError, Ratio, Timestamp};

/// Retries may be a share of the calls of the last seconds, and a few per second more (Finagle, Linkerd, the Gateway
/// API's `retryConstraint`).
///
/// Calls and retries both leave the window, in steps of a tenth of it. Over any such window there are never more
/// retries than `ratio` × calls + `floor` × its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowBudget {
    /// Retries per call.
    pub ratio: Ratio,
    /// How long calls and retries count.
    pub ttl: Duration,
    /// Retries per second that are allowed however few calls there are.
    pub floor: u32,
}

impl WindowBudget {
    /// So many retries per call, over 10 s, and 10 per second in any case (Finagle's defaults, with a ratio of 0.2).
    pub const fn new(ratio: Ratio) -> Self {
        Self { ratio, ttl: Duration::from_secs(10), floor: 10 }
    }

    /// How long calls and retries count. Default: 10 s.
    #[must_use]
    pub const fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Retries per second that are allowed however few calls there are. Default: 10.
    #[must_use]
    pub const fn floor(self, per_second: u32) -> Self {
        Self { floor: per_second, ..self }
    }

    pub(super) fn check(&self) -> Result<(), PolicyError> {
        if self.ttl.is_zero() {
            return Err(refuse("ttl", "a window of no length holds no call"));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    calls: u64,
    retries: u64,
}

impl Tally for Traffic {
    fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.retries = self.retries.saturating_add(other.retries);
    }

    fn subtract(&mut self, other: &Self) {
        self.calls = self.calls.saturating_sub(other.calls);
        self.retries = self.retries.saturating_sub(other.retries);
    }
}

const CALL: Traffic = Traffic { calls: 1, retries: 0 };
const RETRY: Traffic = Traffic { calls: 0, retries: 1 };

/// A window's state.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    policy: WindowBudget,
    /// Eleven tenths: a retry counts for at least the ttl, so that the floor is never exceeded.
    traffic: Slots<Traffic, 11>,
    /// The latest time seen.
    latest: u64,
}

impl Recent {
    pub(super) fn new(policy: WindowBudget) -> Self {
        Self { policy, traffic: Slots::new(policy.ttl), latest: 0 }
    }

    pub(super) fn begin(&mut self, now: u64) {
        self.advance(now);
        self.traffic.add(&CALL);
    }

    pub(super) fn withdraw(&mut self, kept: Ratio, stake: &mut Stake, now: u64) -> bool {
        self.advance(now);
        let allowed = self.allowed();
        let taken = self.taken().saturating_add(WHOLE).saturating_add(kept.of(allowed));
        if taken > allowed {
            return false;
        }
        self.traffic.add(&RETRY);
        stake.taken = Some(Withdrawal { amount: 1, at: self.traffic.counted_at(now) });
        true
    }

    pub(super) fn put_back(&mut self, taken: Withdrawal) {
        // A withdrawal that has left the window has come back by that.
        self.traffic.take_back(&RETRY, taken.at);
    }

    pub(super) fn balance(&mut self, now: u64) -> u64 {
        self.advance(now);
        self.allowed().saturating_sub(self.taken()) / (WHOLE / 1_000)
    }

    pub(super) fn snapshot(&self) -> BudgetSnapshot {
        let slots = self.traffic.iter().filter(|(_, traffic)| traffic.calls > 0 || traffic.retries > 0);
        BudgetSnapshot::Window {
            slots: slots
                .map(|(since, traffic)| (Timestamp::from_nanos(since), [traffic.calls, traffic.retries]))
                .collect(),
            latest: Timestamp::from_nanos(self.latest),
        }
    }

    pub(super) fn restore(&mut self, slots: &[(Timestamp, [u64; 2])], latest: u64, now: u64) {
        self.traffic.clear();
        let back = latest.saturating_sub(now);
        for (since, [calls, retries]) in slots {
            self.traffic.advance(since.as_nanos().saturating_sub(back).min(now));
            self.traffic.add(&Traffic { calls: *calls, retries: *retries });
        }
        self.advance(now);
    }

    fn advance(&mut self, now: u64) {
        self.latest = self.latest.max(now);
        self.traffic.advance(now);
    }

    /// In millionths of a retry, as is what was taken.
    fn allowed(&self) -> u64 {
        let floor = u128::from(self.policy.floor) * u128::from(nanos(self.policy.ttl)) / 1_000;
        let floor = u64::try_from(floor).unwrap_or(u64::MAX);
        self.policy.ratio.millionths_of(self.traffic.total().calls).saturating_add(floor)
    }

    fn taken(&self) -> u64 {
        self.traffic.total().retries.saturating_mul(WHOLE)
    }
}
