//! Tokens that refill with time, with success, or both.

use super::{BudgetSnapshot, Stake, Withdrawal};
use crate::policy::refuse;
use crate::{Hint, Outcome, PolicyError, Rate, Ratio, Timestamp};

/// A bucket of tokens: each retry takes some, time or successes bring them back.
///
/// All amounts are in thousandths of a token, which is what gRPC prescribes for its ratio and what keeps ten
/// successes of 0.1 from making anything but one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenBucket {
    capacity: u64,
    /// What time brings back.
    pub refill: Option<Rate>,
    /// What a success brings, in thousandths of a token.
    pub per_success: u32,
    /// What a failure takes, in thousandths of a token.
    pub per_failure: u32,
    /// What a retry takes, in thousandths of a token.
    pub per_retry: u32,
    /// Whether a retry is allowed only while the bucket is more than half full.
    pub half_full: bool,
}

/// Thousandths in a token.
const TOKEN: u64 = 1_000;

impl TokenBucket {
    /// A bucket of `capacity` whole tokens, full at first, from which each retry takes one. It needs a
    /// [`refill`](Self::refill) or a deposit [`per_success`](Self::per_success).
    pub const fn new(capacity: u32) -> Self {
        Self {
            capacity: capacity as u64 * TOKEN,
            refill: None,
            per_success: 0,
            per_failure: 0,
            per_retry: TOKEN as u32,
            half_full: false,
        }
    }

    /// gRPC's `retryThrottling` (gRFC A6): a failure takes a token, a success brings `token_ratio`, in thousandths, a
    /// retry takes nothing but is allowed only while more than half of the tokens are there.
    pub const fn grpc(max_tokens: u32, token_ratio: u32) -> Self {
        Self::new(max_tokens).per_success(token_ratio).per_failure(1_000).per_retry(0).half_full(true)
    }

    /// So many tokens come back in a time. Default: none.
    #[must_use]
    pub const fn refill(self, rate: Rate) -> Self {
        Self { refill: Some(rate), ..self }
    }

    /// Each success brings so many thousandths. Default: 0.
    #[must_use]
    pub const fn per_success(self, thousandths: u32) -> Self {
        Self { per_success: thousandths, ..self }
    }

    /// Each failure, and each outcome with [`Hint::Stop`], takes so many thousandths, down to nothing. Default: 0.
    #[must_use]
    pub const fn per_failure(self, thousandths: u32) -> Self {
        Self { per_failure: thousandths, ..self }
    }

    /// Each retry takes so many thousandths. Default: 1000.
    #[must_use]
    pub const fn per_retry(self, thousandths: u32) -> Self {
        Self { per_retry: thousandths, ..self }
    }

    /// Whether a retry is allowed only while the bucket is more than half full. Default: false.
    #[must_use]
    pub const fn half_full(self, required: bool) -> Self {
        Self { half_full: required, ..self }
    }

    /// How many tokens it holds.
    pub const fn capacity(&self) -> u64 {
        self.capacity / TOKEN
    }

    /// Whether it refills with time.
    pub const fn needs_clock(&self) -> bool {
        self.refill.is_some()
    }

    pub(super) fn check(&self) -> Result<(), PolicyError> {
        match self {
            Self { capacity: 0, .. } => Err(refuse("capacity", "holds no token; leave retries out instead")),
            Self { refill: None, per_success: 0, .. } => {
                Err(refuse("refill", "nothing brings tokens back: set a refill or a deposit per success"))
            }
            Self { per_retry: 0, per_failure: 0, .. } => {
                Err(refuse("per_retry", "nothing takes tokens, so nothing is limited"))
            }
            _ if u64::from(self.per_retry) > self.capacity => {
                Err(refuse("per_retry", "is more than the capacity, so that no retry is ever allowed"))
            }
            _ => Ok(()),
        }
    }
}

/// A bucket's state.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    policy: TokenBucket,
    balance: u64,
    /// What has come in beyond the balance, in thousandths × nanoseconds of the rate's time: less than one thousandth.
    fraction: u128,
    /// The latest time seen.
    latest: u64,
}

impl Tokens {
    pub(super) fn new(policy: TokenBucket) -> Self {
        Self { policy, balance: policy.capacity, fraction: 0, latest: 0 }
    }

    pub(super) fn needs_clock(&self) -> bool {
        self.policy.needs_clock()
    }

    pub(super) fn settle(&mut self, outcome: &Outcome, stake: &mut Stake, now: u64) {
        self.refill(now);
        if outcome.class.is_failure() || outcome.hint == Some(Hint::Stop) {
            self.balance = self.balance.saturating_sub(u64::from(self.policy.per_failure));
        } else if outcome.class == crate::Class::Success {
            self.deposit(u64::from(self.policy.per_success));
        }
        stake.taken = None;
    }

    /// A full bucket collects nothing, whenever it is looked at.
    pub(super) fn is_at_rest(&self) -> bool {
        self.balance == self.policy.capacity || self.policy.per_success == 0
    }

    pub(super) fn withdraw(&mut self, kept: Ratio, stake: &mut Stake, now: u64) -> bool {
        self.refill(now);
        let TokenBucket { capacity, per_retry, half_full, .. } = self.policy;
        let enough = self.balance >= u64::from(per_retry).saturating_add(kept.of(capacity));
        if !enough || (half_full && self.balance <= capacity / 2) {
            return false;
        }
        self.balance -= u64::from(per_retry);
        stake.taken = Some(Withdrawal { amount: per_retry, at: now });
        true
    }

    pub(super) fn put_back(&mut self, taken: Withdrawal) {
        self.deposit(u64::from(taken.amount));
    }

    pub(super) fn balance(&mut self, now: u64) -> u64 {
        self.refill(now);
        self.balance
    }

    pub(super) fn snapshot(&self) -> BudgetSnapshot {
        // The fraction is less than the refill's time, which has 64 bits.
        let fraction = u64::try_from(self.fraction).unwrap_or(0);
        BudgetSnapshot::TokenBucket {
            balance: self.balance,
            fraction,
            latest: Timestamp::from_nanos(self.latest),
        }
    }

    pub(super) fn restore(&mut self, balance: u64, fraction: u64, latest: u64) {
        self.balance = balance.min(self.policy.capacity);
        let per = self.policy.refill.map_or(1, Rate::per_nanos);
        self.fraction = u128::from(fraction % per);
        self.latest = latest;
    }

    fn deposit(&mut self, amount: u64) {
        self.balance = self.balance.saturating_add(amount).min(self.policy.capacity);
    }

    fn refill(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.latest);
        self.latest = self.latest.max(now);
        let Some(rate) = self.policy.refill else { return };
        let per = u128::from(rate.per_nanos());
        // At most 2⁶⁴ ns × 2³² × 10³ + what is less than 2⁶⁴: no overflow.
        let come = u128::from(elapsed) * u128::from(rate.count()) * u128::from(TOKEN) + self.fraction;
        self.deposit(u64::try_from(come / per).unwrap_or(u64::MAX));
        // A full bucket collects nothing.
        self.fraction = if self.balance == self.policy.capacity { 0 } else { come % per };
    }
}
