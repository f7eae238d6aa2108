//! A first attempt that succeeds, on the caller's thread.

use std::hint::black_box;
use std::time::Duration;

use backon::{BlockingRetryable, ExponentialBuilder};

use super::{LIMIT, Policies, RETRIES};
use crate::case::{Case, Table};
use crate::operation::Kind;

pub(crate) fn cases<K: Kind>(table: Table, policies: Policies) -> Vec<Case> {
    let mut cases = vec![Case::new(table, "bare", run(K::succeed))];
    cases.extend(relent::<K>(table, policies));
    cases.extend(backon::<K>(table));
    cases.push(retry::<K>(table));
    cases
}

fn relent<K: Kind>(table: Table, policies: Policies) -> [Case; 3] {
    use relent::blocking::{retry, with};

    let Policies { plain, limited, hasty, hasty_limited } = policies;
    [
        Case::new(table, "relent", run(move || retry(plain, || K::succeed())))
            .over("bare")
            .failing(run(move || retry(hasty, || K::fail()))),
        Case::new(table, "relent", run(move || retry(limited, || K::succeed())))
            .variant("deadline")
            .over("bare")
            .failing(run(move || retry(hasty_limited, || K::fail()))),
        Case::new(
            table,
            "relent",
            run(move || with(plain).when(|_: &K::Error| true).retry(|_| K::succeed())),
        )
        .variant("with(…).when(…)")
        .over("bare")
        .failing(run(move || with(hasty).when(|_: &K::Error| true).retry(|_| K::fail()))),
    ]
}

fn backon<K: Kind>(table: Table) -> [Case; 2] {
    let builder = || ExponentialBuilder::default().with_jitter();
    let limited = move || builder().with_total_delay(Some(LIMIT));
    let hasty = |builder: ExponentialBuilder| builder.with_min_delay(Duration::ZERO).with_max_times(RETRIES);
    [
        Case::new(table, "backon", run(move || (|| K::succeed()).retry(builder()).call()))
            .over("bare")
            .failing(run(move || (|| K::fail()).retry(hasty(builder())).call())),
        Case::new(table, "backon", run(move || (|| K::succeed()).retry(limited()).call()))
            .variant("total_delay (sums the waits only)")
            .over("bare")
            .failing(run(move || (|| K::fail()).retry(hasty(limited())).call())),
    ]
}

fn retry<K: Kind>(table: Table) -> Case {
    use retry::delay::{Exponential, jitter};

    let waits = |base, retries| Exponential::from_millis(base).map(jitter).take(retries);
    Case::new(table, "retry", run(move || retry::retry(waits(10, 3), || K::succeed())))
        .over("bare")
        .failing(run(move || retry::retry(waits(0, RETRIES), || K::fail())))
}

fn run<T>(call: impl Fn() -> T + 'static) -> impl FnMut(u64) + 'static {
    move |calls| {
        for _ in 0..calls {
            black_box(call());
        }
    }
}
