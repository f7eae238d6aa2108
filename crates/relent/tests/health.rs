//! Calls to a target in health, which ask nothing and hold nothing; and what becomes of them when that changes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]
#![cfg(all(not(loom), feature = "tokio"))]

use std::cell::Cell;
use std::future::{Future, pending, ready};
use std::io;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use allocation_counter::measure;
use relent::blocking::SystemTimer;
use relent::{
    Breaker, BreakerMode, BreakerPolicy, BreakerState, BreakerStatistics, BulkheadPolicy, Clock,
    ConcurrentBudget, Policy, Quota, Ratio, Reason, Retrier, RetrierBuilder, Target, TokenBucket,
    WindowBudget,
};
use tokio::runtime::Builder;

type Ended = Result<u32, Reason>;

/// A call whose operation does this in each attempt.
type Driver = fn(&Target, &dyn Fn() -> io::Result<u32>) -> Ended;

fn blocking(target: &Target, operation: &dyn Fn() -> io::Result<u32>) -> Ended {
    target.retry_blocking(operation).map_err(|error| error.reason())
}

fn asynchronous(target: &Target, operation: &dyn Fn() -> io::Result<u32>) -> Ended {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(target.retry(|| async { operation() })).map_err(|error| error.reason())
}

const DRIVERS: [Driver; 2] = [blocking, asynchronous];

fn ok() -> io::Result<u32> {
    Ok(1)
}

fn fails() -> io::Result<u32> {
    Err(io::ErrorKind::ConnectionReset.into())
}

/// Three attempts without waits.
fn policy() -> Policy {
    Policy::constant(Duration::ZERO).max_attempts(3).seed(1).build().unwrap()
}

fn target(with: impl FnOnce(RetrierBuilder) -> RetrierBuilder) -> Target {
    with(Retrier::new(policy())).build().unwrap().at("host")
}

fn with_breaker<R>(target: &Target, look: impl FnOnce(&mut Breaker) -> R) -> R {
    target.breaker().unwrap().with(look)
}

fn state(target: &Target) -> BreakerState {
    with_breaker(target, |breaker| breaker.state(SystemTimer.now()))
}

fn statistics(target: &Target) -> BreakerStatistics {
    with_breaker(target, |breaker| breaker.statistics())
}

fn balance(target: &Target) -> u64 {
    target.budgets()[0].with(|budget| budget.balance(SystemTimer.now()))
}

#[test]
fn a_call_that_fails_draws_on_what_is_shared() {
    for call in DRIVERS {
        let target = target(|it| it.budget(Quota::new(10, 5)).breaker(BreakerPolicy::consecutive(4)));
        assert_eq!(call(&target, &ok), Ok(1));
        assert_eq!(call(&target, &fails), Err(Reason::AttemptsExhausted));
        assert_eq!((balance(&target), statistics(&target).failures), (0, 3));
        assert_eq!(call(&target, &fails), Err(Reason::CircuitOpen));
        assert_eq!((state(&target), statistics(&target).failures), (BreakerState::Open, 4));
        assert_eq!(call(&target, &ok), Err(Reason::CircuitOpen));
        assert_eq!(statistics(&target).refused, 1);
    }
}

#[test]
fn a_success_is_told_where_it_matters() {
    for call in DRIVERS {
        // It ends a row of failures.
        let row = target(|it| it.breaker(BreakerPolicy::consecutive(5)));
        for _ in 0..5 {
            assert_eq!(call(&row, &fails), Err(Reason::AttemptsExhausted));
            assert_eq!(call(&row, &ok), Ok(1));
        }
        // It fills a window, and pushes a failure out of it.
        let count = target(|it| it.breaker(BreakerPolicy::count(10)));
        for _ in 0..9 {
            assert_eq!(call(&count, &ok), Ok(1));
        }
        let ratio = || with_breaker(&count, |breaker| breaker.failure_ratio(SystemTimer.now()));
        assert_eq!(ratio(), None);
        call(&count, &ok).unwrap();
        assert_eq!(ratio(), Some(0.0));
        assert_eq!(call(&count, &fails), Err(Reason::AttemptsExhausted));
        assert_eq!(ratio(), Some(0.3));
        for _ in 0..7 {
            call(&count, &ok).unwrap();
        }
        assert_eq!(ratio(), Some(0.3));
        for _ in 0..3 {
            call(&count, &ok).unwrap();
        }
        assert_eq!(ratio(), Some(0.0));
        // It is counted in windows of time.
        let time = target(|it| it.breaker(BreakerPolicy::time(Duration::from_secs(60))));
        for _ in 0..20 {
            call(&time, &ok).unwrap();
        }
        assert_eq!(statistics(&time).successes, 20);
        // It brings tokens back.
        let bucket = target(|it| it.budget(TokenBucket::new(2).per_success(500)));
        assert_eq!(call(&bucket, &fails), Err(Reason::AttemptsExhausted));
        assert_eq!(balance(&bucket), 0);
        for _ in 0..9 {
            call(&bucket, &ok).unwrap();
        }
        assert_eq!(balance(&bucket), 2_000);
    }
}

#[test]
fn calls_are_counted_where_budgets_are_a_share_of_them() {
    for call in DRIVERS {
        for budget in [
            relent::BudgetPolicy::from(WindowBudget::new(Ratio::percent(20)).floor(0)),
            ConcurrentBudget::new(Ratio::percent(20)).floor(1).into(),
        ] {
            let target = target(|it| it.budget(budget));
            let before = balance(&target);
            for _ in 0..10 {
                call(&target, &ok).unwrap();
            }
            let counted = if budget.needs_clock() { 2_000 } else { 0 };
            assert_eq!(balance(&target) - before, counted, "{budget:?}");
            // The window: what the call itself brought included. The other: one retry at a time, and all come back.
            let ended = call(&target, &fails);
            assert_eq!(ended, Err(Reason::AttemptsExhausted), "{budget:?}");
            assert_eq!(balance(&target), if budget.needs_clock() { 200 } else { 1_000 });
        }
    }
}

#[test]
fn a_result_that_comes_after_the_state_has_changed_changes_nothing() {
    for call in DRIVERS {
        for operation in [ok, fails] {
            let target = target(|it| it.breaker(BreakerPolicy::consecutive(1)));
            let ended = call(&target, &|| {
                with_breaker(&target, |breaker| breaker.trip(SystemTimer.now()));
                operation()
            });
            assert_eq!(ended, operation().map_err(|_| Reason::CircuitOpen));
            assert_eq!(state(&target), BreakerState::Open);
            let BreakerStatistics { late, opened, .. } = statistics(&target);
            assert_eq!((late, opened), (1, 1));

            // And closed again, which is yet another state.
            let ended = call(&target, &|| operation());
            assert_eq!(ended, Err(Reason::CircuitOpen));
            with_breaker(&target, |breaker| breaker.reset(SystemTimer.now()));
            let _ = call(&target, &|| {
                with_breaker(&target, |breaker| {
                    breaker.trip(SystemTimer.now());
                    breaker.reset(SystemTimer.now());
                });
                operation()
            });
            if operation().is_ok() {
                assert_eq!(state(&target), BreakerState::Closed);
            }
        }
    }
}

#[test]
fn a_mode_holds_on_the_short_way_too() {
    for call in DRIVERS {
        let target = target(|it| it.breaker(BreakerPolicy::consecutive(1)));
        let set = |mode| with_breaker(&target, |breaker| breaker.set_mode(mode, SystemTimer.now()));
        set(BreakerMode::ForcedOpen);
        assert_eq!(call(&target, &ok), Err(Reason::CircuitOpen));
        for mode in [BreakerMode::Disabled, BreakerMode::MetricsOnly] {
            set(mode);
            assert_eq!(call(&target, &fails), Err(Reason::AttemptsExhausted));
            assert_eq!(call(&target, &ok), Ok(1));
        }
    }
}

#[test]
fn a_target_that_must_be_asked_is_asked() {
    for call in DRIVERS {
        let target = target(|it| it.bulkhead(BulkheadPolicy::new(1)));
        let inner = Cell::new(None);
        let outer = call(&target, &|| {
            inner.set(Some(blocking(&target, &ok)));
            ok()
        });
        assert_eq!((outer, inner.get()), (Ok(1), Some(Err(Reason::BulkheadFull))));
        assert_eq!(target.bulkhead().unwrap().with(|bulkhead| bulkhead.running()), 0);
    }
}

#[test]
fn whatever_happens_to_a_call_in_health_nothing_is_left_behind() {
    let target = target(|it| {
        it.breaker(BreakerPolicy::count(10))
            .budget(ConcurrentBudget::new(Ratio::ONE).floor(0))
            .budget(Quota::new(10, 1))
    });
    let snapshots = || {
        let breaker = with_breaker(&target, |breaker| breaker.snapshot());
        (
            breaker.state,
            breaker.window,
            balance(&target),
            target.budgets()[1].with(|budget| budget.snapshot()),
        )
    };
    let before = snapshots();
    {
        let mut call = pin!(target.retry(pending::<io::Result<u32>>));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(snapshots(), before);
    let panics = || target.retry_blocking(|| -> io::Result<u32> { std::panic::resume_unwind(Box::new(())) });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert_eq!(snapshots(), before);
}

#[tokio::test(start_paused = true)]
async fn a_first_attempt_that_is_cut_off_has_failed() {
    let policy = Policy::constant(Duration::ZERO).max_attempts(2).attempt_timeout(Duration::from_secs(1));
    let retrier = Retrier::new(policy.build().unwrap()).breaker(BreakerPolicy::consecutive(5));
    let target = retrier.build().unwrap().at("host");
    let ended = target.retry(pending::<io::Result<u32>>).await;
    assert_eq!(ended.unwrap_err().reason(), Reason::AttemptsExhausted);
    assert_eq!(statistics(&target).failures, 2);

    // A deadline as well.
    let policy = Policy::constant(Duration::ZERO).deadline(Duration::from_secs(1)).build().unwrap();
    let target = Retrier::new(policy)
        .breaker(BreakerPolicy::time(Duration::from_secs(60)))
        .build()
        .unwrap()
        .at("host");
    let ended = target.retry(pending::<io::Result<u32>>).await;
    assert_eq!(ended.unwrap_err().reason(), Reason::DeadlinePassed);
    assert_eq!(statistics(&target).failures, 1);
    assert_eq!(target.retry(|| async { ok() }).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_spread_waits_for_it() {
    let policy =
        Policy::constant(Duration::ZERO).initial_spread(Duration::from_secs(10)).seed(7).build().unwrap();
    let target = Retrier::new(policy).breaker(BreakerPolicy::consecutive(5)).build().unwrap().at("host");
    let began = tokio::time::Instant::now();
    assert_eq!(target.retry(|| async { ok() }).await.unwrap(), 1);
    assert!(began.elapsed() > Duration::ZERO);
}

#[test]
fn a_success_at_once_allocates_nothing() {
    let minute = Duration::from_secs(60);
    let limited = Policy::default().to_builder().deadline(minute).build().unwrap();
    let timed = |policy| {
        let budget = WindowBudget::new(Ratio::percent(20));
        Retrier::new(policy).breaker(BreakerPolicy::time(minute)).budget(budget).build().unwrap().at("host")
    };
    for target in [
        target(|it| it.breaker(BreakerPolicy::consecutive(5)).budget(Quota::aws_2026())),
        target(|it| it.breaker(BreakerPolicy::count(5)).budget(TokenBucket::new(10).per_success(100))),
        timed(Policy::default()),
        timed(limited),
    ] {
        let blocking = || assert_eq!(target.retry_blocking(ok).unwrap(), 1);
        let asynchronous = || {
            let call = pin!(target.retry(|| ready(ok())));
            assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        };
        blocking();
        asynchronous();
        assert_eq!(measure(blocking).count_total, 0);
        assert_eq!(measure(asynchronous).count_total, 0);
    }
}

/// The type of a call that many tasks wait in.
#[test]
fn a_call_in_health_carries_little() {
    let target = target(|it| it.breaker(BreakerPolicy::consecutive(5)));
    let size = size_of_val(&target.retry(|| ready(ok())));
    assert!(size <= 200, "{size}");
    fn moves<T: Send>(_: T) {}
    moves(target.retry(|| ready(ok())));
}
