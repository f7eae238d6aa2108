//! Policies and their parts, drawn from everything that the types allow.

// Each test binary uses some of these.
#![allow(dead_code, unreachable_pub)]

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, RngSeed};
use relent_core::{
    Backoff, Bound, Class, Count, Deadline, First, Hint, HintMode, HintPolicy, Jitter, Multiplier,
    OnDeadline, Outcome, OverMax, Policy, Repeat, Rule, RuleId, Schedule, Stage,
};

/// This many cases, the same each time. `RELENT_TEST_SEED` draws others; one that fails is kept in `regressions.txt`.
pub fn config(cases: u32) -> ProptestConfig {
    let seed =
        std::env::var("RELENT_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_260_303);
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/regressions.txt"))),
        ..ProptestConfig::default()
    }
}

/// Any duration: around the usual, and to the end of the type.
pub fn duration() -> BoxedStrategy<Duration> {
    prop_oneof![
        1 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
        3 => (0..2_000u64).prop_map(Duration::from_nanos),
        6 => (0..3_600_000u64).prop_map(Duration::from_millis),
        3 => any::<u64>().prop_map(Duration::from_nanos),
        1 => any::<Duration>(),
    ]
    .boxed()
}

/// The attempts at which something overflows, and all others.
pub fn number() -> BoxedStrategy<u32> {
    prop_oneof![
        4 => 0..12u32,
        4 => 12..2_000u32,
        1 => prop::sample::select(vec![31, 32, 33, 63, 64, 65, 92, 93, 94, 1_023, 1_024, 1_025, 1_000_000, u32::MAX]),
        1 => any::<u32>(),
    ]
    .boxed()
}

pub fn entropy() -> BoxedStrategy<u64> {
    prop_oneof![1 => Just(0), 1 => Just(u64::MAX), 1 => Just(1 << 63), 6 => any::<u64>()].boxed()
}

pub fn multiplier() -> BoxedStrategy<Multiplier> {
    prop_oneof![
        Just(1.0),
        Just(2.0),
        1.0..4.0f64,
        prop::sample::select(vec![1.1, 1.25, 1.5, 3.0, 10.0, 1e9, 1e300, f64::MAX, 1.0 + f64::EPSILON]),
    ]
    .prop_map(|value| Multiplier::new(value).unwrap())
    .boxed()
}

pub fn stage() -> BoxedStrategy<Stage> {
    (proptest::option::of(duration()), duration(), multiplier())
        .prop_map(|(until, initial, multiplier)| Stage { until, initial, multiplier })
        .boxed()
}

/// Any schedule, those included that no policy takes.
pub fn schedule() -> BoxedStrategy<Schedule> {
    prop_oneof![
        1 => duration().prop_map(|initial| Schedule::Constant { initial }),
        1 => (duration(), duration()).prop_map(|(initial, step)| Schedule::Linear { initial, step }),
        4 => (duration(), multiplier())
            .prop_map(|(initial, multiplier)| Schedule::Exponential { initial, multiplier }),
        1 => duration().prop_map(|initial| Schedule::Fibonacci { initial }),
        1 => prop::collection::vec(duration(), 0..5).prop_map(|waits| Schedule::List(waits.into())),
        1 => prop::collection::vec(stage(), 0..4).prop_map(|stages| Schedule::Stages(stages.into())),
        1 => (duration(), number()).prop_map(|(slot, max_exponent)| Schedule::Csma { slot, max_exponent }),
        1 => (duration(), 1..16u32).prop_map(|(slot, max_exponent)| Schedule::Csma { slot, max_exponent }),
    ]
    .boxed()
}

/// Any jitter, those included that no policy takes.
pub fn jitter() -> BoxedStrategy<Jitter> {
    prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        (0.0..=1.0f64).prop_map(|factor| Jitter::Proportional { factor }),
        prop::num::f64::ANY.prop_map(|factor| Jitter::Proportional { factor }),
        duration().prop_map(|max| Jitter::Additive { max }),
        Just(Jitter::Decorrelated),
        Just(Jitter::DecorrelatedV2),
    ]
    .boxed()
}

/// Any backoff, those included that no policy takes.
pub fn backoff() -> BoxedStrategy<Backoff> {
    let bound = prop::sample::select(vec![Bound::Range, Bound::Range, Bound::Sample, Bound::Loose]);
    let first = prop::sample::select(vec![First::Initial, First::Initial, First::Immediate]);
    let times = (duration(), proptest::option::of(duration()), proptest::option::of(duration()), duration());
    (schedule(), jitter(), bound, first, times)
        .prop_map(|(schedule, jitter, bound, first, times)| {
            let (cap, floor, reset, spread) = times;
            let backoff = Backoff::new(schedule).jitter(jitter).bound(bound).first(first).cap(cap);
            let backoff = backoff.floor(floor.unwrap_or_default()).initial_spread(spread);
            reset.into_iter().fold(backoff, Backoff::reset_after)
        })
        .boxed()
}

/// A backoff that a policy takes.
pub fn valid_backoff() -> BoxedStrategy<Backoff> {
    backoff()
        .prop_map(mended)
        .prop_filter("a policy takes it", |backoff| {
            Policy::constant(Duration::ZERO).backoff(backoff.clone()).build().is_ok()
        })
        .boxed()
}

/// The commonest faults mended, so that few backoffs must be thrown away.
fn mended(backoff: Backoff) -> Backoff {
    let grows = matches!(backoff.schedule(), Schedule::Exponential { .. } | Schedule::Constant { .. });
    let jitter = match (backoff.schedule(), backoff.jitter_used()) {
        (Schedule::Csma { .. }, _) => Jitter::None,
        (_, Jitter::Decorrelated | Jitter::DecorrelatedV2) if !grows => Jitter::Full,
        (_, Jitter::Proportional { factor }) if !(factor > 0.0 && factor <= 1.0) => Jitter::Equal,
        (_, Jitter::Additive { max }) if max.is_zero() => Jitter::None,
        (_, jitter) => jitter,
    };
    let floor = backoff.shortest().min(backoff.longest().unwrap_or(Duration::MAX));
    backoff.jitter(jitter).floor(floor)
}

pub fn class() -> BoxedStrategy<Class> {
    prop::sample::select(Class::ALL.to_vec()).boxed()
}

/// A class that is retried by default.
pub fn failure() -> BoxedStrategy<Class> {
    prop::sample::select(vec![Class::Transient, Class::Throttled, Class::Timeout, Class::NotSent]).boxed()
}

pub fn rule() -> BoxedStrategy<Rule> {
    let classes = prop::collection::vec(class(), 0..3);
    let count = prop::sample::select(vec![Count::Own, Count::All]);
    let limit = proptest::option::of(1..=254u32);
    (classes, count, limit, proptest::option::of(valid_backoff()))
        .prop_map(|(classes, count, limit, backoff)| {
            let rule = Rule::on(classes.into_iter().collect::<relent_core::Classes>()).count(count);
            let rule = limit.into_iter().fold(rule, Rule::max_attempts);
            backoff.into_iter().fold(rule, Rule::backoff)
        })
        .boxed()
}

pub fn hint_policy() -> BoxedStrategy<HintPolicy> {
    let mode = prop_oneof![
        Just(HintMode::Minimum),
        Just(HintMode::Exact),
        duration().prop_filter("not nothing", |over| !over.is_zero()).prop_map(HintMode::Clamp),
        Just(HintMode::Ignore),
    ];
    let over_max = prop::sample::select(vec![OverMax::Abort, OverMax::Clamp, OverMax::Ignore]);
    (mode, duration(), over_max, prop::num::f64::ANY)
        .prop_map(|(mode, max, over_max, spread)| {
            HintPolicy::DEFAULT.mode(mode).max(max).over_max(over_max).spread(spread)
        })
        .boxed()
}

/// Any policy that can be built.
pub fn policy() -> BoxedStrategy<Policy> {
    let deadline = proptest::option::of((duration(), duration()));
    let limits = (proptest::option::of(1..12u32), deadline, any::<bool>(), proptest::option::of(duration()));
    let rules = prop::collection::vec(rule(), 0..4);
    (valid_backoff(), limits, hint_policy(), rules)
        .prop_filter_map("it can be built", |parts| {
            let (backoff, (attempts, deadline, fit, timeout), hint, rules) = parts;
            let builder = Policy::constant(Duration::ZERO).backoff(backoff).hint(hint);
            let builder = attempts.into_iter().fold(builder.unlimited_attempts(), |b, n| b.max_attempts(n));
            let builder = rules.into_iter().fold(builder, |b, rule| b.rule(rule));
            let builder = match deadline {
                Some((total, reserve)) => builder.deadline(Deadline { total, reserve }),
                None => builder,
            };
            let builder = timeout.into_iter().fold(builder, |b, timeout| b.attempt_timeout(timeout));
            let on_deadline = if fit && deadline.is_some() { OnDeadline::Fit } else { OnDeadline::Stop };
            builder.on_deadline(on_deadline).build().ok()
        })
        .boxed()
}

pub fn hint() -> BoxedStrategy<Hint> {
    prop_oneof![
        6 => duration().prop_map(Hint::After),
        2 => duration().prop_map(Hint::Pushback),
        1 => Just(Hint::Stop),
    ]
    .boxed()
}

/// Any outcome of one of `classes`.
pub fn outcome(classes: impl Strategy<Value = Class> + 'static) -> BoxedStrategy<Outcome> {
    let repeat = prop_oneof![
        8 => Just(Repeat::Safe),
        1 => Just(Repeat::NotIdempotent),
        1 => Just(Repeat::BodyNotReplayable),
    ];
    let rule = proptest::option::weighted(0.3, any::<u8>().prop_map(|id| RuleId(id % 8)));
    let hint = proptest::option::weighted(0.3, hint());
    let healthy_for = proptest::option::weighted(0.2, duration());
    (classes, repeat, rule, hint, healthy_for)
        .prop_map(|(class, repeat, rule, hint, healthy_for)| Outcome {
            class,
            repeat,
            rule,
            hint,
            healthy_for,
        })
        .boxed()
}
