//! All cases. Each one is what its crate's own first example does.

mod asynchronous;
mod blocking;
mod waits;

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::case::{Case, Table};
use crate::operation::{Io, Small};

/// Attempts per call that fails.
const ATTEMPTS: u32 = 3;
const RETRIES: usize = ATTEMPTS as usize - 1;
/// The limit in time of the rows that have one.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn all() -> io::Result<Vec<Case>> {
    // Lives as long as the process: the cases' loops borrow it.
    let runtime: &'static Runtime = Box::leak(Box::new(Builder::new_current_thread().enable_time().build()?));
    let mut cases = Vec::new();
    cases.extend(asynchronous::cases::<Small>(Table::AsyncSmall, runtime));
    cases.extend(asynchronous::cases::<Io>(Table::AsyncIo, runtime));
    cases.extend(blocking::cases::<Small>(Table::BlockingSmall));
    cases.extend(blocking::cases::<Io>(Table::BlockingIo));
    cases.extend(waits::cases(runtime));
    Ok(cases)
}
