//! The blocking loop.

use relent_core::{Decision, Start};

use super::{At, Course, Ended};
use crate::blocking::Timer;
use crate::with::{Judge, Membership, Notify};
use crate::{Attempt, Report};

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
            course.timer.sleep(after, course.cancel());
            next = course.admit();
        }
        if let Start::Stop { reason } = next {
            return course.give_up(reason);
        }
        at = At::End(Ended::Returned(operation(course.attempt())));
    }
}
