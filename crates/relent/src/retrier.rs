//! A policy together with what its calls share, target by target.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use relent_core::{
    AdaptiveRate, BackoffMemory, Breaker, BreakerPolicy, BreakerWindow, Budget, BudgetPolicy, Bulkhead,
    BulkheadPolicy, CommonPolicy, HedgePolicy, Latencies, Limiter, LimiterPolicy, MAX_BUDGETS, MemoryPolicy,
    Policy, PolicyError, Ratio, Throttle, ThrottlePolicy, Timestamp, entropy,
};

use crate::blocking::SystemTimer;
use crate::shared::{Bells, Keeper, Locked, Member, State};
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
    idle: Option<Idle>,
    names: RandomState,
}

/// How long targets are remembered that nobody asks for, and the clock by which that is.
#[derive(Clone)]
struct Idle {
    longest: Duration,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idle").field("longest", &self.longest).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Targets {
    known: HashMap<Arc<str>, Known>,
    asks: u64,
    /// When the idle ones were looked for last.
    swept: Timestamp,
}

#[derive(Debug)]
struct Known {
    state: Arc<State>,
    /// When it was asked for last, in asks, and by the clock where anybody needs that.
    asked: u64,
    at: Timestamp,
}

impl Known {
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.state) > 1
    }

    /// Whether nobody has it, nor has asked for it for so long.
    fn is_idle(&self, longest: Duration, now: Timestamp) -> bool {
        !self.is_in_use() && now.since(self.at) >= longest
    }
}

/// What each target gets of its own, and what all share.
#[derive(Clone, Debug, Default)]
struct Blueprint {
    by_target: CommonPolicy,
    /// The breaker of all targets, instead of one for each.
    breaker: Option<Locked<Breaker>>,
    /// The budgets of all targets, each with its place among all budgets.
    budgets: Vec<(usize, Locked<Budget>)>,
    keeper: Option<Arc<dyn Keeper>>,
}

impl Retrier {
    /// Begins a retrier with this policy, to which what calls share is added.
    #[expect(clippy::new_ret_no_self, reason = "a retrier without shared state would be its policy")]
    pub fn new(policy: Policy) -> RetrierBuilder {
        RetrierBuilder { policy, parts: Blueprint::default(), most_targets: 1_000, idle: None }
    }

    /// The handle of one target. Keep it where the target stays the same: asking again costs a look into a map.
    ///
    /// At most [`max_targets`](RetrierBuilder::max_targets) are remembered, and none that has been idle for
    /// [`max_idle`](RetrierBuilder::max_idle). A new one beyond that takes the place of the
    /// one that was not asked for the longest, of those for which nobody has a handle; those in use are never forgotten.
    pub fn at(&self, target: &str) -> Target {
        let now = self.inner.idle.as_ref().map_or(Timestamp::ZERO, |idle| (idle.now)());
        let mut targets = self.inner.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(idle) = &self.inner.idle {
            targets.forget_idle(idle.longest, now, target);
        }
        targets.asks += 1;
        let asks = targets.asks;
        if let Some(known) = targets.known.get_mut(target) {
            (known.asked, known.at) = (asks, now);
            return Target { retrier: self.clone(), state: Arc::clone(&known.state) };
        }
        if targets.known.len() >= self.inner.most_targets {
            targets.forget_the_idlest();
        }
        let state = Arc::new(self.inner.parts.state(&self.inner.policy, self.seed(target)));
        targets.known.insert(target.into(), Known { state: Arc::clone(&state), asked: asks, at: now });
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
        let idle = self.known.values().filter(|known| !known.is_in_use());
        let mut asked: Vec<u64> = idle.map(|known| known.asked).collect();
        let gone = (self.known.len() / 8).max(1).min(asked.len());
        let Some(last) = gone.checked_sub(1) else { return };
        let (_, latest, _) = asked.select_nth_unstable(last);
        let latest = *latest;
        self.known.retain(|_, known| known.asked > latest || known.is_in_use());
    }

    /// Forgets `target` if it has been idle for too long, and now and then all others that have.
    fn forget_idle(&mut self, longest: Duration, now: Timestamp, target: &str) {
        if self.known.get(target).is_some_and(|known| known.is_idle(longest, now)) {
            self.known.remove(target);
        }
        if now.since(self.swept) < longest / 8 {
            return;
        }
        self.swept = now;
        self.known.retain(|_, known| {
            if known.is_in_use() {
                known.at = now;
            }
            !known.is_idle(longest, now)
        });
    }
}

impl Blueprint {
    fn state(&self, policy: &Policy, seed: u64) -> State {
        // It has been looked at when the retrier was built.
        let own = self.by_target.build(seed).unwrap_or_default();
        let breaker = self.breaker.clone().or_else(|| own.breaker.map(Locked::new));
        let mut budgets: Vec<_> = own.budgets.into_iter().map(Locked::new).collect();
        for (place, budget) in &self.budgets {
            budgets.insert((*place).min(budgets.len()), budget.clone());
        }
        let by_rates = own.throttle.is_some() || own.limiter.is_some() || own.adaptive.is_some();
        let by_budgets = budgets.iter().any(|budget| budget.with(|budget| budget.needs_clock()));
        let counting = budgets.iter().enumerate().fold(0, |counting, (index, budget)| {
            counting | u8::from(budget.with(|budget| budget.counts_calls())) << index
        });
        let hedge = self.by_target.hedge;
        let queues = self.by_target.bulkhead.is_some_and(|policy| policy.queue_length() > 0);
        let by_others = queues || own.memory.is_some() || hedge.is_some();
        let times_calls = |kept: &Locked<Breaker>| kept.with(|breaker| breaker.policy().times_calls());
        let is_asked = by_rates
            || own.bulkhead.is_some()
            || own.latencies.is_some()
            || own.memory.is_some()
            || hedge.is_some()
            || self.keeper.is_some()
            || breaker.as_ref().is_some_and(times_calls)
            || budgets.iter().any(|budget| budget.with(|budget| budget.counts_ends()));
        let by_time = |kept: &Locked<Breaker>| {
            kept.with(|breaker| matches!(breaker.policy().window(), BreakerWindow::Time(_)))
        };
        let can_rest = !is_asked;
        let times_starts = counting != 0 || breaker.as_ref().is_some_and(by_time);
        State {
            can_rest,
            is_timeless: can_rest && !times_starts && policy.begins_plainly(),
            keeper: self.keeper.clone(),
            counting,
            needs_clock: breaker.is_some() || by_rates || by_budgets || by_others,
            breaker,
            budgets,
            throttle: own.throttle.map(Locked::new),
            limiter: own.limiter.map(Locked::new),
            adaptive: own.adaptive.map(Locked::new),
            bulkhead: own.bulkhead.map(Locked::new),
            bells: Bells::default(),
            latencies: own.latencies.map(Locked::new),
            memory: own.memory.map(Locked::new),
            hedge,
        }
    }

    /// How many budgets there are.
    fn budgets(&self) -> usize {
        self.by_target.budgets.len() + self.budgets.len()
    }
}

#[cfg(feature = "tokio")]
const DEFAULT_CLOCK: crate::TokioTimer = crate::TokioTimer;
#[cfg(not(feature = "tokio"))]
const DEFAULT_CLOCK: SystemTimer = SystemTimer;

/// Builds a [`Retrier`].
#[derive(Clone, Debug)]
#[must_use]
pub struct RetrierBuilder {
    policy: Policy,
    parts: Blueprint,
    most_targets: usize,
    idle: Option<Idle>,
}

impl RetrierBuilder {
    /// A circuit breaker for each target.
    pub fn breaker(mut self, policy: BreakerPolicy) -> Self {
        self.parts.by_target.breaker = Some(policy);
        self.parts.breaker = None;
        self
    }

    /// One breaker for all targets, and whoever else has it.
    pub fn breaker_of(mut self, breaker: &Locked<Breaker>) -> Self {
        self.parts.by_target.breaker = None;
        self.parts.breaker = Some(breaker.clone());
        self
    }

    /// A budget for each target, after those that there are. A retry takes from all of them, or from none.
    pub fn budget(self, policy: impl Into<BudgetPolicy>) -> Self {
        self.budget_with_reserve(policy, Ratio::ZERO)
    }

    /// The same with a share of it kept for calls of high priority.
    pub fn budget_with_reserve(mut self, policy: impl Into<BudgetPolicy>, share: Ratio) -> Self {
        self.parts.by_target.budgets.push((policy.into(), share));
        self
    }

    /// One budget for all targets, and whoever else has it: what keeps layers from multiplying each other's retries.
    pub fn budget_of(mut self, budget: &Locked<Budget>) -> Self {
        self.parts.budgets.push((self.parts.budgets(), budget.clone()));
        self
    }

    /// An adaptive throttle for each target.
    pub fn throttle(mut self, policy: ThrottlePolicy) -> Self {
        self.parts.by_target.throttle = Some(policy);
        self
    }

    /// A rate limit for each target.
    pub fn limiter(mut self, policy: LimiterPolicy) -> Self {
        self.parts.by_target.limiter = Some(policy);
        self
    }

    /// An adaptive rate for each target.
    pub fn adaptive_rate(mut self) -> Self {
        self.parts.by_target.adaptive = true;
        self
    }

    /// A bulkhead for each target. Calls that wait in its queue are woken in order, async and blocking ones alike.
    pub fn bulkhead(mut self, policy: BulkheadPolicy) -> Self {
        self.parts.by_target.bulkhead = Some(policy);
        self
    }

    /// All that each target has of its own, at once: it takes the place of what was added before, but for what is shared
    /// by all targets.
    pub fn common(mut self, policy: CommonPolicy) -> Self {
        self.parts.by_target = policy;
        self
    }

    /// A backoff memory for each target: where many attempts have failed lately, the waits of a call do not begin with
    /// the schedule's first.
    pub fn memory(mut self, policy: MemoryPolicy) -> Self {
        self.parts.by_target.memory = Some(policy);
        self
    }

    /// Hedges the calls to each target: async ones, and blocking ones that say
    /// [`retry_hedged`](crate::With::retry_hedged). A policy by a quantile has the latencies of each target observed. Give
    /// hedges a [budget](Self::budget).
    pub fn hedge(mut self, policy: HedgePolicy) -> Self {
        self.parts.by_target.hedge = Some(policy);
        self
    }

    /// Whoever has the parts of all targets somewhere else too. Default: nobody.
    pub fn keeper(mut self, keeper: Arc<dyn Keeper>) -> Self {
        self.parts.keeper = Some(keeper);
        self
    }

    /// How long a target is remembered that nobody has a handle of, nor has asked for; when it is asked for again, it has
    /// the state of one that is new. Longer than a breaker stays open, or it forgets that it does. Default: until
    /// [`max_targets`](Self::max_targets) makes room for others.
    ///
    /// The time is that of this crate's own timers; see [`idle_clock`](Self::idle_clock).
    pub fn max_idle(mut self, longest: Duration) -> Self {
        let now = Arc::new(|| DEFAULT_CLOCK.now());
        self.idle = Some(match self.idle {
            Some(idle) => Idle { longest, ..idle },
            None => Idle { longest, now },
        });
        self
    }

    /// The clock that says how long targets have been idle: the one that the calls are on, where that is another than
    /// this crate's own timers', as in tests.
    pub fn idle_clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        let longest = self.idle.map_or(Duration::MAX, |idle| idle.longest);
        self.idle = Some(Idle { longest, now: Arc::new(move || clock.now()) });
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
        let Self { policy, parts, most_targets, idle } = self;
        parts.by_target.check()?;
        if parts.budgets() > MAX_BUDGETS {
            return Err(PolicyError::new("budget", "a call draws on at most 4 budgets"));
        }
        if idle.as_ref().is_some_and(|idle| idle.longest.is_zero()) {
            return Err(PolicyError::new("max_idle", "forgets each target at once"));
        }
        if most_targets == 0 {
            return Err(PolicyError::new("max_targets", "must be at least 1"));
        }
        let names = RandomState::new();
        Ok(Retrier {
            inner: Arc::new(Inner { policy, parts, targets: Mutex::default(), most_targets, idle, names }),
        })
    }
}

/// The handle of one target of a [`Retrier`]. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Target {
    retrier: Retrier,
    pub(crate) state: Arc<State>,
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
    pub fn with(&self) -> With<'_, ByFailure, Quiet, Async<DefaultTimer>, &Self> {
        crate::with(self.policy()).at(self)
    }

    /// Begins a blocking call to this target. See [`relent::blocking::with`](crate::blocking::with).
    pub fn blocking(&self) -> With<'_, ByFailure, Quiet, Blocking<SystemTimer>, &Self> {
        crate::blocking::with(self.policy()).at(self)
    }

    /// Joins those that share the target, for one call that a driver of one's own makes.
    pub fn join<T: Clock>(&self, clock: T) -> Member<T> {
        Member::new(Arc::clone(&self.state), clock)
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

    /// The latencies that hedges start by, where the hedges' policy is by a quantile.
    pub fn latencies(&self) -> Option<&Locked<Latencies>> {
        self.state.latencies.as_ref()
    }

    /// The target's bulkhead.
    pub fn bulkhead(&self) -> Option<&Locked<Bulkhead>> {
        self.state.bulkhead.as_ref()
    }

    /// The target's backoff memory.
    pub fn memory(&self) -> Option<&Locked<BackoffMemory>> {
        self.state.memory.as_ref()
    }
}
