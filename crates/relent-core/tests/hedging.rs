//! Hedging: gRPC's timeline, reported faults, quantiles, and properties over any race. The names in brackets are the
//! reports.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

mod strategies;

use std::time::Duration;

use proptest::prelude::*;
use relent_core::{Class, Dice, HedgePolicy, HedgeStep, Latencies, Race, RaceEnd, Ratio, Repeat, Timestamp};

fn ms(ms: u64) -> Timestamp {
    Timestamp::from_duration(millis(ms))
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn race(policy: HedgePolicy, now: Timestamp) -> Race {
    policy.check().unwrap();
    Race::new(&policy, policy.delay(None, now), Repeat::Safe, now)
}

/// Starts what is due, as a driver does; returns when.
fn start_due(race: &mut Race, now: Timestamp) -> Vec<u32> {
    let mut started = vec![];
    while race.next(now) == HedgeStep::Start {
        started.push(race.started(now));
    }
    started
}

/// systems.md 3 (gRFC A6): four attempts, 500 ms apart, from 1 ms on.
#[test]
fn grpcs_timeline() {
    let policy = HedgePolicy::after(millis(500)).max_attempts(4);
    let mut race = race(policy, ms(1));
    let mut sent = vec![];
    let mut now = ms(1);
    loop {
        sent.extend(start_due(&mut race, now).iter().map(|_| now));
        match race.next(now) {
            HedgeStep::WaitUntil(due) => now = due,
            step => break assert_eq!(step, HedgeStep::Wait),
        }
    }
    assert_eq!(sent, [ms(1), ms(501), ms(1_001), ms(1_501)]);

    // A failure that is not fatal sends the next one at once, and the one after that 500 ms later.
    let mut race = self::race(policy, ms(1));
    assert_eq!(start_due(&mut race, ms(1)), [0]);
    assert_eq!(race.ended(0, Class::Transient, ms(100)), RaceEnd::GoesOn);
    assert_eq!(start_due(&mut race, ms(100)), [1]);
    assert_eq!(race.next(ms(100)), HedgeStep::WaitUntil(ms(600)));
    assert_eq!(start_due(&mut race, ms(600)), [2]);
    // A fatal one, as a success, ends the rest.
    let mut other = race.clone();
    for (race, class) in [(&mut race, Class::Permanent), (&mut other, Class::Success)] {
        assert_eq!(race.ended(2, class, ms(700)), RaceEnd::Decided);
        assert_eq!(race.next(ms(1_100)), HedgeStep::Over);
        assert!(race.is_running(1));
    }
}

/// [tower Hedge]: an error won against an attempt that would have succeeded.
#[test]
fn a_fast_error_does_not_beat_an_attempt_that_runs() {
    let mut race = race(HedgePolicy::after(millis(10)), ms(0));
    assert_eq!(start_due(&mut race, ms(0)), [0]);
    assert_eq!(start_due(&mut race, ms(10)), [1]);
    for class in [Class::Transient, Class::Throttled, Class::Timeout, Class::NotSent] {
        assert_eq!(race.clone().ended(1, class, ms(11)), RaceEnd::GoesOn);
    }
    assert_eq!(race.ended(1, Class::Transient, ms(11)), RaceEnd::GoesOn);
    assert_eq!(race.next(ms(11)), HedgeStep::Wait);
    assert_eq!(race.ended(0, Class::Success, ms(500)), RaceEnd::Decided);
}

#[test]
fn when_all_have_failed_the_call_has() {
    let mut race = race(HedgePolicy::at_once().max_attempts(3), ms(0));
    assert_eq!(start_due(&mut race, ms(0)), [0, 1, 2]);
    assert_eq!(race.ended(1, Class::Transient, ms(1)), RaceEnd::GoesOn);
    assert_eq!(race.ended(0, Class::Transient, ms(2)), RaceEnd::GoesOn);
    assert_eq!(race.ended(2, Class::Throttled, ms(3)), RaceEnd::Decided);
}

#[test]
fn after_a_failure_only() {
    let mut race = race(HedgePolicy::on_failure(), ms(0));
    assert_eq!(start_due(&mut race, ms(0)), [0]);
    assert_eq!(race.next(ms(1_000_000)), HedgeStep::Wait);
    assert_eq!(race.ended(0, Class::Transient, ms(1_000_000)), RaceEnd::GoesOn);
    assert_eq!(start_due(&mut race, ms(1_000_000)), [1]);
    assert_eq!(race.ended(1, Class::Transient, ms(1_000_001)), RaceEnd::Decided);
}

/// [failsafe-go#141]: an exhausted budget cancelled the original too.
#[test]
fn an_empty_budget_only_keeps_new_hedges_back() {
    let mut race = race(HedgePolicy::after(millis(10)).max_attempts(3), ms(0));
    assert_eq!(start_due(&mut race, ms(0)), [0]);
    assert_eq!(race.next(ms(10)), HedgeStep::Start);
    assert!(!race.suppressed(ms(10)));
    assert_eq!(race.next(ms(10)), HedgeStep::WaitUntil(ms(20)));
    assert_eq!(start_due(&mut race, ms(20)), [1]);
    assert_eq!(race.ended(0, Class::Success, ms(21)), RaceEnd::Decided);
    // At once: there is no later.
    let mut at_once = self::race(HedgePolicy::at_once(), ms(0));
    let first = at_once.started(ms(0));
    assert!(!at_once.suppressed(ms(0)));
    assert_eq!(at_once.next(ms(1_000)), HedgeStep::Wait);
    assert_eq!(at_once.ended(first, Class::Success, ms(1_000)), RaceEnd::Decided);
    // Nothing runs, and nothing may start: the failure that there was is the call's.
    let mut failed = self::race(HedgePolicy::on_failure(), ms(0));
    let first = failed.started(ms(0));
    assert_eq!(failed.ended(first, Class::Transient, ms(5)), RaceEnd::GoesOn);
    assert!(failed.suppressed(ms(5)));
    assert_eq!(failed.next(ms(5)), HedgeStep::Over);
}

#[test]
fn what_is_not_safe_to_repeat_is_not_hedged() {
    for repeat in [Repeat::NotIdempotent, Repeat::BodyNotReplayable] {
        let policy = HedgePolicy::at_once().max_attempts(4);
        let mut race = Race::new(&policy, policy.delay(None, ms(0)), repeat, ms(0));
        assert_eq!(start_due(&mut race, ms(0)), [0]);
        assert_eq!(race.next(ms(1_000)), HedgeStep::Wait);
        assert_eq!(race.ended(0, Class::Transient, ms(1_000)), RaceEnd::Decided);
    }
}

/// F37 [Kevlar#14, azure-cosmos-dotnet-v3#6017]: a hedge started after the caller had given up.
#[test]
fn nothing_starts_after_the_end() {
    let mut race = race(HedgePolicy::after(millis(10)).max_attempts(3), ms(0));
    assert_eq!(start_due(&mut race, ms(0)), [0]);
    let mut cancelled = race.clone();
    cancelled.cancel();
    assert_eq!(cancelled.next(ms(10)), HedgeStep::Over);
    assert_eq!(cancelled.ended(0, Class::Success, ms(11)), RaceEnd::Late);
    // A loser that fails later is nobody's failure.
    assert_eq!(start_due(&mut race, ms(10)), [1]);
    assert_eq!(race.ended(1, Class::Success, ms(12)), RaceEnd::Decided);
    assert!(race.is_running(0));
    assert_eq!(race.ended(0, Class::Transient, ms(13)), RaceEnd::Late);
    assert!(!race.is_running(0));
    assert_eq!(race.next(ms(1_000)), HedgeStep::Over);
    assert!(race.suppressed(ms(1_000)));
}

#[test]
fn the_delay_is_what_was_observed() {
    let policy = HedgePolicy::quantile(Ratio::percent(95));
    let mut observed = Latencies::new(Duration::from_secs(10));
    let delay = |observed: &mut Latencies| policy.delay(Some(observed), ms(0)).unwrap();
    assert_eq!(delay(&mut observed), millis(200));
    for took in 1..=19 {
        observed.record(millis(took), ms(0));
        assert_eq!(delay(&mut observed), millis(200));
    }
    observed.record(millis(400), ms(0));
    // 19 of 20 took at most 19 ms; a bucket is an eighth wide.
    let after = delay(&mut observed);
    assert!((millis(19)..millis(22)).contains(&after), "{after:?}");
    let bounded = policy.between(millis(50), millis(60));
    assert_eq!(bounded.delay(Some(&mut observed), ms(0)), Some(millis(50)));
    for _ in 0..100 {
        observed.record(Duration::from_secs(9), ms(0));
    }
    assert_eq!(bounded.delay(Some(&mut observed), ms(0)), Some(millis(60)));
    assert_eq!(bounded.until_known(millis(55), 1_000).delay(Some(&mut observed), ms(0)), Some(millis(55)));
    assert_eq!(policy.delay(None, ms(0)), Some(millis(200)));
}

#[test]
fn old_latencies_are_forgotten() {
    let mut observed = Latencies::new(Duration::from_secs(10));
    (0..1_000).for_each(|_| observed.record(millis(800), ms(9_000)));
    (0..10).for_each(|_| observed.record(millis(10), ms(11_000)));
    assert_eq!(observed.samples(ms(19_000)), 1_010);
    assert!(observed.quantile(Ratio::percent(50), ms(19_000)).unwrap() >= millis(800));
    assert_eq!(observed.samples(ms(20_000)), 10);
    assert!(observed.quantile(Ratio::percent(99), ms(20_000)).unwrap() < millis(12));
    assert_eq!(observed.samples(ms(30_000)), 0);
    assert_eq!(observed.quantile(Ratio::percent(50), ms(30_000)), None);
    observed.record(millis(10), ms(31_000));
    assert_eq!(observed.samples(ms(1_000_000)), 0);
}

/// [tower Hedge, failsafe]: losers that are not counted make the slowest target look fast.
#[test]
fn losers_count_for_what_they_showed() {
    // A tenth of the attempts take 1 s, the others 10 ms. What takes longer than 20 ms is hedged, and loses at 30 ms.
    let mut dice = Dice::new(3);
    let mut latency = || if dice.roll().is_multiple_of(10) { millis(1_000) } else { millis(10) };
    let (mut observed, mut naive) = (Latencies::new(millis(1_000)), Latencies::new(millis(1_000)));
    for _ in 0..10_000 {
        let took = latency();
        if took > millis(20) {
            observed.record_cut_short(millis(30), ms(0));
            for latencies in [&mut observed, &mut naive] {
                latencies.record(millis(10), ms(0));
            }
        } else {
            observed.record(took, ms(0));
            naive.record(took, ms(0));
        }
    }
    let p95 = Ratio::percent(95);
    assert!(naive.quantile(p95, ms(0)).unwrap() < millis(12));
    // It is 1 s; what is known is that it is not less than the longest that was waited.
    assert!(observed.quantile(p95, ms(0)).unwrap() >= millis(30));
    assert!(observed.quantile(Ratio::percent(85), ms(0)).unwrap() < millis(12));
}

/// Kaplan and Meier's own example (JASA 1958, p. 464): deaths at 0.8, 3.1, 5.4 and 9.2 months, losses at 1.0, 2.7, 7.0
/// and 12.1. The estimate is 0.875, 0.7, 0.525 and 0.2625 after the deaths.
#[test]
fn the_quantile_is_kaplan_and_meiers() {
    let mut observed = Latencies::new(Duration::from_secs(10));
    [800, 3_100, 5_400, 9_200].iter().for_each(|death| observed.record(millis(*death), ms(0)));
    [1_000, 2_700, 7_000, 12_100].iter().for_each(|loss| observed.record_cut_short(millis(*loss), ms(0)));
    for (share, expected) in [
        (0.124, 800),
        (0.126, 3_100),
        (0.299, 3_100),
        (0.301, 5_400),
        (0.474, 5_400),
        (0.476, 9_200),
        (0.737, 9_200),
    ] {
        let quantile = observed.quantile(Ratio::new(share).unwrap(), ms(0)).unwrap();
        assert!((millis(expected)..=millis(expected * 9 / 8)).contains(&quantile), "{share}: {quantile:?}");
    }
    // Beyond the last death nothing is known but that it takes at least 12.1.
    assert!(observed.quantile(Ratio::new(0.74).unwrap(), ms(0)).unwrap() >= millis(12_100));
}

#[test]
fn what_cannot_work_is_refused() {
    let quantile = HedgePolicy::quantile(Ratio::percent(95));
    for (policy, key) in [
        (HedgePolicy::at_once().max_attempts(1), "hedge.max_attempts"),
        (HedgePolicy::at_once().max_attempts(65), "hedge.max_attempts"),
        (HedgePolicy::quantile(Ratio::ZERO), "hedge.quantile"),
        (HedgePolicy::quantile(Ratio::ONE), "hedge.quantile"),
        (quantile.between(millis(2), millis(1)), "hedge.floor"),
        (quantile.until_known(millis(1), 0), "hedge.samples"),
    ] {
        assert_eq!(policy.check().unwrap_err().key(), key);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Next { budget: bool },
    Ended(u32, Class),
    Cancel,
}

proptest! {
    #![proptest_config(strategies::config(500))]

    #[test]
    fn a_race_has_one_end_and_nothing_after_it(
        delay in prop::option::of(0..100u64),
        most in 2..6u32,
        steps in prop::collection::vec((0..60u64, prop_oneof![
            4 => prop::bool::weighted(0.8).prop_map(|budget| Step::Next { budget }),
            3 => (0..6u32, strategies::class()).prop_map(|(number, class)| Step::Ended(number, class)),
            1 => Just(Step::Cancel),
        ]), 0..60),
    ) {
        let policy = match delay {
            Some(delay) => HedgePolicy::after(millis(delay)),
            None => HedgePolicy::on_failure(),
        };
        let mut race = race(policy.max_attempts(most), ms(0));
        let (mut now, mut running, mut started, mut over) = (0, vec![], 0, false);
        for (pause, step) in steps {
            now += pause;
            match step {
                Step::Next { budget } => match race.next(ms(now)) {
                    HedgeStep::Start => {
                        prop_assert!(!over && started < most);
                        if started == 0 || budget {
                            prop_assert_eq!(race.started(ms(now)), started);
                            running.push(started);
                            started += 1;
                        } else {
                            let ended = race.suppressed(ms(now));
                            // Whoever runs goes on.
                            prop_assert_eq!(ended, running.is_empty());
                            over = ended;
                        }
                    }
                    HedgeStep::WaitUntil(due) => prop_assert!(!over && due > ms(now) && started < most),
                    HedgeStep::Wait => prop_assert!(!over),
                    HedgeStep::Over => prop_assert!(over),
                },
                Step::Ended(number, class) => {
                    let ran = running.iter().position(|running| *running == number);
                    if let Some(at) = ran { running.remove(at); }
                    match race.ended(number, class, ms(now)) {
                        RaceEnd::Late => prop_assert!(over || ran.is_none()),
                        RaceEnd::GoesOn => prop_assert!(!over && class.is_failure()),
                        RaceEnd::Decided => {
                            prop_assert!(!over && ran.is_some());
                            // A failure decides only where nothing runs and nothing more can start.
                            prop_assert!(!class.is_failure() || (running.is_empty() && started == most));
                            over = true;
                        }
                    }
                }
                Step::Cancel => { race.cancel(); over = true; }
            }
            prop_assert_eq!(race.is_over(), over);
            prop_assert_eq!((0..64).filter(|number| race.is_running(*number)).collect::<Vec<_>>(), running.clone());
        }
    }

    #[test]
    fn a_quantile_is_that_of_the_sorted_values(
        values in prop::collection::vec(2_000..100_000_000_000u64, 1..200),
        share in 1..1_000_000u32,
    ) {
        let mut observed = Latencies::new(Duration::from_secs(10));
        values.iter().for_each(|value| observed.record(Duration::from_nanos(*value), ms(0)));
        let mut sorted = values;
        sorted.sort_unstable();
        let rank = (f64::from(share) * sorted.len() as f64 / 1e6 - 1e-6).ceil().max(1.0) as usize;
        let exact = sorted[rank - 1];
        let quantile = observed.quantile(Ratio::per_million(share), ms(0)).unwrap().as_nanos() as u64;
        prop_assert!((exact..=exact + exact / 8 + 1).contains(&quantile), "{} for {}", quantile, exact);
    }
}
