//! A policy together with what its calls share, target by target.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError};

use relent_core::{
    AdaptiveRate, Breaker, BreakerPolicy, Budget, BudgetPolicy, Bulkhead, BulkheadPolicy, Limiter,
    LimiterPolicy, MAX_BUDGETS, Policy, PolicyError, Ratio, Throttle, ThrottlePolicy, entropy,
};

use crate::blocking::SystemTimer;
use crate::shared::{Locked, Member, State};
use crate::sync::Mutex;
use crate::with::{Async, Blocking};
use crate::{ByFailure, Clock, DefaultTimer, Quiet, With, chance};

/// A policy and what its calls share: budgets, breakers, limits. Cheap to clone; clones share everything.
///
/// Retries alone treat one call. What keeps a fleet from drowning what it depends on is what calls know of each other,
/// and that needs a home: this one. Each target, such as a host, has state of its own, and one that is down keeps
/// nobody from another.
///
/// ```
/// use relent::{BreakerPolicy, Policy, Ratio, Retrier, WindowBudget};
/// use std::time::Duration;
///
/// let retrier = Retrier::new(Policy::default())
///     .budget(WindowBudget::new(Ratio::percent(20)))
///     .breaker(BreakerPolicy::time(Duration::from_secs(30)))
///     .build()?;
/// let host = retrier.at("host:443");
/// # Ok::<(), relent::PolicyError>(())
/// ```
///
/// All calls of a retrier must be on one clock. Those of this crate's own timers are, blocking and async, as long as
/// tokio's clock is not paused; a clock for tests is another.
#[derive(Clone, Debug)]
pub struct Retrier {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    policy: Policy,
    parts: Blueprint,
    /// The targets that are known, and when each was asked for last, in asks.
    targets: Mutex<Targets>,
    most_targets: usize,
    names: RandomState,
}

#[derive(Debug, Default)]
struct Targets {
    known: HashMap<Arc<str>, (Arc<State>, u64)>,
    asks: u64,
}

/// What each target gets of its own, and what all share.
#[derive(Clone, Debug, Default)]
struct Blueprint {
    breaker: Option<Kept<BreakerPolicy, Breaker>>,
    budgets: Vec<Kept<(BudgetPolicy, Ratio), Budget>>,
    throttle: Option<ThrottlePolicy>,
    limiter: Option<LimiterPolicy>,
    adaptive: bool,
    bulkhead: Option<BulkheadPolicy>,
}

#[derive(Clone, Debug)]
enum Kept<P, T> {
    ByTarget(P),
    ByAll(Locked<T>),
}

impl Retrier {
    /// Begins a retrier with this policy, to which what calls share is added.
    #[expect(clippy::new_ret_no_self, reason = "a retrier without shared state would be its policy")]
    pub fn new(policy: Policy) -> RetrierBuilder {
        RetrierBuilder { policy, parts: Blueprint::default(), most_targets: 1_000 }
    }

    /// The handle of one target. Keep it where the target stays the same: asking again costs a look into a map.
    ///
    /// At most [`max_targets`](RetrierBuilder::max_targets) are remembered. A new one beyond that takes the place of the
    /// one that was not asked for the longest, of those for which nobody has a handle; those in use are never forgotten.
    pub fn at(&self, target: &str) -> Target {
        let mut targets = self.inner.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.asks += 1;
        let asks = targets.asks;
        if let Some((state, asked)) = targets.known.get_mut(target) {
            *asked = asks;
            return Target { retrier: self.clone(), state: Arc::clone(state) };
        }
        if targets.known.len() >= self.inner.most_targets {
            targets.forget_the_idlest();
        }
        let state = Arc::new(self.inner.parts.state(self.seed(target)));
        targets.known.insert(target.into(), (Arc::clone(&state), asks));
        Target { retrier: self.clone(), state }
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.inner.policy
    }

    /// How many targets are remembered.
    pub fn targets(&self) -> usize {
        self.inner.targets.lock().unwrap_or_else(PoisonError::into_inner).known.len()
    }

    /// The seed of a target's open times: the same each time if the policy's is, else another one in each process.
    fn seed(&self, target: &str) -> u64 {
        match self.inner.policy.seed() {
            Some(seed) => target.bytes().fold(seed, |seed, byte| entropy(seed, u64::from(byte), 0)),
            None => self.inner.names.hash_one(target) ^ chance::draw(&self.inner.policy, 0),
        }
    }
}

impl Targets {
    /// Makes room: an eighth of the targets at once, so that a flood of new ones does not search for each.
    fn forget_the_idlest(&mut self) {
        let idle = self.known.values().filter(|(state, _)| Arc::strong_count(state) == 1);
        let mut asked: Vec<u64> = idle.map(|(_, asked)| *asked).collect();
        let gone = (self.known.len() / 8).max(1).min(asked.len());
        let Some(last) = gone.checked_sub(1) else { return };
        let (_, latest, _) = asked.select_nth_unstable(last);
        let latest = *latest;
        self.known.retain(|_, (state, asked)| *asked > latest || Arc::strong_count(state) > 1);
    }
}

impl Blueprint {
    fn state(&self, seed: u64) -> State {
        // All parts have been tried when the retrier was built.
        let breaker = self.breaker.as_ref().and_then(|kept| match kept {
            Kept::ByTarget(policy) => Breaker::new(policy.clone(), seed).ok().map(Locked::new),
            Kept::ByAll(breaker) => Some(breaker.clone()),
        });
        let budgets = self.budgets.iter().filter_map(|kept| match kept {
            Kept::ByTarget((policy, reserved)) => {
                Budget::new(*policy).and_then(|budget| budget.reserve(*reserved)).ok().map(Locked::new)
            }
            Kept::ByAll(budget) => Some(budget.clone()),
        });
        let budgets: Vec<_> = budgets.collect();
        let by_rates = self.throttle.is_some() || self.limiter.is_some() || self.adaptive;
        let by_budgets = budgets.iter().any(|budget| budget.with(|budget| budget.needs_clock()));
        let counting = budgets.iter().enumerate().fold(0, |counting, (index, budget)| {
            counting | u8::from(budget.with(|budget| budget.counts_calls())) << index
        });
        State {
            counting,
            needs_clock: breaker.is_some() || by_rates || by_budgets,
            breaker,
            budgets,
            throttle: self.throttle.and_then(|policy| Throttle::new(policy).ok()).map(Locked::new),
            limiter: self.limiter.and_then(|policy| Limiter::new(policy).ok()).map(Locked::new),
            adaptive: self.adaptive.then(|| Locked::new(AdaptiveRate::default())),
            bulkhead: self.bulkhead.and_then(|policy| Bulkhead::new(policy).ok()).map(Locked::new),
        }
    }
}

/// Builds a [`Retrier`].
#[derive(Clone, Debug)]
#[must_use]
pub struct RetrierBuilder {
    policy: Policy,
    parts: Blueprint,
    most_targets: usize,
}

impl RetrierBuilder {
    /// A circuit breaker for each target.
    pub fn breaker(mut self, policy: BreakerPolicy) -> Self {
        self.parts.breaker = Some(Kept::ByTarget(policy));
        self
    }

    /// One breaker for all targets, and whoever else has it.
    pub fn breaker_of(mut self, breaker: &Locked<Breaker>) -> Self {
        self.parts.breaker = Some(Kept::ByAll(breaker.clone()));
        self
    }

    /// A budget for each target, after those that there are. A retry takes from all of them, or from none.
    pub fn budget(self, policy: impl Into<BudgetPolicy>) -> Self {
        self.budget_with_reserve(policy, Ratio::ZERO)
    }

    /// The same with a share of it kept for calls of high priority.
    pub fn budget_with_reserve(mut self, policy: impl Into<BudgetPolicy>, share: Ratio) -> Self {
        self.parts.budgets.push(Kept::ByTarget((policy.into(), share)));
        self
    }

    /// One budget for all targets, and whoever else has it: what keeps layers from multiplying each other's retries.
    pub fn budget_of(mut self, budget: &Locked<Budget>) -> Self {
        self.parts.budgets.push(Kept::ByAll(budget.clone()));
        self
    }

    /// An adaptive throttle for each target.
    pub fn throttle(mut self, policy: ThrottlePolicy) -> Self {
        self.parts.throttle = Some(policy);
        self
    }

    /// A rate limit for each target.
    pub fn limiter(mut self, policy: LimiterPolicy) -> Self {
        self.parts.limiter = Some(policy);
        self
    }

    /// An adaptive rate for each target.
    pub fn adaptive_rate(mut self) -> Self {
        self.parts.adaptive = true;
        self
    }

    /// A bulkhead for each target; one without a queue, since a call that waits is not told yet that a place is free.
    pub fn bulkhead(mut self, policy: BulkheadPolicy) -> Self {
        self.parts.bulkhead = Some(policy);
        self
    }

    /// How many targets are remembered. Default: 1000.
    pub fn max_targets(mut self, most: usize) -> Self {
        self.most_targets = most;
        self
    }

    /// The retrier.
    ///
    /// # Errors
    ///
    /// What cannot work about one of its parts, by the key of a policy file.
    pub fn build(self) -> Result<Retrier, PolicyError> {
        let Self { policy, parts, most_targets } = self;
        if let Some(Kept::ByTarget(policy)) = &parts.breaker {
            Breaker::new(policy.clone(), 0)?;
        }
        if parts.budgets.len() > MAX_BUDGETS {
            return Err(PolicyError::new("budget", "a call draws on at most 4 budgets"));
        }
        for kept in &parts.budgets {
            if let Kept::ByTarget((policy, reserved)) = kept {
                Budget::new(*policy)?.reserve(*reserved)?;
            }
        }
        parts.throttle.map(Throttle::new).transpose()?;
        parts.limiter.map(Limiter::new).transpose()?;
        if let Some(policy) = parts.bulkhead {
            Bulkhead::new(policy)?;
            if policy.queue_length() > 0 {
                return Err(PolicyError::new("bulkhead.queue", "must be 0: a waiting call is not woken yet"));
            }
        }
        if most_targets == 0 {
            return Err(PolicyError::new("max_targets", "must be at least 1"));
        }
        let names = RandomState::new();
        Ok(Retrier {
            inner: Arc::new(Inner { policy, parts, targets: Mutex::default(), most_targets, names }),
        })
    }
}

/// The handle of one target of a [`Retrier`]. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Target {
    retrier: Retrier,
    state: Arc<State>,
}

impl Target {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        self.retrier.policy()
    }

    /// Begins an async call to this target, which ends in [`With::retry`]. See [`relent::with`](crate::with()).
    ///
    /// ```
    /// # use relent::{Policy, Quota, Retrier};
    /// # async fn charge() -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let retrier = Retrier::new(Policy::default()).budget(Quota::aws_2026()).build()?;
    /// retrier.at("host:443").with().retry(|_attempt| charge()).await?;
    /// # Ok(()) }
    /// ```
    pub fn with(&self) -> With<'_, ByFailure, Quiet, Async<DefaultTimer>> {
        crate::with(self.policy()).at(self)
    }

    /// Begins a blocking call to this target. See [`relent::blocking::with`](crate::blocking::with).
    pub fn blocking(&self) -> With<'_, ByFailure, Quiet, Blocking<SystemTimer>> {
        crate::blocking::with(self.policy()).at(self)
    }

    /// Joins those that share the target, for one call that a driver of one's own makes.
    pub fn join<T: Clock>(&self, clock: T) -> Member<T> {
        Member::new(Arc::clone(&self.state), clock)
    }

    /// Whether any of what is shared needs to know the time.
    pub(crate) fn needs_clock(&self) -> bool {
        self.state.needs_clock
    }

    /// The target's breaker, to be looked at or controlled by hand.
    pub fn breaker(&self) -> Option<&Locked<Breaker>> {
        self.state.breaker.as_ref()
    }

    /// The target's budgets, in the order in which they are taken from.
    pub fn budgets(&self) -> &[Locked<Budget>] {
        &self.state.budgets
    }

    /// The target's throttle.
    pub fn throttle(&self) -> Option<&Locked<Throttle>> {
        self.state.throttle.as_ref()
    }

    /// The target's rate limit.
    pub fn limiter(&self) -> Option<&Locked<Limiter>> {
        self.state.limiter.as_ref()
    }

    /// The target's adaptive rate.
    pub fn adaptive_rate(&self) -> Option<&Locked<AdaptiveRate>> {
        self.state.adaptive.as_ref()
    }

    /// The target's bulkhead.
    pub fn bulkhead(&self) -> Option<&Locked<Bulkhead>> {
        self.state.bulkhead.as_ref()
    }
}
