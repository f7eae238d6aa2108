//! The blocking loop of a hedged call: its attempts run on threads beside each other, and the caller's thread waits.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relent_core::{Decision, HedgePolicy, Start, Timestamp};

use super::lane::{Lane, Next};
use super::threaded::sleep;
use super::{Course, Ended};
use crate::blocking::Threads;
use crate::with::{Judge, Membership, Notify};
use crate::{Attempt, Report, Token};

/// As [`run`](super::run), with races for attempts.
pub(crate) fn run_hedged<R, E, C, N, T, Via, M, O>(
    mut course: Course<'_, R, E, C, N, T, Via, M>,
    operation: &Arc<O>,
    policy: Option<HedgePolicy>,
) -> Report<R, E, C::Kind>
where
    R: Send + 'static,
    E: Send + 'static,
    C: Judge<R, E, Via>,
    N: Notify<E>,
    T: Threads,
    M: Membership + Send + 'static,
    O: Fn(Attempt<T>) -> Result<R, E> + Send + Sync + 'static,
{
    let policy = policy.unwrap_or(HedgePolicy::on_failure().max_attempts(1));
    let mut next = course.start();
    loop {
        while let Start::Wait { after, .. } = next {
            sleep(after, &course.timer, course.cancel(), course.turn());
            next = course.admit();
        }
        if let Start::Stop { reason } = next {
            return course.give_up(reason);
        }
        let (ended, decision) = race(&mut course, operation, &policy);
        match decision {
            Decision::Retry { after, source } => {
                course.keep(ended);
                next = Start::Wait { after, source };
            }
            Decision::Stop { reason, after } => {
                if let Some(after) = after {
                    course.timer.sleep(after, course.cancel());
                }
                return course.finish(ended, reason);
            }
        }
    }
}

/// Runs an attempt that was admitted, and its hedges, until the core has decided.
fn race<R, E, C, N, T, Via, M, O>(
    course: &mut Course<'_, R, E, C, N, T, Via, M>,
    operation: &Arc<O>,
    policy: &HedgePolicy,
) -> (Ended<R, E>, Decision)
where
    R: Send + 'static,
    E: Send + 'static,
    C: Judge<R, E, Via>,
    N: Notify<E>,
    T: Threads,
    M: Membership + Send + 'static,
    O: Fn(Attempt<T>) -> Result<R, E> + Send + Sync + 'static,
{
    let (mut heat, attempt, lane) = course.begin_race(policy);
    let mut field = Field { desk: Arc::new(Desk::default()), running: BTreeMap::new() };
    field.run(&course.timer, operation, attempt, lane);
    let mut last = None;
    loop {
        while let Some((lane, ended)) = field.next_end() {
            if let Some(decision) = course.came_in(&mut heat, lane, &ended) {
                for loser in field.running.values() {
                    course.loses(&loser.lane);
                }
                return (ended, decision);
            }
            // What the call may return is the last one's; a result that others outrun is dropped now.
            match field.running.is_empty() {
                true => last = Some(ended),
                false => course.keep(ended),
            }
        }
        let until = match course.next(&mut heat, last.as_ref()) {
            Next::Start(attempt, lane) => {
                if let Some(ended) = last.take() {
                    course.keep(ended);
                }
                field.run(&course.timer, operation, attempt, lane);
                continue;
            }
            Next::Decided(decision) => {
                // It is there: only a failure leaves nothing running.
                return (last.take().unwrap_or(Ended::CutOff(crate::Cause::Lost)), decision);
            }
            Next::Wait(until) => until,
        };
        field.wait(&course.timer, until, course.cancel());
    }
}

/// The attempts that run on threads.
struct Field<R, E, T, M> {
    desk: Arc<Desk<R, E>>,
    /// By their number in the race.
    running: BTreeMap<u32, Runner<T, M>>,
}

struct Runner<T, M> {
    lane: Lane<T, ()>,
    /// What it holds of what calls share: until it is taken in, or, if it has lost, until its thread has ended.
    seat: Arc<Mutex<Option<M>>>,
}

impl<R, E, T, M> Field<R, E, T, M>
where
    R: Send + 'static,
    E: Send + 'static,
    T: Threads,
    M: Send + 'static,
{
    fn run<O>(&mut self, timer: &T, operation: &Arc<O>, attempt: Attempt<T>, lane: Lane<T, M>)
    where
        O: Fn(Attempt<T>) -> Result<R, E> + Send + Sync + 'static,
    {
        let (lane, member) = lane.apart();
        let seat = Arc::new(Mutex::new(Some(member)));
        let number = lane.lane;
        self.running.insert(number, Runner { lane, seat: Arc::clone(&seat) });
        let (desk, operation) = (Arc::clone(&self.desk), Arc::clone(operation));
        let work = move |attempt| {
            desk.put(number, catch_unwind(AssertUnwindSafe(|| operation(attempt))));
            drop(seat);
        };
        let on_a_thread = (attempt.clone(), work.clone());
        let spawned = timer.spawn(Box::new(move || {
            let (attempt, work) = on_a_thread;
            work(attempt);
        }));
        // Where there is no thread to be had, the caller's own makes the attempt.
        if spawned.is_err() {
            work(attempt);
        }
    }

    /// The next attempt that has ended, or was cut off. Done comes first: a result that is there counts.
    fn next_end(&mut self) -> Option<(Lane<T, M>, Ended<R, E>)> {
        let (number, ended) = match self.desk.take() {
            Some((number, Ok(result))) => (number, Ended::Returned(result)),
            Some((_, Err(panic))) => resume_unwind(panic),
            None => self.running.iter().find_map(|(number, runner)| {
                let cause = runner.lane.token.fired()?;
                Some((*number, Ended::CutOff(cause)))
            })?,
        };
        let Some(Runner { lane, seat }) = self.running.remove(&number) else {
            // It was cut off before.
            return self.next_end();
        };
        if let Ended::CutOff(_) = ended {
            lane.lost.cancel();
        }
        let member = lock(&seat).take()?;
        Some((lane.with(member), ended))
    }

    /// Waits until something has ended, or is due.
    fn wait(&self, timer: &T, until: Option<Timestamp>, caller: Option<&Token>) {
        let Some(bell) = self.desk.bell() else { return };
        let ends = self.running.values().filter_map(|runner| runner.lane.token.end());
        let until = ends.map(|(end, _)| end).chain(until).min();
        let wait = until.map_or(Duration::MAX, |until| until.since(timer.now()));
        sleep(wait, timer, caller, Some(bell));
    }
}

/// Whoever still runs when the race is left, by a panic too, has lost.
impl<R, E, T, M> Drop for Field<R, E, T, M> {
    fn drop(&mut self) {
        self.desk.close();
        self.running.values().for_each(|runner| runner.lane.lost.cancel());
    }
}

/// Where threads put what their attempts returned.
struct Desk<R, E>(Mutex<Papers<R, E>>);

struct Papers<R, E> {
    ended: Vec<(u32, Returned<R, E>)>,
    bell: Option<Token>,
    closed: bool,
}

/// What an operation returned, or what it panicked with.
type Returned<R, E> = Result<Result<R, E>, Box<dyn Any + Send>>;

impl<R, E> Desk<R, E> {
    fn put(&self, number: u32, returned: Returned<R, E>) {
        let mut papers = lock(&self.0);
        if papers.closed {
            // Nobody's: late losers are silent. Dropped unlocked: who knows what it does.
            drop(papers);
            return drop(returned);
        }
        papers.ended.push((number, returned));
        let bell = papers.bell.take();
        drop(papers);
        if let Some(bell) = bell {
            bell.cancel();
        }
    }

    fn take(&self) -> Option<(u32, Returned<R, E>)> {
        let mut papers = lock(&self.0);
        (!papers.ended.is_empty()).then(|| papers.ended.remove(0))
    }

    /// What rings when something ends; none if something has.
    fn bell(&self) -> Option<Token> {
        let mut papers = lock(&self.0);
        if !papers.ended.is_empty() {
            return None;
        }
        Some(papers.bell.insert(Token::new()).clone())
    }

    fn close(&self) {
        let ended = {
            let mut papers = lock(&self.0);
            papers.closed = true;
            std::mem::take(&mut papers.ended)
        };
        drop(ended);
    }
}

impl<R, E> Default for Desk<R, E> {
    fn default() -> Self {
        Self(Mutex::new(Papers { ended: Vec::new(), bell: None, closed: false }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
