//! What calls of a fleet share, and what each of them holds of it.

use std::collections::{BTreeMap, VecDeque};

use relent_core::{Common, CommonPolicy, Held, Latencies, Outcome, Race, Share, Timestamp, entropy};

use crate::model::fleet::{Edge, Fleet};
use crate::strategy::{Scope, Strategy};

/// What the calls of a link share, and where its states are among the homes.
#[derive(Clone, Copy)]
pub(super) struct Sharing<'a> {
    pub(super) policy: &'a CommonPolicy,
    /// The first of its homes.
    first: u32,
    /// How far the homes of one caller and those of the next are apart: nothing where all share them.
    per_caller: u32,
    per_shard: bool,
}

impl Sharing<'_> {
    /// Where calls of this caller to this shard have their state.
    pub(super) fn home(&self, caller: u32, shard: u32) -> u32 {
        let shard = if self.per_shard { shard } else { 0 };
        self.first.saturating_add(caller.saturating_mul(self.per_caller)).saturating_add(shard)
    }
}

/// Gives each link's calls their homes.
pub(super) struct Layout<'a> {
    fleet: &'a Fleet,
    /// Strategies that are alike are one.
    strategies: Vec<&'a Strategy>,
    /// Where the homes of (strategy, who calls, whom) begin.
    firsts: BTreeMap<(usize, Option<u32>, Option<&'a str>), u32>,
    homes: u32,
}

impl<'a> Layout<'a> {
    pub(super) fn new(fleet: &'a Fleet) -> Self {
        Self { fleet, strategies: Vec::new(), firsts: BTreeMap::new(), homes: 0 }
    }

    /// How many homes there are.
    pub(super) fn homes(&self) -> u32 {
        self.homes
    }

    /// What calls along `edge` share. `origin` tells kinds of clients and services from each other; there are `callers`
    /// of it.
    pub(super) fn of(
        &mut self,
        edge: &'a Edge,
        strategy: &'a Strategy,
        origin: u32,
        callers: u32,
    ) -> Option<Sharing<'a>> {
        if !strategy.shares() {
            return None;
        }
        let known = self.strategies.iter().position(|known| *known == strategy);
        let number = known.unwrap_or_else(|| {
            self.strategies.push(strategy);
            self.strategies.len() - 1
        });
        let shards = |wanted: &dyn Fn(&str) -> bool| {
            let found = self.fleet.services.iter().filter(|service| wanted(&service.name));
            found.map(|service| service.shards).max().unwrap_or(1)
        };
        let (to, all_shards) = (edge.to.as_str(), strategy.per_shard);
        let (key, of_one, callers) = match strategy.scope {
            Scope::Caller => ((number, Some(origin), Some(to)), shards(&|name| name == to), callers),
            Scope::Service => ((number, None, Some(to)), shards(&|name| name == to), 1),
            Scope::All => ((number, None, None), shards(&|_| true), 1),
        };
        let of_one = if all_shards { of_one } else { 1 };
        let first = *self.firsts.entry(key).or_insert(self.homes);
        if first == self.homes {
            self.homes = self.homes.saturating_add(of_one.saturating_mul(callers));
        }
        let per_caller = if strategy.scope == Scope::Caller { of_one } else { 0 };
        Some(Sharing { policy: &strategy.shared, first, per_caller, per_shard: all_shards })
    }
}

/// Where shared state lives, and what the calls hold of it, by their place.
#[derive(Default)]
pub(super) struct Homes {
    homes: Vec<Option<Box<Home>>>,
    sides: Vec<Side>,
}

/// What some calls share.
struct Home {
    common: Common,
    /// Calls that wait to be admitted, and hear of a place in the bulkhead.
    waiting: VecDeque<(u32, u32)>,
}

/// What one call holds, and its attempts that run beside each other.
pub(super) struct Side {
    home: u32,
    pub(super) held: Held,
    pub(super) race: Option<Racing>,
}

/// A race in progress.
pub(super) struct Racing {
    pub(super) race: Race,
    /// How many attempts the call had made before it.
    pub(super) made: u32,
    /// Tells its events from those of other races.
    pub(super) epoch: u32,
    /// When it is looked at next.
    pub(super) due: Option<Timestamp>,
    pub(super) lanes: Vec<Lane>,
    /// How the last attempt that failed ended.
    pub(super) failed: Option<Outcome>,
}

/// An attempt that runs beside others.
pub(super) struct Lane {
    pub(super) epoch: u32,
    /// Its number in the race.
    pub(super) number: u32,
    /// Its place among the attempts.
    pub(super) attempt: u32,
    pub(super) held: Held,
}

/// Of what is longer ago nothing is known about latencies.
const LATENCIES: std::time::Duration = std::time::Duration::from_secs(30);

impl Homes {
    /// Empty ones, for another replication.
    pub(super) fn reset(&mut self, homes: u32) {
        self.homes.clear();
        self.homes.resize_with(homes as usize, || None);
        self.sides.clear();
    }

    /// A call begins that has its state there.
    pub(super) fn begin(&mut self, place: u32, home: u32, policy: &CommonPolicy, seed: u64) {
        if let Some(slot) = self.homes.get_mut(home as usize) {
            slot.get_or_insert_with(|| Box::new(Home::new(policy, entropy(seed, u64::from(home), 0))));
        }
        let place = place as usize;
        if self.sides.len() <= place {
            self.sides.resize_with(place + 1, || Side { home: u32::MAX, held: Held::default(), race: None });
        }
        if let Some(side) = self.sides.get_mut(place) {
            *side = Side { home, held: Held::default(), race: None };
        }
    }

    /// The call's share in what it shares, if it does.
    #[inline]
    pub(super) fn share(&mut self, place: u32) -> Option<Share<'_, Common>> {
        let side = self.sides.get_mut(place as usize)?;
        let home = self.homes.get_mut(side.home as usize)?.as_mut()?;
        Some(Share { parts: &mut home.common, held: &mut side.held })
    }

    /// What the call holds, and what it shares.
    pub(super) fn side(&mut self, place: u32) -> Option<(&mut Side, &mut Common)> {
        let side = self.sides.get_mut(place as usize)?;
        let home = self.homes.get_mut(side.home as usize)?.as_mut()?;
        Some((side, &mut home.common))
    }

    /// The race that the call is in.
    pub(super) fn racing(&self, place: u32) -> Option<&Racing> {
        self.sides.get(place as usize)?.race.as_ref()
    }

    /// A call has ended: what it holds is given back.
    pub(super) fn end(&mut self, place: u32, now: u64) {
        if let Some(mut share) = self.share(place) {
            share.end(Timestamp::from_nanos(now));
        }
        if let Some(side) = self.sides.get_mut(place as usize) {
            side.race = None;
        }
    }

    /// A call waits to be admitted.
    pub(super) fn wait(&mut self, place: u32, epoch: u32) {
        if let Some(home) = self.home(place).filter(|home| home.common.bulkhead.is_some()) {
            home.waiting.push_back((place, epoch));
        }
    }

    /// Those that wait where this call has its state, if there may be room for one of them.
    pub(super) fn wake(&mut self, place: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
        let woken = self.home(place).map(|home| std::mem::take(&mut home.waiting));
        woken.unwrap_or_default().into_iter()
    }

    fn home(&mut self, place: u32) -> Option<&mut Home> {
        let home = self.sides.get(place as usize)?.home;
        self.homes.get_mut(home as usize)?.as_deref_mut()
    }

    #[cfg(test)]
    pub(super) fn commons(&mut self) -> impl Iterator<Item = &mut Common> {
        self.homes.iter_mut().flatten().map(|home| &mut home.common)
    }
}

impl Home {
    fn new(policy: &CommonPolicy, seed: u64) -> Self {
        // It has been looked at before: what cannot be built is not run.
        let mut common = policy.build(seed).unwrap_or_default();
        if policy.hedge.is_some_and(|hedge| hedge.needs_latencies()) && common.latencies.is_none() {
            common.latencies = Some(Latencies::new(LATENCIES));
        }
        Self { common, waiting: VecDeque::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use proptest::prelude::{Strategy as Any, any, prop_assert, prop_assert_eq, proptest};
    use relent_core::{
        BreakerPolicy, Budget, BudgetPolicy, BulkheadPolicy, ConcurrentBudget, HedgePolicy, Jitter,
        LimiterPolicy, Policy, Rate, Ratio, ThrottlePolicy, TokenBucket,
    };

    use super::*;
    use crate::luck::{Law, Luck};
    use crate::model::Pulse;
    use crate::model::fleet::{
        Arrivals, Clients, Profile, RateLimit, Scratch, Service, Trouble, TroubleKind,
    };
    use crate::record::{Pool, Recorder, Tally};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Two services of which the first calls the second, with all that can go wrong; each call comes to an end.
    fn fleet(arrivals: Arrivals, trouble: (u64, u64, u32), shards: u32, stops_unwanted: bool) -> Fleet {
        let (at, lasts, kind) = trouble;
        let kind = match kind {
            0 => TroubleKind::Refuse,
            1 => TroubleKind::Hang,
            2 => TroubleKind::Errors(0.7),
            3 => TroubleKind::Slow(30.0),
            _ => TroubleKind::Capacity(0.0),
        };
        let edge = |to: &str, timeout| {
            let delay = Law::Exponential { mean: ms(3) };
            Edge { delay, timeout: Some(ms(timeout)), ..Edge::to(to) }
        };
        let leaf = Service {
            workers: Some(4),
            queue: Some(6),
            time: Law::Exponential { mean: ms(20) },
            error_rate: 0.1,
            rate_limit: Some(RateLimit { per_second: 300.0, burst: 20, retry_after: None }),
            shards,
            stops_unwanted,
            ..Service::new("leaf")
        };
        let front = Service { calls: vec![edge("leaf", 90)], stops_unwanted, ..Service::new("front") };
        let trouble =
            Trouble { service: "leaf".into(), at: ms(at), lasts: ms(lasts), shard: Some(shards), kind };
        Fleet {
            clients: vec![Clients { name: "c".into(), count: 7, arrivals, call: edge("front", 150) }],
            services: vec![front, leaf],
            troubles: vec![trouble],
            horizon: ms(3_000),
            grace: Duration::from_secs(1_000_000),
            ..Fleet::default()
        }
    }

    fn any_fleet() -> impl Any<Value = Fleet> {
        let arrivals = (any::<bool>(), 20u32..200).prop_map(|(closed, rate)| match closed {
            true => Arrivals::Closed { think: Law::Exponential { mean: ms(30) } },
            false => Arrivals::Open { rate: Profile::constant(f64::from(rate)), random: true },
        });
        (arrivals, (0u64..2_000, 1u64..1_500, 0u32..5), 1u32..4, any::<bool>())
            .prop_map(|(arrivals, trouble, shards, stops)| fleet(arrivals, trouble, shards, stops))
    }

    fn any_strategy() -> impl Any<Value = Strategy> {
        let parts = (any::<[bool; 8]>(), 1u32..5, 0usize..3, any::<bool>());
        parts.prop_map(|(on, attempts, scope, per_shard)| {
            let [breaker, bucket, concurrent, throttle, limiter, adaptive, bulkhead, hedge] = on;
            let mut budgets: Vec<(BudgetPolicy, Ratio)> = Vec::new();
            if bucket {
                // Nothing comes back in the time of a test.
                let years = Rate::new(1, Duration::from_secs(1_000_000_000)).unwrap();
                budgets.push((TokenBucket::new(50).refill(years).into(), Ratio::ZERO));
            }
            if concurrent {
                budgets.push((ConcurrentBudget::new(Ratio::percent(20)).floor(3).into(), Ratio::ZERO));
            }
            let rate = Rate::new(200, Duration::from_secs(1)).unwrap();
            let breaker = breaker.then(|| BreakerPolicy::time(ms(500)).min_calls(3));
            let shared = CommonPolicy {
                breaker,
                budgets,
                throttle: throttle.then(|| ThrottlePolicy::sre(1.5).window(ms(1_000))),
                limiter: limiter.then(|| LimiterPolicy::new(rate)),
                adaptive,
                bulkhead: bulkhead.then(|| BulkheadPolicy::new(3).queue(4).max_wait(ms(70))),
                hedge: hedge.then(|| HedgePolicy::after(ms(u64::from(attempts) * 10)).max_attempts(3)),
                ..CommonPolicy::default()
            };
            let policy = Policy::exponential(ms(20)).jitter(Jitter::Full).max_attempts(attempts);
            let strategy = Strategy::from(policy.build().unwrap());
            Strategy { scope: Scope::ALL[scope], per_shard, ..strategy.sharing(shared) }
        })
    }

    /// What is left when all has ended.
    fn left(fleet: &Fleet, strategy: &Strategy, seed: u64) -> (Tally, Vec<Common>, usize) {
        let (never, mut scratch, mut pool) = (AtomicBool::new(false), Scratch::default(), Pool::new());
        let mut recorder = Recorder::new(fleet.frame(ms(100), (1.0, 1.0), None), 7);
        let mut pulse = Pulse::new(&never, &|_, _| {}, 5_000_000, 7);
        fleet.run(strategy, Luck::new(seed, 0), &mut scratch, &mut recorder, &mut pulse);
        assert_eq!((pulse.broken, strategy.shared.check()), (None, Ok(())));
        recorder.finish(pulse.events, None, &mut pool);
        let attempts = scratch.attempts.len();
        (pool.tally, scratch.homes.commons().map(|common| common.clone()).collect(), attempts)
    }

    proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(96))]

        /// Every call and every attempt ends; every place, permit and token that was not spent is back.
        #[test]
        fn nothing_is_lost(fleet in any_fleet(), strategy in any_strategy(), seed: u64) {
            // Counted is what goes to the leaf, and what the clients ask: all attempts under the strategy are either.
            let watched = |watch: Option<&str>| {
                let fleet = Fleet { watch: watch.map(Into::into), ..fleet.clone() };
                left(&fleet, &strategy, seed)
            };
            let ((tally, mut commons, attempts), (leaf, ..)) = (watched(None), watched(Some("leaf")));
            prop_assert_eq!(tally.calls, tally.succeeded + tally.failed);
            prop_assert_eq!(tally.unfinished, 0);
            prop_assert_eq!(attempts, 0);
            let now = Timestamp::ZERO;
            let (made, first) = (tally.attempts + leaf.attempts, tally.first_attempts + leaf.first_attempts);
            let (mut seen, mut spent) = (0, 0);
            for common in &mut commons {
                if let Some(bulkhead) = &mut common.bulkhead {
                    prop_assert_eq!((bulkhead.running(), bulkhead.waiting(now)), (0, 0));
                }
                if let Some(breaker) = &common.breaker {
                    let statistics = breaker.statistics();
                    seen += statistics.successes + statistics.failures + statistics.ignored;
                }
                let mut budgets = common.budgets.iter_mut();
                if strategy.shared.budgets.first().is_some_and(|(policy, _)| policy.as_str() == "token_bucket") {
                    spent += 50_000 - budgets.next().map_or(0, |bucket| bucket.balance(now));
                }
                // Of the calls under way, of which there are none, and three more.
                prop_assert!(budgets.all(|budget: &mut Budget| budget.balance(now) == 3_000));
            }
            if strategy.shared.breaker.is_some() {
                prop_assert_eq!(seen, made);
            }
            if strategy.shared.budgets.first().is_some_and(|(policy, _)| policy.as_str() == "token_bucket") {
                prop_assert_eq!(spent, (made - first) * 1_000);
            }
        }
    }
}
