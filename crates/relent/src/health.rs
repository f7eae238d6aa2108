//! The way of a call whose target is in health: its first attempt in place, and no lock.
//!
//! Most calls succeed at once, and a success would change nothing of a budget that is full or a breaker that has seen no
//! failure. Such a call reads how those stand before its attempt and after it, and writes nothing, so that threads do not
//! meet. It holds nothing either: however it ends, there is nothing to be given back. Where something has changed
//! meanwhile its success is told under the locks, and where it fails it becomes a [`Member`] with the
//! permit of the state that it began in.

#[cfg(feature = "tokio")]
use std::future::Future;
#[cfg(feature = "tokio")]
use std::pin::pin;
use std::sync::Arc;

#[cfg(feature = "tokio")]
use relent_core::Call;
use relent_core::{Breaker, Budget, Class, MAX_BUDGETS, Outcome, Permit, Stake, Standing, Timestamp};

use crate::blocking::SystemTimer;
use crate::drive::{At, Course, Ended, run};
use crate::shared::{Locked, State};
use crate::with::Options;
#[cfg(feature = "tokio")]
use crate::{
    AttemptToken, TokioTimer,
    drive::{drive, limited},
};
use crate::{ByFailure, Clock, Error, Failure, Member, Quiet, Target};

impl Target {
    /// Calls `operation` until it succeeds or the policy says stop, as one of those that share this target. See
    /// [`relent::retry`](crate::retry).
    ///
    /// ```
    /// # use relent::{BreakerPolicy, Policy, Quota, Retrier};
    /// # async fn get(_url: &str) -> std::io::Result<String> { Ok("hello".into()) }
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let retrier = Retrier::new(Policy::default())
    ///     .budget(Quota::aws_2026())
    ///     .breaker(BreakerPolicy::consecutive(5))
    ///     .build()?;
    /// let host = retrier.at("localhost:80");
    /// let page = host.retry(|| get("http://localhost/")).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`], with the reason, the number of attempts and the last error.
    ///
    /// # Panics
    ///
    /// As tokio's timer does: see [`relent::retry`](crate::retry).
    #[cfg(feature = "tokio")]
    #[inline]
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function moves its arguments once more than its block does"
    )]
    pub fn retry<'a, R, E, Via, O, F>(
        &'a self,
        mut operation: O,
    ) -> impl Future<Output = Result<R, Error<E, E::Kind>>> + use<'a, R, E, Via, O, F>
    where
        O: FnMut() -> F,
        F: Future<Output = Result<R, E>>,
        E: Failure<Via>,
    {
        // As in `relent::retry`: whatever is not a success in health goes on in a box, so that the others need not carry
        // it.
        async move {
            let begun = if self.state.is_timeless {
                match self.state.pass(None) {
                    Some(pass) => match operation().await {
                        Ok(value) => {
                            self.state.succeed(pass, &TokioTimer);
                            return Ok(value);
                        }
                        failed => Some((pass, Ended::Returned(failed))),
                    },
                    None => None,
                }
            } else {
                match self.first_in_time(&mut operation).await {
                    Ok(value) => return Ok(value),
                    Err(begun) => begun,
                }
            };
            Box::pin(self.rest(operation, begun)).await
        }
    }

    /// Calls `operation` until it succeeds or the policy says stop, waiting on this thread. See
    /// [`relent::blocking::retry`](crate::blocking::retry).
    ///
    /// ```
    /// # use relent::{BreakerPolicy, Policy, Quota, Retrier};
    /// # fn get(_url: &str) -> std::io::Result<String> { Ok("hello".into()) }
    /// let retrier = Retrier::new(Policy::default())
    ///     .budget(Quota::aws_2026())
    ///     .breaker(BreakerPolicy::consecutive(5))
    ///     .build()?;
    /// let host = retrier.at("localhost:80");
    /// let page = host.retry_blocking(|| get("http://localhost/"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`], with the reason, the number of attempts and the last error.
    #[inline]
    pub fn retry_blocking<R, E, Via>(
        &self,
        mut operation: impl FnMut() -> Result<R, E>,
    ) -> Result<R, Error<E, E::Kind>>
    where
        E: Failure<Via>,
    {
        let pass = match self.state.is_timeless {
            true => self.state.pass(None),
            false => self.pass_in_time(&SystemTimer),
        };
        let Some(pass) = pass else { return self.ask_blocking(operation) };
        match operation() {
            Ok(value) => {
                self.state.succeed(pass, &SystemTimer);
                Ok(value)
            }
            Err(error) => self.go_on_blocking(pass, operation, error),
        }
    }

    /// Lets a first attempt begin at once and without asking, where the policy or what is shared needs the time; none
    /// where somebody has to be asked, or there is a spread to wait for.
    #[inline(never)]
    fn pass_in_time(&self, clock: &impl Clock) -> Option<Pass> {
        if !self.state.can_rest || !self.policy().backoff().spread_of_first().is_zero() {
            return None;
        }
        let pass = self.state.pass(Some(clock.now()))?;
        self.state.count(pass);
        Some(pass)
    }

    #[inline(never)]
    fn ask_blocking<R, E: Failure<Via>, Via>(
        &self,
        mut operation: impl FnMut() -> Result<R, E>,
    ) -> Result<R, Error<E, E::Kind>> {
        self.blocking().retry(|_attempt| operation())
    }

    /// The loop, after a first attempt that failed.
    #[cold]
    #[inline(never)]
    fn go_on_blocking<R, E: Failure<Via>, Via>(
        &self,
        pass: Pass,
        mut operation: impl FnMut() -> Result<R, E>,
        error: E,
    ) -> Result<R, Error<E, E::Kind>> {
        let (policy, options) = (self.policy(), Options::default());
        let member = Member::passed(Arc::clone(&self.state), pass, SystemTimer);
        let mut course = Course::new(policy, options, ByFailure, Quiet, SystemTimer, member);
        course.begin(pass.began);
        let at = At::End(Ended::Returned(Err(error)));
        run::<R, E, _, _, _, Via, _>(course, move |_attempt| operation(), at).result
    }

    /// The first attempt of an async call that needs the time; none where it has not begun.
    #[cfg(feature = "tokio")]
    async fn first_in_time<R, E, O, F>(&self, operation: &mut O) -> Result<R, Option<(Pass, Ended<R, E>)>>
    where
        O: FnMut() -> F,
        F: Future<Output = Result<R, E>>,
    {
        let Some(pass) = self.pass_in_time(&TokioTimer) else { return Err(None) };
        match limited(pin!(operation()), || self.token(pass)).await {
            Ended::Returned(Ok(value)) => {
                self.state.succeed(pass, &TokioTimer);
                Ok(value)
            }
            ended => Err(Some((pass, ended))),
        }
    }

    /// An async call that has to ask, or whose first attempt has not succeeded.
    #[cfg(feature = "tokio")]
    async fn rest<R, E, Via, O, F>(
        &self,
        mut operation: O,
        begun: Option<(Pass, Ended<R, E>)>,
    ) -> Result<R, Error<E, E::Kind>>
    where
        O: FnMut() -> F,
        F: Future<Output = Result<R, E>>,
        E: Failure<Via>,
    {
        let Some((pass, ended)) = begun else {
            return self.with().retry::<R, E, Via, _, F>(move |_attempt| operation()).await;
        };
        let (policy, options) = (self.policy(), Options::default());
        let member = Member::passed(Arc::clone(&self.state), pass, TokioTimer);
        let mut course = Course::new(policy, options, ByFailure, Quiet, TokioTimer, member);
        course.begin(pass.began);
        drive::<R, E, _, _, _, Via, _, _, F>(course, move |_attempt| operation(), At::End(ended)).await
    }

    /// What ends the first attempt.
    #[cfg(feature = "tokio")]
    fn token(&self, pass: Pass) -> AttemptToken<TokioTimer> {
        let policy = self.policy();
        let timeout = policy.attempt_timeout().zip(pass.began);
        AttemptToken {
            caller: None,
            deadline: Call::new(pass.began).ends(policy),
            timeout: timeout.map(|(timeout, began)| began.plus(timeout)),
            timer: TokioTimer,
            lost: None,
        }
    }
}

/// That a first attempt began without asking. Holds nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// How the breaker stood.
    standing: Standing,
    /// When that was, where somebody has to know.
    began: Option<Timestamp>,
}

impl Pass {
    /// The permit that the attempt would have been given.
    pub(crate) fn permit(self) -> Permit {
        self.standing.permit(self.began())
    }

    pub(crate) fn began(self) -> Timestamp {
        self.began.unwrap_or(Timestamp::ZERO)
    }
}

impl State {
    /// Lets a first attempt begin, if the breaker admits all.
    #[inline]
    fn pass(&self, began: Option<Timestamp>) -> Option<Pass> {
        match &self.breaker {
            None => Some(Pass { standing: Standing::from_bits(0), began }),
            Some(breaker) => {
                let standing = breaker.standing();
                standing.admits_all().then_some(Pass { standing, began })
            }
        }
    }

    /// The attempt has succeeded.
    #[inline]
    fn succeed(&self, pass: Pass, clock: &impl Clock) {
        let rests = self.breaker.as_ref().is_none_or(|breaker| breaker.standing().is_at_rest());
        if !rests || !self.budgets.iter().all(|budget| budget.is_at_rest()) {
            self.take_in(pass, clock);
        }
    }

    /// Tells the budgets that count calls that one begins.
    fn count(&self, pass: Pass) {
        for (index, budget) in self.budgets.iter().enumerate().take(MAX_BUDGETS) {
            if self.counting & 1 << index != 0 {
                budget.with(|budget| budget.begin(&mut Stake::default(), pass.began()));
            }
        }
    }

    /// Tells a success to those that it matters to.
    #[inline(never)]
    fn take_in(&self, pass: Pass, clock: &impl Clock) {
        for budget in self.budgets.iter().filter(|budget| !budget.is_at_rest()) {
            deposit(budget, pass);
        }
        let moved = |breaker: &&Locked<Breaker>| {
            !breaker.standing().is_at_rest() && !breaker.take_success(pass.standing)
        };
        if let Some(breaker) = self.breaker.as_ref().filter(moved) {
            breaker.with(|breaker| {
                if !breaker.take_success(pass.standing) {
                    settle(breaker, pass, clock);
                }
            });
        }
    }
}

/// Where the time may matter.
#[inline(never)]
fn settle(breaker: &mut Breaker, pass: Pass, clock: &impl Clock) {
    let permit = pass.permit();
    let now = if breaker.times_success(&permit) { clock.now() } else { pass.began() };
    breaker.settle(permit, &Outcome::of(Class::Success), now);
}

#[inline(never)]
fn deposit(budget: &Locked<Budget>, pass: Pass) {
    let success = Outcome::of(Class::Success);
    budget.with(|budget| budget.settle(&success, &mut Stake::default(), pass.began()));
}
