//! Backoff memory: a level that is a share of the last while, and what it does to the waits of the next call.

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
    Alone, Backoff, BackoffMemory, Call, Class, Common, Count, Decision, Held, Jitter, MemoryPolicy, Moment,
    Outcome, Policy, Rule, Schedule, Share, Shared, Timestamp,
};

const FAILED: Outcome = Outcome::of(Class::Transient);
const SUCCEEDED: Outcome = Outcome::of(Class::Success);

fn ms(ms: u64) -> Timestamp {
    Timestamp::from_duration(millis(ms))
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Of ten seconds' half-life, over eight steps.
fn memory() -> BackoffMemory {
    BackoffMemory::new(MemoryPolicy::new(Duration::from_secs(10))).unwrap()
}

/// A memory after ten half-lives at so many attempts a second, of which the first `failing` of each `of` failed.
fn after_a_while(per_second: u64, failing: u64, of: u64) -> f64 {
    let mut memory = memory();
    for attempt in 0..100 * per_second {
        let outcome = if attempt % of < failing { FAILED } else { SUCCEEDED };
        memory.settle(&outcome, ms(attempt * 1_000 / per_second));
    }
    memory.level(ms(100_000))
}

#[test]
fn the_level_is_the_share_that_fails_whatever_the_traffic() {
    for per_second in [4, 20, 100, 1_000] {
        for (failing, of, share) in [(0, 10, 0.0), (1, 100, 0.01), (1, 10, 0.1), (1, 2, 0.5), (1, 1, 1.0)] {
            let level = after_a_while(per_second, failing, of);
            assert!((level - share).abs() < 0.04, "{per_second}/s, {failing} of {of}: {level}");
        }
    }
}

#[test]
fn it_rises_with_time_and_not_with_the_number_of_failures() {
    let level_after = |secs: u64, per_second: u64| {
        let mut memory = memory();
        memory.settle(&SUCCEEDED, Timestamp::ZERO);
        for failure in 1..=secs * per_second {
            memory.settle(&FAILED, ms(failure * 1_000 / per_second));
        }
        memory.level(ms(secs * 1_000))
    };
    for (secs, expected) in [(1, 0.067), (10, 0.5), (20, 0.75), (40, 0.9375)] {
        for per_second in [1, 10, 1_000] {
            let level = level_after(secs, per_second);
            assert!((level - expected).abs() < 1e-3, "{secs} s at {per_second}/s: {level}");
        }
    }
}

#[test]
fn a_thousand_failures_at_once_are_one_step() {
    let mut memory = memory();
    (0..1_000).for_each(|_| memory.settle(&FAILED, ms(5)));
    assert_eq!(memory.step(ms(5)), 1);
    // After a long quiet time too.
    (0..1_000).for_each(|_| memory.settle(&FAILED, ms(100_000_000)));
    assert_eq!(memory.step(ms(100_000_000)), 1);
}

#[test]
fn a_clock_that_steps_back_brings_no_time() {
    let mut memory = memory();
    for second in [10, 0, 10, 5, 10] {
        memory.settle(&FAILED, ms(second * 1_000));
    }
    assert_eq!(memory.step(ms(10_000)), 1);
}

#[test]
fn a_success_takes_nothing_away_and_time_does() {
    let mut memory = memory();
    (0..=400).for_each(|second| memory.settle(&FAILED, ms(second * 100)));
    let before = memory.level(ms(40_000));
    assert!(before > 0.9, "{before}");
    for _ in 0..1_000 {
        memory.settle(&SUCCEEDED, ms(40_000));
    }
    assert_eq!(memory.level(ms(40_000)), before);
    for (half_lives, share) in [(1, 0.5), (2, 0.25), (10, 1.0 / 1_024.0)] {
        let level = memory.level(ms(40_000 + half_lives * 10_000));
        assert!((level / before - share).abs() < 1e-9, "{half_lives}: {level}");
    }
    // The time between belongs to the successes: what fails next does not get it.
    memory.settle(&SUCCEEDED, ms(140_000));
    memory.settle(&FAILED, ms(140_010));
    assert_eq!(memory.step(ms(140_010)), 0);
    memory.forget();
    assert_eq!(memory.level(ms(140_010)), 0.0);
}

#[test]
fn what_says_nothing_changes_nothing() {
    let mut memory = memory();
    memory.settle(&FAILED, ms(0));
    let mut told = memory.clone();
    for class in [Class::Cancelled, Class::Ignored] {
        told.settle(&Outcome::of(class), ms(9_000));
    }
    // The time before it is all the failure's.
    for memory in [&mut memory, &mut told] {
        memory.settle(&FAILED, ms(10_000));
    }
    assert_eq!(memory.level(ms(10_000)), told.level(ms(10_000)));
    assert_eq!(memory.level(ms(10_000)), 0.125 / 2.0 + 0.125);
    memory.settle(&Outcome::of(Class::Permanent), ms(20_000));
    assert_eq!(memory.level(ms(20_000)), (0.125 / 2.0 + 0.125) / 2.0);
}

#[test]
fn a_policy_that_cannot_work_is_refused() {
    let secs = Duration::from_secs;
    let why = |policy| BackoffMemory::new(policy).unwrap_err().to_string();
    assert!(why(MemoryPolicy::new(Duration::ZERO)).contains("half_life"));
    assert!(why(MemoryPolicy::new(secs(1)).steps(0)).contains("steps"));
    assert!(why(MemoryPolicy::new(secs(1)).steps(65)).contains("steps"));
    BackoffMemory::new(MemoryPolicy::new(Duration::MAX).steps(64)).unwrap();
}

/// 100 ms, doubled, without jitter.
fn policy() -> Policy {
    Policy::exponential(millis(100)).jitter(Jitter::None).build().unwrap()
}

/// The waits of a call whose attempts all fail at once, from `start` on.
fn waits(policy: &Policy, shared: &mut impl Shared, start: Timestamp) -> Vec<u64> {
    let mut call = Call::new(Some(start));
    let mut now = start;
    let mut waits = Vec::new();
    while let Decision::Retry { after, .. } = call.decide(policy, shared, FAILED, Moment::at(now, 0)) {
        waits.push(after.as_millis() as u64);
        now = now.plus(after);
    }
    waits
}

#[test]
fn a_call_goes_on_where_the_target_is() {
    let waits = |common: &mut Common, start| {
        waits(&policy(), &mut Share { parts: common, held: &mut Held::default() }, start)
    };
    let mut common = Common { memory: Some(memory()), ..Common::default() };
    assert_eq!(waits(&mut common, ms(0)), [100, 200, 400]);
    // Nothing but failures for half a minute.
    let memory = common.memory.as_mut().unwrap();
    (8..=300).for_each(|tenth| memory.settle(&FAILED, ms(tenth * 100)));
    assert_eq!(waits(&mut common.clone(), ms(30_000)), [6_400, 12_800, 20_000]);
    // Much of it is forgotten after another half, and all after five.
    assert_eq!(waits(&mut common.clone(), ms(60_000)), [200, 400, 800]);
    assert_eq!(waits(&mut common.clone(), ms(180_000)), [100, 200, 400]);
}

#[test]
fn a_success_in_between_does_not_begin_the_waits_anew() {
    let mut common = Common { memory: Some(memory()), ..Common::default() };
    let memory = common.memory.as_mut().unwrap();
    (0..=300).for_each(|tenth| memory.settle(&FAILED, ms(tenth * 100)));
    memory.settle(&SUCCEEDED, ms(30_100));
    let mut held = Held::default();
    let mut share = Share { parts: &mut common, held: &mut held };
    assert_eq!(waits(&policy(), &mut share, ms(30_200)), [6_400, 12_800, 20_000]);
}

#[test]
fn a_rule_that_counts_its_own_failures_goes_on_there_too() {
    let own = Backoff::new(Schedule::Linear { initial: millis(100), step: millis(100) }).jitter(Jitter::None);
    let policy = policy().to_builder().rule(Rule::on(Class::Transient).backoff(own).count(Count::Own));
    let policy = policy.build().unwrap();
    assert_eq!(waits(&policy, &mut Alone, ms(0)), [100, 200, 300]);
    let mut common = Common { memory: Some(memory()), ..Common::default() };
    let memory = common.memory.as_mut().unwrap();
    (0..=300).for_each(|tenth| memory.settle(&FAILED, ms(tenth * 100)));
    let mut held = Held::default();
    let mut share = Share { parts: &mut common, held: &mut held };
    assert_eq!(waits(&policy, &mut share, ms(30_000))[0], 700);
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop::sample::select(Class::ALL.to_vec()).prop_map(Outcome::of)
}

proptest! {
    #![proptest_config(strategies::config(500))]

    #[test]
    fn the_level_stays_within_its_bounds(
        history in prop::collection::vec((outcome(), strategies::duration()), 0..60),
        half_life in strategies::duration(),
        steps in 1..=64u32,
        later in strategies::duration(),
    ) {
        let policy = MemoryPolicy::new(half_life.max(Duration::from_nanos(1))).steps(steps);
        let mut memory = BackoffMemory::new(policy).unwrap();
        for (outcome, at) in history {
            // Any order: times that step back too.
            let now = Timestamp::from_duration(at);
            let before = memory.step(now);
            memory.settle(&outcome, now);
            let level = memory.level(now);
            prop_assert!((0.0..=1.0).contains(&level), "{}", level);
            prop_assert!(memory.step(now) <= steps.min(before + 1));
            prop_assert!(memory.step(now) <= before || outcome.class.is_failure());
            prop_assert!(memory.level(now.plus(later)) <= level);
        }
    }

    #[test]
    fn a_call_alone_waits_as_if_nothing_were_remembered(
        initial in 1..10_000u64,
        linear: bool,
        half_life in strategies::duration(),
        steps in 1..=64u32,
        took in prop::collection::vec(0..100_000u64, 1..40),
    ) {
        let schedule = if linear {
            Schedule::Linear { initial: millis(initial), step: millis(initial) }
        } else {
            policy().backoff().schedule().clone()
        };
        let backoff = Backoff::new(schedule).jitter(Jitter::None);
        let policy = Policy::default().to_builder().backoff(backoff).unlimited_attempts().build().unwrap();
        let remembers = MemoryPolicy::new(half_life.max(Duration::from_nanos(1))).steps(steps);
        let mut common = Common { memory: Some(BackoffMemory::new(remembers).unwrap()), ..Common::default() };
        let mut held = Held::default();
        let mut share = Share { parts: &mut common, held: &mut held };
        let (mut with, mut without) = (Call::new(Some(Timestamp::ZERO)), Call::new(Some(Timestamp::ZERO)));
        let mut now = Timestamp::ZERO;
        for took in took {
            now = now.plus(millis(took));
            let moment = Moment::at(now, 0);
            let decision = with.decide(&policy, &mut share, FAILED, moment);
            prop_assert_eq!(decision, without.decide(&policy, &mut Alone, FAILED, moment));
            let Decision::Retry { after, .. } = decision else { panic!("{decision:?}") };
            now = now.plus(after);
        }
    }

    #[test]
    fn a_call_begins_with_the_last_step_at_most_and_goes_on_as_its_schedule_does(
        history in prop::collection::vec((outcome(), 0..100_000u64), 0..200),
        steps in 1..=12u32,
    ) {
        let remembers = MemoryPolicy::new(Duration::from_secs(10)).steps(steps);
        let mut common = Common { memory: Some(BackoffMemory::new(remembers).unwrap()), ..Common::default() };
        let mut now = Timestamp::ZERO;
        for (outcome, later) in history {
            now = now.plus(millis(later));
            common.memory.as_mut().unwrap().settle(&outcome, now);
        }
        let mut held = Held::default();
        let waits = waits(&policy(), &mut Share { parts: &mut common, held: &mut held }, now);
        prop_assert!(waits[0] >= 100 && waits[0] <= (100u64 << (steps - 1)).min(20_000));
        prop_assert!(waits.windows(2).all(|pair| pair[1] == (2 * pair[0]).min(20_000)), "{:?}", waits);
    }
}
