//! The table of hedged calls: what each attempt does, when they start and what must come of it, in every driver.

use std::time::Duration;

use relent_core::{
    Alone, Call, Class, Decision, HedgePolicy, HedgeStep, Hint, Moment, Outcome, Policy, PolicyBuilder,
    Reason, Repeat, Timestamp,
};

use super::{Back, Step, asks, doubling, fails, hangs, ms, ok, slow};
use Back::{Err as Error, NoError, Ok as Value};
use Reason::{AttemptsExhausted, Cancelled, DeadlinePassed, NotRetryable, Succeeded};

/// One row.
pub(crate) struct Hedged {
    pub(crate) name: &'static str,
    pub(crate) hedge: HedgePolicy,
    pub(crate) policy: PolicyBuilder,
    /// What the attempts do, in the order in which they start.
    pub(crate) attempts: Vec<Step>,
    pub(crate) idempotent: bool,
    pub(crate) cancelled_at: Option<u64>,
    pub(crate) expected: Ran,
}

/// What a driver made of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ran {
    /// When each attempt started, in milliseconds.
    pub(crate) started: Vec<u64>,
    pub(crate) reason: Reason,
    pub(crate) comes_back: Back,
    /// When the call ended.
    pub(crate) ends: u64,
}

#[allow(clippy::too_many_arguments)]
fn row(
    name: &'static str,
    hedge: HedgePolicy,
    policy: PolicyBuilder,
    attempts: impl IntoIterator<Item = Step>,
    started: &[u64],
    reason: Reason,
    comes_back: Back,
    ends: u64,
) -> Hedged {
    let expected = Ran { started: started.to_vec(), reason, comes_back, ends };
    let attempts = attempts.into_iter().collect();
    Hedged { name, hedge, policy, attempts, idempotent: true, cancelled_at: None, expected }
}

impl Hedged {
    /// What the core alone makes of it, in virtual time.
    pub(crate) fn run_raw(&self) -> Ran {
        let policy = self.policy.clone().build().unwrap();
        let at = |millis: u64| Timestamp::from_duration(ms(millis));
        let mut call = Call::new(Some(at(0)));
        let (mut now, mut last, mut started) = (at(0), NoError, vec![]);
        let millis = |time: Timestamp| time.since(at(0)).as_millis() as u64;
        let repeat = if self.idempotent { Repeat::Safe } else { Repeat::NotIdempotent };
        let (reason, comes_back) = 'call: loop {
            let moment = |now| Moment::at(now, 0);
            let mut race = call.race(&policy, &self.hedge, self.hedge.delay(None, now), now);
            // Which attempts run: their number in the race and in the call, when they end, and as what.
            let mut running: Vec<(u32, u32, Timestamp, Option<Step>)> = vec![];
            let mut failed = None;
            let (decision, ended) = loop {
                let cancelled = self.cancelled_at.map(at).filter(|at| *at <= now);
                let due = running.iter().position(|(.., ends, _)| *ends <= now || cancelled.is_some());
                if let Some(index) = due {
                    let (lane, number, _, step) = running.remove(index);
                    let outcome = match step {
                        _ if cancelled.is_some() => Outcome::of(Class::Cancelled),
                        Some(step) => Outcome { repeat, ..step.outcome },
                        None => Outcome::of(Class::Timeout).repeat(repeat),
                    };
                    let step = step.filter(|_| cancelled.is_none());
                    if step.is_some_and(|step| !step.ok) {
                        last = Error(number);
                    }
                    let decision = call.decide_in(&policy, &mut race, lane, &mut Alone, outcome, moment(now));
                    if let Some(decision) = decision {
                        break (decision, step.filter(|step| step.ok).map(|_| number));
                    }
                    failed = Some(outcome);
                    continue;
                }
                match race.next(now) {
                    HedgeStep::Start => {
                        let slow = Outcome::of(Class::Transient).repeat(repeat);
                        let outcome = failed.unwrap_or(slow);
                        let first = race.attempts() == 0;
                        if !first && call.hedge(&policy, &mut Alone, &outcome, moment(now)).is_err() {
                            let next = call.suppressed(&policy, &mut race, &mut Alone, outcome, moment(now));
                            match next {
                                Some(decision) => break (decision, None),
                                None => continue,
                            }
                        }
                        failed = None;
                        started.push(millis(now));
                        let number = started.len() as u32;
                        let step = self.step(number);
                        let cut = call.attempt_limit(&policy, now).map(|limit| now.plus(limit));
                        let done = step.takes.map(|takes| now.plus(ms(takes)));
                        let ends = [cut, done].into_iter().flatten().min().unwrap_or(Timestamp::MAX);
                        let step = (Some(ends) == done).then_some(step);
                        running.push((race.started(now), number, ends, step));
                    }
                    step => {
                        let due = match step {
                            HedgeStep::WaitUntil(due) => Some(due),
                            _ => None,
                        };
                        let ends = running.iter().map(|(.., ends, _)| *ends);
                        let cancelled = self.cancelled_at.map(at);
                        now = ends.chain(due).chain(cancelled).min().expect("something ends");
                    }
                }
            };
            match decision {
                Decision::Retry { after, .. } => now = now.plus(after),
                Decision::Stop { reason, .. } => break 'call (reason, ended.map_or(last, Value)),
            }
        };
        assert_eq!(call.attempts(), started.len() as u32, "\"{}\" counts what it starts", self.name);
        Ran { started, reason, comes_back, ends: millis(now) }
    }

    /// What the attempt does that is started as number `number`.
    pub(crate) fn step(&self, number: u32) -> Step {
        let steps = &self.attempts;
        *steps.get(number as usize - 1).unwrap_or_else(|| panic!("\"{}\" has no attempt {number}", self.name))
    }

    fn idempotent(self, idempotent: bool) -> Self {
        Self { idempotent, ..self }
    }

    fn cancelled_at(self, millis: u64) -> Self {
        Self { cancelled_at: Some(millis), ..self }
    }
}

fn after(millis: u64) -> HedgePolicy {
    HedgePolicy::after(ms(millis))
}

/// The table. No attempt ends at the very moment at which another starts: threads do not agree which of them is first.
#[rustfmt::skip]
pub(crate) fn hedges() -> Vec<Hedged> {
    let throttled = |wait| asks(Duration::from_millis(wait));
    let stop = fails(Outcome::of(Class::Transient).hint(Hint::Stop));
    let flat = || Policy::constant(ms(100)).jitter(relent_core::Jitter::None);
    vec![
        row("an answer in time", after(50), doubling(), [ok().takes(49)], &[0], Succeeded, Value(1), 49),
        row("a slow one is hedged", after(50), doubling(), [hangs(), ok().takes(20)],
            &[0, 50], Succeeded, Value(2), 70),
        row("the slow one wins all the same", after(50), doubling(), [ok().takes(60), ok().takes(20)],
            &[0, 50], Succeeded, Value(1), 60),
        // gRFC A6: sent 500 ms apart; a failure that is not fatal sends the next one at once; a fatal one ends all.
        row("four of them", after(500).max_attempts(4), doubling(), [ok().takes(1700), hangs(), hangs(), hangs()],
            &[0, 500, 1000, 1500], Succeeded, Value(1), 1700),
        row("a failure sends the next at once", after(500).max_attempts(4), doubling(),
            [slow().takes(100), ok().takes(550), hangs()], &[0, 100, 600], Succeeded, Value(2), 650),
        row("a fatal one ends all", after(500).max_attempts(4), doubling(),
            [hangs(), fails(Class::Permanent).takes(200)], &[0, 500], NotRetryable, Error(2), 700),
        // [tower Hedge]: an error won against an attempt that would have succeeded.
        row("a fast error does not win", after(10), doubling(), [ok().takes(500), slow().takes(1)],
            &[0, 10], Succeeded, Value(1), 500),
        row("all have failed, and the retry waits", after(50), flat(),
            [slow().takes(30), slow().takes(20), slow().takes(10), ok().takes(5)],
            &[0, 30, 150, 160], Succeeded, Value(4), 165),
        row("the limit bounds all attempts of the call", HedgePolicy::at_once().max_attempts(4),
            doubling().max_attempts(3), [slow().takes(3), slow().takes(2), slow().takes(1)],
            &[0, 0, 0], AttemptsExhausted, Error(1), 3),
        row("one attempt is one attempt", HedgePolicy::at_once(), doubling().max_attempts(1), [slow().takes(3)],
            &[0], AttemptsExhausted, Error(1), 3),
        // Polly: parallel, and after a failure only.
        row("at once", HedgePolicy::at_once(), doubling(), [hangs(), ok().takes(7)], &[0, 0], Succeeded, Value(2), 7),
        row("after a failure only", HedgePolicy::on_failure(), doubling(), [slow().takes(900), ok().takes(5)],
            &[0, 900], Succeeded, Value(2), 905),
        row("never what is unsafe to repeat", after(10), doubling(), [ok().takes(500)],
            &[0], Succeeded, Value(1), 500).idempotent(false),
        row("the deadline ends all", after(50), doubling().deadline(ms(200)), [hangs(), hangs()],
            &[0, 50], DeadlinePassed, NoError, 200),
        row("no hedge at the deadline", after(50), doubling().deadline(ms(50)), [hangs()],
            &[0], DeadlinePassed, NoError, 50),
        row("each has its own timeout", after(60).max_attempts(3), doubling().attempt_timeout(ms(100)),
            [hangs(), hangs(), ok().takes(55)], &[0, 60, 100], Succeeded, Value(3), 155),
        // F37: nothing starts after the caller has given up.
        row("cancelled before the hedge", after(10), doubling(), [hangs()], &[0], Cancelled, NoError, 5).cancelled_at(5),
        row("cancelled while both run", after(10), doubling(), [hangs(), hangs()],
            &[0, 10], Cancelled, NoError, 15).cancelled_at(15),
        // A server that asks for quiet gets it.
        row("a hint keeps the next one back", after(5).max_attempts(3), doubling(),
            [throttled(300).takes(7), ok().takes(400), hangs()], &[0, 5, 307], Succeeded, Value(2), 405),
        row("with nothing else running the retry waits", after(50), doubling().seed(1).hint(
            relent_core::HintPolicy::DEFAULT.spread(0.0)), [throttled(300).takes(1), ok()],
            &[0, 301], Succeeded, Value(2), 301),
        row("a pushback that stops, while one runs", after(5).max_attempts(3), doubling(),
            [stop.takes(7), ok().takes(400)], &[0, 5], Succeeded, Value(2), 405),
    ]
}
