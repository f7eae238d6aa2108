//! The blocking loop.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use relent_core::{Decision, Start};

use super::{At, Course, Ended};
use crate::blocking::Timer;
use crate::with::{Judge, Membership, Notify};
use crate::{Attempt, Report, Token};

/// Attempts, asks and waits until the core says stop. The first attempt may have been made already.
pub(crate) fn run<R, E, C, N, T, Via, M>(
    mut course: Course<'_, R, E, C, N, T, Via, M>,
    mut operation: impl FnMut(Attempt<T>) -> Result<R, E>,
    mut at: At<R, E>,
) -> Report<R, E, C::Kind>
where
    C: Judge<R, E, Via>,
    N: Notify<E>,
    T: Timer,
    M: Membership,
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
                        course.timer.sleep(after, course.cancel());
                    }
                    return course.finish(ended, reason);
                }
            },
        };
        // A limiter may delay an attempt more than once.
        while let Start::Wait { after, .. } = next {
            sleep(after, &course.timer, course.cancel(), course.turn());
            next = course.admit();
        }
        if let Start::Stop { reason } = next {
            return course.give_up(reason);
        }
        at = At::End(Ended::Returned(operation(course.attempt())));
    }
}

/// Waits, or ends early because the caller cancelled the call, or it is its turn.
pub(super) fn sleep<T: Timer>(after: Duration, timer: &T, caller: Option<&Token>, turn: Option<Token>) {
    let Some(turn) = turn else { return timer.sleep(after, caller) };
    let mut cancelled = caller.map(Token::cancelled);
    if let Some(cancelled) = &mut cancelled {
        // A thread waits for one token: the caller's cancellation fires it too, which is nobody else's.
        let waker = Waker::from(Arc::new(Fires(turn.clone())));
        if Pin::new(cancelled).poll(&mut Context::from_waker(&waker)).is_ready() {
            return;
        }
    }
    timer.sleep(after, Some(&turn));
}

/// Cancels a token where a waker is asked for.
struct Fires(Token);

impl Wake for Fires {
    fn wake(self: Arc<Self>) {
        self.0.cancel();
    }
}
