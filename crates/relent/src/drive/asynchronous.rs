//! The async loop, for any runtime.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use relent_core::{Decision, Start};

use super::{At, Course, Ended, Guard};
use crate::with::{Judge, Membership, Notify};
use crate::{Attempt, AttemptToken, Error, Report, Timer, Token};

/// What a call returns.
pub(crate) async fn drive<R, E, C, N, T, Via, M, O, F>(
    course: Course<'_, R, E, C, N, T, Via, M>,
    operation: O,
    at: At<R, E>,
) -> Result<R, Error<E, C::Kind>>
where
    C: Judge<R, E, Via>,
    N: Notify<E>,
    T: Timer,
    M: Membership,
    O: FnMut(Attempt<T>) -> F,
    F: Future<Output = Result<R, E>>,
{
    report(course, operation, at).await.result
}

/// Attempts, asks and waits until the core says stop. The first attempt may have been made already.
pub(crate) async fn report<R, E, C, N, T, Via, M, O, F>(
    mut course: Course<'_, R, E, C, N, T, Via, M>,
    mut operation: O,
    mut at: At<R, E>,
) -> Report<R, E, C::Kind>
where
    C: Judge<R, E, Via>,
    N: Notify<E>,
    T: Timer,
    M: Membership,
    O: FnMut(Attempt<T>) -> F,
    F: Future<Output = Result<R, E>>,
{
    loop {
        let mut next = match at {
            At::Start(start) => start,
            At::End(ended) => match course.decide(&ended) {
                Decision::Retry { after, source } => {
                    course.keep(ended);
                    Start::Wait { after, source }
                }
                Decision::Stop { reason, after } => {
                    if let Some(after) = after {
                        wait(after, &course.timer, [course.cancel(), None]).await;
                    }
                    return course.finish(ended, reason);
                }
            },
        };
        // A limiter may delay an attempt more than once.
        while let Start::Wait { after, .. } = next {
            wait(after, &course.timer, [course.cancel(), course.turn().as_ref()]).await;
            next = course.admit();
        }
        if let Start::Stop { reason } = next {
            return course.give_up(reason);
        }
        let attempt = course.attempt();
        let guard = Guard::new(attempt.token.clone());
        at = At::End(guarded(pin!(operation(attempt)), pin!(guard)).await);
    }
}

/// Waits, or ends early because the caller cancelled the call, or it is its turn. The future borrows nothing: what it
/// borrowed would have to be `Sync` for a call to be `Send`.
pub(super) fn wait<T: Timer>(
    after: Duration,
    timer: &T,
    ends: [Option<&Token>; 2],
) -> impl Future<Output = ()> + use<T> {
    let sleep = (!after.is_zero()).then(|| timer.sleep(after));
    let mut ends = ends.map(|end| end.map(Token::cancelled));
    async move {
        let Some(sleep) = sleep else { return };
        let mut sleep = pin!(sleep);
        std::future::poll_fn(|context| {
            if ends.iter_mut().flatten().any(|end| Pin::new(end).poll(context).is_ready()) {
                return Poll::Ready(());
            }
            sleep.as_mut().poll(context)
        })
        .await;
    }
}

/// Runs an attempt until it is done or something ends it. Done comes first: a result that is there counts.
async fn guarded<R, E, T: Timer>(
    mut attempt: Pin<&mut impl Future<Output = Result<R, E>>>,
    mut guard: Pin<&mut Guard<T>>,
) -> Ended<R, E> {
    std::future::poll_fn(|context| match attempt.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Ended::Returned(result)),
        Poll::Pending => guard.as_mut().poll(context).map(Ended::CutOff),
    })
    .await
}

/// The same for a first attempt, which lies in the caller's own future: there a timer would be carried along, and moved
/// about, by all the calls that never need it. So it gets a box, when the attempt turns out to take time.
pub(crate) async fn limited<R, E, T: Timer>(
    mut attempt: Pin<&mut impl Future<Output = Result<R, E>>>,
    mut token: impl FnMut() -> AttemptToken<T>,
) -> Ended<R, E> {
    let mut guard = None;
    std::future::poll_fn(|context| match attempt.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Ended::Returned(result)),
        Poll::Pending => {
            let guard = guard.get_or_insert_with(|| Box::pin(Guard::new(token())));
            guard.as_mut().poll(context).map(Ended::CutOff)
        }
    })
    .await
}
