//! The AWS SDKs' retry quota: what a retry costs depends on the failure, and a success brings it back.

use super::{Stake, Withdrawal};
use crate::policy::refuse;
use crate::{Class, Outcome, PolicyError, Ratio};

/// A quota: a retry costs by the class of the failure, and a success after it brings the cost of the last retry back.
///
/// It knows no time, so it asks for no clock. Without any success it stays empty: what failed for good has spent what
/// it cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quota {
    /// How much there is at most.
    pub capacity: u32,
    /// What a retry after a transient failure costs.
    pub transient: u32,
    /// What a retry after throttling costs.
    pub throttled: u32,
    /// What a retry after a timed-out attempt costs.
    pub timeout: u32,
    /// What a retry costs after nothing was sent.
    pub not_sent: u32,
    /// What a success at the first try adds.
    pub first_success: u32,
}

impl Quota {
    /// A quota of `capacity` of which each retry costs `cost`, and to which a success at the first try adds 1.
    pub const fn new(capacity: u32, cost: u32) -> Self {
        Self { capacity, transient: cost, throttled: cost, timeout: cost, not_sent: cost, first_success: 1 }
    }

    /// The AWS SDKs' standard mode since 2026: 500; 14, or 5 where the failure was throttling (botocore 1.44.8
    /// `retries/standard.py`, smithy-rs `strategy/standard.rs`).
    pub const fn aws_2026() -> Self {
        Self::new(500, 14).throttled(5)
    }

    /// The AWS SDKs' standard mode before: 500; 5, or 10 where the attempt timed out (botocore, aws-sdk-go-v2).
    pub const fn aws_classic() -> Self {
        Self::new(500, 5).timeout(10)
    }

    /// What a retry after a transient failure costs.
    #[must_use]
    pub const fn transient(self, cost: u32) -> Self {
        Self { transient: cost, ..self }
    }

    /// What a retry after throttling costs.
    #[must_use]
    pub const fn throttled(self, cost: u32) -> Self {
        Self { throttled: cost, ..self }
    }

    /// What a retry after a timed-out attempt costs.
    #[must_use]
    pub const fn timeout(self, cost: u32) -> Self {
        Self { timeout: cost, ..self }
    }

    /// What a retry costs after nothing was sent.
    #[must_use]
    pub const fn not_sent(self, cost: u32) -> Self {
        Self { not_sent: cost, ..self }
    }

    /// What a success at the first try adds. Default: 1.
    #[must_use]
    pub const fn first_success(self, amount: u32) -> Self {
        Self { first_success: amount, ..self }
    }

    /// How much there is at most.
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// What a retry after a failure of `class` costs.
    pub const fn cost(&self, class: Class) -> u32 {
        match class {
            Class::Throttled => self.throttled,
            Class::Timeout => self.timeout,
            Class::NotSent => self.not_sent,
            // Whatever else a policy retries.
            Class::Transient | Class::Permanent | Class::Ignored | Class::Success | Class::Cancelled => {
                self.transient
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), PolicyError> {
        let costs = [self.transient, self.throttled, self.timeout, self.not_sent];
        if self.capacity == 0 {
            return Err(refuse("capacity", "holds nothing; leave retries out instead"));
        }
        if costs.iter().all(|cost| *cost == 0) {
            return Err(refuse("cost", "nothing costs anything, so nothing is limited"));
        }
        if costs.iter().any(|cost| *cost > self.capacity) {
            return Err(refuse("cost", "is more than the capacity, so that no such retry is ever allowed"));
        }
        Ok(())
    }
}

/// What is left of a quota.
#[derive(Clone, Debug)]
pub(super) struct Left {
    policy: Quota,
    balance: u32,
}

impl Left {
    pub(super) fn new(policy: Quota) -> Self {
        Self { policy, balance: policy.capacity }
    }

    pub(super) fn settle(&mut self, outcome: &Outcome, stake: &mut Stake) {
        let taken = stake.taken.take();
        if outcome.class == Class::Success {
            let refund = taken.map_or(self.policy.first_success, |taken| taken.amount);
            self.deposit(refund);
        }
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.balance == self.policy.capacity || self.policy.first_success == 0
    }

    pub(super) fn withdraw(&mut self, class: Class, kept: Ratio, stake: &mut Stake, now: u64) -> bool {
        let cost = self.policy.cost(class);
        let needed = u64::from(cost) + kept.of(u64::from(self.policy.capacity));
        if needed > u64::from(self.balance) {
            return false;
        }
        self.balance -= cost;
        stake.taken = Some(Withdrawal { amount: cost, at: now });
        true
    }

    pub(super) fn put_back(&mut self, taken: Withdrawal) {
        self.deposit(taken.amount);
    }

    pub(super) fn balance(&self) -> u64 {
        u64::from(self.balance) * 1_000
    }

    pub(super) fn left(&self) -> u32 {
        self.balance
    }

    pub(super) fn restore(&mut self, balance: u32) {
        self.balance = balance.min(self.policy.capacity);
    }

    fn deposit(&mut self, amount: u32) {
        self.balance = self.balance.saturating_add(amount).min(self.policy.capacity);
    }
}
