//! All cases. Each one is what its crate's own first example does.

mod asynchronous;
mod blocking;
mod waits;

use std::error::Error;
use std::time::Duration;

use relent::{Policy, PolicyError};
use tokio::runtime::{Builder, Runtime};

use crate::case::{Case, Table};
use crate::operation::{Io, Small};

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
    cases.extend(asynchronous::cases::<Small>(Table::AsyncSmall, runtime, policies));
    cases.extend(asynchronous::cases::<Io>(Table::AsyncIo, runtime, policies));
    cases.extend(blocking::cases::<Small>(Table::BlockingSmall, policies));
    cases.extend(blocking::cases::<Io>(Table::BlockingIo, policies));
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
