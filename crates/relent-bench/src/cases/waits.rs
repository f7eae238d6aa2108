//! Schedules: the next wait, jitter on, capped at 20 s where the crate has a cap.

use std::hint::black_box;
use std::iter;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use relent_core::{Backoff, Dice, Memory, Multiplier, Schedule};
use tokio::runtime::Runtime;
use tower::retry::backoff::{Backoff as _, ExponentialBackoffMaker, MakeBackoff};
use tower::util::rng::HasherRng;
use tryhard::backoff_strategies::{BackoffStrategy, ExponentialBackoff as TryhardBackoff};

use crate::case::{Case, Table};

const INITIAL: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(20);
/// Waits of a series.
const SERIES: u64 = 8;
const MILLION: u32 = 1_000_000;

pub(crate) fn cases(runtime: &'static Runtime) -> Vec<Case> {
    let (doubling, slower) = (Table::WAITS_DOUBLING, Table::WAITS_ONE_AND_A_HALF);
    let mut cases = Vec::new();
    for (table, factor) in [(doubling, 2.0), (slower, 1.5)] {
        cases.push(relent_series(table, relent(factor)));
        cases.push(series(table, "backon", move || backon(factor as f32)));
        cases.push(series(table, "retry", move || retry(factor)));
        cases.push(series(table, "tokio-retry2", move || tokio_retry2(factor)));
    }
    cases.push(series(doubling, "tokio-retry", tokio_retry));
    cases.push(series(doubling, "tryhard", tryhard).variant("no jitter"));
    cases.push(series(doubling, "tower Retry", tower).variant("creates the sleep too").inside(runtime));

    cases.push(relent_far(relent(2.0)).variant("× 2"));
    cases.push(relent_far(relent(1.5)).variant("× 1.5"));
    cases.push(after_a_million("backon", || backon(2.0)));
    cases.push(after_a_million("retry", || retry(2.0)));
    cases.push(after_a_million("tokio-retry", tokio_retry));
    cases.push(after_a_million("tokio-retry2", || tokio_retry2(2.0)));
    cases.push(after_a_million("tryhard", tryhard).variant("no jitter"));
    cases.push(after_a_million("tower Retry", tower).variant("creates the sleep too").inside(runtime));
    cases
}

/// A policy's backoff, held by the policy as in a call. Its content is hidden from the compiler, as it is there.
fn relent(factor: f64) -> &'static Backoff {
    let multiplier = Multiplier::new(factor).unwrap_or_default();
    let schedule = Schedule::Exponential { initial: INITIAL, multiplier };
    Box::leak(Box::new(Backoff::new(schedule).cap(CAP)))
}

fn relent_series(table: Table, backoff: &'static Backoff) -> Case {
    let mut seed = 0;
    series(table, "relent", move || {
        seed += 1;
        black_box(backoff).waits(seed)
    })
}

fn relent_far(backoff: &'static Backoff) -> Case {
    let mut dice = Dice::new(0);
    Case::new(Table::WAIT_MILLIONTH, "relent", move |calls| {
        for _ in 0..calls {
            let backoff = black_box(backoff);
            black_box(backoff.wait(MILLION, Duration::ZERO, &mut Memory::default(), dice.roll()));
        }
    })
}

fn backon(factor: f32) -> impl Iterator<Item = Duration> {
    let builder = ExponentialBuilder::default().with_jitter().with_factor(factor);
    builder.with_min_delay(INITIAL).with_max_delay(CAP).without_max_times().build()
}

fn retry(factor: f64) -> impl Iterator<Item = Duration> {
    use retry::delay::{Exponential, jitter};
    Exponential::from_millis_with_factor(100, factor).map(jitter)
}

fn tokio_retry() -> impl Iterator<Item = Duration> {
    use tokio_retry::strategy::{ExponentialBackoff, jitter};
    // Its base is the factor too: 2 × 50 ms, 4 × 50 ms …
    ExponentialBackoff::from_millis(2).factor(50).max_delay(CAP).map(jitter)
}

fn tokio_retry2(factor: f64) -> impl Iterator<Item = Duration> {
    use tokio_retry2::strategy::{ExponentialFactorBackoff, jitter};
    ExponentialFactorBackoff::from_millis(100, factor).max_delay(CAP).map(jitter)
}

fn tryhard() -> impl Iterator<Item = Duration> {
    let mut strategy = TryhardBackoff::new(INITIAL);
    let mut attempt = 0;
    iter::from_fn(move || {
        attempt += 1;
        Some(strategy.delay(attempt, &()))
    })
}

fn tower() -> impl Iterator<Item = tokio::time::Sleep> {
    // The arguments are good ones.
    let maker = ExponentialBackoffMaker::new(INITIAL, CAP, 0.5, HasherRng::default());
    let mut backoff = maker.unwrap_or_default().make_backoff();
    iter::from_fn(move || Some(backoff.next_backoff()))
}

/// A schedule made anew, and its first waits.
fn series<I: Iterator>(table: Table, name: &'static str, mut make: impl FnMut() -> I + 'static) -> Case {
    Case::new(table, name, move |calls| {
        for _ in 0..calls {
            let mut waits = make();
            for _ in 0..SERIES {
                black_box(waits.next());
            }
        }
    })
    .per_call(SERIES)
}

/// A schedule that has given a million waits: how it goes on. It got there before, step by step.
fn after_a_million<I: Iterator + 'static>(name: &'static str, make: impl Fn() -> I + 'static) -> Case {
    let mut arrived = None;
    Case::new(Table::WAIT_MILLIONTH, name, move |calls| {
        let waits = arrived.get_or_insert_with(|| make().skip(MILLION as usize));
        for _ in 0..calls {
            black_box(waits.next());
        }
    })
}
