//! The blocking twin: the same policies, the same words, one thread that waits.
//!
//! A blocking attempt cannot be interrupted: it is cooperative. An operation that can take a timeout should take
//! [`Attempt::remaining`], and one in steps should ask [`Attempt::is_cancelled`] between them. `attempt_timeout` alone
//! ends nothing here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relent_core::{Alone, Policy, Start, Timestamp};

use crate::drive::{At, Course, Ended, run, run_hedged};
use crate::timer::timestamp;
use crate::with::{Blocking, Judge, Notify, Options, Sharing};
use crate::{Attempt, ByFailure, Clock, Error, Failure, Quiet, Report, Token, With};

/// Calls `operation` until it succeeds or `policy` says stop, waiting on this thread.
///
/// ```
/// # fn get(_url: &str) -> std::io::Result<String> { Ok("hello".into()) }
/// let policy = relent::Policy::default();
/// let page = relent::blocking::retry(&policy, || get("http://localhost/"))?;
/// # Ok::<(), relent::Error<std::io::Error>>(())
/// ```
///
/// # Errors
///
/// [`Error`], with the reason, the number of attempts and the last error.
#[inline]
pub fn retry<R, E, Via>(
    policy: &Policy,
    mut operation: impl FnMut() -> Result<R, E>,
) -> Result<R, Error<E, E::Kind>>
where
    E: Failure<Via>,
{
    if policy.begins_plainly() {
        return match operation() {
            Ok(value) => Ok(value),
            Err(error) => rest(policy, None, operation, Some(error)),
        };
    }
    if !policy.backoff().spread_of_first().is_zero() {
        return rest(policy, None, operation, None);
    }
    let began = SystemTimer.now();
    match operation() {
        Ok(value) => Ok(value),
        Err(error) => rest(policy, Some(began), operation, Some(error)),
    }
}

/// The loop: after a first attempt that failed, or from the start where there is a spread to wait for.
#[cold]
#[inline(never)]
fn rest<R, E: Failure<Via>, Via>(
    policy: &Policy,
    began: Option<Timestamp>,
    mut operation: impl FnMut() -> Result<R, E>,
    failed: Option<E>,
) -> Result<R, Error<E, E::Kind>> {
    let mut course = Course::new(policy, Options::default(), ByFailure, Quiet, SystemTimer, Alone);
    let at = match failed {
        None => At::Start(course.start()),
        Some(error) => {
            course.begin(began);
            At::End(Ended::Returned(Err(error)))
        }
    };
    run::<R, E, _, _, _, Via, _>(course, move |_attempt| operation(), at).result
}

/// Begins a blocking call with options, which ends in `retry`. See [`relent::with`](fn@crate::with).
pub fn with(policy: &Policy) -> With<'_, ByFailure, Quiet, Blocking<SystemTimer>> {
    With {
        policy,
        options: Options::default(),
        classify: ByFailure,
        notify: Quiet,
        timer: Blocking(SystemTimer),
        shares: Alone,
    }
}

impl<C, N, T, S> With<'_, C, N, Blocking<T>, S> {
    /// Calls `operation` until it succeeds or the policy says stop, waiting on this thread.
    ///
    /// # Errors
    ///
    /// [`Error`], with the reason, the number of attempts and the last error. A final `Ok` that
    /// [`With::classify`] called a failure is returned as it is.
    #[inline]
    pub fn retry<R, E, Via>(
        self,
        mut operation: impl FnMut(Attempt<T>) -> Result<R, E>,
    ) -> Result<R, Error<E, C::Kind>>
    where
        T: Timer,
        S: Sharing<T>,
        C: Judge<R, E, Via>,
        N: Notify<E>,
    {
        let mut course = self.course();
        match course.start() {
            Start::Go => {}
            start => return run(course, operation, At::Start(start)).result,
        }
        let ended = Ended::Returned(operation(course.attempt()));
        match course.settle_quietly(ended) {
            Ok(value) => Ok(value),
            Err(ended) => run(course, operation, At::End(ended)).result,
        }
    }

    /// The same with the call's history and the reason why it ended, beside an `Ok` too.
    pub fn retry_report<R, E, Via>(
        self,
        operation: impl FnMut(Attempt<T>) -> Result<R, E>,
    ) -> Report<R, E, C::Kind>
    where
        T: Timer,
        S: Sharing<T>,
        C: Judge<R, E, Via>,
        N: Notify<E>,
    {
        let mut course = self.course().remembering();
        let at = At::Start(course.start());
        run(course, operation, at)
    }
}

impl<C, N, T, S> With<'_, C, N, Blocking<T>, S> {
    /// Calls `operation` until it succeeds or the policy says stop, and hedges it: each attempt has a thread of its own, so
    /// that another one can start while one is slow to answer, and so that an attempt that runs too long is left behind.
    ///
    /// The caller returns at once when an attempt has won. Those that have lost should ask
    /// [`Attempt::is_cancelled`] between their steps: until they end, their threads run on, and hold their places in a
    /// bulkhead. An operation that panics makes the call panic. A call without [`With::hedge`], to a target without hedges,
    /// makes one attempt at a time.
    ///
    /// # Errors
    ///
    /// As [`With::retry`].
    pub fn retry_hedged<R, E, Via>(
        self,
        operation: impl Fn(Attempt<T>) -> Result<R, E> + Send + Sync + 'static,
    ) -> Result<R, Error<E, C::Kind>>
    where
        T: Threads,
        S: Sharing<T>,
        S::Member: Send + 'static,
        C: Judge<R, E, Via>,
        N: Notify<E>,
        R: Send + 'static,
        E: Send + 'static,
    {
        let course = self.course();
        let policy = course.hedge_policy();
        run_hedged(course, &Arc::new(operation), policy).result
    }

    /// The same with the call's history and the reason why it ended, beside an `Ok` too.
    pub fn retry_hedged_report<R, E, Via>(
        self,
        operation: impl Fn(Attempt<T>) -> Result<R, E> + Send + Sync + 'static,
    ) -> Report<R, E, C::Kind>
    where
        T: Threads,
        S: Sharing<T>,
        S::Member: Send + 'static,
        C: Judge<R, E, Via>,
        N: Notify<E>,
        R: Send + 'static,
        E: Send + 'static,
    {
        let course = self.course().remembering();
        let policy = course.hedge_policy();
        run_hedged(course, &Arc::new(operation), policy)
    }
}

impl<'a, C, N, T: Timer, S: Sharing<T>> With<'a, C, N, Blocking<T>, S> {
    fn course<R, E, Via>(self) -> Course<'a, R, E, C, N, T, Via, S::Member>
    where
        C: Judge<R, E, Via>,
        N: Notify<E>,
    {
        let Self { policy, options, classify, notify, timer: Blocking(timer), shares } = self;
        let member = shares.joined(&timer, options.rank());
        Course::new(policy, options, classify, notify, timer, member)
    }
}

/// The clock and the sleep of a thread.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no timer for a blocking call",
    note = "the default needs none to be given; for tests there is `relent::testing::Clock`"
)]
pub trait Timer: Clock {
    /// Waits, or returns early once `cancel` is cancelled.
    fn sleep(&self, wait: Duration, cancel: Option<&Token>);
}

/// A timer whose calls may have threads of their own: see [`With::retry_hedged`].
pub trait Threads: Timer + Send + 'static {
    /// Has `work` done on another thread.
    ///
    /// # Errors
    ///
    /// If there is none to be had; `work` was not begun then.
    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> std::io::Result<()>;
}

impl Threads for SystemTimer {
    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
        std::thread::Builder::new().name("relent".into()).spawn(work).map(drop)
    }
}

/// The system's monotonic clock and the thread's own sleep: the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemTimer;

impl Clock for SystemTimer {
    #[inline]
    fn now(&self) -> Timestamp {
        timestamp(Instant::now())
    }
}

impl Timer for SystemTimer {
    fn sleep(&self, wait: Duration, cancel: Option<&Token>) {
        if wait.is_zero() {
            return;
        }
        warn_on_a_runtime();
        match cancel {
            Some(cancel) => {
                cancel.wait_for(wait);
            }
            None => std::thread::sleep(wait),
        }
    }
}

/// A thread that waits runs no tasks. Said once, in debug builds.
#[cfg(all(debug_assertions, feature = "tokio"))]
fn warn_on_a_runtime() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static SAID: AtomicBool = AtomicBool::new(false);
    if tokio::runtime::Handle::try_current().is_ok() && !SAID.swap(true, Ordering::Relaxed) {
        eprintln!(
            "relent: a blocking retry waits on a thread of a tokio runtime. Inside `spawn_blocking` that is fine; in \
             async code it stops the other tasks of the thread: use `relent::retry` there. (Said once, in debug builds.)"
        );
    }
}

#[cfg(not(all(debug_assertions, feature = "tokio")))]
fn warn_on_a_runtime() {}
