//! The async entry points.

use std::future::Future;

#[cfg(feature = "tokio")]
use relent_core::{Call, Timestamp};
use relent_core::{Policy, Start};

use crate::drive::{Begun, Course, Drive, drive, report};
use crate::with::{Async, Judge, Notify, Options};
use crate::{Attempt, ByFailure, DefaultTimer, Error, Quiet, Report, Timer, With};
#[cfg(feature = "tokio")]
use crate::{AttemptToken, Clock, Failure, TokioTimer};

/// Calls `operation` until it succeeds or `policy` says stop.
///
/// ```
/// # async fn get(_url: &str) -> std::io::Result<String> { Ok("hello".into()) }
/// # async fn example() -> Result<(), relent::Error<std::io::Error>> {
/// let policy = relent::Policy::default();
/// let page = relent::retry(&policy, || get("http://localhost/")).await?;
/// # Ok(()) }
/// ```
///
/// Runs on tokio's timer; on another runtime use [`with`] and [`With::timer`]. Dropping the future ends the call, in
/// an attempt or in a wait. For names, hooks, cancellation and the rest see [`with`].
///
/// # Errors
///
/// [`Error`], with the reason, the number of attempts and the last error.
#[cfg(feature = "tokio")]
#[inline]
pub fn retry<'a, R, E, Via, O, F>(
    policy: &'a Policy,
    operation: O,
) -> impl Future<Output = Result<R, Error<E, E::Kind>>> + use<'a, R, E, Via, O, F>
where
    O: FnMut() -> F,
    F: Future<Output = Result<R, E>>,
    E: Failure<Via>,
{
    Drive::<_, TokioTimer, _, _, _, _, _, _>::new(
        Plain { policy, operation, began: None },
        |call: &mut Plain<'a, O>| {
            if call.policy.needs_clock() {
                call.began = Some(TokioTimer.now());
            }
            let spread = call.policy.backoff().spread_of_first();
            if spread.is_zero() { Begun::Attempt((call.operation)()) } else { Begun::NotYet }
        },
        |call: &Plain<'a, O>| call.limits(),
        |_: &mut Plain<'a, O>, result: &Result<R, E>| result.is_ok(),
        |Plain { policy, mut operation, began }: Plain<'a, O>, ended| {
            let course = Course::begun(policy, Options::default(), ByFailure, Quiet, TokioTimer, began);
            drive::<R, E, _, _, _, Via, _, F>(course, move |_attempt| operation(), ended)
        },
    )
}

/// A call without options: what an operation that succeeds at once needs, and no more.
#[cfg(feature = "tokio")]
struct Plain<'a, O> {
    policy: &'a Policy,
    operation: O,
    began: Option<Timestamp>,
}

#[cfg(feature = "tokio")]
impl<O> Plain<'_, O> {
    /// What ends its first attempt.
    fn limits(&self) -> Option<AttemptToken<TokioTimer>> {
        let timeout = self.policy.attempt_timeout().zip(self.began);
        self.policy.limits_time().then(|| AttemptToken {
            caller: None,
            deadline: Call::new(self.began).ends(self.policy),
            timeout: timeout.map(|(timeout, began)| began.plus(timeout)),
            timer: TokioTimer,
        })
    }
}

/// Begins a call with options, which ends in [`With::retry`].
///
/// ```
/// # async fn charge(_key: String) -> Result<(), String> { Ok(()) }
/// # async fn example(stop: relent::Token) -> Result<(), relent::Error<String>> {
/// # let policy = relent::Policy::default();
/// relent::with(&policy)
///     .name("charge")
///     .when(|error: &String| error.contains("busy"))
///     .notify(|event| eprintln!("{event}"))
///     .cancel_on(&stop)
///     .retry(|attempt| charge(attempt.idempotency_key().to_string()))
///     .await
/// # }
/// ```
pub fn with(policy: &Policy) -> With<'_, ByFailure, Quiet, Async<DefaultTimer>> {
    With {
        policy,
        options: Options::default(),
        classify: ByFailure,
        notify: Quiet,
        timer: Async(DefaultTimer::default()),
    }
}

impl<'a, C, N, T: Timer> With<'a, C, N, Async<T>> {
    /// Calls `operation` until it succeeds or the policy says stop.
    ///
    /// # Errors
    ///
    /// [`Error`], with the reason, the number of attempts and the last error. A final `Ok` that
    /// [`With::classify`] called a failure is returned as it is.
    #[inline]
    pub fn retry<R, E, Via, O, F>(
        self,
        operation: O,
    ) -> impl Future<Output = Result<R, Error<E, C::Kind>>> + use<'a, R, E, Via, O, F, C, N, T>
    where
        C: Judge<R, E, Via>,
        N: Notify<E>,
        O: FnMut(Attempt<T>) -> F,
        F: Future<Output = Result<R, E>>,
    {
        // The clock is read when the call begins, which is when it is first polled, not when it is written down.
        let begin = |state: &mut Opening<'a, R, E, C, N, T, Via, O>| {
            let Opening { with, course, operation } = state;
            let Some(With { policy, options, classify, notify, timer }) = with.take() else {
                return Begun::NotYet;
            };
            let course = course.insert(Course::new(policy, options, classify, notify, timer.0));
            match course.start() {
                Start::Go => Begun::Attempt(operation(course.attempt())),
                _ => Begun::NotYet,
            }
        };
        Drive::<_, T, _, _, _, _, _, _>::new(
            Opening { with: Some(self), course: None, operation },
            begin,
            |state: &Opening<'a, R, E, C, N, T, Via, O>| state.course.as_ref().map(Course::attempt_token),
            |state: &mut Opening<'a, R, E, C, N, T, Via, O>, result: &Result<R, E>| {
                state.course.as_mut().is_some_and(|course| course.succeeds_quietly(result))
            },
            |state: Opening<'a, R, E, C, N, T, Via, O>, ended| async move {
                match state.course {
                    Some(course) => drive(course, state.operation, ended).await,
                    // `begin` put it there.
                    None => std::future::pending().await,
                }
            },
        )
    }

    /// [`With::retry`] with the call's history and the reason why it ended, beside an `Ok` too.
    pub async fn retry_report<R, E, Via, O, F>(self, operation: O) -> Report<R, E, C::Kind>
    where
        C: Judge<R, E, Via>,
        N: Notify<E>,
        O: FnMut(Attempt<T>) -> F,
        F: Future<Output = Result<R, E>>,
    {
        let Self { policy, options, classify, notify, timer } = self;
        let course = Course::new(policy, options, classify, notify, timer.0).remembering();
        report(course, operation, None).await
    }
}

/// A call that has not begun, or has only just.
struct Opening<'a, R, E, C, N, T, Via, O> {
    with: Option<With<'a, C, N, Async<T>>>,
    course: Option<Course<'a, R, E, C, N, T, Via>>,
    operation: O,
}
