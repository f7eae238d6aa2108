//! The first attempt, polled in place.
//!
//! Most calls succeed at once, and a bare `async fn` loop costs them 13 to 21 ns. So the future of a call holds its
//! first attempt itself, and hands over to the plain loop, in one box, only when that attempt has failed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::{Ended, Guard};
use crate::{AttemptToken, Error, Timer};

/// How a call opens.
pub(crate) enum Begun<F> {
    /// With its first attempt.
    Attempt(F),
    /// With a wait, or not at all: the loop knows.
    NotYet,
}

pin_project! {
    /// A call: its first attempt in place, then the loop.
    ///
    /// `S` is what both need; `begin` makes the first attempt, `guard` says what ends it early, `succeeds` whether its
    /// result may be returned as it is, `hand_over` turns the rest into the loop. They are plain functions, so that a
    /// call pays for none of them.
    #[must_use = "futures do nothing unless polled"]
    pub(crate) struct Drive<S, T: Timer, F, L, Begin, Limits, Succeeds, HandOver> {
        state: Option<S>,
        begin: Begin,
        limits: Limits,
        succeeds: Succeeds,
        hand_over: HandOver,
        #[pin]
        stage: Stage<F, T, L>,
    }
}

pin_project! {
    #[project = StageNow]
    enum Stage<F, T: Timer, L> {
        Begin,
        First { #[pin] attempt: F, #[pin] guard: Option<Guard<T>> },
        Loop { rest: Pin<Box<L>> },
        Done,
    }
}

impl<S, T: Timer, F, L, Begin, Limits, Succeeds, HandOver>
    Drive<S, T, F, L, Begin, Limits, Succeeds, HandOver>
{
    #[inline]
    pub(crate) fn new(
        state: S,
        begin: Begin,
        limits: Limits,
        succeeds: Succeeds,
        hand_over: HandOver,
    ) -> Self {
        Self { state: Some(state), begin, limits, succeeds, hand_over, stage: Stage::Begin }
    }
}

impl<S, T, F, L, R, E, K, Begin, Limits, Succeeds, HandOver> Future
    for Drive<S, T, F, L, Begin, Limits, Succeeds, HandOver>
where
    T: Timer,
    F: Future<Output = Result<R, E>>,
    L: Future<Output = Result<R, Error<E, K>>>,
    Begin: Fn(&mut S) -> Begun<F>,
    Limits: Fn(&S) -> Option<AttemptToken<T>>,
    Succeeds: Fn(&mut S, &Result<R, E>) -> bool,
    HandOver: Fn(S, Option<Ended<R, E>>) -> L,
{
    type Output = Result<R, Error<E, K>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let ended = match (this.stage.as_mut().project(), this.state.as_mut()) {
                (StageNow::Begin, Some(state)) => match (this.begin)(state) {
                    Begun::Attempt(attempt) => {
                        this.stage.set(Stage::First { attempt, guard: None });
                        continue;
                    }
                    Begun::NotYet => None,
                },
                (StageNow::First { attempt, mut guard }, Some(state)) => match attempt.poll(context) {
                    Poll::Ready(result) => {
                        if (this.succeeds)(state, &result)
                            && let Ok(value) = result
                        {
                            this.stage.set(Stage::Done);
                            return Poll::Ready(Ok(value));
                        } else {
                            Some(Ended::Returned(result))
                        }
                    }
                    Poll::Pending => {
                        if guard.is_none() {
                            let Some(token) = (this.limits)(state) else { return Poll::Pending };
                            guard.set(Some(Guard::new(token)));
                        }
                        match guard.as_pin_mut().map(|guard| guard.poll(context)) {
                            Some(Poll::Ready(cause)) => Some(Ended::CutOff(cause)),
                            _ => return Poll::Pending,
                        }
                    }
                },
                (StageNow::Loop { rest }, _) => {
                    let result = rest.as_mut().poll(context);
                    if result.is_ready() {
                        this.stage.set(Stage::Done);
                    }
                    return result;
                }
                // Polled after it was done.
                (StageNow::Done | StageNow::Begin | StageNow::First { .. }, _) => return Poll::Pending,
            };
            let Some(state) = this.state.take() else { return Poll::Pending };
            let rest = Box::pin((this.hand_over)(state, ended));
            this.stage.set(Stage::Loop { rest });
        }
    }
}
