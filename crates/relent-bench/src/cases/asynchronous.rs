//! A first attempt that succeeds, awaited.

use std::hint::black_box;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use tokio::runtime::Runtime;
use tower::retry::backoff::{Backoff, ExponentialBackoff, ExponentialBackoffMaker, MakeBackoff};
use tower::service_fn;
use tower::util::rng::HasherRng;

use super::{ATTEMPTS, LIMIT, Policies, RETRIES};
use crate::case::{Case, Table};
use crate::looped::Looped;
use crate::operation::Kind;

/// Each row has closures of its own, as each place in a program has: whether the compiler inlines a crate's code
/// depends on how often it meets the same types.
pub(crate) fn cases<K: Kind>(table: Table, runtime: &'static Runtime, policies: Policies) -> Vec<Case> {
    let looped = Looped { table, runtime };
    let mut cases = vec![looped.case("bare", || async { K::succeed() }), sleep(&looped)];
    cases.extend(relent::<K>(&looped, policies));
    cases.extend(backon::<K>(&looped));
    cases.push(tokio_retry::<K>(&looped));
    cases.extend(tokio_retry2::<K>(&looped));
    cases.extend(tryhard::<K>(&looped));
    cases.extend(tower::<K>(&looped));
    cases
}

/// No retry, but what one that waits is made of.
fn sleep(looped: &Looped) -> Case {
    let create = |calls| {
        for _ in 0..calls {
            drop(black_box(tokio::time::sleep(LIMIT)));
        }
    };
    let case = Case::new(looped.table, "tokio::time::sleep", create).variant("created, not awaited");
    case.inside(looped.runtime).future(size_of::<tokio::time::Sleep>())
}

fn relent<K: Kind>(looped: &Looped, policies: Policies) -> [Case; 3] {
    let Policies { plain, limited, hasty, hasty_limited } = policies;
    [
        looped
            .case("relent", move || relent::retry(plain, || async { K::succeed() }))
            .over("bare")
            .failing(looped.run(move || relent::retry(hasty, || async { K::fail() }))),
        looped
            .case("relent", move || relent::retry(limited, || async { K::succeed() }))
            .variant("deadline")
            .over("bare")
            .failing(looped.run(move || relent::retry(hasty_limited, || async { K::fail() }))),
        looped
            .case("relent", move || {
                relent::with(plain).when(|_: &K::Error| true).retry(|_| async { K::succeed() })
            })
            .variant("with(…).when(…)")
            .over("bare")
            .failing(
                looped.run(move || {
                    relent::with(hasty).when(|_: &K::Error| true).retry(|_| async { K::fail() })
                }),
            ),
    ]
}

fn backon<K: Kind>(looped: &Looped) -> [Case; 2] {
    let builder = || ExponentialBuilder::default().with_jitter();
    let limited = move || builder().with_total_delay(Some(LIMIT));
    let hasty = |builder: ExponentialBuilder| {
        builder.with_min_delay(Duration::ZERO).with_max_times(ATTEMPTS as usize - 1)
    };
    [
        looped
            .case("backon", move || (|| async { K::succeed() }).retry(builder()))
            .over("bare")
            .failing(looped.run(move || (|| async { K::fail() }).retry(hasty(builder())))),
        looped
            .case("backon", move || (|| async { K::succeed() }).retry(limited()))
            .variant("total_delay (sums the waits only)")
            .over("bare")
            .failing(looped.run(move || (|| async { K::fail() }).retry(hasty(limited())))),
    ]
}

fn tokio_retry<K: Kind>(looped: &Looped) -> Case {
    use tokio_retry::Retry;
    use tokio_retry::strategy::{ExponentialBackoff, jitter};

    let waits = |base, retries| ExponentialBackoff::from_millis(base).map(jitter).take(retries);
    looped
        .case("tokio-retry", move || Retry::start(waits(10, 3), || async { K::succeed() }))
        .over("bare")
        .failing(looped.run(move || Retry::start(waits(0, RETRIES), || async { K::fail() })))
}

fn tokio_retry2<K: Kind>(looped: &Looped) -> [Case; 2] {
    use tokio_retry2::strategy::{ExponentialBackoff, MaxInterval, jitter};
    use tokio_retry2::{Retry, RetryError};

    // It wants an error type of its own.
    let transient = RetryError::transient;
    let waits = |base, retries| ExponentialBackoff::from_millis(base).map(jitter).take(retries);
    let limited = move |base, retries| waits(base, retries).max_duration(LIMIT);
    [
        looped
            .case("tokio-retry2", move || {
                Retry::spawn(waits(10, 3), move || async move { K::succeed().map_err(transient) })
            })
            .over("bare")
            .failing(looped.run(move || {
                Retry::spawn(waits(0, RETRIES), move || async move { K::fail().map_err(transient) })
            })),
        looped
            .case("tokio-retry2", move || {
                Retry::spawn(limited(10, 3), move || async move { K::succeed().map_err(transient) })
            })
            .variant("max_duration (asked before each wait)")
            .over("bare")
            .failing(looped.run(move || {
                Retry::spawn(limited(0, RETRIES), move || async move { K::fail().map_err(transient) })
            })),
    ]
}

fn tryhard<K: Kind>(looped: &Looped) -> [Case; 2] {
    use tokio::time::timeout;
    use tryhard::retry_fn;

    let first = Duration::from_millis(10);
    [
        looped
            .case("tryhard", move || {
                retry_fn(|| async { K::succeed() }).retries(10).exponential_backoff(first)
            })
            .over("bare")
            .failing(looped.run(|| {
                retry_fn(|| async { K::fail() }).retries(ATTEMPTS - 1).exponential_backoff(Duration::ZERO)
            })),
        looped
            .case("tryhard", move || {
                let call = retry_fn(|| async { K::succeed() }).retries(10).exponential_backoff(first);
                timeout(LIMIT, call)
            })
            .variant("inside tokio::time::timeout")
            .over("bare")
            .failing(looped.run(|| {
                let call = retry_fn(|| async { K::fail() }).retries(ATTEMPTS - 1);
                timeout(LIMIT, call.exponential_backoff(Duration::ZERO))
            })),
    ]
}

/// A service is made once, then for each call made ready and called.
fn tower<K: Kind>(looped: &Looped) -> [Case; 2] {
    let first = Duration::from_millis(10);
    let retried = tower::retry::Retry::new(Limited::new(first), service_fn(|()| async { K::succeed() }));
    let failing =
        tower::retry::Retry::new(Limited::new(Duration::ZERO), service_fn(|()| async { K::fail() }));
    [
        looped.service(BARE_SERVICE, service_fn(|()| async { K::succeed() })),
        looped.service("tower Retry", retried).over(BARE_SERVICE).failing(looped.run_service(failing)),
    ]
}

const BARE_SERVICE: &str = "bare tower service";

/// The policy that tower leaves to its users: so many attempts, exponential waits.
#[derive(Clone)]
struct Limited {
    left: u32,
    backoff: ExponentialBackoff,
}

impl Limited {
    fn new(first: Duration) -> Self {
        let maker = ExponentialBackoffMaker::new(first, LIMIT, 0.5, HasherRng::default());
        // The arguments above are good ones.
        let backoff = maker.unwrap_or_default().make_backoff();
        Self { left: ATTEMPTS - 1, backoff }
    }
}

impl<T, E> tower::retry::Policy<(), T, E> for Limited {
    type Future = tokio::time::Sleep;

    fn retry(&mut self, _: &mut (), result: &mut Result<T, E>) -> Option<Self::Future> {
        if result.is_ok() {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        Some(self.backoff.next_backoff())
    }

    fn clone_request(&mut self, _: &()) -> Option<()> {
        Some(())
    }
}
