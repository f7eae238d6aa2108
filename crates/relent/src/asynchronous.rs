//! The async entry points.

use std::future::Future;
use std::pin::pin;

use relent_core::{Alone, Policy, Start};
#[cfg(feature = "tokio")]
use relent_core::{Call, Timestamp};

#[cfg(feature = "tokio")]
use crate::drive::Ended;
use crate::drive::{At, Course, drive, hedged, limited, report};
use crate::with::{Async, Judge, Notify, Options, Sharing};
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
///
/// # Panics
///
/// As tokio's timer does: where there is no tokio runtime, or one without its time, the call panics when it first has
/// to wait, which may be at the first *failure* only.
#[cfg(feature = "tokio")]
#[inline]
#[expect(
    clippy::manual_async_fn,
    reason = "an async function moves its arguments once more than its block does"
)]
pub fn retry<'a, R, E, Via, O, F>(
    policy: &'a Policy,
    mut operation: O,
) -> impl Future<Output = Result<R, Error<E, E::Kind>>> + use<'a, R, E, Via, O, F>
where
    O: FnMut() -> F,
    F: Future<Output = Result<R, E>>,
    E: Failure<Via>,
{
    // The first attempt runs in place: most calls succeed at once, and the loop would cost them more than all the rest.
    // What fails is handed over to it in one box.
    async move {
        let ended = if policy.begins_plainly() {
            match operation().await {
                Ok(value) => return Ok(value),
                failed => Some((Opening { policy, began: None }, Ended::Returned(failed))),
            }
        } else {
            match first_in_time(policy, &mut operation).await {
                Ok(value) => return Ok(value),
                Err(ended) => ended,
            }
        };
        Box::pin(rest::<R, E, Via, O, F>(policy, operation, ended)).await
    }
}

/// The first attempt of a call whose policy needs the time, or waits before it.
#[cfg(feature = "tokio")]
async fn first_in_time<'a, R, E, O, F>(
    policy: &'a Policy,
    operation: &mut O,
) -> Result<R, Option<(Opening<'a>, Ended<R, E>)>>
where
    O: FnMut() -> F,
    F: Future<Output = Result<R, E>>,
{
    let Some(call) = (Opening { policy, began: None }).begin() else { return Err(None) };
    match limited(pin!(operation()), || call.token()).await {
        Ended::Returned(Ok(value)) => Ok(value),
        ended => Err(Some((call, ended))),
    }
}

/// The loop of a call without options.
#[cfg(feature = "tokio")]
async fn rest<R, E, Via, O, F>(
    policy: &Policy,
    mut operation: O,
    ended: Option<(Opening<'_>, Ended<R, E>)>,
) -> Result<R, Error<E, E::Kind>>
where
    O: FnMut() -> F,
    F: Future<Output = Result<R, E>>,
    E: Failure<Via>,
{
    let mut course = Course::new(policy, Options::default(), ByFailure, Quiet, TokioTimer, Alone);
    let at = match ended {
        None => At::Start(course.start()),
        Some((call, ended)) => {
            course.begin(call.began);
            At::End(ended)
        }
    };
    drive::<R, E, _, _, _, Via, _, _, F>(course, move |_attempt| operation(), at).await
}

/// A call without options, before its first attempt: no more than a success at once needs.
#[cfg(feature = "tokio")]
struct Opening<'a> {
    policy: &'a Policy,
    began: Option<Timestamp>,
}

#[cfg(feature = "tokio")]
impl Opening<'_> {
    /// Reads the clock where the policy needs it. None where there is an initial spread to wait for.
    #[inline]
    fn begin(self) -> Option<Self> {
        if self.policy.begins_plainly() {
            return Some(self);
        }
        let began = self.policy.needs_clock().then(|| TokioTimer.now());
        self.policy.backoff().spread_of_first().is_zero().then_some(Self { began, ..self })
    }

    /// What ends its first attempt.
    fn token(&self) -> AttemptToken<TokioTimer> {
        let timeout = self.policy.attempt_timeout().zip(self.began);
        AttemptToken {
            caller: None,
            lost: None,
            deadline: Call::new(self.began).ends(self.policy),
            timeout: timeout.map(|(timeout, began)| began.plus(timeout)),
            timer: TokioTimer,
        }
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
        timer: Async(Default::default()),
        shares: Alone,
    }
}

// The bound on the timer stands at the methods, where the compiler says what it asks for.
impl<'a, C, N, T, S> With<'a, C, N, Async<T>, S> {
    /// Calls `operation` until it succeeds or the policy says stop.
    ///
    /// # Errors
    ///
    /// [`Error`], with the reason, the number of attempts and the last error. A final `Ok` that
    /// [`With::classify`] called a failure is returned as it is.
    ///
    /// The call begins when the future is first polled. It is `Send` where operation, error, hook and timer are.
    #[inline]
    pub fn retry<R, E, Via, O, F>(
        self,
        mut operation: O,
    ) -> impl Future<Output = Result<R, Error<E, C::Kind>>> + use<'a, C, N, T, S, R, E, Via, O, F>
    where
        T: Timer,
        S: Sharing<T>,
        C: Judge<R, E, Via>,
        N: Notify<E>,
        O: FnMut(Attempt<T>) -> F,
        F: Future<Output = Result<R, E>>,
    {
        let mut course = self.course();
        async move {
            if let Some(policy) = course.hedge_policy() {
                return Box::pin(hedged(course, operation, policy)).await.result;
            }
            match course.start() {
                Start::Go => {}
                start => return Box::pin(drive(course, operation, At::Start(start))).await,
            }
            // Lent exclusively: what is shared over an await would have to be `Sync` for the call to be `Send`.
            let lent = &mut course;
            let ended = limited(pin!(operation(lent.attempt())), move || lent.attempt_token()).await;
            match course.settle_quietly(ended) {
                Ok(value) => Ok(value),
                Err(ended) => Box::pin(drive(course, operation, At::End(ended))).await,
            }
        }
    }

    /// [`With::retry`] with the call's history and the reason why it ended, beside an `Ok` too.
    pub fn retry_report<R, E, Via, O, F>(
        self,
        operation: O,
    ) -> impl Future<Output = Report<R, E, C::Kind>> + use<'a, C, N, T, S, R, E, Via, O, F>
    where
        T: Timer,
        S: Sharing<T>,
        C: Judge<R, E, Via>,
        N: Notify<E>,
        O: FnMut(Attempt<T>) -> F,
        F: Future<Output = Result<R, E>>,
    {
        let mut course = self.course().remembering();
        async move {
            if let Some(policy) = course.hedge_policy() {
                return Box::pin(hedged(course, operation, policy)).await;
            }
            let at = At::Start(course.start());
            report(course, operation, at).await
        }
    }

    #[inline]
    fn course<R, E, Via>(self) -> Course<'a, R, E, C, N, T, Via, S::Member>
    where
        T: Timer,
        S: Sharing<T>,
        C: Judge<R, E, Via>,
        N: Notify<E>,
    {
        let Self { policy, options, classify, notify, timer: Async(timer), shares } = self;
        let member = shares.joined(&timer, options.rank());
        Course::new(policy, options, classify, notify, timer, member)
    }
}
