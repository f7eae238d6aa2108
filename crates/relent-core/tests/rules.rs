//! Rules: outcomes with a limit or a schedule of their own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

use std::time::Duration;

use relent_core::{
    Alone, Backoff, Call, Class, Count, Decision, Hint, Jitter, Moment, Outcome, Policy, PolicyBuilder,
    Reason, Repeat, Rule, RuleId, Schedule, Source,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn retry(seconds: u64) -> Decision {
    Decision::Retry { after: secs(seconds), source: Source::Schedule }
}

fn exhausted() -> Decision {
    Decision::Stop { reason: Reason::AttemptsExhausted, after: None }
}

/// 1, 2, 4 … s, unlimited.
fn doubling() -> PolicyBuilder {
    Policy::exponential(secs(1)).uncapped().jitter(Jitter::None).unlimited_attempts()
}

/// 10, 20, 40 … s.
fn slower() -> Backoff {
    Backoff::new(Schedule::exponential(secs(10))).uncapped().jitter(Jitter::None)
}

/// What each of these outcomes of one call leads to.
fn decisions(policy: &Policy, outcomes: &[Outcome]) -> Vec<Decision> {
    let mut call = Call::new(None);
    outcomes.iter().map(|outcome| call.decide(policy, &mut Alone, *outcome, Moment::timeless(0))).collect()
}

const SLOW: Outcome = Outcome::of(Class::Transient);
const BUSY: Outcome = Outcome::of(Class::Throttled);

#[test]
fn a_pushback_restarts_the_schedules_but_not_the_limits() {
    let pushed = BUSY.hint(Hint::Pushback(secs(5)));
    let pushback = Decision::Retry { after: secs(5), source: Source::Pushback };
    for count in [Count::Own, Count::All] {
        let rule = Rule::on(Class::Throttled).max_attempts(5).backoff(slower()).count(count);
        let policy = doubling().rule(rule).build().unwrap();
        assert_eq!(
            decisions(&policy, &[BUSY, BUSY, pushed, BUSY, BUSY]),
            [retry(10), retry(20), pushback, retry(10), exhausted()],
            "{count:?}"
        );
        assert_eq!(
            decisions(&policy, &[pushed; 5]),
            [pushback, pushback, pushback, pushback, exhausted()],
            "{count:?}"
        );
    }
    let policy = doubling().max_attempts(5).build().unwrap();
    assert_eq!(
        decisions(&policy, &[BUSY, BUSY, pushed, SLOW, SLOW]),
        [retry(1), retry(2), pushback, retry(1), exhausted()]
    );
}

fn stop(reason: Reason) -> Decision {
    Decision::Stop { reason, after: None }
}

const TIMED_OUT: Outcome = Outcome::of(Class::Timeout);
const UNSENT: Outcome = Outcome::of(Class::NotSent);

/// One script per line: the policy, how its attempts end, and what is decided after each.
#[test]
fn scripts() {
    let busy = Rule::on(Class::Throttled);
    let quota = Rule::named();
    let not_retryable = stop(Reason::NotRetryable);
    let scripts: Vec<(&str, PolicyBuilder, Vec<Outcome>, Vec<Decision>)> = vec![
        (
            "success ends it",
            doubling(),
            vec![SLOW, Outcome::of(Class::Success)],
            vec![retry(1), stop(Reason::Succeeded)],
        ),
        (
            "the policy's limit",
            doubling().max_attempts(3),
            vec![SLOW; 3],
            vec![retry(1), retry(2), exhausted()],
        ),
        ("permanent", doubling(), vec![Outcome::of(Class::Permanent)], vec![not_retryable]),
        ("ignored", doubling(), vec![Outcome::of(Class::Ignored)], vec![not_retryable]),
        ("cancelled", doubling(), vec![Outcome::of(Class::Cancelled)], vec![stop(Reason::Cancelled)]),
        (
            "only what is named is retried",
            doubling().retry_on([Class::Timeout]),
            vec![TIMED_OUT, SLOW],
            vec![retry(1), not_retryable],
        ),
        (
            "a rule's own schedule counts its own failures",
            doubling().rule(busy.clone().backoff(slower())),
            vec![SLOW, BUSY, SLOW, BUSY, SLOW],
            vec![retry(1), retry(10), retry(4), retry(20), retry(16)],
        ),
        (
            "or all of them",
            doubling().rule(busy.clone().backoff(slower()).count(Count::All)),
            vec![SLOW, BUSY, SLOW, BUSY, SLOW],
            vec![retry(1), retry(20), retry(4), retry(80), retry(16)],
        ),
        (
            "a rule without a backoff takes the policy's, which counts all",
            doubling().rule(busy.clone().max_attempts(9)),
            vec![SLOW, BUSY, BUSY],
            vec![retry(1), retry(2), retry(4)],
        ),
        (
            "a rule's limit counts its own failures",
            doubling().rule(busy.clone().max_attempts(2)),
            vec![SLOW, BUSY, SLOW, SLOW, BUSY],
            vec![retry(1), retry(2), retry(4), retry(8), exhausted()],
        ),
        (
            "the policy's limit holds beside the rule's",
            doubling().max_attempts(3).rule(busy.clone().max_attempts(9)),
            vec![BUSY; 3],
            vec![retry(1), retry(2), exhausted()],
        ),
        (
            "a limit of one is no retry",
            doubling().rule(busy.clone().max_attempts(1)),
            vec![BUSY],
            vec![exhausted()],
        ),
        (
            "the first matching rule decides, even when it is exhausted",
            doubling()
                .rule(busy.clone().max_attempts(2))
                .rule(Rule::on([Class::Throttled, Class::Timeout]).backoff(slower())),
            vec![BUSY, TIMED_OUT, BUSY],
            vec![retry(1), retry(10), exhausted()],
        ),
        (
            "a named rule goes before the first that lists the class",
            doubling().rule(busy.clone().max_attempts(1)).rule(quota.clone().backoff(slower())),
            vec![BUSY.rule(RuleId(1)), BUSY.rule(RuleId(1)), BUSY],
            vec![retry(10), retry(20), exhausted()],
        ),
        (
            "a rule that only a name meets is met by nothing else",
            doubling().rule(quota.clone().max_attempts(1)),
            vec![SLOW, BUSY, UNSENT, TIMED_OUT, BUSY.rule(RuleId(0))],
            vec![retry(1), retry(2), retry(4), retry(8), exhausted()],
        ),
        (
            "an unknown name is no name",
            doubling().rule(busy.clone().max_attempts(2)),
            vec![SLOW.rule(RuleId(1)), BUSY.rule(RuleId(255)), BUSY.rule(RuleId(1))],
            vec![retry(1), retry(2), exhausted()],
        ),
        (
            "a rule does not make retryable what is not",
            doubling().rule(Rule::on(Class::Permanent).backoff(slower())),
            vec![Outcome::of(Class::Permanent)],
            vec![not_retryable],
        ),
        (
            "what may not be repeated says so before any limit",
            doubling().max_attempts(1),
            vec![SLOW.repeat(Repeat::NotIdempotent)],
            vec![stop(Reason::NotIdempotent)],
        ),
        (
            "nothing was sent: a repeat is the first",
            doubling(),
            vec![UNSENT.repeat(Repeat::NotIdempotent), TIMED_OUT.repeat(Repeat::NotIdempotent)],
            vec![retry(1), stop(Reason::NotIdempotent)],
        ),
        (
            "a body that is gone is gone",
            doubling(),
            vec![UNSENT.repeat(Repeat::BodyNotReplayable)],
            vec![stop(Reason::BodyNotReplayable)],
        ),
        (
            "would it help comes before is it safe",
            doubling(),
            vec![Outcome::of(Class::Permanent).repeat(Repeat::NotIdempotent)],
            vec![not_retryable],
        ),
        (
            "the limit comes before the hint",
            doubling().max_attempts(1),
            vec![BUSY.hint(Hint::Stop)],
            vec![exhausted()],
        ),
        (
            "health begins the rules' counts anew",
            doubling().reset_after(secs(60)).rule(busy.clone().max_attempts(3).backoff(slower())),
            vec![BUSY, BUSY, BUSY.healthy_for(secs(60)), BUSY, BUSY],
            vec![retry(10), retry(20), retry(10), retry(20), exhausted()],
        ),
    ];
    for (name, policy, outcomes, expected) in scripts {
        assert_eq!(decisions(&policy.build().unwrap(), &outcomes), expected, "{name}");
    }
}

/// The counter of a rule is a byte: its schedule stays where it is after 255 failures, and the limit holds up to 254.
#[test]
fn long_calls_do_not_wrap_a_rules_counter() {
    let step = Duration::from_secs(1);
    let linear = Backoff::new(Schedule::Linear { initial: step, step }).uncapped().jitter(Jitter::None);
    let policy = doubling().rule(Rule::on(Class::Throttled).backoff(linear)).build().unwrap();
    let decided = decisions(&policy, &[BUSY; 1_000]);
    for (decision, n) in decided.into_iter().zip(1..) {
        assert_eq!(decision, retry(n.min(255)), "{n}");
    }
    let policy = doubling().cap(secs(1)).rule(Rule::on(Class::Throttled).max_attempts(254)).build().unwrap();
    let decided = decisions(&policy, &[BUSY; 254]);
    assert_eq!(decided.iter().position(|decision| *decision == exhausted()), Some(253));
}

/// A series of decorrelated waits begins anew when its owner changes.
#[test]
fn a_backoff_never_grows_from_what_another_waited() {
    let decorrelated = |initial, cap| {
        Backoff::new(Schedule::exponential(secs(initial))).jitter(Jitter::Decorrelated).cap(secs(cap))
    };
    let policy = Policy::constant(secs(1)).backoff(decorrelated(1_000, 9_000)).unlimited_attempts();
    let policy = policy.rule(Rule::on(Class::Throttled).backoff(decorrelated(1, 20))).build().unwrap();
    let mut call = Call::new(None);
    for (outcome, longest) in
        [(SLOW, 3_000), (SLOW, 9_000), (BUSY, 3), (BUSY, 9), (BUSY, 20), (BUSY, 20), (SLOW, 3_000), (BUSY, 3)]
    {
        let decided = call.decide(&policy, &mut Alone, outcome, Moment::timeless(u64::MAX));
        let Decision::Retry { after, .. } = decided else { panic!("{decided:?}") };
        assert!(after < secs(longest) && after + Duration::from_micros(1) > secs(longest), "{after:?}");
    }
}
