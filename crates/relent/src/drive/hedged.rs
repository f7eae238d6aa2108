//! The async loop of a hedged call: its attempts are polled beside each other, in one future.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use relent_core::{Decision, HedgePolicy, Start};

use super::asynchronous::wait;
use super::lane::{Lane, Next};
use super::{Course, Ended, Guard};
use crate::with::{Judge, Membership, Notify};
use crate::{Attempt, Report, Timer};

/// As [`report`](super::report), with races for attempts.
pub(crate) async fn hedged<R, E, C, N, T, Via, M, O, F>(
    mut course: Course<'_, R, E, C, N, T, Via, M>,
    mut operation: O,
    policy: HedgePolicy,
) -> Report<R, E, C::Kind>
where
    C: Judge<R, E, Via>,
    N: Notify<E>,
    T: Timer,
    M: Membership,
    O: FnMut(Attempt<T>) -> F,
    F: Future<Output = Result<R, E>>,
{
    let mut next = course.start();
    loop {
        while let Start::Wait { after, .. } = next {
            wait(after, &course.timer, [course.cancel(), course.turn().as_ref()]).await;
            next = course.admit();
        }
        if let Start::Stop { reason } = next {
            return course.give_up(reason);
        }
        let (ended, decision) = race(&mut course, &mut operation, &policy).await;
        match decision {
            Decision::Retry { after, source } => {
                course.keep(ended);
                next = Start::Wait { after, source };
            }
            Decision::Stop { reason, after } => {
                if let Some(after) = after {
                    wait(after, &course.timer, [course.cancel(), None]).await;
                }
                return course.finish(ended, reason);
            }
        }
    }
}

/// Runs an attempt that was admitted, and its hedges, until the core has decided.
async fn race<R, E, C, N, T, Via, M, O, F>(
    course: &mut Course<'_, R, E, C, N, T, Via, M>,
    operation: &mut O,
    policy: &HedgePolicy,
) -> (Ended<R, E>, Decision)
where
    C: Judge<R, E, Via>,
    N: Notify<E>,
    T: Timer,
    M: Membership,
    O: FnMut(Attempt<T>) -> F,
    F: Future<Output = Result<R, E>>,
{
    let (mut heat, attempt, lane) = course.begin_race(policy);
    let mut running = vec![Running::new(operation(attempt), lane)];
    let mut last = None;
    let mut sleep = pin!(None);
    let mut due = None;
    std::future::poll_fn(|context| {
        loop {
            // What is done comes first: a result that is there counts, whatever is due at the same time.
            let mut index = 0;
            while let Some(attempt) = running.get_mut(index) {
                let Poll::Ready((ended, lane)) = attempt.as_mut().poll(context) else {
                    index += 1;
                    continue;
                };
                drop(running.remove(index));
                if let Some(decision) = course.came_in(&mut heat, lane, &ended) {
                    for loser in running.drain(..) {
                        loser.lose(course);
                    }
                    return Poll::Ready((ended, decision));
                }
                // What the call may return is the last one's; a result that others outrun is dropped now.
                match running.is_empty() {
                    true => last = Some(ended),
                    false => course.keep(ended),
                }
            }
            match course.next(&mut heat, last.as_ref()) {
                Next::Start(attempt, lane) => {
                    if let Some(ended) = last.take() {
                        course.keep(ended);
                    }
                    running.push(Running::new(operation(attempt), lane));
                }
                Next::Decided(decision) => {
                    // It is there: only a failure leaves nothing running.
                    let ended = last.take().unwrap_or(Ended::CutOff(crate::Cause::Lost));
                    return Poll::Ready((ended, decision));
                }
                Next::Wait(until) => {
                    if due != until || (sleep.is_none() && until.is_some()) {
                        let left = until.map(|until| until.since(course.timer.now()));
                        sleep.set(left.map(|left| course.timer.sleep(left)));
                        due = until;
                    }
                    match sleep.as_mut().as_pin_mut().map(|sleep| sleep.poll(context)) {
                        Some(Poll::Ready(())) => sleep.set(None),
                        Some(Poll::Pending) | None => return Poll::Pending,
                    }
                }
            }
        }
    })
    .await
}

pin_project! {
    /// An attempt that runs, and what ends it.
    struct Running<F, T: Timer, M> {
        #[pin]
        attempt: F,
        #[pin]
        guard: Guard<T>,
        lane: Option<Lane<T, M>>,
    }
}

impl<F, T: Timer, M> Running<F, T, M> {
    fn new(attempt: F, lane: Lane<T, M>) -> Pin<Box<Self>> {
        let guard = Guard::new(lane.token.clone());
        Box::pin(Self { attempt, guard, lane: Some(lane) })
    }

    /// Ends it: the attempt itself first, then what it holds.
    fn lose<R, E, C, N, Via>(mut self: Pin<Box<Self>>, course: &mut Course<'_, R, E, C, N, T, Via, M>)
    where
        C: Judge<R, E, Via>,
        N: Notify<E>,
        M: Membership,
    {
        let lane = self.as_mut().project().lane.take();
        drop(self);
        if let Some(lane) = lane {
            course.loses(&lane);
        }
    }
}

impl<R, E, F, T, M> Future for Running<F, T, M>
where
    F: Future<Output = Result<R, E>>,
    T: Timer,
{
    type Output = (Ended<R, E>, Lane<T, M>);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let ended = match this.attempt.poll(context) {
            Poll::Ready(result) => Ended::Returned(result),
            Poll::Pending => match this.guard.poll(context) {
                Poll::Ready(cause) => Ended::CutOff(cause),
                Poll::Pending => return Poll::Pending,
            },
        };
        // An attempt ends once.
        this.lane.take().map_or(Poll::Pending, |lane| Poll::Ready((ended, lane)))
    }
}
