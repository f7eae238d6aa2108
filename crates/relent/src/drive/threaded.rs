//! The blocking loop.

use relent_core::{Decision, Reason, Start};

use super::{Course, Ended};
use crate::blocking::Timer;
use crate::with::{Judge, Notify};
use crate::{Attempt, Report};

/// Attempts, asks and waits until the core says stop. `ended` is the first attempt's end, where it was already made.
pub(crate) fn run<R, E, C, N, T, Via>(
    mut course: Course<'_, R, E, C, N, T, Via>,
    mut operation: impl FnMut(Attempt<T>) -> Result<R, E>,
    ended: Option<Ended<R, E>>,
) -> Report<R, E, C::Kind>
where
    C: Judge<R, E, Via>,
    N: Notify<E>,
    T: Timer,
{
    let mut ended = ended;
    loop {
        let mut next = match ended.take() {
            None => course.start(),
            Some(ended) => match course.decide(&ended) {
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
            course.timer.sleep(after, course.cancel());
            next = course.admit();
        }
        if let Start::Stop { reason } = next {
            return course.give_up(reason);
        }
        let attempt = course.attempt();
        let token = attempt.token.clone();
        let result = operation(attempt);
        // The caller's cancellation is no failure of the attempt that it ended: whatever the operation returned.
        let cancelled = result.is_err() && token.caller.is_some_and(|caller| caller.is_cancelled());
        if cancelled {
            course.keep(Ended::Returned(result));
            ended = Some(Ended::CutOff(crate::Cause::Cancelled));
        } else {
            ended = Some(Ended::Returned(result));
        }
        debug_assert!(!matches!(next, Start::Stop { reason: Reason::Succeeded }));
    }
}
