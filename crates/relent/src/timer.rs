//! Who sleeps tells the time: one trait, so that a paused test clock moves deadlines too.

use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use relent_core::Timestamp;

/// Tells the time. Both kinds of timer, [`Timer`] and [`blocking::Timer`](crate::blocking::Timer), are clocks, so
/// that a deadline can never be read from one clock and slept on another.
pub trait Clock: Clone {
    /// The time. Never goes back.
    fn now(&self) -> Timestamp;
}

/// The clock and the sleep of an async runtime.
///
/// Implement it for a runtime of your own; `TokioTimer` is the default, [`testing::Clock`](crate::testing::Clock)
/// one for tests. Both halves must run on the same clock.
///
/// ```
/// # use std::{future::{Ready, ready}, time::Duration};
/// /// A runtime that never waits.
/// #[derive(Clone)]
/// struct Hasty;
///
/// impl relent::Clock for Hasty {
///     fn now(&self) -> relent::Timestamp { relent::Timestamp::ZERO }
/// }
///
/// impl relent::Timer for Hasty {
///     type Sleep = Ready<()>;
///     fn sleep(&self, _wait: Duration) -> Ready<()> { ready(()) }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no timer: the async driver does not know how to wait",
    note = "enable relent's feature `tokio`, or give a timer with `relent::with(&policy).timer(…)`"
)]
pub trait Timer: Clock {
    /// What is awaited.
    type Sleep: Future<Output = ()>;

    /// Completes after `wait`.
    fn sleep(&self, wait: Duration) -> Self::Sleep;
}

/// Tokio's timer. With tokio's clock paused, waits and deadlines both follow it.
///
/// Its `sleep` panics where there is no tokio runtime, or one that was built without `enable_time`.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioTimer;

#[cfg(feature = "tokio")]
impl Clock for TokioTimer {
    #[inline]
    fn now(&self) -> Timestamp {
        timestamp(tokio::time::Instant::now().into_std())
    }
}

#[cfg(feature = "tokio")]
impl Timer for TokioTimer {
    type Sleep = tokio::time::Sleep;

    fn sleep(&self, wait: Duration) -> tokio::time::Sleep {
        tokio::time::sleep(wait)
    }
}

/// A moment of the system's monotonic clock, as all timers of this crate tell it: what async and blocking calls share is
/// told the same time by both.
#[inline]
pub(crate) fn timestamp(now: Instant) -> Timestamp {
    /// A paused runtime's clock may run behind or ahead of another's: there is time before the first look at it.
    const BEFORE: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    static START: OnceLock<Instant> = OnceLock::new();
    let start = *START.get_or_init(|| now);
    Timestamp::from_duration(match now.checked_duration_since(start) {
        Some(since) => BEFORE.saturating_add(since),
        None => BEFORE.saturating_sub(start.saturating_duration_since(now)),
    })
}

/// The timer that is used where none is given.
#[cfg(feature = "tokio")]
pub type DefaultTimer = TokioTimer;

/// The timer that is used where none is given: without the feature `tokio` there is none.
#[cfg(not(feature = "tokio"))]
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultTimer;
