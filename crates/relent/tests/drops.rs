//! A call that is dropped, at each of its await points, one by one, through each async driver: the place, the permit, the
//! token and the turn that it held are the others' again, exactly, and no timer and no waker is left.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]
#![cfg(not(loom))]

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use relent::testing::Clock;
use relent::{
    Backoff, BreakerPolicy, BreakerState, BulkheadPolicy, Cache, Class, ConcurrentBudget, HedgePolicy,
    Jitter, LimiterPolicy, Policy, Quota, Rate, Ratio, Retrier, RetrierBuilder, Schedule, Target, Timer,
    Timestamp, Token, TokenBucket, TokioTimer,
};

/// All times are multiples of it, so that a poll in each finds every point at which a call waits.
const TICK: Duration = Duration::from_millis(5);

/// The distance of turns.
const TURN: Duration = Duration::from_millis(100);

/// Tokens in each bucket, more than a call can spend.
const TOKENS: u64 = 50;

type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// What a call shares, and what is seen of it from outside.
struct World<T> {
    timer: T,
    target: Target,
    token: Token,
    /// When attempts began, and their numbers.
    started: RefCell<Vec<(u32, Timestamp)>>,
}

/// A target with a part of each kind: one probe, one turn in a while, a budget of each sort that a call holds on to.
fn target(with: impl FnOnce(RetrierBuilder) -> RetrierBuilder) -> Target {
    let wait = Policy::constant(TICK * 10).jitter(Jitter::None).max_attempts(4);
    let policy = wait.attempt_timeout(TICK * 20).deadline(Duration::from_secs(60)).seed(1).build().unwrap();
    let open = Backoff::new(Schedule::Constant { initial: TICK * 6 }).jitter(Jitter::None);
    let retrier = Retrier::new(policy)
        .breaker(BreakerPolicy::consecutive(2).open_for(open).max_probes(1))
        // With one call nothing is under way but itself; the other counts retries alone.
        .budget(ConcurrentBudget::new(Ratio::ONE).floor(0))
        .budget(ConcurrentBudget::new(Ratio::ZERO).floor(10))
        .budget(Quota::new(TOKENS as u32, 1))
        .budget(TokenBucket::new(TOKENS as u32).per_success(1));
    with(retrier).build().unwrap().at("host")
}

fn limiter(retrier: RetrierBuilder) -> RetrierBuilder {
    retrier.limiter(LimiterPolicy::new(Rate::new(1, TURN).unwrap()).burst(1))
}

impl<T: Timer> World<T> {
    fn new(timer: T, target: Target) -> Self {
        Self { timer, target, token: Token::new(), started: RefCell::default() }
    }

    /// An attempt that takes two ticks and fails.
    fn attempt(&self, number: u32) -> impl Future<Output = Result<(), std::io::Error>> {
        self.started.borrow_mut().push((number, self.timer.now()));
        let sleep = self.timer.sleep(TICK * 2);
        async move {
            sleep.await;
            Err(std::io::ErrorKind::ConnectionReset.into())
        }
    }

    fn retries(&self) -> u64 {
        self.started.borrow().iter().filter(|(number, _)| *number > 1).count() as u64
    }

    /// What there was is there again, apart from what attempts that did start have cost.
    fn nothing_is_held(&self, at: &str) {
        let now = self.timer.now();
        let target = &self.target;
        let balance = |index: usize| target.budgets()[index].with(|budget| budget.balance(now));
        assert_eq!((balance(0), balance(1)), (0, 10_000), "{at}: calls, and retries, under way");
        let left = (TOKENS - self.retries()) * 1_000;
        assert_eq!(
            (balance(2), balance(3)),
            (left, left),
            "{at}: a retry that has started, and no other, costs"
        );
        if let Some(bulkhead) = target.bulkhead() {
            assert_eq!(
                bulkhead.with(|it| (it.running(), it.has_queue())),
                (0, false),
                "{at}: places, a queue"
            );
        }
        if let Some(limiter) = target.limiter() {
            let last = self.started.borrow().iter().map(|(_, began)| *began).max();
            let free = last.map_or(now, |last| last.plus(TURN).max(now));
            assert_eq!(limiter.with(|it| it.ready_at(1, now)), Some(free), "{at}: the next turn");
        }
        let breaker = target.breaker().unwrap();
        let told = breaker.with(|it| it.statistics());
        assert_eq!(
            told.successes + told.failures + told.ignored,
            self.started.borrow().len() as u64,
            "{at}: each attempt is told of once"
        );
        // Later whoever comes is admitted: all of them, or exactly one where it is to be a probe.
        let later = now.plus(Duration::from_secs(1));
        for now in [now, later] {
            let (state, one, other) = breaker.with(|it| (it.state(now), it.admit(now), it.admit(now)));
            let admitted = [&one, &other].iter().filter(|permit| permit.is_ok()).count();
            let expected = match state {
                BreakerState::Open if now < later => 0,
                BreakerState::Closed => 2,
                _ => 1,
            };
            assert_eq!(admitted, expected, "{at}: {state:?}");
            for permit in [one, other].into_iter().flatten() {
                breaker.with(|it| it.release(permit));
            }
        }
    }
}

/// Owners of a waker show who still holds one.
struct Quiet;

impl Wake for Quiet {
    fn wake(self: Arc<Self>) {}
}

/// How time passes, without anybody being polled.
trait Passes: Timer {
    async fn pass(&self);

    /// How many sleep on it, where that can be seen.
    fn sleepers(&self) -> usize {
        0
    }
}

impl Passes for Clock {
    async fn pass(&self) {
        self.advance(TICK);
    }

    fn sleepers(&self) -> usize {
        self.asleep()
    }
}

impl Passes for TokioTimer {
    async fn pass(&self) {
        tokio::time::advance(TICK).await;
    }
}

/// Polls `calls` in turn, a tick apart, and drops one of them after each number of polls there is, the others with it or
/// when they have ended. The number of points at which it could be dropped comes back.
async fn dropped_at_each_point<T: Passes, const N: usize>(
    name: &str,
    victim: usize,
    world: impl Fn() -> World<T>,
    calls: impl for<'a> Fn(&'a World<T>) -> [Boxed<'a>; N],
) -> u32 {
    for others_end in [false, true] {
        for polls in 0.. {
            let world = world();
            let quiet = Arc::new(Quiet);
            let waker = Waker::from(Arc::clone(&quiet));
            let context = &mut Context::from_waker(&waker);
            let mut calls = calls(&world).map(Some);
            let mut poll = |calls: &mut [Option<Boxed<'_>>; N]| {
                for call in calls {
                    if call.as_mut().is_some_and(|call| call.as_mut().poll(context).is_ready()) {
                        *call = None;
                    }
                }
            };
            for _ in 0..polls {
                poll(&mut calls);
                world.timer.pass().await;
            }
            let over = calls[victim].take().is_none();
            while others_end && calls.iter().any(Option::is_some) {
                poll(&mut calls);
                world.timer.pass().await;
            }
            drop(calls);
            let at = format!("{name}, call {victim} dropped after {polls} polls, others end: {others_end}");
            drop(waker);
            assert_eq!((Arc::strong_count(&quiet), world.timer.sleepers()), (1, 0), "{at}");
            world.nothing_is_held(&at);
            if over {
                if others_end {
                    return polls;
                }
                break;
            }
        }
    }
    unreachable!()
}

#[tokio::test(start_paused = true)]
async fn a_call_at_a_target() {
    let world = || World::new(Clock::new(), target(|it| limiter(it).bulkhead(BulkheadPolicy::new(1))));
    let points = dropped_at_each_point("with", 0, world, |world| {
        let call = world.target.with().timer(world.timer.clone()).cancel_on(&world.token);
        [Box::pin(async { drop(call.retry(|made| world.attempt(made.number())).await) })]
    });
    // Four attempts of two ticks, a turn of twenty apart.
    assert_eq!(points.await, 3 * 20 + 2 + 1);
}

#[tokio::test(start_paused = true)]
async fn the_short_way() {
    // A breaker alone: its first attempt is admitted without asking.
    let quick = || World::new(TokioTimer, target(|it| it));
    let asks = || World::new(TokioTimer, target(|it| limiter(it).bulkhead(BulkheadPolicy::new(1))));
    type Build = fn() -> World<TokioTimer>;
    let worlds: [(Build, u32); 2] = [(quick, 3 * 12 + 2 + 1), (asks, 3 * 20 + 2 + 1)];
    for (world, expected) in worlds {
        let points = dropped_at_each_point("Target::retry", 0, world, |world| {
            let mut number = 0;
            [Box::pin(async move {
                let attempts = || {
                    number += 1;
                    world.attempt(number)
                };
                drop(world.target.retry(attempts).await);
            })]
        });
        assert_eq!(points.await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hedged_call() {
    let hedge = HedgePolicy::after(TICK).max_attempts(3);
    let world = || World::new(Clock::new(), target(|it| it.bulkhead(BulkheadPolicy::new(2)).hedge(hedge)));
    let points = dropped_at_each_point("hedged", 0, world, |world| {
        let call = world.target.with().timer(world.timer.clone()).cancel_on(&world.token);
        [Box::pin(async { drop(call.retry(|made| world.attempt(made.number())).await) })]
    });
    assert!(points.await > 10);
}

#[tokio::test(start_paused = true)]
async fn a_call_in_a_queue() {
    let bulkhead = BulkheadPolicy::new(1).queue(2);
    let world = || World::new(Clock::new(), target(|it| it.bulkhead(bulkhead)));
    for victim in 0..3 {
        let points = dropped_at_each_point("queue", victim, world, |world| {
            [(); 3].map(|()| {
                let call = world.target.with().timer(world.timer.clone()).cancel_on(&world.token);
                let call = async { drop(call.retry(|made| world.attempt(made.number())).await) };
                Box::pin(call) as Boxed<'_>
            })
        });
        // The last of the three waits for the other two, and finds the breaker open.
        assert!(points.await >= 5, "{victim}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_behind_a_cache() {
    let world = || World::new(Clock::new(), target(limiter));
    for victim in 0..3 {
        let points = dropped_at_each_point("cache", victim, world, |world| {
            let cache = Arc::new(Cache::new(TICK).clock(world.timer.clone()));
            [(); 3].map(|()| {
                let cache = Arc::clone(&cache);
                let call = || world.target.with().timer(world.timer.clone()).cancel_on(&world.token);
                let call = async move {
                    let made = || call().retry(|made| world.attempt(made.number()));
                    let _: Result<(), _> = cache.get("key", made).await;
                };
                Box::pin(call) as Boxed<'_>
            })
        });
        assert!(points.await > 10, "{victim}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_fallback() {
    let world = || World::new(Clock::new(), target(|it| it.bulkhead(BulkheadPolicy::new(1))));
    let points = dropped_at_each_point("fallback", 0, world, |world| {
        let call = world.target.with().timer(world.timer.clone()).cancel_on(&world.token);
        let call = call.or_else(move |failed| async move {
            assert_ne!(failed.class, Some(Class::Success));
            Timer::sleep(&world.timer, TICK * 4).await;
            Ok(())
        });
        [Box::pin(async { drop(call.retry(|made| world.attempt(made.number())).await) })]
    });
    // After the attempts the answer takes four more.
    assert_eq!(points.await, 3 * 12 + 2 + 4 + 1);
}
