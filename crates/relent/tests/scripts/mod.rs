//! The table of scripts: what each attempt does, and what must come of it, in every driver.
//!
//! Data and the raw core only, so that other crates' drivers can include this file and run the same rows; not each of
//! them looks at all of it.

#![allow(dead_code)] // each driver uses its part

pub(crate) mod hedges;

use std::time::Duration;

use relent_core::{
    Alone, Backoff, Bound, Call, Class, Classes, Count, Deadline, Decision, First, Hint, HintMode,
    HintPolicy, Jitter, Moment, Multiplier, OnDeadline, Outcome, OverMax, Policy, PolicyBuilder, Reason,
    Repeat, Rule, RuleId, Schedule, Source, Stage, Start, Timestamp, entropy,
};

/// One row.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) policy: PolicyBuilder,
    /// What the attempts do, in order.
    pub(crate) attempts: Vec<Step>,
    /// What the caller says about repeating the call, if anything.
    pub(crate) idempotent: Option<bool>,
    /// When the caller cancels the call, in milliseconds from its start.
    pub(crate) cancelled_at: Option<u64>,
    pub(crate) expected: Expected,
}

/// What one attempt does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// How long it takes, in milliseconds; none: it hangs, so that only a driver that can cut it off gets further.
    pub(crate) takes: Option<u64>,
    /// Whether it returns an `Ok`, which may be a failure all the same.
    pub(crate) ok: bool,
    pub(crate) outcome: Outcome,
}

/// What must come of a row.
pub(crate) struct Expected {
    /// Those that count: since the last time of health.
    pub(crate) attempts: u32,
    /// The waits after failures, in milliseconds; none: those of the seed, which the raw core says.
    pub(crate) waits: Option<&'static [(u64, Source)]>,
    pub(crate) reason: Reason,
    pub(crate) comes_back: Back,
    /// When the call ends, in milliseconds; none where the waits are those of the seed.
    pub(crate) ends: Option<u64>,
}

/// What the caller gets: the attempt that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Back {
    Ok(u32),
    Err(u32),
    /// No attempt returned an error.
    NoError,
}

/// What a driver made of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trail {
    pub(crate) attempts: u32,
    pub(crate) waits: Vec<(Duration, Source)>,
    pub(crate) reason: Reason,
    pub(crate) comes_back: Back,
    pub(crate) ends: Duration,
}

impl Script {
    /// Whether only a driver that can cut an attempt off can run it.
    pub(crate) fn needs_preemption(&self) -> bool {
        let mut now = 0;
        for (index, step) in self.attempts.iter().enumerate() {
            let (Some(takes), limit) = (step.takes, self.limit_of_attempts()) else { return true };
            if limit.is_some_and(|limit| takes > limit) {
                return true;
            }
            let ended = now + takes;
            if self.cancelled_at.is_some_and(|at| now < at && at < ended) {
                return true;
            }
            let wait = self.expected.waits.and_then(|waits| waits.get(index)).map_or(0, |(wait, _)| *wait);
            now = ended + wait;
        }
        false
    }

    /// Whether an `Ok` is a failure somewhere, which only a driver that looks at results sees.
    pub(crate) fn judges_results(&self) -> bool {
        self.attempts.iter().any(|step| step.ok && step.outcome.class != Class::Success)
    }

    /// Whether it says more than a policy can, so that a driver needs options.
    pub(crate) fn has_options(&self) -> bool {
        self.idempotent.is_some() || self.cancelled_at.is_some()
    }

    fn limit_of_attempts(&self) -> Option<u64> {
        let policy = self.policy.clone().build().unwrap();
        let limit = [policy.attempt_timeout(), policy.deadline().map(|deadline| deadline.usable())];
        limit.into_iter().flatten().min().map(|limit| limit.as_millis() as u64)
    }

    /// Compares what a driver made of it with what is expected; `to_the_millisecond` where its timer knows no less.
    pub(crate) fn check(&self, driver: &str, trail: &Trail, to_the_millisecond: bool) {
        let (name, raw) = (self.name, self.run_raw());
        let Expected { attempts, waits, reason, comes_back, ends } = &self.expected;
        assert_eq!(trail.attempts, *attempts, "{driver}: attempts of \"{name}\"");
        assert_eq!(trail.reason, *reason, "{driver}: reason of \"{name}\"");
        assert_eq!(trail.comes_back, *comes_back, "{driver}: what \"{name}\" returns");
        let expected = waits.map_or(raw.waits, |waits| {
            waits.iter().map(|(wait, source)| (Duration::from_millis(*wait), *source)).collect()
        });
        assert_eq!(trail.waits, expected, "{driver}: waits of \"{name}\"");
        if !to_the_millisecond || ends.is_some() {
            let ends = ends.map_or(raw.ends, Duration::from_millis);
            assert_eq!(trail.ends, ends, "{driver}: end of \"{name}\"");
        }
    }

    /// What the core alone makes of it, in virtual time, with attempts that can be cut off.
    pub(crate) fn run_raw(&self) -> Trail {
        let policy = self.policy.clone().build().unwrap();
        let start = Timestamp::from_nanos(77);
        let cancelled = self.cancelled_at.map(|at| start.plus(Duration::from_millis(at)));
        let mut call = Call::new(Some(start));
        let (mut made, mut last) = (0, NoError);
        let (mut now, mut waits) = (start, vec![]);
        let luck = |attempt: u32| entropy(policy.seed().unwrap_or(0), 0, attempt);

        let mut next = match cancelled {
            Some(at) if now >= at => Start::Stop { reason: Cancelled },
            _ => call.start(&policy, &mut Alone, Moment::at(now, luck(0))),
        };
        let (reason, comes_back) = loop {
            while let Start::Wait { after, .. } = next {
                let over = now.plus(after);
                now = cancelled.map_or(over, |at| at.min(over));
                next = match cancelled {
                    Some(at) if now >= at => Start::Stop { reason: Cancelled },
                    _ => call.admit(&policy, &mut Alone, Moment::at(now, 0)),
                };
            }
            if let Start::Stop { reason } = next {
                break (reason, last);
            }
            made += 1;
            let step = self.step(made);
            let done = step.takes.map(|takes| now.plus(Duration::from_millis(takes)));
            let cut = call.attempt_limit(&policy, now).map(|limit| now.plus(limit));
            let ends = [done, cut, cancelled].into_iter().flatten().min().expect("nothing ends the attempt");
            now = ends;
            let outcome = match ends {
                _ if Some(ends) == done => {
                    last = if step.ok { last } else { Error(made) };
                    // An error at the very moment of the cancellation is no failure.
                    let cancelled = !step.ok && cancelled.is_some_and(|at| now >= at);
                    self.outcome(if cancelled { Outcome::of(Class::Cancelled) } else { step.outcome })
                }
                _ if Some(ends) == cancelled => Outcome::of(Class::Cancelled),
                _ => self.outcome(Outcome::of(Class::Timeout)),
            };
            match call.decide(&policy, &mut Alone, outcome, Moment::at(now, luck(call.attempts() + 1))) {
                Decision::Retry { after, source } => {
                    waits.push((after, source));
                    next = Start::Wait { after, source };
                }
                Decision::Stop { reason, .. } => {
                    let returned_ok = Some(ends) == done && step.ok;
                    break (reason, if returned_ok { Value(made) } else { last });
                }
            }
        };
        Trail { attempts: call.attempts(), waits, reason, comes_back, ends: now.since(start) }
    }

    /// What the attempt does that is made as number `made`, whatever the call counts since a time of health.
    pub(crate) fn step(&self, made: u32) -> Step {
        let steps = &self.attempts;
        *steps.get(made as usize - 1).unwrap_or_else(|| panic!("\"{}\" has no attempt {made}", self.name))
    }

    /// An attempt's outcome, with what the caller and the policy say about repeating it.
    fn outcome(&self, outcome: Outcome) -> Outcome {
        let policy = self.policy.clone().build().unwrap();
        let safe = self.idempotent.unwrap_or(!policy.requires_idempotency());
        let repeat = if safe { Repeat::Safe } else { Repeat::NotIdempotent };
        Outcome { repeat: outcome.repeat.max(repeat), ..outcome }
    }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// 100 ms, doubling, without jitter.
fn doubling() -> PolicyBuilder {
    Policy::exponential(ms(100)).jitter(Jitter::None)
}

fn jittered(jitter: Jitter) -> PolicyBuilder {
    Policy::exponential(ms(100)).jitter(jitter).max_attempts(6).seed(42)
}

fn hinted(edit: impl FnOnce(HintPolicy) -> HintPolicy) -> PolicyBuilder {
    doubling().hint(edit(HintPolicy::DEFAULT.spread(0.0)))
}

fn ok() -> Step {
    Step { takes: Some(0), ok: true, outcome: Outcome::of(Class::Success) }
}

/// An `Ok` that is a failure all the same, such as a response with status 503.
fn unwell(outcome: impl Into<Outcome>) -> Step {
    Step { outcome: outcome.into(), ..ok() }
}

fn fails(outcome: impl Into<Outcome>) -> Step {
    Step { takes: Some(0), ok: false, outcome: outcome.into() }
}

fn slow() -> Step {
    fails(Class::Transient)
}

fn hangs() -> Step {
    Step { takes: None, ..slow() }
}

fn asks(wait: Duration) -> Step {
    fails(Outcome::of(Class::Throttled).hint(Hint::After(wait)))
}

impl Script {
    /// A row of which nothing is known but what the raw core makes of it.
    pub(crate) fn unexpected(policy: PolicyBuilder, steps: Vec<Step>, cancelled_at: Option<u64>) -> Self {
        Self { cancelled_at, ..seeded("any", policy, steps, 0, Succeeded, NoError) }
    }
}

impl Step {
    fn takes(self, millis: u64) -> Self {
        Self { takes: Some(millis), ..self }
    }
}

/// A row: its policy, its attempts; how many are made, the waits, the reason, what comes back, when it ends.
#[allow(clippy::too_many_arguments)]
fn row(
    name: &'static str,
    policy: PolicyBuilder,
    steps: impl IntoIterator<Item = Step>,
    attempts: u32,
    waits: &'static [(u64, Source)],
    reason: Reason,
    comes_back: Back,
    ends: u64,
) -> Script {
    let expected = Expected { attempts, waits: Some(waits), reason, comes_back, ends: Some(ends) };
    let attempts = steps.into_iter().collect();
    Script { name, policy, attempts, idempotent: None, cancelled_at: None, expected }
}

/// A row whose waits are those of the policy's seed.
fn seeded(
    name: &'static str,
    policy: PolicyBuilder,
    steps: impl IntoIterator<Item = Step>,
    attempts: u32,
    reason: Reason,
    comes_back: Back,
) -> Script {
    let mut script = row(name, policy, steps, attempts, &[], reason, comes_back, 0);
    (script.expected.waits, script.expected.ends) = (None, None);
    script
}

impl Script {
    fn idempotent(self, idempotent: bool) -> Self {
        Self { idempotent: Some(idempotent), ..self }
    }

    fn cancelled_at(self, millis: u64) -> Self {
        Self { cancelled_at: Some(millis), ..self }
    }
}

/// The table.
pub(crate) fn scripts() -> Vec<Script> {
    [
        successes(),
        limits(),
        hints(),
        deadlines(),
        rules(),
        safety(),
        cancellations(),
        results(),
        schedules(),
        chance(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

use Back::{Err as Error, NoError, Ok as Value};
use Reason::{
    AttemptsExhausted, BodyNotReplayable, Cancelled, DeadlinePassed, DeadlineWouldPass, HintOverMax,
    NotIdempotent, NotRetryable, PushbackStop, Succeeded,
};
use Source::{Hint as Hinted, Pushback, Schedule as Planned};

#[rustfmt::skip]
fn successes() -> Vec<Script> {
    let health = || doubling().reset_after(ms(60_000));
    let healthy = fails(Outcome::of(Class::Transient).healthy_for(ms(60_000)));
    let unhealthy = fails(Outcome::of(Class::Transient).healthy_for(ms(59_999)));
    vec![
        row("success at once", doubling(), [ok()], 1, &[], Succeeded, Value(1), 0),
        row("success after a while", doubling(), [ok().takes(30)], 1, &[], Succeeded, Value(1), 30),
        row("success at the second", doubling(), [slow(), ok()], 2, &[(100, Planned)], Succeeded, Value(2), 100),
        row("success at the last", doubling(), [slow(), slow().takes(5), slow(), ok().takes(7)],
            4, &[(100, Planned), (200, Planned), (400, Planned)], Succeeded, Value(4), 712),
        row("success with a deadline", doubling().deadline(ms(1000)), [slow(), ok()],
            2, &[(100, Planned)], Succeeded, Value(2), 100),
        row("a success is one, whatever else it says", doubling(), [unwell(Outcome::of(Class::Success).hint(Hint::Stop))],
            1, &[], Succeeded, Value(1), 0),
        // F17: the schedule begins anew after a time of health, and only then.
        row("health begins a new series", health(), [slow(), slow(), healthy, ok()],
            2, &[(100, Planned), (200, Planned), (100, Planned)], Succeeded, Value(4), 400),
        row("too short a health does not", health(), [slow(), unhealthy, slow(), slow()],
            4, &[(100, Planned), (200, Planned), (400, Planned)], AttemptsExhausted, Error(4), 700),
    ]
}

#[rustfmt::skip]
fn limits() -> Vec<Script> {
    vec![
        row("exhausted", doubling(), [slow(); 4],
            4, &[(100, Planned), (200, Planned), (400, Planned)], AttemptsExhausted, Error(4), 700),
        row("one attempt", doubling().max_attempts(1), [slow()], 1, &[], AttemptsExhausted, Error(1), 0),
        row("no waits", Policy::constant(ms(0)), [slow(); 4],
            4, &[(0, Planned); 3], AttemptsExhausted, Error(4), 0),
        row("unlimited", Policy::constant(ms(10)).jitter(Jitter::None).unlimited_attempts(),
            [[slow(); 11].as_slice(), &[ok()]].concat(), 12, &[(10, Planned); 11], Succeeded, Value(12), 110),
        row("permanent at once", doubling(), [fails(Class::Permanent)], 1, &[], NotRetryable, Error(1), 0),
        row("permanent later", doubling(), [slow(), fails(Class::Permanent)],
            2, &[(100, Planned)], NotRetryable, Error(2), 100),
        row("ignored", doubling(), [fails(Class::Ignored)], 1, &[], NotRetryable, Error(1), 0),
        row("only what is retried", doubling().retry_on([Class::Throttled]),
            [fails(Class::Throttled), slow()], 2, &[(100, Planned)], NotRetryable, Error(2), 100),
        row("an error that is a success", doubling(), [fails(Class::Success)], 1, &[], Succeeded, Error(1), 0),
    ]
}

#[rustfmt::skip]
fn hints() -> Vec<Script> {
    let stop = fails(Outcome::of(Class::Transient).hint(Hint::Stop));
    let push = fails(Outcome::of(Class::Throttled).hint(Hint::Pushback(ms(700))));
    let early = |policy: HintPolicy| policy.max(ms(400));
    vec![
        row("a longer hint", hinted(|hints| hints), [asks(ms(500)), ok()], 2, &[(500, Hinted)], Succeeded, Value(2), 500),
        row("a shorter hint", hinted(|hints| hints), [asks(ms(50)), ok()], 2, &[(100, Planned)], Succeeded, Value(2), 100),
        row("an exact hint", hinted(|hints| hints.mode(HintMode::Exact)), [slow(), asks(ms(50)), ok()],
            3, &[(100, Planned), (50, Hinted)], Succeeded, Value(3), 150),
        row("a clamped hint", hinted(|hints| hints.mode(HintMode::Clamp(ms(150)))), [asks(ms(900)), asks(ms(210)), ok()],
            3, &[(250, Hinted), (210, Hinted)], Succeeded, Value(3), 460),
        row("hints ignored", hinted(|hints| hints.mode(HintMode::Ignore)), [asks(ms(90_000)), ok()],
            2, &[(100, Planned)], Succeeded, Value(2), 100),
        // F11, F12: never earlier than asked, and the reason says why.
        row("a hint over the maximum", hinted(early), [slow(), asks(ms(401))],
            2, &[(100, Planned)], HintOverMax, Error(2), 100),
        row("a hint at the maximum", hinted(early), [asks(ms(400)), ok()], 2, &[(400, Hinted)], Succeeded, Value(2), 400),
        row("a hint without end", hinted(|hints| hints), [asks(Duration::MAX)], 1, &[], HintOverMax, Error(1), 0),
        row("a hint over the maximum, clamped", hinted(|hints| early(hints).over_max(OverMax::Clamp)),
            [asks(Duration::MAX), ok()], 2, &[(400, Hinted)], Succeeded, Value(2), 400),
        row("a hint over the maximum, ignored", hinted(|hints| early(hints).over_max(OverMax::Ignore)),
            [asks(ms(401)), ok()], 2, &[(100, Planned)], Succeeded, Value(2), 100),
        row("a hint past the deadline", hinted(|hints| hints).deadline(ms(2000)), [asks(ms(2000))],
            1, &[], DeadlineWouldPass, Error(1), 0),
        row("a pushback", doubling(), [slow(), push, slow(), ok()],
            4, &[(100, Planned), (700, Pushback), (100, Planned)], Succeeded, Value(4), 900),
        row("a pushback that stops", doubling(), [slow(), stop], 2, &[(100, Planned)], PushbackStop, Error(2), 100),
    ]
}

#[rustfmt::skip]
fn deadlines() -> Vec<Script> {
    let secs = |deadline: u64| Policy::exponential(ms(2000)).jitter(Jitter::None).deadline(ms(deadline));
    let fit = |deadline: u64| secs(deadline).on_deadline(OnDeadline::Fit);
    let reserved = Deadline { total: ms(12_000), reserve: ms(6_000) };
    let timed = |timeout: u64| doubling().attempt_timeout(ms(timeout));
    let choosy = || timed(200).deadline(ms(150)).retry_on(Classes::from([Class::Transient]));
    vec![
        // F13: the next would start at 14 s.
        row("the deadline would pass", secs(10_000), [slow(); 3],
            3, &[(2000, Planned), (4000, Planned)], DeadlineWouldPass, Error(3), 6000),
        row("an attempt due at the deadline is not started", secs(6000), [slow(); 2],
            2, &[(2000, Planned)], DeadlineWouldPass, Error(2), 2000),
        row("an attempt due just before it is", secs(6001), [slow(), slow(), ok()],
            3, &[(2000, Planned), (4000, Planned)], Succeeded, Value(3), 6000),
        row("the reserve is kept", secs(1).deadline(reserved), [slow(); 2],
            2, &[(2000, Planned)], DeadlineWouldPass, Error(2), 2000),
        row("attempts take time, too", secs(10_000), [slow().takes(1500), slow().takes(2500)],
            2, &[(2000, Planned)], DeadlineWouldPass, Error(2), 6000),
        row("a wait that fits", fit(10_000).max_attempts(5), [slow(), slow(), slow(), slow(), ok()],
            5, &[(2000, Planned), (4000, Planned), (2000, Planned), (1000, Planned)], Succeeded, Value(5), 9000),
        row("a hint never is fitted", fit(10_000), [asks(ms(10_000))], 1, &[], DeadlineWouldPass, Error(1), 0),
        // F15: the deadline is the whole call's.
        row("an attempt hangs into the deadline", doubling().deadline(ms(2000)), [hangs()],
            1, &[], DeadlinePassed, NoError, 2000),
        row("a later attempt hangs into the deadline", doubling().deadline(ms(2000)), [slow().takes(100), hangs()],
            2, &[(100, Planned)], DeadlinePassed, Error(1), 2000),
        row("the last attempt hangs into the deadline", doubling().deadline(ms(2000)).max_attempts(1), [hangs()],
            1, &[], DeadlinePassed, NoError, 2000),
        row("an unsafe call hangs into the deadline", doubling().deadline(ms(2000)), [hangs()],
            1, &[], DeadlinePassed, NoError, 2000).idempotent(false),
        row("the deadline comes before a timeout that is not retried", choosy(), [hangs()],
            1, &[], DeadlinePassed, NoError, 150),
        // F25: a timeout of the attempt's own is retried, and is no deadline.
        row("an attempt times out", timed(200).deadline(ms(5000)), [hangs(), ok().takes(150)],
            2, &[(100, Planned)], Succeeded, Value(2), 450),
        row("attempts time out until there are no more", timed(200), [hangs(), slow().takes(201), hangs(), hangs()],
            4, &[(100, Planned), (200, Planned), (400, Planned)], AttemptsExhausted, NoError, 1500),
        row("a timeout is not safe to repeat", timed(200), [hangs()], 1, &[], NotIdempotent, NoError, 200)
            .idempotent(false),
        row("a timeout keeps an earlier error", timed(200).max_attempts(2), [slow(), hangs()],
            2, &[(100, Planned)], AttemptsExhausted, Error(1), 300),
        row("done at the timeout counts as done", timed(200), [ok().takes(200)], 1, &[], Succeeded, Value(1), 200),
        row("deadline and timeout at once: the deadline", timed(200).deadline(ms(200)), [hangs()],
            1, &[], DeadlinePassed, NoError, 200),
    ]
}

#[rustfmt::skip]
fn rules() -> Vec<Script> {
    let busy = fails(Class::Throttled);
    let named = |rule| fails(Outcome::of(Class::Transient).rule(RuleId(rule)));
    let flat = |wait| Backoff::new(Schedule::Constant { initial: ms(wait) }).jitter(Jitter::None);
    let own = || doubling().max_attempts(9).rule(Rule::on(Class::Throttled).max_attempts(3).backoff(flat(50)));
    let all = Backoff::new(Schedule::exponential(ms(10))).jitter(Jitter::None);
    let all = || doubling().rule(Rule::on(Class::Throttled).backoff(all.clone()).count(Count::All));
    vec![
        row("a rule's backoff and limit", own(), [busy, slow(), busy, busy],
            4, &[(50, Planned), (200, Planned), (50, Planned)], AttemptsExhausted, Error(4), 300),
        row("a rule that counts all", all(), [slow(), busy, ok()],
            3, &[(100, Planned), (20, Planned)], Succeeded, Value(3), 120),
        row("a named rule", doubling().rule(Rule::named().max_attempts(1)), [slow(), named(0)],
            2, &[(100, Planned)], AttemptsExhausted, Error(2), 100),
        row("a rule that is not there", doubling(), [named(3), ok()], 2, &[(100, Planned)], Succeeded, Value(2), 100),
    ]
}

#[rustfmt::skip]
fn safety() -> Vec<Script> {
    let not_sent = fails(Class::NotSent);
    let consumed = fails(Outcome::of(Class::Transient).repeat(Repeat::BodyNotReplayable));
    let strict = || doubling().require_idempotency(true);
    vec![
        row("not sent is safe", doubling(), [not_sent, ok()], 2, &[(100, Planned)], Succeeded, Value(2), 100)
            .idempotent(false),
        row("sent is not", doubling(), [not_sent, slow()], 2, &[(100, Planned)], NotIdempotent, Error(2), 100)
            .idempotent(false),
        row("a strict policy wants to know", strict(), [slow()], 1, &[], NotIdempotent, Error(1), 0),
        row("a strict policy repeats what was not sent", strict(), [not_sent, ok()],
            2, &[(100, Planned)], Succeeded, Value(2), 100),
        row("a strict policy that was told", strict(), [slow(), ok()], 2, &[(100, Planned)], Succeeded, Value(2), 100)
            .idempotent(true),
        // F19: decided before the first wait.
        row("a body that is gone", doubling(), [consumed], 1, &[], BodyNotReplayable, Error(1), 0),
    ]
}

#[rustfmt::skip]
fn cancellations() -> Vec<Script> {
    vec![
        row("cancelled before it began", doubling(), [], 0, &[], Cancelled, NoError, 0).cancelled_at(0),
        row("cancelled before it began, with a spread", doubling().initial_spread(ms(900)).seed(1), [],
            0, &[], Cancelled, NoError, 0).cancelled_at(0),
        // F16, F14: not retried, at once, with the last error.
        row("cancelled in a wait", doubling(), [slow(), slow()],
            2, &[(100, Planned), (200, Planned)], Cancelled, Error(2), 150).cancelled_at(150),
        row("cancelled in the first attempt", doubling(), [hangs()], 1, &[], Cancelled, NoError, 50).cancelled_at(50),
        row("cancelled in a later attempt", doubling(), [slow(), ok().takes(100)],
            2, &[(100, Planned)], Cancelled, Error(1), 150).cancelled_at(150),
        row("cancelled too late", doubling(), [slow(), ok()], 2, &[(100, Planned)], Succeeded, Value(2), 100)
            .cancelled_at(101),
        row("an attempt that was cancelled from elsewhere", doubling(), [slow(), fails(Class::Cancelled)],
            2, &[(100, Planned)], Cancelled, Error(2), 100),
    ]
}

#[rustfmt::skip]
fn results() -> Vec<Script> {
    let busy = unwell(Class::Transient);
    vec![
        row("an unwell result is tried again", doubling(), [busy, ok()],
            2, &[(100, Planned)], Succeeded, Value(2), 100),
        row("the last unwell result comes back", doubling().max_attempts(2), [busy, busy],
            2, &[(100, Planned)], AttemptsExhausted, Value(2), 100),
        row("an unwell result that no try helps comes back", doubling(), [unwell(Class::Permanent)],
            1, &[], NotRetryable, Value(1), 0),
        row("an unwell result is not kept for a cancelled wait", doubling(), [slow(), busy],
            2, &[(100, Planned), (200, Planned)], Cancelled, Error(1), 150).cancelled_at(150),
        row("an unwell result whose hint is too long comes back", doubling(),
            [unwell(Outcome::of(Class::Throttled).hint(Hint::After(Duration::MAX)))], 1, &[], HintOverMax, Value(1), 0),
    ]
}

#[rustfmt::skip]
fn schedules() -> Vec<Script> {
    let every = |initial, until| Stage { initial: ms(initial), until, multiplier: Multiplier::new(1.0).unwrap() };
    let stages = [every(100, Some(ms(250))), every(1000, None)];
    let plain = |policy: PolicyBuilder| policy.jitter(Jitter::None);
    vec![
        row("linear", plain(Policy::linear(ms(10), ms(5))), [slow(); 4],
            4, &[(10, Planned), (15, Planned), (20, Planned)], AttemptsExhausted, Error(4), 45),
        row("fibonacci", plain(Policy::fibonacci(ms(10))).max_attempts(5), [slow(); 5],
            5, &[(10, Planned), (10, Planned), (20, Planned), (30, Planned)], AttemptsExhausted, Error(5), 70),
        row("list", plain(Policy::list([ms(7), ms(9)])), [slow(); 4],
            4, &[(7, Planned), (9, Planned), (9, Planned)], AttemptsExhausted, Error(4), 25),
        row("stages by the clock", plain(Policy::stages(stages)).max_attempts(5), [slow(); 5],
            5, &[(100, Planned), (100, Planned), (100, Planned), (1000, Planned)], AttemptsExhausted, Error(5), 1300),
        row("capped", plain(Policy::exponential(ms(100))).cap(ms(150)), [slow(); 4],
            4, &[(100, Planned), (150, Planned), (150, Planned)], AttemptsExhausted, Error(4), 400),
        row("first at once", plain(Policy::exponential(ms(100))).first(First::Immediate), [slow(); 4],
            4, &[(0, Planned), (100, Planned), (200, Planned)], AttemptsExhausted, Error(4), 300),
    ]
}

fn chance() -> Vec<Script> {
    let all = |name, jitter| seeded(name, jittered(jitter), [slow(); 6], 6, AttemptsExhausted, Error(6));
    let spread = doubling().initial_spread(ms(5000)).seed(7);
    let short = spread.clone().deadline(ms(1000));
    let hints = doubling().seed(9);
    let loose = jittered(Jitter::Proportional { factor: 0.2 }).cap(ms(150)).bound(Bound::Loose);
    let csma = Policy::csma(ms(10)).max_attempts(6).seed(3);
    vec![
        all("full jitter", Jitter::Full),
        all("equal jitter", Jitter::Equal),
        all("proportional jitter", Jitter::Proportional { factor: 0.3 }),
        all("additive jitter", Jitter::Additive { max: ms(40) }),
        all("decorrelated jitter", Jitter::Decorrelated),
        all("decorrelated jitter, smooth", Jitter::DecorrelatedV2),
        seeded("a loose cap", loose, [slow(); 6], 6, AttemptsExhausted, Error(6)),
        seeded("slots", csma, [slow(); 6], 6, AttemptsExhausted, Error(6)),
        seeded("a spread hint", hints, [asks(ms(900)), asks(ms(900)), ok()], 3, Succeeded, Value(3)),
        seeded("a spread before the first attempt", spread, [slow(), ok()], 2, Succeeded, Value(2)),
        seeded("a spread that leaves time for an attempt", short, [ok()], 1, Succeeded, Value(1)),
    ]
}
