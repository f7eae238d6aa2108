//! A first attempt that succeeds costs no memory, whatever its call shares.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what a test does not expect fails it")]
#![cfg(not(loom))]

use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use allocation_counter::measure;
use relent::testing::Clock;
use relent::{BreakerPolicy, LimiterPolicy, Policy, Quota, Rate, Ratio, Retrier, Target, WindowBudget};

fn target() -> Target {
    let rate = Rate::new(1_000_000, Duration::from_nanos(1)).unwrap();
    Retrier::new(Policy::default())
        .breaker(BreakerPolicy::count(100))
        .budget(WindowBudget::new(Ratio::percent(20)))
        .budget(Quota::aws_2026())
        .limiter(LimiterPolicy::new(rate))
        .build()
        .unwrap()
        .at("host:443")
}

#[test]
fn a_blocking_call_that_succeeds_at_once_allocates_nothing() {
    let (target, clock) = (target(), Clock::new());
    let call = || target.blocking().timer(clock.clone()).retry(|_attempt| Ok::<_, std::io::Error>(7));
    // The first one of a thread may set up what all others use.
    assert_eq!(call().unwrap(), 7);
    assert_eq!(measure(|| assert_eq!(call().unwrap(), 7)).count_total, 0);
}

#[test]
fn a_call_that_shares_nothing_carries_nothing() {
    let policy = Policy::default();
    let call =
        || relent::with(&policy).timer(Clock::new()).retry(|_attempt| ready(Ok::<_, std::io::Error>(7)));
    // What many tasks wait in: 768 bytes once, when each call had room for what it might share.
    let size = size_of_val(&call());
    assert!(size <= 400, "{size}");
    let once = || assert!(pin!(call()).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    once();
    // The clock itself is behind a pointer.
    assert_eq!(measure(once).count_total, measure(|| drop(Clock::new())).count_total);
}

#[test]
fn an_async_call_that_succeeds_at_once_allocates_nothing() {
    let (target, clock) = (target(), Clock::new());
    let call = || {
        let call = target.with().timer(clock.clone()).retry(|_attempt| ready(Ok::<_, std::io::Error>(7)));
        match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(7)) => {}
            other => panic!("{other:?}"),
        }
    };
    call();
    assert_eq!(measure(call).count_total, 0);
}
