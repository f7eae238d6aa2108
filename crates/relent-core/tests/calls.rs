//! Whole calls, in virtual time, over any policy, any outcomes and any answers of what calls share.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

mod strategies;

use std::time::Duration;

use proptest::prelude::*;
use relent_core::{
    Backoff, Bound, Call, Class, Classes, Decision, Hint, HintMode, Moment, Outcome, OverMax, Policy, Reason,
    Repeat, Rule, Shared, Source, Start, Timestamp, entropy,
};
use strategies::{class, duration, failure, outcome, policy};

/// What a call asked its shared state.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Settle(Class),
    Admit,
    ReadyAt,
    Withdraw,
}

/// Shared state that answers as it was told and remembers what it was asked.
#[derive(Clone, Debug, Default)]
struct Recorder {
    asked: Vec<Asked>,
    ready: Option<Timestamp>,
    refusal: Option<Reason>,
}

impl Shared for Recorder {
    fn settle(&mut self, outcome: &Outcome, _now: Option<Timestamp>) {
        self.asked.push(Asked::Settle(outcome.class));
    }

    fn admit(&mut self, _moment: Moment) -> Start {
        self.asked.push(Asked::Admit);
        Start::Go
    }

    fn ready_at(&mut self, _now: Option<Timestamp>) -> Option<Timestamp> {
        self.asked.push(Asked::ReadyAt);
        self.ready
    }

    fn withdraw(&mut self, _outcome: &Outcome, _now: Option<Timestamp>) -> Result<(), Reason> {
        self.asked.push(Asked::Withdraw);
        self.refusal.map_or(Ok(()), Err)
    }
}

/// How one attempt goes: how long it takes, how it ends, and what the shared state then says.
#[derive(Clone, Debug)]
struct Scripted {
    takes: Duration,
    outcome: Outcome,
    ready: Option<Timestamp>,
    refusal: Option<Reason>,
}

fn scripted(classes: BoxedStrategy<Class>) -> BoxedStrategy<Scripted> {
    let ready = proptest::option::weighted(0.2, duration().prop_map(Timestamp::from_duration));
    let reasons = vec![Reason::BudgetExhausted, Reason::RateLimited, Reason::BulkheadFull];
    let refusal = proptest::option::weighted(0.1, prop::sample::select(reasons));
    (duration(), outcome(classes), ready, refusal)
        .prop_map(|(takes, outcome, ready, refusal)| Scripted { takes, outcome, ready, refusal })
        .boxed()
}

fn script() -> BoxedStrategy<Vec<Scripted>> {
    // Mostly failures, so that calls last.
    prop::collection::vec(prop_oneof![5 => scripted(failure()), 1 => scripted(class())], 1..20).boxed()
}

/// One step of a call: the moment at which the attempt ended, its script and the decision.
struct Step {
    now: Timestamp,
    scripted: Scripted,
    decision: Decision,
    asked: Vec<Asked>,
    /// When the call must have ended, as seen after the decision.
    ends: Option<Timestamp>,
    attempts: u32,
}

/// The call, as far as the script goes.
fn run(policy: &Policy, script: &[Scripted], seed: u64, timed: bool) -> Vec<Step> {
    let mut now = Timestamp::from_nanos(1);
    let mut call = Call::new(timed.then_some(now));
    let mut steps = vec![];
    for (scripted, n) in script.iter().zip(1..) {
        now = now.plus(scripted.takes);
        let moment = Moment { now: timed.then_some(now), entropy: entropy(seed, 0, n) };
        let mut shared = Recorder { asked: vec![], ready: scripted.ready, refusal: scripted.refusal };
        let decision = call.decide(policy, &mut shared, scripted.outcome, moment);
        // Every call survives being stored.
        assert_eq!(Call::from_bytes(call.to_bytes()), call);
        let (ends, attempts) = (call.ends(policy), call.attempts());
        steps.push(Step { now, scripted: scripted.clone(), decision, asked: shared.asked, ends, attempts });
        match decision {
            Decision::Retry { after, .. } => now = now.plus(after),
            Decision::Stop { .. } => break,
        }
    }
    steps
}

/// The longest scheduled wait of a policy, if all of its backoffs keep to their caps.
fn longest(policy: &Policy) -> Option<Duration> {
    let backoffs = policy.rules().iter().filter_map(Rule::own_backoff).chain([policy.backoff()]);
    let caps: Option<Vec<Duration>> = backoffs
        .map(|backoff: &Backoff| backoff.longest().filter(|_| backoff.bound_used() != Bound::Loose))
        .collect();
    caps?.into_iter().max()
}

proptest! {
    #![proptest_config(strategies::config(250))]

    #[test]
    fn no_attempt_starts_at_or_after_the_deadline(policy in policy(), script in script(), seed in any::<u64>()) {
        for step in run(&policy, &script, seed, true) {
            let Some(ends) = step.ends else { continue };
            match step.decision {
                Decision::Retry { after, .. } => {
                    prop_assert!(step.now.plus(after) < ends);
                }
                Decision::Stop { reason: Reason::DeadlinePassed, .. } => prop_assert!(step.now >= ends),
                Decision::Stop { reason: Reason::DeadlineWouldPass, .. } => prop_assert!(step.now < ends),
                Decision::Stop { .. } => {}
            }
        }
    }

    #[test]
    fn there_are_no_more_attempts_than_allowed(
        policy in policy(),
        script in script(),
        seed in any::<u64>(),
        timed in any::<bool>(),
    ) {
        for step in run(&policy, &script, seed, timed) {
            if let (Decision::Retry { .. }, Some(most)) = (step.decision, policy.max_attempts()) {
                prop_assert!(step.attempts < most);
            }
        }
    }

    /// The outcome is settled once and first; the budget is asked last, and only for a retry that will happen.
    #[test]
    fn shared_state_is_asked_in_order(
        policy in policy(),
        script in script(),
        seed in any::<u64>(),
        timed in any::<bool>(),
    ) {
        for step in run(&policy, &script, seed, timed) {
            let settle = Asked::Settle(step.scripted.outcome.class);
            let ready = &[settle, Asked::ReadyAt][..];
            let withdrawn = [ready, &[Asked::Withdraw]].concat();
            let opens = step.scripted.ready;
            match step.decision {
                Decision::Retry { after, .. } => {
                    prop_assert_eq!(step.asked, withdrawn);
                    prop_assert_eq!(step.scripted.refusal, None);
                    prop_assert!(!timed || opens.is_none_or(|opens| step.now.plus(after) >= opens));
                }
                Decision::Stop { reason: Reason::CircuitOpen, .. } => {
                    prop_assert_eq!(&step.asked[..], ready);
                    prop_assert!(opens.is_some());
                }
                Decision::Stop {
                    reason: reason @ (Reason::BudgetExhausted | Reason::RateLimited | Reason::BulkheadFull), ..
                } => {
                    prop_assert_eq!(step.asked, withdrawn);
                    prop_assert_eq!(step.scripted.refusal, Some(reason));
                }
                Decision::Stop { .. } => prop_assert_eq!(step.asked, [settle]),
            }
        }
    }

    #[test]
    fn only_what_helps_and_is_safe_is_retried(policy in policy(), script in script(), seed in any::<u64>()) {
        for step in run(&policy, &script, seed, false) {
            let Outcome { class, repeat, hint, .. } = step.scripted.outcome;
            let reason = match step.decision {
                Decision::Retry { .. } => None,
                Decision::Stop { reason, .. } => Some(reason),
            };
            match class {
                Class::Success => prop_assert_eq!(reason, Some(Reason::Succeeded)),
                Class::Cancelled => prop_assert_eq!(reason, Some(Reason::Cancelled)),
                _ if !Classes::RETRYABLE.contains(class) => prop_assert_eq!(reason, Some(Reason::NotRetryable)),
                _ if repeat == Repeat::BodyNotReplayable => {
                    prop_assert_eq!(reason, Some(Reason::BodyNotReplayable));
                }
                Class::NotSent => prop_assert!(reason != Some(Reason::NotIdempotent)),
                _ if repeat == Repeat::NotIdempotent => prop_assert_eq!(reason, Some(Reason::NotIdempotent)),
                _ => prop_assert!(reason.is_some() || hint != Some(Hint::Stop)),
            }
        }
    }

    #[test]
    fn scheduled_waits_keep_to_the_caps_and_hinted_ones_to_the_hint(
        policy in policy(),
        script in script(),
        seed in any::<u64>(),
        timed in any::<bool>(),
    ) {
        let hints = policy.hint();
        for step in run(&policy, &script, seed, timed) {
            let Decision::Retry { after, source } = step.decision else { continue };
            if let (Source::Schedule, Some(cap)) = (source, longest(&policy)) {
                prop_assert!(after <= cap, "{after:?} > {cap:?}");
            }
            // All is counted in 64 bits of nanoseconds.
            let end_of_time = Duration::from_nanos(u64::MAX);
            let obeyed = |asked: Duration| {
                let asked = asked.min(end_of_time);
                match hints.over_max_used() {
                    _ if asked <= hints.max_wait() => Some(asked),
                    OverMax::Clamp => Some(hints.max_wait()),
                    OverMax::Abort | OverMax::Ignore => None,
                }
            };
            match (step.scripted.outcome.hint, hints.mode_used()) {
                (Some(Hint::Stop), _) => prop_assert!(false, "retried after a stop"),
                (None, _) | (_, HintMode::Ignore) => prop_assert_eq!(source, Source::Schedule),
                (Some(Hint::Pushback(asked)), _) => match obeyed(asked) {
                    Some(wait) => prop_assert_eq!((after, source), (wait, Source::Pushback)),
                    None => prop_assert_eq!(source, Source::Schedule),
                },
                (Some(Hint::After(asked)), mode) => match obeyed(asked) {
                    None => prop_assert_eq!(source, Source::Schedule),
                    Some(_) if mode != HintMode::Minimum && mode != HintMode::Exact => {}
                    Some(asked) => {
                        prop_assert!(after >= asked, "{after:?} is earlier than {asked:?}");
                        // No later than the spread allows; a rounding of both to the nanosecond aside.
                        let latest = asked.as_secs_f64() * (1.0 + hints.spread_fraction()) * (1.0 + 1e-12) + 2e-9;
                        prop_assert!(source == Source::Schedule || after.as_secs_f64() <= latest);
                        prop_assert!(mode == HintMode::Minimum || source == Source::Hint);
                    }
                },
            }
        }
    }

    #[test]
    fn the_same_seed_decides_the_same(
        policy in policy(),
        script in script(),
        seed in any::<u64>(),
        timed in any::<bool>(),
    ) {
        let decisions = || -> Vec<_> { run(&policy, &script, seed, timed).iter().map(|step| step.decision).collect() };
        prop_assert_eq!(decisions(), decisions());
    }

    /// Any bytes are a call that can be decided upon, again and again, and what is stored comes back.
    #[test]
    fn any_bytes_are_a_call(
        bytes in any::<[u8; 32]>(),
        policy in policy(),
        outcomes in prop::collection::vec((outcome(class()), any::<u64>(), any::<u64>()), 1..8),
    ) {
        let mut call = Call::from_bytes(bytes);
        for (outcome, now, entropy) in outcomes {
            let now = Timestamp::from_nanos(now);
            let stored = Call::from_bytes(call.to_bytes());
            prop_assert_eq!(stored, call);
            let mut resumed = stored;
            let moment = Moment::at(now, entropy);
            let (mut one, mut other) = (Recorder::default(), Recorder::default());
            let _ = call.start(&policy, &mut one, moment);
            let _ = (call.remaining(&policy, now), call.attempt_limit(&policy, now));
            let decision = call.decide(&policy, &mut one, outcome, moment);
            prop_assert_eq!(resumed.decide(&policy, &mut other, outcome, moment), decision);
            prop_assert_eq!(resumed, call);
        }
    }

    /// A first attempt waits for nothing but its spread, and not past the deadline.
    #[test]
    fn a_call_starts_at_once_or_after_its_spread(policy in policy(), entropy in any::<u64>(), late in duration()) {
        let began = Timestamp::from_nanos(1);
        let call = Call::new(Some(began));
        let now = began.plus(late);
        let mut shared = Recorder::default();
        match call.start(&policy, &mut shared, Moment::at(now, entropy)) {
            Start::Go => {
                prop_assert!(policy.backoff().spread_of_first().is_zero());
                prop_assert_eq!(shared.asked, [Asked::Admit]);
            }
            Start::Wait { after, source } => {
                prop_assert_eq!(source, Source::Spread);
                prop_assert!(after < policy.backoff().spread_of_first());
                prop_assert!(call.ends(&policy).is_none_or(|ends| now.plus(after) < ends));
                prop_assert_eq!(shared.asked, []);
            }
            Start::Stop { reason } => {
                prop_assert_eq!(reason, Reason::DeadlinePassed);
                prop_assert!(call.ends(&policy).is_some_and(|ends| now >= ends));
            }
        }
    }
}

/// A success is settled the same way by the short form.
#[test]
fn the_short_form_of_success_is_the_same() {
    let policy = Policy::default();
    let (mut one, mut other) = (Recorder::default(), Recorder::default());
    let (mut decided, mut succeeded) = (Call::new(None), Call::new(None));
    let decision = decided.decide(&policy, &mut one, Outcome::of(Class::Success), Moment::timeless(0));
    succeeded.succeed(&mut other, &|| None);
    assert_eq!(decision, Decision::Stop { reason: Reason::Succeeded, after: None });
    assert_eq!((decided, one.asked), (succeeded, other.asked));
}

#[test]
fn a_call_is_small_and_its_bytes_are_as_many() {
    assert!(size_of::<Call>() <= 32);
    assert_eq!(Call::new(None).to_bytes().len(), 32);
    for began in [None, Some(Timestamp::ZERO), Some(Timestamp::from_nanos(u64::MAX - 1))] {
        assert_eq!(Call::from_bytes(Call::new(began).to_bytes()).began(), began);
    }
}
