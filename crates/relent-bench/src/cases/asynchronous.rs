//! A first attempt that succeeds, awaited.

use std::future::IntoFuture;
use std::hint::black_box;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use tokio::runtime::Runtime;
use tokio_retry2::strategy::MaxInterval;
use tokio_retry2::{RetryError, strategy as strategy2};
use tower::retry::backoff::{Backoff, ExponentialBackoff, ExponentialBackoffMaker, MakeBackoff};
use tower::util::rng::HasherRng;
use tower::{Service, ServiceExt, service_fn};

use super::{ATTEMPTS, LIMIT};
use crate::case::{Case, Table};
use crate::operation::{Kind, fail, succeed};

pub(crate) fn cases<K: Kind>(table: Table, runtime: &'static Runtime) -> Vec<Case> {
    let looped = Looped { table, runtime };
    let mut cases = vec![
        looped.case("bare", succeed::<K>),
        // No retry, but what one that waits is made of; here it is only created.
        looped.case("tokio::time::sleep", || async { drop(black_box(tokio::time::sleep(LIMIT))) }),
    ];
    cases.extend(backon::<K>(&looped));
    cases.push(tokio_retry::<K>(&looped));
    cases.extend(tokio_retry2::<K>(&looped));
    cases.extend(tryhard::<K>(&looped));
    cases.extend(tower::<K>(&looped));
    cases
}

fn backon<K: Kind>(looped: &Looped) -> [Case; 2] {
    let builder = || ExponentialBuilder::default().with_jitter();
    let limited = move || builder().with_total_delay(Some(LIMIT));
    let hasty = |builder: ExponentialBuilder| {
        builder.with_min_delay(Duration::ZERO).with_max_times(ATTEMPTS as usize - 1)
    };
    [
        looped
            .case("backon", move || succeed::<K>.retry(builder()))
            .over("bare")
            .failing(looped.run(move || fail::<K>.retry(hasty(builder())))),
        looped
            .case("backon", move || succeed::<K>.retry(limited()))
            .variant("total_delay (sums the waits only)")
            .over("bare")
            .failing(looped.run(move || fail::<K>.retry(hasty(limited())))),
    ]
}

fn tokio_retry<K: Kind>(looped: &Looped) -> Case {
    use tokio_retry::Retry;
    use tokio_retry::strategy::{ExponentialBackoff, jitter};

    let waits = |base, retries| ExponentialBackoff::from_millis(base).map(jitter).take(retries);
    looped
        .case("tokio-retry", move || Retry::start(waits(10, 3), succeed::<K>))
        .over("bare")
        .failing(looped.run(move || Retry::start(waits(0, ATTEMPTS as usize - 1), fail::<K>)))
}

fn tokio_retry2<K: Kind>(looped: &Looped) -> [Case; 2] {
    use tokio_retry2::Retry;

    // It wants an error type of its own.
    let succeed = || async { K::succeed().map_err(RetryError::transient) };
    let fail = || async { K::fail().map_err(RetryError::transient) };
    let waits =
        |base, retries| strategy2::ExponentialBackoff::from_millis(base).map(strategy2::jitter).take(retries);
    let limited = move |base, retries| waits(base, retries).max_duration(LIMIT);
    let retries = ATTEMPTS as usize - 1;
    [
        looped
            .case("tokio-retry2", move || Retry::spawn(waits(10, 3), succeed))
            .over("bare")
            .failing(looped.run(move || Retry::spawn(waits(0, retries), fail))),
        looped
            .case("tokio-retry2", move || Retry::spawn(limited(10, 3), succeed))
            .variant("max_duration (asked before each wait)")
            .over("bare")
            .failing(looped.run(move || Retry::spawn(limited(0, retries), fail))),
    ]
}

fn tryhard<K: Kind>(looped: &Looped) -> [Case; 2] {
    let first = Duration::from_millis(10);
    let call = move || tryhard::retry_fn(succeed::<K>).retries(10).exponential_backoff(first);
    let failing = || tryhard::retry_fn(fail::<K>).retries(ATTEMPTS - 1).exponential_backoff(Duration::ZERO);
    [
        looped.case("tryhard", call).over("bare").failing(looped.run(failing)),
        looped
            .case("tryhard", move || tokio::time::timeout(LIMIT, call()))
            .variant("inside tokio::time::timeout")
            .over("bare")
            .failing(looped.run(move || tokio::time::timeout(LIMIT, failing()))),
    ]
}

/// A service is made once, then for each call made ready and called.
fn tower<K: Kind>(looped: &Looped) -> [Case; 2] {
    let bare = service_fn(|()| succeed::<K>());
    let retried = tower::retry::Retry::new(Limited::new(Duration::from_millis(10)), bare);
    let failing = tower::retry::Retry::new(Limited::new(Duration::ZERO), service_fn(|()| fail::<K>()));
    [
        looped.service(BARE_SERVICE, bare),
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

/// Makes loops around futures: inside one `block_on`, so that entering the runtime is not counted.
struct Looped {
    table: Table,
    runtime: &'static Runtime,
}

impl Looped {
    fn case<F: IntoFuture>(&self, name: &'static str, make: impl Fn() -> F + Copy + 'static) -> Case {
        let _inside = self.runtime.enter();
        let size = size_of_val(&make().into_future());
        Case::new(self.table, name, self.run(make)).future(size)
    }

    fn run<F: IntoFuture>(&self, make: impl Fn() -> F + 'static) -> impl FnMut(u64) + 'static {
        let runtime = self.runtime;
        move |calls| {
            runtime.block_on(async {
                for _ in 0..calls {
                    black_box(make().await);
                }
            });
        }
    }

    fn service<S: Service<()> + Clone + 'static>(&self, name: &'static str, service: S) -> Case {
        let size = size_of_val(&service.clone().call(()));
        Case::new(self.table, name, self.run_service(service)).future(size)
    }

    fn run_service<S: Service<()> + 'static>(&self, mut service: S) -> impl FnMut(u64) + 'static {
        let runtime = self.runtime;
        move |calls| {
            runtime.block_on(async {
                for _ in 0..calls {
                    let result = match service.ready().await {
                        Ok(ready) => ready.call(()).await,
                        Err(error) => Err(error),
                    };
                    drop(black_box(result));
                }
            });
        }
    }
}
