//! What calls of one policy share, as it was asked for: a plain value, before there is any state.

use alloc::vec::Vec;

use crate::budget::check_reserve;
use crate::policy::refuse;
use crate::{
    AdaptiveRate, BackoffMemory, Breaker, BreakerPolicy, Budget, BudgetPolicy, Bulkhead, BulkheadPolicy,
    Common, HedgePolicy, Latencies, Limiter, LimiterPolicy, MAX_BUDGETS, MemoryPolicy, PolicyError, Ratio,
    Throttle, ThrottlePolicy,
};

/// What calls of one policy share, as it was asked for. It stands beside the [`Policy`](crate::Policy): that one says
/// what each call does, this one what all of them have in common. Default: nothing.
///
/// ```
/// use relent_core::{BreakerPolicy, CommonPolicy, Quota, Ratio};
///
/// let shared = CommonPolicy {
///     breaker: Some(BreakerPolicy::consecutive(5)),
///     budgets: vec![(Quota::aws_2026().into(), Ratio::ZERO)],
///     ..CommonPolicy::default()
/// };
/// let common = shared.build(7)?;
/// assert_eq!(common.budgets.len(), 1);
/// # Ok::<(), relent_core::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommonPolicy {
    /// The circuit breaker.
    pub breaker: Option<BreakerPolicy>,
    /// The budgets, in the order in which they are taken from, each with the share of it that is kept for calls of
    /// [`Priority::High`](crate::Priority::High). At most [`MAX_BUDGETS`].
    pub budgets: Vec<(BudgetPolicy, Ratio)>,
    /// The adaptive throttle.
    pub throttle: Option<ThrottlePolicy>,
    /// The rate limit.
    pub limiter: Option<LimiterPolicy>,
    /// Whether there is an adaptive rate.
    pub adaptive: bool,
    /// The bulkhead.
    pub bulkhead: Option<BulkheadPolicy>,
    /// The backoff memory.
    pub memory: Option<MemoryPolicy>,
    /// The hedges: no state of its own, but for the latencies that a quantile needs.
    pub hedge: Option<HedgePolicy>,
}

impl CommonPolicy {
    /// Looks whether all of it can work.
    ///
    /// # Errors
    ///
    /// What cannot, by the key of a policy file inside the part's own table.
    pub fn check(&self) -> Result<(), PolicyError> {
        self.breaker.as_ref().map_or(Ok(()), BreakerPolicy::check)?;
        if self.budgets.len() > MAX_BUDGETS {
            return Err(refuse("budget", "a call draws on at most 4 budgets"));
        }
        for (policy, reserved) in &self.budgets {
            policy.check()?;
            check_reserve(*reserved)?;
        }
        self.throttle.map_or(Ok(()), |policy| policy.check())?;
        self.limiter.map_or(Ok(()), |policy| policy.check())?;
        self.bulkhead.map_or(Ok(()), |policy| policy.check())?;
        self.memory.map_or(Ok(()), |policy| policy.check())?;
        self.hedge.map_or(Ok(()), |policy| policy.check())
    }

    /// The state of it, before anything has happened. The seed is for the jitter of the breaker's open times: another
    /// one for each target.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn build(&self, seed: u64) -> Result<Common, PolicyError> {
        self.check()?;
        let budget = |(policy, reserved): &(BudgetPolicy, Ratio)| Budget::new(*policy)?.reserve(*reserved);
        Ok(Common {
            breaker: self.breaker.clone().map(|policy| Breaker::new(policy, seed)).transpose()?,
            budgets: self.budgets.iter().map(budget).collect::<Result<_, _>>()?,
            throttle: self.throttle.map(Throttle::new).transpose()?,
            limiter: self.limiter.map(Limiter::new).transpose()?,
            adaptive: self.adaptive.then(AdaptiveRate::default),
            bulkhead: self.bulkhead.map(Bulkhead::new).transpose()?,
            latencies: self.hedge.filter(HedgePolicy::needs_latencies).map(|_| Latencies::default()),
            memory: self.memory.map(BackoffMemory::new).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::{ConcurrentBudget, Quota};

    /// What each part alone refuses, the whole refuses with the same words, and nothing is built of it.
    #[test]
    fn what_cannot_work_is_refused_before_there_is_state() {
        let quota = |cost| (BudgetPolicy::from(Quota::new(10, cost)), Ratio::ZERO);
        let limiter = |burst| {
            crate::Rate::new(1, core::time::Duration::from_secs(1))
                .map(|rate| LimiterPolicy::new(rate).burst(burst))
        };
        let bad = [
            ("failures", CommonPolicy { breaker: Some(BreakerPolicy::consecutive(0)), ..Default::default() }),
            ("cost", CommonPolicy { budgets: vec![quota(1), quota(11)], ..Default::default() }),
            ("budget", CommonPolicy { budgets: vec![quota(1); MAX_BUDGETS + 1], ..Default::default() }),
            ("budget_share", CommonPolicy { budgets: vec![(quota(1).0, Ratio::ONE)], ..Default::default() }),
            ("k", CommonPolicy { throttle: Some(ThrottlePolicy::sre(0.5)), ..Default::default() }),
            ("burst", CommonPolicy { limiter: limiter(0), ..Default::default() }),
            ("capacity", CommonPolicy { bulkhead: Some(BulkheadPolicy::new(0)), ..Default::default() }),
            (
                "half_life",
                CommonPolicy {
                    memory: Some(MemoryPolicy::new(core::time::Duration::ZERO)),
                    ..Default::default()
                },
            ),
            (
                "hedge.max_attempts",
                CommonPolicy { hedge: Some(HedgePolicy::at_once().max_attempts(1)), ..Default::default() },
            ),
        ];
        for (key, shared) in bad {
            assert_eq!(shared.check().unwrap_err().key(), key, "{shared:?}");
            assert_eq!(shared.build(7).unwrap_err().key(), key, "{shared:?}");
        }
    }

    #[test]
    fn all_that_was_asked_for_is_there_and_nothing_else() {
        let nothing = CommonPolicy::default().build(7).unwrap();
        assert!(nothing.breaker.is_none() && nothing.budgets.is_empty() && nothing.adaptive.is_none());
        let shared = CommonPolicy {
            breaker: Some(BreakerPolicy::consecutive(5)),
            budgets: vec![
                (Quota::new(500, 5).into(), Ratio::percent(10)),
                (ConcurrentBudget::new(Ratio::percent(20)).into(), Ratio::ZERO),
            ],
            throttle: Some(ThrottlePolicy::sre(2.0)),
            adaptive: true,
            bulkhead: Some(BulkheadPolicy::new(3)),
            memory: Some(MemoryPolicy::new(core::time::Duration::from_secs(30))),
            ..CommonPolicy::default()
        };
        let common = shared.build(7).unwrap();
        assert_eq!(common.breaker.map(|breaker| breaker.policy().clone()), shared.breaker);
        assert_eq!(common.budgets.iter().map(Budget::counts_calls).collect::<Vec<_>>(), [false, true]);
        assert_eq!(common.throttle.map(|throttle| *throttle.policy()), shared.throttle);
        assert_eq!(common.memory.map(|memory| *memory.policy()), shared.memory);
        assert!(common.adaptive.is_some() && common.bulkhead.is_some() && common.limiter.is_none());
    }
}
