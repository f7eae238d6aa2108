//! What a builder gives unasked, and all that it refuses.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

use std::collections::HashSet;
use std::time::Duration;

use relent_core::{
    Backoff, Bound, Class, Classes, Count, Deadline, First, HintMode, HintPolicy, Jitter, MAX_RULES,
    Multiplier, OnDeadline, OverMax, Policy, PolicyBuilder, Rule, Schedule, Stage,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn stage(until: Option<u64>) -> Stage {
    Stage { until: until.map(secs), initial: secs(1), multiplier: Multiplier::ONE }
}

fn decorrelated(wait: Duration) -> PolicyBuilder {
    Policy::exponential(wait).jitter(Jitter::Decorrelated)
}

#[test]
fn every_refusal_names_its_key_and_says_why() {
    let plain = || Policy::exponential(secs(1));
    let csma = |max_exponent| Policy::with_schedule(Schedule::Csma { slot: secs(1), max_exponent });
    let full_house = (0..=MAX_RULES).fold(plain(), |policy, _| policy.rule(Rule::named()));
    let reserved = |reserve| plain().deadline(Deadline { total: secs(2), reserve });
    let refusals = [
        (plain().max_attempts(0), "max_attempts", "counts the first attempt; 1 switches retries off"),
        (
            plain().multiplier(0.5),
            "backoff.multiplier",
            "must be a finite number of at least 1; 1 means no growth",
        ),
        (
            Policy::constant(secs(1)).multiplier(2.0),
            "backoff.multiplier",
            "only an exponential schedule has a multiplier",
        ),
        (plain().deadline(secs(0)), "deadline", "leaves no time at all; leave it out for no deadline"),
        (reserved(secs(2)), "deadline.reserve", "takes all of the deadline"),
        (reserved(Duration::MAX), "deadline.reserve", "takes all of the deadline"),
        (plain().on_deadline(OnDeadline::Fit), "on_deadline", "has no effect without a deadline"),
        (
            plain().attempt_timeout(secs(0)),
            "attempt_timeout",
            "leaves no time at all; leave it out for no timeout",
        ),
        (plain().cap(secs(2)).floor(secs(3)), "backoff.floor", "lies above the cap"),
        (plain().reset_after(secs(0)), "backoff.reset_after", "would begin a new series at every failure"),
        (Policy::list([]), "backoff.waits", "lists no wait"),
        (Policy::stages([]), "backoff.stages", "lists no stage"),
        (
            Policy::stages([stage(None), stage(Some(9))]),
            "backoff.stages",
            "only the last stage may go on for ever; give the others an \"until\"",
        ),
        (
            Policy::stages([stage(Some(9)), stage(Some(9)), stage(None)]),
            "backoff.stages",
            "each stage must end later than the one before it",
        ),
        (
            Policy::stages([stage(Some(1)), stage(Some(9)), stage(Some(8))]),
            "backoff.stages",
            "each stage must end later than the one before it",
        ),
        (Policy::csma(secs(0)), "backoff.slot", "a slot of no length is no wait at all"),
        (
            csma(10).cap(Duration::from_millis(999)),
            "backoff.cap",
            "is shorter than one slot, which leaves no wait",
        ),
        (csma(0), "backoff.max_exponent", "must be from 1 to 63; the standard's is 10"),
        (csma(64), "backoff.max_exponent", "must be from 1 to 63; the standard's is 10"),
        (csma(10).jitter(Jitter::Full), "jitter", "csma draws its slots by itself and takes no jitter"),
        (
            plain().jitter(Jitter::Proportional { factor: 1.1 }),
            "jitter.factor",
            "must be above 0 and at most 1",
        ),
        (
            plain().jitter(Jitter::Additive { max: secs(0) }),
            "jitter.max",
            "adds nothing; say \"none\" for that",
        ),
        (
            Policy::linear(secs(1), secs(1)).jitter(Jitter::DecorrelatedV2),
            "jitter",
            "decorrelated jitter grows from the last wait: it takes an exponential or a constant backoff",
        ),
        (decorrelated(secs(0)), "backoff.initial", "decorrelated jitter cannot grow from nothing"),
        (
            decorrelated(secs(1)).bound(Bound::Loose),
            "backoff.bound",
            "decorrelated jitter knows no wait before the draw that a loose cap could bound",
        ),
        (
            decorrelated(secs(20)),
            "backoff.cap",
            "must lie above the initial wait: decorrelated jitter draws between them",
        ),
        (full_house, "rules", "a policy has at most 6 rules, those of \"on\" included"),
        (
            plain().rule(Rule::named().max_attempts(0)),
            "rules.max_attempts",
            "counts the first attempt; 1 switches retries off",
        ),
        (
            plain().rule(Rule::named().max_attempts(255)),
            "rules.max_attempts",
            "a rule's own limit is at most 254",
        ),
        (
            plain().rule(Rule::named().backoff(Backoff::new(Schedule::List([].into())))),
            "backoff.waits",
            "lists no wait",
        ),
        (
            plain().hint(HintPolicy::DEFAULT.mode(HintMode::Clamp(secs(0)))),
            "hint.mode",
            "clamps hints to nothing; say \"ignore\" for that",
        ),
        (
            plain().retry_on([Class::Transient, Class::Success]),
            "retry_on",
            "a success or a cancelled call is never retried",
        ),
        (plain().retry_on(Class::Cancelled), "retry_on", "a success or a cancelled call is never retried"),
    ];
    let mut seen = HashSet::new();
    for (policy, key, why) in refusals {
        let refused = policy.clone().build().unwrap_err();
        assert_eq!((refused.key(), refused.why()), (key, why), "{policy:?}");
        assert_eq!(refused.to_string(), format!("{key}: {why}"));
        seen.insert((key, why));
    }
    // A refusal that is added to the source needs its line above. One mention there is the function's own.
    assert_eq!(include_str!("../src/policy.rs").matches("refuse(").count() - 1, seen.len());
}

/// What lies just inside each border.
#[test]
fn what_is_not_refused() {
    let exponential = || Policy::exponential(secs(1));
    for policy in [
        exponential().max_attempts(1),
        exponential().max_attempts(u32::MAX),
        exponential().multiplier(1.0),
        exponential().deadline(Deadline { total: secs(2), reserve: secs(2) - Duration::from_nanos(1) }),
        exponential().deadline(Duration::MAX).on_deadline(OnDeadline::Fit),
        exponential().floor(secs(20)),
        exponential().cap(Duration::ZERO),
        exponential().jitter(Jitter::Proportional { factor: 1.0 }),
        exponential().rule(Rule::named().max_attempts(254)),
        exponential().retry_on(Classes::NONE),
        Policy::constant(secs(0)),
        Policy::stages([stage(Some(1)), stage(Some(2)), stage(None)]),
        Policy::stages([stage(Some(1))]),
        Policy::with_schedule(Schedule::Csma { slot: secs(1), max_exponent: 63 }),
        Policy::constant(secs(1)).jitter(Jitter::Decorrelated),
        (0..MAX_RULES).fold(exponential(), |policy, _| policy.rule(Rule::named())),
    ] {
        assert!(policy.clone().build().is_ok(), "{policy:?}");
    }
}

/// The table in the documentation of `Policy`.
#[test]
fn defaults_are_as_documented() {
    let policy = Policy::exponential(Duration::from_millis(100)).build().unwrap();
    assert_eq!(policy, Policy::default());
    assert_eq!(policy, Policy::default().to_builder().build().unwrap());
    assert_eq!(policy.max_attempts(), Some(4));
    assert_eq!((policy.deadline(), policy.attempt_timeout(), policy.seed()), (None, None, None));
    assert_eq!(policy.on_deadline(), OnDeadline::Stop);
    assert!(!policy.requires_idempotency() && policy.rules().is_empty());
    assert_eq!(policy.retry_on(), Classes::RETRYABLE);
    let retried: Vec<_> = policy.retry_on().iter().map(Class::as_str).collect();
    assert_eq!(retried, ["transient", "throttled", "timeout", "not_sent"]);

    let backoff = policy.backoff();
    let two = Multiplier::new(2.0).unwrap();
    assert_eq!(
        *backoff.schedule(),
        Schedule::Exponential { initial: Duration::from_millis(100), multiplier: two }
    );
    assert_eq!(backoff.jitter_used(), Jitter::Full);
    assert_eq!((backoff.longest(), backoff.shortest()), (Some(secs(20)), Duration::ZERO));
    assert_eq!((backoff.first_used(), backoff.bound_used()), (First::Initial, Bound::Range));
    assert_eq!((backoff.spread_of_first(), backoff.resets_after()), (Duration::ZERO, None));

    let hint = policy.hint();
    assert_eq!(*hint, HintPolicy::default());
    assert_eq!((hint.mode_used(), hint.max_wait()), (HintMode::Minimum, secs(60)));
    assert_eq!((hint.over_max_used(), hint.spread_fraction()), (OverMax::Abort, 0.1));

    let rule = Rule::on(Class::Throttled);
    assert_eq!((rule.limit(), rule.own_backoff(), rule.counts()), (None, None, Count::Own));
}

/// No clock is read unless the policy needs one.
#[test]
fn a_clock_is_needed_only_for_what_runs_out() {
    let constant = || Policy::constant(secs(1));
    let stages = Schedule::Stages([stage(None)].into());
    for (policy, needed) in [
        (constant(), false),
        (constant().reset_after(secs(1)).initial_spread(secs(1)), false),
        (constant().deadline(secs(9)), true),
        (constant().deadline(secs(9)).no_deadline(), false),
        (constant().attempt_timeout(secs(9)), true),
        (constant().attempt_timeout(secs(9)).no_attempt_timeout(), false),
        (Policy::with_schedule(stages.clone()), true),
        (constant().rule(Rule::named().backoff(Backoff::new(stages))), true),
        (Policy::never().to_builder(), false),
    ] {
        assert_eq!(policy.clone().build().unwrap().needs_clock(), needed, "{policy:?}");
    }
}

/// Words read back as what they name, and nothing else does.
#[test]
fn words_read_back() {
    for class in Class::ALL {
        assert_eq!(class.to_string().parse(), Ok(class));
    }
    for reason in relent_core::Reason::ALL {
        assert_eq!(reason.to_string().parse(), Ok(reason));
    }
    for source in relent_core::Source::ALL {
        assert_eq!(source.to_string().parse(), Ok(source));
    }
    for word in ["", "Transient", "transient ", "retryable"] {
        assert!(word.parse::<Class>().is_err(), "{word:?}");
    }
}
