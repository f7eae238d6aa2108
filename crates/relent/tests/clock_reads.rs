//! How often a call reads the clock: once when an attempt begins, and again at its end only where something hangs on
//! when that was.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what a test does not expect fails it")]
#![cfg(not(loom))]

use std::future::{Future, Ready, ready};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use relent::{
    BreakerMode, BreakerPolicy, BulkheadPolicy, Clock, LimiterPolicy, MemoryPolicy, Policy, PolicyBuilder,
    Quota, Rate, Ratio, Retrier, RetrierBuilder, Target, ThrottlePolicy, Timer, Timestamp, Token,
    TokenBucket, WindowBudget, blocking,
};

/// Counts how often it is read. Each time is a millisecond later.
#[derive(Clone, Debug, Default)]
struct Counting(Arc<AtomicU64>);

impl Counting {
    fn reads(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clock for Counting {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(1_000_000 * self.0.fetch_add(1, Ordering::Relaxed))
    }
}

impl Timer for Counting {
    type Sleep = Ready<()>;

    fn sleep(&self, _wait: Duration) -> Ready<()> {
        ready(())
    }
}

impl blocking::Timer for Counting {
    fn sleep(&self, _wait: Duration, _cancel: Option<&Token>) {}
}

const SECOND: Duration = Duration::from_secs(1);

/// A call whose attempts end like this, the last with success, on this clock.
type Driver = fn(&Target, Counting, u32);

fn by_blocking(target: &Target, clock: Counting, failures: u32) {
    let operation = |attempt: relent::Attempt<_>| ends(attempt.number(), failures);
    target.blocking().timer(clock).retry(operation).unwrap();
}

fn by_async(target: &Target, clock: Counting, failures: u32) {
    let call = target
        .with()
        .timer(clock)
        .retry(|attempt: relent::Attempt<_>| ready(ends(attempt.number(), failures)));
    finishes(call).unwrap();
}

/// Each result is looked at by a closure.
fn by_classifying(target: &Target, clock: Counting, failures: u32) {
    let call = target.blocking().timer(clock).classify(|result: &io::Result<()>| match result {
        Ok(()) => relent::Class::Success,
        Err(_) => relent::Class::Transient,
    });
    call.retry(|attempt| ends(attempt.number(), failures)).unwrap();
}

const DRIVERS: [Driver; 3] = [by_blocking, by_async, by_classifying];

fn ends(number: u32, failures: u32) -> io::Result<()> {
    if number > failures { Ok(()) } else { Err(io::ErrorKind::ConnectionReset.into()) }
}

fn finishes<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("nothing here waits"),
    }
}

fn target(policy: PolicyBuilder, with: impl FnOnce(RetrierBuilder) -> RetrierBuilder) -> Target {
    with(Retrier::new(policy.seed(1).build().unwrap())).build().unwrap().at("host")
}

fn policy() -> PolicyBuilder {
    Policy::constant(Duration::ZERO).max_attempts(9)
}

/// How often one more call reads the clock, after `before` that have succeeded.
fn reads(target: &Target, driver: Driver, before: u32, failures: u32) -> u64 {
    let clock = Counting::default();
    for _ in 0..before {
        driver(target, clock.clone(), 0);
    }
    let read = clock.reads();
    driver(target, clock.clone(), failures);
    clock.reads() - read
}

fn window() -> WindowBudget {
    WindowBudget::new(Ratio::percent(20)).floor(10)
}

#[test]
fn an_attempt_that_succeeds_reads_the_clock_once() {
    for driver in DRIVERS {
        let refilled = TokenBucket::new(9).refill(Rate::new(1, SECOND).unwrap());
        let many = LimiterPolicy::new(Rate::new(1_000, SECOND).unwrap());
        let targets = [
            target(policy(), |it| it.breaker(BreakerPolicy::consecutive(9))),
            target(policy(), |it| it.breaker(BreakerPolicy::count(100))),
            target(policy(), |it| it.breaker(BreakerPolicy::time(10 * SECOND))),
            target(policy(), |it| it.budget(refilled)),
            target(policy(), |it| it.budget(window())),
            target(policy(), |it| it.limiter(many)),
            target(policy(), |it| it.throttle(ThrottlePolicy::sre(2.0))),
            target(policy(), |it| it.bulkhead(BulkheadPolicy::new(1).queue(1))),
            target(policy().deadline(9 * SECOND), |it| it),
            target(policy().deadline(9 * SECOND).attempt_timeout(SECOND), |it| {
                it.breaker(BreakerPolicy::time(10 * SECOND)).budget(window()).limiter(many)
            }),
        ];
        for (index, target) in targets.iter().enumerate() {
            assert_eq!(reads(target, driver, 3, 0), 1, "{index}");
            // An attempt that has failed is decided about at a time: that is one more for each.
            assert_eq!(reads(target, driver, 3, 2), 5, "{index}");
        }
    }
}

#[test]
fn where_nothing_needs_the_time_it_is_not_read() {
    for driver in DRIVERS {
        let target = target(policy(), |it| it.budget(Quota::new(500, 5)).bulkhead(BulkheadPolicy::new(1)));
        assert_eq!(reads(&target, driver, 3, 0), 0);
        assert_eq!(reads(&target, driver, 0, 3), 0);
    }
}

#[test]
fn the_end_is_timed_where_something_hangs_on_it() {
    for driver in DRIVERS {
        let slow = BreakerPolicy::time(10 * SECOND).slow_calls(Ratio::percent(50), SECOND);
        let targets = [
            target(policy(), |it| it.breaker(slow)),
            target(policy(), |it| it.memory(MemoryPolicy::new(SECOND))),
            target(policy(), |it| it.adaptive_rate()),
            target(policy(), |it| {
                it.breaker(BreakerPolicy::count(9)).memory(MemoryPolicy::new(SECOND)).adaptive_rate()
            }),
        ];
        for (index, target) in targets.iter().enumerate() {
            assert_eq!(reads(target, driver, 1, 0), 2, "{index}");
        }
    }
}

/// The one that makes the calls enough opens a breaker from its end on, however long it took.
#[test]
fn a_success_that_may_open_or_close_the_breaker_is_timed() {
    for driver in DRIVERS {
        let breaker = BreakerPolicy::count(9).min_calls(4);
        let target = target(policy(), |it| it.breaker(breaker));
        let read: Vec<_> = (0..6).map(|_| reads(&target, driver, 0, 0)).collect();
        assert_eq!(read, [1, 1, 1, 2, 1, 1]);
        let breaker = target.breaker().unwrap();
        breaker.with(|breaker| breaker.trip(Timestamp::ZERO));
        let clock = Counting(Arc::new(AtomicU64::new(1_000_000)));
        let before = clock.reads();
        driver(&target, clock.clone(), 0);
        assert_eq!(clock.reads() - before, 2, "a probe");
        breaker.with(|breaker| breaker.set_mode(BreakerMode::Disabled, Timestamp::ZERO));
        assert_eq!(reads(&target, driver, 0, 0), 1);
    }
}
