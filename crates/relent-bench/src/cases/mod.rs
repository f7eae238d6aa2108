//! All cases. Each one is what its crate's own first example does.

mod asynchronous;
mod blocking;
mod waits;

use std::error::Error;
use std::time::Duration;

use relent::{Policy, PolicyError};
use tokio::runtime::{Builder, Runtime};

use crate::case::{Case, Rows, Table};
use crate::operation::{Io, Small};

impl Table {
    pub(crate) const ALL: [Self; 7] = [
        Self::ASYNC_SMALL,
        Self::ASYNC_IO,
        Self::BLOCKING_SMALL,
        Self::BLOCKING_IO,
        Self::WAITS_DOUBLING,
        Self::WAITS_ONE_AND_A_HALF,
        Self::WAIT_MILLIONTH,
    ];

    pub(crate) const ASYNC_SMALL: Self = Self {
        word: "async-small",
        title: "Async, success at the first attempt, `Result<u32, Refused>`",
        rows: Rows::AsyncCalls,
    };
    pub(crate) const ASYNC_IO: Self = Self {
        word: "async-io",
        title: "Async, success at the first attempt, `io::Result<u64>`",
        rows: Rows::AsyncCalls,
    };
    pub(crate) const BLOCKING_SMALL: Self = Self {
        word: "blocking-small",
        title: "Blocking, success at the first attempt, `Result<u32, Refused>`",
        rows: Rows::BlockingCalls,
    };
    pub(crate) const BLOCKING_IO: Self = Self {
        word: "blocking-io",
        title: "Blocking, success at the first attempt, `io::Result<u64>`",
        rows: Rows::BlockingCalls,
    };
    pub(crate) const WAITS_DOUBLING: Self = Self {
        word: "waits-x2",
        title: "The next wait, × 2, jitter on: a new schedule and its first 8 waits",
        rows: Rows::Per("wait"),
    };
    pub(crate) const WAITS_ONE_AND_A_HALF: Self = Self {
        word: "waits-x1.5",
        title: "The next wait, × 1.5, jitter on: a new schedule and its first 8 waits",
        rows: Rows::Per("wait"),
    };
    pub(crate) const WAIT_MILLIONTH: Self = Self {
        word: "wait-millionth",
        title: "The next wait after a million, jitter on",
        rows: Rows::Per("wait"),
    };
}

/// Attempts per call that fails.
const ATTEMPTS: u32 = 3;
const RETRIES: usize = ATTEMPTS as usize - 1;
/// The limit in time of the rows that have one.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn all() -> Result<Vec<Case>, Box<dyn Error>> {
    // Lives as long as the process: the cases' loops borrow it.
    let runtime: &'static Runtime = Box::leak(Box::new(Builder::new_current_thread().enable_time().build()?));
    let policies = Policies::new()?;
    let mut cases = Vec::new();
    cases.extend(asynchronous::cases::<Small>(Table::ASYNC_SMALL, runtime, policies));
    cases.extend(asynchronous::cases::<Io>(Table::ASYNC_IO, runtime, policies));
    cases.extend(blocking::cases::<Small>(Table::BLOCKING_SMALL, policies));
    cases.extend(blocking::cases::<Io>(Table::BLOCKING_IO, policies));
    cases.extend(waits::cases(runtime));
    Ok(cases)
}

/// relent's policies: made once, as in a program, and unknown to the compiler.
#[derive(Clone, Copy)]
struct Policies {
    /// What the README's one-liner uses.
    plain: &'static Policy,
    /// The same with a deadline.
    limited: &'static Policy,
    /// For failing calls: no waits.
    hasty: &'static Policy,
    hasty_limited: &'static Policy,
}

impl Policies {
    fn new() -> Result<Self, PolicyError> {
        let held = |policy: Policy| -> &'static Policy { Box::leak(Box::new(policy)) };
        let plain = || Policy::exponential(Duration::from_millis(100));
        let hasty = || Policy::constant(Duration::ZERO).max_attempts(ATTEMPTS);
        Ok(Self {
            plain: held(plain().build()?),
            limited: held(plain().deadline(LIMIT).build()?),
            hasty: held(hasty().build()?),
            hasty_limited: held(hasty().deadline(LIMIT).build()?),
        })
    }
}
