//! Circuit breakers: the figures of other systems, reported faults, and properties over any history. The names in
//! brackets are the reports.

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
    Backoff, Breaker, BreakerMode, BreakerPolicy, BreakerSnapshot, BreakerState, BreakerWindow, Class,
    Jitter, Outcome, Permit, Ratio, Schedule, Standing, Timestamp, WindowSnapshot,
};

use BreakerState::{Closed, HalfOpen, Open, Returning};
use Class::{Success as S, Transient as F};

fn s(secs: f64) -> Timestamp {
    Timestamp::from_duration(Duration::from_secs_f64(secs))
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn constant(open: Duration) -> Backoff {
    Backoff::new(Schedule::Constant { initial: open }).jitter(Jitter::None)
}

fn breaker(policy: BreakerPolicy) -> Breaker {
    Breaker::new(policy, 1).unwrap()
}

/// An attempt that takes no time.
fn attempt(breaker: &mut Breaker, class: Class, now: Timestamp) -> bool {
    let permit = breaker.admit(now);
    let admitted = permit.is_ok();
    if let Ok(permit) = permit {
        breaker.settle(permit, &Outcome::of(class), now);
    }
    admitted
}

/// A breaker that opened at `at`.
fn opened(policy: BreakerPolicy, at: Timestamp) -> Breaker {
    let mut breaker = breaker(policy);
    breaker.trip(at);
    breaker
}

/// F26 [tower-resilience#382, rezilience#521, monix#1080]: a dropped probe kept everybody out.
#[test]
fn a_probe_that_is_dropped_makes_room_for_another() {
    let mut breaker = opened(BreakerPolicy::consecutive(1).open_for(constant(secs(30))), s(0.0));
    assert_eq!(breaker.admit(s(29.0)).unwrap_err().ready_at, Some(s(30.0)));
    let probe = breaker.admit(s(30.0)).unwrap();
    assert!(probe.is_probe());
    assert!(breaker.admit(s(30.5)).is_err());
    breaker.abandon(probe, s(31.0));
    assert!(attempt(&mut breaker, S, s(32.0)));
    assert_eq!(breaker.state(s(32.0)), Closed);
    let statistics = breaker.statistics();
    assert_eq!((statistics.ignored, statistics.failures, statistics.successes), (1, 0, 1));
}

/// F26 too: a probe whose outcome says nothing [Polly#311].
#[test]
fn a_probe_that_says_nothing_decides_nothing() {
    for class in [Class::Ignored, Class::Cancelled] {
        let mut breaker = opened(BreakerPolicy::consecutive(1).open_for(constant(secs(30))), s(0.0));
        assert!(attempt(&mut breaker, class, s(30.0)));
        assert_eq!(breaker.state(s(30.0)), HalfOpen);
        assert!(attempt(&mut breaker, F, s(31.0)));
        assert_eq!(breaker.state(s(31.0)), Open);
    }
}

/// F27 [resilience4j#1432, opossum#119, Polly#216]: three to ten passed.
#[test]
fn exactly_the_permitted_probes_pass() {
    let policy = BreakerPolicy::consecutive(1).max_probes(2).open_for(constant(secs(1)));
    let mut breaker = opened(policy, s(0.0));
    let admitted: Vec<_> = (0..10).filter_map(|_| breaker.admit(s(1.0)).ok()).collect();
    assert_eq!(admitted.len(), 2);
    // Those that have ended take their places with them.
    let mut probes = admitted.into_iter();
    breaker.settle(probes.next().unwrap(), &Outcome::of(S), s(1.1));
    assert!(breaker.admit(s(1.2)).is_err());
    breaker.settle(probes.next().unwrap(), &Outcome::of(S), s(1.3));
    assert_eq!(breaker.state(s(1.3)), Closed);
}

/// F28 [Polly#223, denoland/std#7306, k8s-breakglass#981]: a late result closed the breaker or freed a probe's place.
#[test]
fn a_late_result_changes_nothing() {
    let mut breaker = breaker(BreakerPolicy::consecutive(2).open_for(constant(secs(10))));
    let slow = breaker.admit(s(0.0)).unwrap();
    assert!(attempt(&mut breaker, F, s(1.0)));
    assert!(attempt(&mut breaker, F, s(2.0)));
    assert_eq!(breaker.ready_at(s(2.0)), Some(s(12.0)));
    let probe = breaker.admit(s(12.0)).unwrap();
    breaker.settle(slow, &Outcome::of(S), s(13.0));
    assert_eq!(breaker.state(s(13.0)), HalfOpen);
    assert!(breaker.admit(s(13.5)).is_err());
    breaker.settle(probe, &Outcome::of(F), s(14.0));
    assert_eq!(breaker.ready_at(s(14.0)), Some(s(24.0)));
    assert_eq!(breaker.statistics().late, 1);
    assert_eq!(breaker.statistics().successes, 1);
}

/// F29 [semian#24, vertx-circuit-breaker#24]: failures never expired.
#[test]
fn a_time_window_slides() {
    let policy = BreakerPolicy::time(secs(8)).no_failure_ratio().failures(4);
    let mut breaker = breaker(policy);
    for at in 0..100 {
        assert!(attempt(&mut breaker, F, s(f64::from(at) * 5.0)), "{at}");
    }
    assert_eq!(breaker.state(s(500.0)), Closed);
    for at in 0..4 {
        assert!(attempt(&mut breaker, F, s(600.0 + f64::from(at))));
    }
    assert_eq!(breaker.state(s(604.0)), Open);
}

/// Ten thousand old successes do not need ten thousand failures [tower-resilience 0.13, recloser].
#[test]
fn old_successes_are_forgotten() {
    for (policy, needed) in [
        (BreakerPolicy::count(100), 50),
        (BreakerPolicy::time(secs(10)), 20),
        (BreakerPolicy::consecutive(5), 5),
    ] {
        let mut breaker = breaker(policy);
        for _ in 0..10_000 {
            assert!(attempt(&mut breaker, S, s(1.0)));
        }
        let failures = (1..).find(|_| {
            attempt(&mut breaker, F, s(20.0));
            breaker.state(s(20.0)) == Open
        });
        assert_eq!(failures, Some(needed));
    }
}

/// systems.md 5 (Resilience4j).
#[test]
fn resilience4js_time_window_opens_at_the_fifth() {
    let mut breaker = breaker(BreakerPolicy::time(secs(20)).min_calls(5));
    for (class, ratio, state) in
        [(F, None, Closed), (F, None, Closed), (F, None, Closed), (S, None, Closed), (S, None, Open)]
    {
        assert_eq!(breaker.failure_ratio(s(1.0)), ratio);
        assert!(attempt(&mut breaker, class, s(1.0)));
        assert_eq!(breaker.state(s(1.0)), state);
    }
    assert!(breaker.admit(s(1.0)).is_err());
}

/// systems.md 6 (Polly): calls, minimum, failures, ratio.
#[test]
fn pollys_thresholds() {
    for (calls, minimum, failures, opens) in
        [(10, 10, 0, false), (10, 10, 1, true), (11, 10, 3, true), (9, 10, 1, false)]
    {
        let policy = BreakerPolicy::time(secs(30)).min_calls(minimum).failure_ratio(Ratio::percent(10));
        let mut breaker = breaker(policy);
        for call in 0..calls {
            // The failures come last, so that it does not open before.
            attempt(&mut breaker, if calls - call <= failures { F } else { S }, s(1.0));
        }
        assert_eq!(breaker.state(s(1.0)) == Open, opens, "{calls} {minimum} {failures}");
    }
}

#[test]
fn a_threshold_of_all_can_be_met() {
    // [Sentinel PR#1779]: a ratio of 1 with ">" never trips.
    let mut breaker = breaker(BreakerPolicy::count(4).failure_ratio(Ratio::ONE));
    for _ in 0..4 {
        assert!(attempt(&mut breaker, F, s(0.0)));
    }
    assert_eq!(breaker.state(s(0.0)), Open);
}

#[test]
fn a_permanent_answer_shows_that_the_target_answers() {
    let mut breaker = breaker(BreakerPolicy::consecutive(2));
    for class in [F, Class::Permanent, Class::Throttled, S, Class::Timeout, Class::Ignored] {
        assert!(attempt(&mut breaker, class, s(0.0)));
        assert_eq!(breaker.state(s(0.0)), Closed, "{class}");
    }
    assert!(attempt(&mut breaker, Class::NotSent, s(0.0)));
    assert_eq!(breaker.state(s(0.0)), Open);
}

#[test]
fn slow_calls_open_it_dropped_ones_too() {
    let policy =
        BreakerPolicy::count(4).no_failure_ratio().slow_calls(Ratio::percent(50), secs(2)).max_probes(2);
    let mut breaker = breaker(policy.open_for(constant(secs(10))));
    let start = s(100.0);
    let permits: Vec<Permit> = (0..5).map(|_| breaker.admit(start).unwrap()).collect();
    let mut permits = permits.into_iter();
    let mut next = || permits.next().unwrap();
    breaker.settle(next(), &Outcome::of(S), s(101.999));
    // Dropped before it was slow: it says nothing.
    breaker.abandon(next(), s(101.999));
    breaker.settle(next(), &Outcome::of(S), s(102.0));
    breaker.abandon(next(), s(102.0));
    assert_eq!(breaker.slow_ratio(s(102.0)), None);
    assert_eq!(breaker.state(s(102.0)), Closed);
    assert!(attempt(&mut breaker, S, s(102.0)));
    assert_eq!(breaker.state(s(102.0)), Open);
    assert_eq!(breaker.statistics().slow, 2);
    // Another from before comes too late.
    breaker.settle(next(), &Outcome::of(S), s(103.0));
    assert_eq!((breaker.statistics().slow, breaker.statistics().late), (3, 1));
    // A slow probe has failed.
    let probe = breaker.admit(s(112.0)).unwrap();
    breaker.settle(probe, &Outcome::of(S), s(114.0));
    assert_eq!(breaker.state(s(114.0)), Open);
}

#[test]
fn the_open_time_grows_while_it_reopens_and_is_jittered() {
    let mut breaker = opened(BreakerPolicy::consecutive(1), s(0.0));
    let mut now = s(0.0);
    for expected in [5.0, 10.0, 20.0, 40.0, 80.0, 120.0, 120.0] {
        let ready = breaker.ready_at(now).unwrap();
        let stayed = ready.since(now).as_secs_f64();
        assert!(
            (expected * 0.8..expected * 1.2).contains(&stayed) && stayed <= 120.0,
            "{expected}: {stayed}"
        );
        now = ready;
        assert!(attempt(&mut breaker, F, now));
    }
    // Once it was closed, it begins anew.
    let ready = breaker.ready_at(now).unwrap();
    assert!(attempt(&mut breaker, S, ready));
    assert!(attempt(&mut breaker, F, ready));
    assert!(breaker.ready_at(ready).unwrap().since(ready) < secs(6));
    // Two breakers do not come back together.
    let ready = |seed| {
        let mut breaker = Breaker::new(BreakerPolicy::consecutive(1), seed).unwrap();
        breaker.trip(s(0.0));
        breaker.ready_at(s(0.0))
    };
    assert_ne!(ready(1), ready(2));
    assert_eq!(ready(1), ready(1));
}

#[test]
fn half_open_ends_as_soon_as_it_is_certain() {
    let policy = BreakerPolicy::consecutive(1).max_probes(5).success_ratio(Ratio::percent(60));
    let policy = policy.open_for(constant(secs(1)));
    for (results, state) in [
        (&[S, S, S][..], Closed),
        (&[F, F, F], Open),
        (&[F, S, F, S], HalfOpen),
        (&[F, S, F, S, S], Closed),
        (&[S, F, S, F, F], Open),
    ] {
        let mut breaker = opened(policy.clone(), s(0.0));
        for class in results {
            assert!(attempt(&mut breaker, *class, s(1.0)));
        }
        assert_eq!(breaker.state(s(1.0)), state, "{results:?}");
    }
}

/// [resilience4j#903, Sentinel#1638, gobreaker]: half-open for ever.
#[test]
fn a_probe_that_never_settles_is_given_up() {
    let policy = BreakerPolicy::consecutive(1).open_for(constant(secs(1))).max_probe_duration(secs(10));
    let mut breaker = opened(policy, s(0.0));
    let hung = breaker.admit(s(1.0)).unwrap();
    assert!(breaker.admit(s(10.999)).is_err());
    assert_eq!(breaker.state(s(11.0)), Open);
    assert_eq!(breaker.ready_at(s(11.0)), Some(s(12.0)));
    assert_eq!(breaker.statistics().given_up, 1);
    let probe = breaker.admit(s(12.0)).unwrap();
    // What it says at last is late, and its place is not another's.
    breaker.settle(hung, &Outcome::of(S), s(12.5));
    assert_eq!(breaker.state(s(12.5)), HalfOpen);
    assert!(breaker.admit(s(12.5)).is_err());
    breaker.settle(probe, &Outcome::of(S), s(13.0));
    assert_eq!(breaker.state(s(13.0)), Closed);
}

#[test]
fn a_probe_that_was_given_up_counts_once() {
    let policy = BreakerPolicy::consecutive(1).open_for(constant(secs(1))).max_probe_duration(secs(10));
    let mut breaker = opened(policy.max_probes(3).success_ratio(Ratio::percent(50)), s(0.0));
    let hung = breaker.admit(s(1.0)).unwrap();
    assert_eq!(breaker.state(s(11.0)), HalfOpen);
    breaker.settle(hung, &Outcome::of(F), s(11.0));
    assert_eq!((breaker.state(s(11.0)), breaker.statistics().late), (HalfOpen, 1));
    assert!(attempt(&mut breaker, S, s(12.0)));
    assert!(attempt(&mut breaker, S, s(12.0)));
    assert_eq!(breaker.state(s(12.0)), Closed);
}

/// F28's other half: what a late probe gives back is not the place of one that runs.
#[test]
fn a_late_probe_frees_nobodys_place() {
    let policy = BreakerPolicy::consecutive(1).max_probes(2).open_for(constant(secs(1)));
    for abandoned in [true, false] {
        let mut breaker = opened(policy.clone(), s(0.0));
        let (first, late) = (breaker.admit(s(1.0)).unwrap(), breaker.admit(s(1.0)).unwrap());
        breaker.settle(first, &Outcome::of(F), s(1.0));
        let running = [breaker.admit(s(2.0)).unwrap(), breaker.admit(s(2.0)).unwrap()];
        if abandoned {
            breaker.abandon(late, s(2.0));
        } else {
            breaker.release(late);
        }
        assert!(breaker.admit(s(2.0)).is_err());
        for probe in running {
            breaker.settle(probe, &Outcome::of(S), s(3.0));
        }
        assert_eq!(breaker.state(s(3.0)), Closed);
    }
}

/// [Hystrix#1459, #1739]: a gradual return.
#[test]
fn calls_come_back_gradually() {
    let policy = BreakerPolicy::consecutive(3).open_for(constant(secs(1))).ramp(secs(10));
    let mut breaker = opened(policy, s(0.0));
    assert!(attempt(&mut breaker, S, s(1.0)));
    assert_eq!(breaker.state(s(1.0)), Returning);
    let mut admitted = |from: f64| {
        let asks = (0..1_000).map(|ask| from + f64::from(ask) / 1_000.0);
        asks.filter(|at| attempt(&mut breaker, S, s(*at))).count()
    };
    let seconds: Vec<_> = (1..=10).map(|second| admitted(f64::from(second))).collect();
    assert_eq!(admitted(11.0), 1_000);
    // A tenth of the calls at first, then as many tenths as seconds have passed.
    for (second, count) in seconds.iter().enumerate() {
        let share = (second as f64 + 0.5).max(1.0) / 10.0;
        assert!((share * 1_000.0 - *count as f64).abs() <= 2.0, "{second}: {count}");
    }
    assert_eq!(breaker.state(s(12.0)), Closed);
}

#[test]
fn a_failure_during_the_return_opens_it_for_longer() {
    let growing = Backoff::new(Schedule::exponential(secs(1))).jitter(Jitter::None);
    let mut breaker = opened(BreakerPolicy::consecutive(1).open_for(growing).ramp(secs(10)), s(0.0));
    assert!(attempt(&mut breaker, S, s(1.0)));
    assert!(attempt(&mut breaker, F, s(1.0)));
    assert_eq!(breaker.ready_at(s(1.0)), Some(s(3.0)));
    assert!(attempt(&mut breaker, S, s(3.0)));
    assert_eq!(breaker.state(s(13.0)), Closed);
    assert!(attempt(&mut breaker, F, s(13.0)));
    assert_eq!(breaker.ready_at(s(13.0)), Some(s(14.0)));
}

#[test]
fn a_mode_holds_whatever_happens() {
    let mut breaker = breaker(BreakerPolicy::count(2));
    breaker.set_mode(BreakerMode::ForcedOpen, s(0.0));
    assert_eq!(breaker.admit(s(1e6)).unwrap_err().ready_at, Some(Timestamp::MAX));
    assert_eq!(breaker.ready_at(s(1e6)), Some(Timestamp::MAX));
    for mode in [BreakerMode::Disabled, BreakerMode::MetricsOnly] {
        breaker.set_mode(mode, s(1e6));
        for _ in 0..10 {
            assert!(attempt(&mut breaker, F, s(1e6)));
        }
        let counted = (mode == BreakerMode::MetricsOnly).then_some(1.0);
        assert_eq!(breaker.failure_ratio(s(1e6)), counted);
    }
    // A result from before the change is late.
    let before = breaker.admit(s(1e6)).unwrap();
    breaker.set_mode(BreakerMode::Automatic, s(1e6));
    breaker.settle(before, &Outcome::of(F), s(1e6));
    assert!(attempt(&mut breaker, F, s(1e6)));
    assert_eq!(breaker.state(s(1e6)), Closed);
    assert!(attempt(&mut breaker, F, s(1e6)));
    assert_eq!(breaker.state(s(1e6)), Open);
    breaker.reset(s(1e6));
    assert_eq!(breaker.state(s(1e6)), Closed);
}

#[test]
fn time_that_steps_back_opens_nothing_earlier() {
    let mut breaker = opened(BreakerPolicy::consecutive(1).open_for(constant(secs(10))), s(100.0));
    assert_eq!(breaker.ready_at(s(3.0)), Some(s(110.0)));
    assert!(breaker.admit(s(3.0)).is_err());
    let probe = breaker.admit(s(110.0)).unwrap();
    breaker.settle(probe, &Outcome::of(S), s(90.0));
    assert_eq!(breaker.state(s(90.0)), Closed);
}

#[test]
fn a_snapshot_goes_on_where_it_was_taken() {
    let policies = [
        BreakerPolicy::consecutive(3).open_for(constant(secs(10))),
        BreakerPolicy::count(3).failure_ratio(Ratio::ONE).open_for(constant(secs(10))),
        BreakerPolicy::time(secs(10)).min_calls(3).open_for(constant(secs(10))),
    ];
    for policy in policies {
        let mut breaker = breaker(policy.clone());
        // Each step in a process of its own, as a command run by cron is.
        let mut next = |class, at| {
            let admitted = attempt(&mut breaker, class, s(at));
            let snapshot = breaker.snapshot();
            breaker = Breaker::restore(policy.clone(), 1, &snapshot, s(at)).unwrap();
            assert_eq!(breaker.snapshot(), snapshot);
            (admitted, breaker.state(s(at)))
        };
        assert_eq!(next(F, 1.0), (true, Closed));
        assert_eq!(next(F, 2.0), (true, Closed));
        assert_eq!(next(F, 3.0), (true, Open));
        assert_eq!(next(S, 12.0), (false, Open));
        assert_eq!(next(F, 13.0), (true, Open));
        assert_eq!(next(S, 23.0), (true, Closed));
    }
}

#[test]
fn a_snapshot_of_probes_keeps_what_they_showed() {
    let policy = BreakerPolicy::consecutive(1).max_probes(3).open_for(constant(secs(1)));
    let mut breaker = opened(policy.clone(), s(0.0));
    assert!(attempt(&mut breaker, S, s(1.0)));
    let running = breaker.admit(s(1.0)).unwrap();
    let mut breaker = Breaker::restore(policy.clone(), 1, &breaker.snapshot(), s(1.0)).unwrap();
    assert_eq!(breaker.state(s(1.0)), HalfOpen);
    // The one that ran belongs to another life.
    breaker.settle(running, &Outcome::of(F), s(1.1));
    assert_eq!(breaker.state(s(1.1)), HalfOpen);
    assert_eq!((0..9).filter(|_| breaker.admit(s(2.0)).is_ok()).count(), 2);
    // Under another policy: what does not fit is left out.
    let mut snapshot = breaker.snapshot();
    snapshot.window = WindowSnapshot::Count { calls: vec![1; 1_000] };
    snapshot.probes = (u32::MAX, u32::MAX);
    let mut other = Breaker::restore(BreakerPolicy::count(10), 1, &snapshot, s(2.0)).unwrap();
    assert_eq!(other.state(s(2.0)), Closed);
}

/// A computer whose clock was set back an hour must not be locked out for that hour.
#[test]
fn a_snapshot_from_the_future_keeps_its_distances() {
    let policy = BreakerPolicy::time(secs(10)).min_calls(3).open_for(constant(secs(10)));
    let mut open = opened(policy.clone(), s(3_600.0));
    let mut open = Breaker::restore(policy.clone(), 1, &seen_at(&mut open, s(3_605.0)), s(5.0)).unwrap();
    assert_eq!(open.ready_at(s(5.0)), Some(s(10.0)));
    let mut closed = breaker(policy.clone());
    (0..2).for_each(|_| assert!(attempt(&mut closed, F, s(3_600.0))));
    let mut closed = Breaker::restore(policy, 1, &seen_at(&mut closed, s(3_605.0)), s(5.0)).unwrap();
    assert!(attempt(&mut closed, F, s(9.0)));
    assert_eq!(closed.state(s(9.0)), Open);
}

/// The snapshot of a breaker that was looked at.
fn seen_at(breaker: &mut Breaker, now: Timestamp) -> BreakerSnapshot {
    breaker.state(now);
    breaker.snapshot()
}

#[test]
fn what_cannot_work_is_refused() {
    let count = BreakerPolicy::count(10);
    for (policy, key) in [
        (BreakerPolicy::consecutive(0), "failures"),
        (BreakerPolicy::consecutive(1).failure_ratio(Ratio::ONE), "failure_ratio"),
        (count.clone().failure_ratio(Ratio::ZERO), "failure_ratio"),
        (count.clone().failure_ratio(Ratio::percent(101)), "failure_ratio"),
        (count.clone().slow_calls(Ratio::ZERO, secs(1)), "slow_ratio"),
        (count.clone().success_ratio(Ratio::ZERO), "success_ratio"),
        (count.clone().no_failure_ratio(), "failure_ratio"),
        (count.clone().min_calls(0), "min_calls"),
        (count.clone().min_calls(11), "min_calls"),
        (count.clone().failures(11), "failures"),
        (count.clone().max_probes(0), "max_probes"),
        (count.clone().max_probe_duration(Duration::ZERO), "max_probe_duration"),
        (count.open_for(constant(secs(1)).floor(secs(2)).cap(secs(1))), "backoff.floor"),
        (BreakerPolicy::count(0), "window.size"),
        (BreakerPolicy::time(Duration::ZERO), "window.size"),
    ] {
        match Breaker::new(policy.clone(), 1) {
            Err(error) => assert_eq!(error.key(), key, "{policy:?}"),
            Ok(_) => panic!("{policy:?}"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Admit,
    Settle(usize, Class),
    Abandon(usize),
    Look,
}

fn history() -> impl Strategy<Value = Vec<(Duration, Step)>> {
    let pause = prop_oneof![
        3 => Just(Duration::ZERO),
        4 => (0..500u64).prop_map(Duration::from_millis),
        2 => (0..5u64).prop_map(Duration::from_secs),
    ];
    let step = prop_oneof![
        4 => Just(Step::Admit),
        4 => (any::<usize>(), strategies::class()).prop_map(|(which, class)| Step::Settle(which, class)),
        1 => any::<usize>().prop_map(Step::Abandon),
        1 => Just(Step::Look),
    ];
    prop::collection::vec((pause, step), 0..300)
}

fn window() -> impl Strategy<Value = BreakerWindow> {
    prop_oneof![
        Just(BreakerWindow::Consecutive),
        (1..200u32).prop_map(BreakerWindow::Count),
        (1..20u64).prop_map(|size| BreakerWindow::Time(Duration::from_secs(size))),
    ]
}

/// What a generated policy asks for, where a test must know it.
#[derive(Clone, Copy, Debug)]
struct Asked {
    window: BreakerWindow,
    least: u32,
    /// In millionths.
    failed: u32,
    /// In millionths, and from how many milliseconds on a call is slow; instead of the ratio of failures.
    slow: Option<(u32, u64)>,
    probes: u32,
    success: u32,
    probe_secs: u64,
    ramp_secs: u64,
}

impl Asked {
    fn policy(self) -> BreakerPolicy {
        let policy = match self.window {
            BreakerWindow::Count(size) => BreakerPolicy::count(size).min_calls(self.least.min(size)),
            BreakerWindow::Time(size) => BreakerPolicy::time(size).min_calls(self.least),
            _ => BreakerPolicy::consecutive(self.least),
        };
        let policy = match (self.window, self.slow) {
            (BreakerWindow::Consecutive, _) => policy,
            (_, Some((ratio, after))) => {
                let policy = policy.no_failure_ratio();
                policy.slow_calls(Ratio::per_million(ratio), Duration::from_millis(after))
            }
            _ => policy.failure_ratio(Ratio::per_million(self.failed)),
        };
        policy
            .max_probes(self.probes)
            .success_ratio(Ratio::per_million(self.success))
            .max_probe_duration(secs(self.probe_secs))
            .ramp(secs(self.ramp_secs))
    }

    fn is_slow(self, took: Duration) -> bool {
        let slow = self.slow.filter(|_| self.window != BreakerWindow::Consecutive);
        slow.is_some_and(|(_, after)| took >= Duration::from_millis(after))
    }

    /// Whether a breaker that has seen this must be open, by counting all of it: when each call ended in milliseconds,
    /// and whether it failed and was slow.
    fn opens(self, seen: &[(u64, bool, bool)], now: u64) -> bool {
        let kept: Vec<_> = match self.window {
            BreakerWindow::Count(size) => seen.iter().rev().take(size as usize).collect(),
            BreakerWindow::Time(size) => {
                let slot = size.as_millis() as u64 / 10;
                seen.iter().filter(|(at, ..)| at / slot + 10 > now / slot).collect()
            }
            _ => {
                return seen.iter().rev().take_while(|(_, failed, _)| *failed).count() >= self.least as usize;
            }
        };
        let least = match self.window {
            BreakerWindow::Count(size) => self.least.min(size),
            _ => self.least,
        };
        let (bad, limit) = match self.slow {
            Some((ratio, _)) => (kept.iter().filter(|(.., slow)| *slow).count(), ratio),
            None => (kept.iter().filter(|(_, failed, _)| *failed).count(), self.failed),
        };
        // A success opens it only where it is the call that makes them enough.
        let asks =
            seen.last().is_some_and(|(_, failed, slow)| *failed || *slow) || kept.len() == least as usize;
        asks && kept.len() >= least as usize && bad * 1_000_000 >= kept.len() * limit as usize
    }
}

fn asked() -> impl Strategy<Value = Asked> {
    let ratios = (1..1_000_000u32, prop::option::of((1..1_000_000u32, 0..3_000u64)));
    let probes = (1..6u32, 1..1_000_000u32, 1..5u64, 0..3u64);
    (window(), 1..10u32, ratios, probes).prop_map(|(window, least, (failed, slow), probes)| {
        let (probes, success, probe_secs, ramp_secs) = probes;
        Asked { window, least, failed, slow, probes, success, probe_secs, ramp_secs }
    })
}

proptest! {
    #![proptest_config(strategies::config(300))]

    #[test]
    fn there_are_exactly_the_permitted_probes_and_always_a_way_back(asked in asked(), history in history()) {
        let mut breaker = breaker(asked.policy());
        let mut now = Timestamp::ZERO;
        let mut running: Vec<(Permit, Timestamp, u64)> = vec![];
        // How often it had opened before the current half-open state, and how many of the probes' places are taken.
        let (mut episode, mut taken) = (0, 0);
        for (pause, step) in history {
            now = now.plus(pause);
            let state = breaker.state(now);
            if breaker.statistics().opened != episode {
                (episode, taken) = (breaker.statistics().opened, 0);
            }
            let ended = match step {
                Step::Admit => {
                    let permit = breaker.admit(now);
                    match state {
                        Closed => prop_assert!(permit.is_ok()),
                        Open => prop_assert!(permit.is_err()),
                        HalfOpen => prop_assert_eq!(permit.is_ok(), taken < asked.probes),
                        _ => {}
                    }
                    if let Ok(permit) = permit {
                        prop_assert_eq!(permit.is_probe(), state == HalfOpen);
                        taken += u32::from(permit.is_probe());
                        running.push((permit, now, episode));
                    }
                    None
                }
                Step::Settle(which, class) if !running.is_empty() => {
                    Some((running.swap_remove(which % running.len()), Some(class)))
                }
                Step::Abandon(which) if !running.is_empty() => {
                    Some((running.swap_remove(which % running.len()), None))
                }
                _ => None,
            };
            let Some(((permit, since, of), class)) = ended else { continue };
            let took = now.since(since);
            let says_nothing = matches!(class, None | Some(Class::Ignored | Class::Cancelled));
            let gives_back = permit.is_probe() && of == episode && state == HalfOpen;
            if gives_back && says_nothing && !asked.is_slow(took) && took < secs(asked.probe_secs) {
                taken -= 1;
            }
            match class {
                Some(class) => breaker.settle(permit, &Outcome::of(class), now),
                None => breaker.abandon(permit, now),
            }
        }
        // Whatever happened, and whatever never came back: in a while a call passes.
        let mut later = (0..20).map(|step| now.plus(secs(step * 150)));
        prop_assert!(later.any(|later| breaker.admit(later).is_ok()));
    }

    #[test]
    fn it_opens_exactly_where_counting_says(asked in asked(), results in prop::collection::vec(
        (0..1_500u64, strategies::class(), 0..5_000u64), 0..300,
    )) {
        let mut breaker = breaker(asked.policy());
        let mut seen = vec![];
        let mut now = 0;
        for (pause, class, took) in results {
            now += pause;
            let permit = breaker.admit(ms(now)).unwrap();
            now += took;
            breaker.settle(permit, &Outcome::of(class), ms(now));
            let slow = asked.is_slow(Duration::from_millis(took));
            let counts = !matches!(class, Class::Ignored | Class::Cancelled) || slow;
            if counts {
                seen.push((now, class.is_failure(), slow));
            }
            let opens = counts && asked.opens(&seen, now);
            prop_assert_eq!(breaker.state(ms(now)) == Open, opens, "{:?}", seen);
            if opens {
                breaker.reset(ms(now));
                seen.clear();
            }
        }
    }

    /// Threads that do not ask, and tell no success while it rests: a breaker that is told all of it, and one that is
    /// told what must be told, cannot be told apart.
    #[test]
    fn what_need_not_be_told_changes_nothing(asked in asked(), history in history()) {
        let policy = asked.policy();
        let (mut told, mut spared) = (breaker(policy.clone()), breaker(policy));
        // As it was when it was asked last, with the successes since then.
        let mut word = spared.standing();
        let mut now = Timestamp::ZERO;
        let mut running: Vec<(Permit, Result<Permit, Standing>, Timestamp)> = vec![];
        for (pause, step) in history {
            now = now.plus(pause);
            if let Step::Settle(which, Class::Success) = step
                && !running.is_empty()
                && let (_, Err(began), _) = running[which % running.len()]
                && let Some(taken) = word.take_success(began).or(word.is_at_rest().then_some(word))
            {
                let (permit, _, since) = running.swap_remove(which % running.len());
                told.settle(permit, &Outcome::of(Class::Success), since);
                word = taken;
                let mut seen = spared.clone();
                seen.resume(word);
                prop_assert_eq!(told.failure_ratio(now), seen.failure_ratio(now));
                continue;
            }
            spared.resume(word);
            match step {
                Step::Admit => {
                    let standing = spared.standing();
                    let permit = told.admit(now);
                    let spared = if standing.admits_all() { Ok(Err(standing)) } else { spared.admit(now).map(Ok) };
                    prop_assert_eq!(permit.is_ok(), spared.is_ok());
                    running.extend(permit.ok().zip(spared.ok()).map(|(permit, spared)| (permit, spared, now)));
                }
                Step::Settle(which, class) if !running.is_empty() => {
                    let (permit, other, since) = running.swap_remove(which % running.len());
                    let standing = spared.standing();
                    let (spared_permit, began) = match other {
                        Ok(permit) => (permit, None),
                        Err(began) => (began.permit(since), Some(began)),
                    };
                    if class == Class::Success && standing.admits_all() && !spared.times_success(&spared_permit) {
                        // The time of the beginning does for both.
                        told.settle(permit, &Outcome::of(class), since);
                        let mut is_taken = || began.is_some_and(|began| spared.take_success(began));
                        if !standing.is_at_rest() && !is_taken() {
                            spared.settle(spared_permit, &Outcome::of(class), since);
                        }
                    } else {
                        told.settle(permit, &Outcome::of(class), now);
                        spared.settle(spared_permit, &Outcome::of(class), now);
                    }
                }
                Step::Abandon(which) if !running.is_empty() => {
                    let (permit, other, since) = running.swap_remove(which % running.len());
                    told.abandon(permit, now);
                    match other {
                        Ok(permit) => spared.abandon(permit, now),
                        Err(standing) if asked.slow.is_some() => spared.abandon(standing.permit(since), now),
                        // Who holds nothing gives nothing back.
                        Err(_) => {}
                    }
                }
                _ => prop_assert_eq!(told.state(now), spared.state(now)),
            }
            prop_assert_eq!(told.ready_at(now), spared.ready_at(now));
            prop_assert_eq!(told.failure_ratio(now), spared.failure_ratio(now));
            let but_statistics = |breaker: &Breaker| BreakerSnapshot {
                statistics: Default::default(),
                ..breaker.snapshot()
            };
            prop_assert_eq!(but_statistics(&told), but_statistics(&spared));
            word = spared.standing();
        }
    }

    #[test]
    fn no_input_panics(
        history in history(),
        times in prop::collection::vec(any::<u64>(), 300),
        asked in asked(),
        seed: u64,
    ) {
        let mut breaker = Breaker::new(asked.policy(), seed).unwrap();
        let mut running = vec![];
        for ((_, step), now) in history.into_iter().zip(times) {
            let now = Timestamp::from_nanos(now);
            match step {
                Step::Admit => running.extend(breaker.admit(now)),
                Step::Settle(_, class) if !running.is_empty() => {
                    breaker.settle(running.remove(0), &Outcome::of(class), now);
                }
                Step::Abandon(_) if !running.is_empty() => breaker.abandon(running.remove(0), now),
                _ => breaker = Breaker::restore(asked.policy(), seed, &breaker.snapshot(), now).unwrap(),
            }
        }
    }
}

#[test]
fn a_success_opens_nothing_but_by_making_the_calls_enough() {
    // Five successes and four failures, of which the successes leave first.
    let seen = |least| {
        let mut breaker = breaker(BreakerPolicy::time(secs(10)).min_calls(least));
        for (class, at) in [(S, 0.0); 5].into_iter().chain([(F, 5.0); 4]) {
            assert!(attempt(&mut breaker, class, s(at)));
        }
        attempt(&mut breaker, S, s(10.0));
        breaker
    };
    let mut enough = seen(4);
    assert_eq!((enough.state(s(10.0)), enough.failure_ratio(s(10.0))), (Closed, Some(0.8)));
    attempt(&mut enough, F, s(10.0));
    assert_eq!(enough.state(s(10.0)), Open);
    assert_eq!(seen(5).state(s(10.0)), Open);
}

fn ms(ms: u64) -> Timestamp {
    Timestamp::from_duration(Duration::from_millis(ms))
}

#[test]
fn a_mode_that_was_asked_for_holds_from_the_beginning() {
    let admits = |mode| {
        let policy = BreakerPolicy::consecutive(1).mode(mode);
        let mut breaker = Breaker::new(policy, 7).unwrap();
        let now = Timestamp::ZERO;
        let permit = breaker.admit(now).ok()?;
        breaker.settle(permit, &Outcome::of(Class::Transient), now);
        Some(breaker.admit(now).map(|permit| breaker.release(permit)).is_ok())
    };
    assert_eq!(admits(BreakerMode::Automatic), Some(false));
    assert_eq!(admits(BreakerMode::ForcedOpen), None);
    assert_eq!(admits(BreakerMode::Disabled), Some(true));
    assert_eq!(admits(BreakerMode::MetricsOnly), Some(true));
    for mode in BreakerMode::ALL {
        assert_eq!(mode.as_str().parse(), Ok(mode));
    }
    for state in BreakerState::ALL {
        assert_eq!(state.as_str().parse(), Ok(state));
    }
}

/// Several that go on from one another's snapshots, with what is under way, are one.
fn elsewhere(breaker: &Breaker, now: Timestamp) -> Breaker {
    let (snapshot, under_way) = (breaker.snapshot(), breaker.under_way());
    let restored = Breaker::restore(breaker.policy().clone(), 99, &snapshot, now).unwrap();
    restored.with_under_way(&under_way)
}

#[test]
fn a_breaker_goes_on_elsewhere_with_its_probes() {
    let policy = BreakerPolicy::consecutive(1)
        .max_probes(3)
        .open_for(Backoff::new(Schedule::Constant { initial: secs(10) }).jitter(Jitter::None));
    let mut breaker = Breaker::new(policy, 7).unwrap();
    breaker.trip(s(0.0));
    let mut permits = Vec::new();
    for _ in 0..3 {
        breaker = elsewhere(&breaker, s(10.0));
        permits.push(breaker.admit(s(10.0)).unwrap());
    }
    breaker = elsewhere(&breaker, s(11.0));
    assert!(breaker.admit(s(11.0)).is_err(), "three probes run, and there is no fourth");
    // The second ends first; the others keep their places.
    breaker.settle(permits.remove(1), &Outcome::of(S), s(12.0));
    breaker = elsewhere(&breaker, s(12.0));
    assert!(breaker.admit(s(12.0)).is_err());
    breaker.release(permits.remove(0));
    breaker = elsewhere(&breaker, s(13.0));
    let again = breaker.admit(s(13.0)).unwrap();
    breaker.settle(again, &Outcome::of(S), s(13.0));
    breaker = elsewhere(&breaker, s(13.0));
    assert_eq!(breaker.state(s(13.0)), HalfOpen);
    breaker.settle(permits.remove(0), &Outcome::of(S), s(14.0));
    assert_eq!(breaker.state(s(14.0)), Closed);
    assert_eq!(elsewhere(&breaker, s(14.0)).statistics().late, 0);
}

#[test]
fn a_probe_that_never_comes_back_is_given_up_elsewhere() {
    let policy = BreakerPolicy::consecutive(1).max_probe_duration(secs(60));
    let mut breaker = Breaker::new(policy, 7).unwrap();
    breaker.trip(s(0.0));
    let lost = breaker.admit(s(100.0)).unwrap();
    assert!(lost.is_probe());
    let mut other = elsewhere(&breaker, s(130.0));
    assert!(other.admit(s(159.0)).is_err());
    assert_eq!(other.state(s(160.0)), Open);
    assert_eq!(other.statistics().given_up, 1);
}

#[test]
fn who_returns_gradually_returns_elsewhere_too() {
    let policy = BreakerPolicy::consecutive(1).ramp(secs(100));
    let mut breaker = Breaker::new(policy, 7).unwrap();
    breaker.trip(s(0.0));
    let probe = breaker.admit(s(100.0)).unwrap();
    breaker.settle(probe, &Outcome::of(S), s(100.0));
    assert_eq!(breaker.state(s(100.0)), Returning);
    let mut alone = breaker.clone();
    let count = |breaker: &mut Breaker| {
        let admitted = breaker.admit(s(150.0)).map(|permit| breaker.release(permit)).is_ok();
        u32::from(admitted)
    };
    let (mut here, mut there) = (0, 0);
    for _ in 0..100 {
        here += count(&mut alone);
        breaker = elsewhere(&breaker, s(150.0));
        there += count(&mut breaker);
    }
    assert_eq!((here, there), (50, 50));
}
