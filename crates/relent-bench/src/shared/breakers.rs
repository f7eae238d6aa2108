//! Closed breakers, around an operation that succeeds.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use failsafe::{CircuitBreaker as _, backoff, failure_policy};
use layered::{Execute, Service as _, Stack as _};
use recloser::{AsyncRecloser, Recloser};
use relent::{BreakerPolicy, Policy, PolicyError, Retrier, Target};
use seatbelt::breaker::Breaker as SeatbeltBreaker;
use seatbelt::{RecoveryInfo, ResilienceContext};
use tokio::runtime::Runtime;
use tower::{Layer as _, service_fn};
use tower_resilience_circuitbreaker::CircuitBreakerLayer;

use crate::case::{Case, Table};
use crate::kept;
use crate::looped::Looped;
use crate::operation::{Kind, Refused, Small};

const WINDOW: u32 = 100;
const WINDOW_TIME: Duration = Duration::from_secs(30);
/// Holds the failure at the beginning of a sample until the sample's end.
const LONG_WINDOW: u32 = 50_000;

pub(crate) fn cases() -> Result<Vec<Case>, Box<dyn Error>> {
    let healthy = Table::BREAKERS;
    let failed = Table::BREAKERS_WITH_A_FAILURE;
    let mut cases =
        vec![Case::new(healthy, "bare", run(Small::succeed)), Case::new(failed, "bare", run(Small::succeed))];

    let consecutive = target(BreakerPolicy::consecutive(5))?;
    cases.push(
        blocking(healthy, run(|| consecutive.retry_blocking(Small::succeed))).variant("failures in a row"),
    );
    let count = target(BreakerPolicy::count(WINDOW))?;
    cases.push(blocking(healthy, run(|| count.retry_blocking(Small::succeed))).variant("the last 100 calls"));
    let time = target(BreakerPolicy::time(WINDOW_TIME))?;
    cases.push(
        blocking(healthy, run(|| time.retry_blocking(Small::succeed)))
            .variant("the calls of 30 s (reads the clock)"),
    );

    let count = target(BreakerPolicy::count(LONG_WINDOW))?;
    let looped = run(|| count.retry_blocking(Small::succeed));
    cases.push(
        blocking(failed, after(|| drop(count.retry_blocking(Small::fail)), looped)).variant("the last calls"),
    );
    let time = target(BreakerPolicy::time(WINDOW_TIME))?;
    let looped = run(|| time.retry_blocking(Small::succeed));
    cases.push(
        blocking(failed, after(|| drop(time.retry_blocking(Small::fail)), looped))
            .variant("the calls of 30 s (reads the clock)"),
    );

    let breaker = recloser(WINDOW);
    cases.push(
        Case::new(healthy, "recloser", run(|| breaker.call(Small::succeed)))
            .variant("the last 100 calls")
            .over("bare"),
    );
    let breaker = recloser(LONG_WINDOW);
    let looped = run(|| breaker.call(Small::succeed));
    cases.push(
        Case::new(failed, "recloser", after(|| drop(breaker.call(Small::fail)), looped))
            .variant("the last calls")
            .over("bare"),
    );

    let wait = backoff::constant(Duration::from_secs(5));
    let breaker =
        kept(failsafe::Config::new().failure_policy(failure_policy::consecutive_failures(5, wait)).build());
    cases.push(
        Case::new(healthy, "failsafe", run(|| breaker.call(Small::succeed)))
            .variant("failures in a row")
            .over("bare"),
    );
    let breaker = kept(failsafe::Config::new().build());
    cases.push(
        Case::new(healthy, "failsafe", run(|| breaker.call(Small::succeed)))
            .variant("default (averages over 30 s)")
            .over("bare"),
    );
    // A success ends the row of failures: only the average still knows of one.
    let breaker = kept(failsafe::Config::new().build());
    let looped = run(|| breaker.call(Small::succeed));
    cases.push(
        Case::new(failed, "failsafe", after(|| drop(breaker.call(Small::fail)), looped))
            .variant("default (averages over 30 s)")
            .over("bare"),
    );
    Ok(cases)
}

pub(crate) fn awaited(runtime: &'static Runtime) -> Result<Vec<Case>, Box<dyn Error>> {
    let looped = Looped { table: Table::BREAKERS_AWAITED, runtime };
    let service = || service_fn(|()| async { Small::succeed() });
    let mut cases = vec![
        looped.case("bare", || async { Small::succeed() }),
        looped.service("bare tower service", service()),
    ];
    let consecutive = target(BreakerPolicy::consecutive(5))?;
    cases.push(
        looped
            .case("relent", || consecutive.retry(|| async { Small::succeed() }))
            .variant("failures in a row")
            .over("bare"),
    );
    let count = target(BreakerPolicy::count(WINDOW))?;
    cases.push(
        looped
            .case("relent", || count.retry(|| async { Small::succeed() }))
            .variant("the last 100 calls")
            .over("bare"),
    );
    let time = target(BreakerPolicy::time(WINDOW_TIME))?;
    cases.push(
        looped
            .case("relent", || time.retry(|| async { Small::succeed() }))
            .variant("the calls of 30 s (reads the clock)")
            .over("bare"),
    );

    let breaker =
        kept(AsyncRecloser::from(Recloser::custom().error_rate(0.5).closed_len(WINDOW as usize).build()));
    cases.push(
        looped
            .case("recloser", || breaker.call(async { Small::succeed() }))
            .variant("the last 100 calls")
            .over("bare"),
    );

    let wait = backoff::constant(Duration::from_secs(5));
    let breaker =
        kept(failsafe::Config::new().failure_policy(failure_policy::consecutive_failures(5, wait)).build());
    cases.push(
        looped
            .case("failsafe", || failsafe::futures::CircuitBreaker::call(breaker, async { Small::succeed() }))
            .variant("failures in a row")
            .over("bare"),
    );

    let layer = CircuitBreakerLayer::builder()
        .failure_rate_threshold(0.5)
        .sliding_window_size(WINDOW as usize)
        .build()?;
    cases.push(
        looped
            .service("tower-resilience", layer.layer(service()))
            .variant("the last 100 calls")
            .over("bare tower service"),
    );

    let context = ResilienceContext::new(tick_clock(runtime));
    let stack = (
        SeatbeltBreaker::layer("breaker", &context)
            .recovery_with(|result: &Result<u32, Refused>, _| match result {
                Ok(_) => RecoveryInfo::never(),
                Err(_) => RecoveryInfo::retry(),
            })
            .rejected_input_error(|(), _| Refused),
        Execute::new(|()| async { Small::succeed() }),
    );
    let service = kept(stack.into_service());
    cases.push(looped.case("seatbelt", || service.execute(())).variant("the calls of 30 s").over("bare"));
    Ok(cases)
}

/// seatbelt's clock, on the runtime.
pub(crate) fn tick_clock(runtime: &'static Runtime) -> tick::Clock {
    let _inside = runtime.enter();
    tick::Clock::new_tokio()
}

fn target(breaker: BreakerPolicy) -> Result<&'static Target, PolicyError> {
    // The operation that fails at the beginning of a sample is not to be tried again.
    let policy = Policy::default().to_builder().max_attempts(1).build()?;
    Ok(kept(Retrier::new(policy).breaker(breaker).build()?.at("host")))
}

fn recloser(window: u32) -> &'static Recloser {
    kept(Recloser::custom().error_rate(0.5).closed_len(window as usize).build())
}

fn blocking(table: Table, run: impl FnMut(u64) + 'static) -> Case {
    Case::new(table, "relent", run).over("bare")
}

fn run<T>(call: impl Fn() -> T + 'static) -> impl FnMut(u64) + 'static {
    move |calls| {
        for _ in 0..calls {
            black_box(call());
        }
    }
}

/// The same after something that happens at the beginning of each sample.
fn after(first: impl Fn() + 'static, mut run: impl FnMut(u64) + 'static) -> impl FnMut(u64) + 'static {
    move |calls| {
        first();
        run(calls);
    }
}
