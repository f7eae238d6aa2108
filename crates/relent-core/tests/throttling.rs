//! Adaptive throttling and the adaptive rate: the figures of other systems.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

mod strategies;

use std::time::Duration;

use proptest::prelude::*;
use relent_core::{AdaptiveRate, Class, Dice, Outcome, Throttle, ThrottlePolicy, Timestamp};

fn s(secs: f64) -> Timestamp {
    Timestamp::from_nanos((secs * 1e9).round() as u64)
}

/// systems.md 10: SRE book chapter 21, Envoy's `admission_control.proto`, failsafe-go's tests, Finagle's
/// `NackAdmissionFilter`.
#[test]
fn the_share_that_is_rejected_is_that_of_other_systems() {
    let envoy = ThrottlePolicy::envoy(0.95);
    let failsafe = ThrottlePolicy::sre(1.0 / 0.9);
    let finagle = ThrottlePolicy::finagle(0.5);
    for (policy, requests, accepted, expected) in [
        (ThrottlePolicy::sre(2.0), 100, 50, 0.0),
        (ThrottlePolicy::sre(2.0), 100, 25, 0.49505),
        (ThrottlePolicy::sre(2.0), 100, 0, 0.99010),
        (envoy, 100, 95, 0.0),
        (envoy, 100, 80, 0.15633),
        (envoy, 100, 50, 0.46899),
        (envoy.aggression(2.0), 100, 50, 0.68483),
        (envoy, 100, 0, 0.8),
        (failsafe, 120, 90, 0.16529),
        (failsafe, 200, 50, 0.71863),
        (finagle, 1_000, 500, 0.0),
        (finagle, 1_000, 400, 0.2),
        (finagle, 1_000, 200, 0.6),
        (finagle, 1_000, 100, 0.75),
        (finagle, 599, 0, 0.0),
        (ThrottlePolicy::sre(2.0), 0, 0, 0.0),
    ] {
        let share = policy.rejection(requests, accepted);
        assert!((share - expected).abs() < 5e-6, "{policy:?} {requests} {accepted}: {share}");
    }
}

/// A target that takes 100 requests per second gets little more than K times that, however many are made.
#[test]
fn a_client_holds_itself_to_k_times_what_is_accepted() {
    let mut throttle = Throttle::new(ThrottlePolicy::sre(2.0)).unwrap();
    let mut dice = Dice::new(7);
    let mut second = |at: u64, throttle: &mut Throttle, capacity: u64, made: u64| {
        let mut sent = 0;
        for request in 0..made {
            let now = Timestamp::from_nanos(at * 1_000_000_000 + request * 1_000_000_000 / made);
            if throttle.admit(now, dice.roll()) {
                sent += 1;
                let class = if sent <= capacity { Class::Success } else { Class::Throttled };
                throttle.settle(&Outcome::of(class), now);
            }
        }
        sent
    };
    for at in 0..240 {
        second(at, &mut throttle, 100, 1_000);
    }
    let sent: u64 = (240..300).map(|at| second(at, &mut throttle, 100, 1_000)).sum();
    assert!((11_000..14_000).contains(&sent), "{sent} of 12 000");
    // When the target is back, so is all of the traffic.
    for at in 300..430 {
        second(at, &mut throttle, 1_000, 1_000);
    }
    assert_eq!(second(430, &mut throttle, 1_000, 1_000), 1_000);
    assert_eq!(throttle.rejection(s(431.0)), 0.0);
}

#[test]
fn what_is_no_throttle_is_refused() {
    for (policy, key) in [
        (ThrottlePolicy::sre(f64::NAN), "k"),
        (ThrottlePolicy::sre(0.5), "k"),
        (ThrottlePolicy::envoy(0.0), "k"),
        (ThrottlePolicy::envoy(1.1), "k"),
        (ThrottlePolicy::sre(2.0).aggression(0.0), "aggression"),
        (ThrottlePolicy::sre(2.0).aggression(f64::INFINITY), "aggression"),
        (ThrottlePolicy::finagle(f64::NAN), "threshold"),
        (ThrottlePolicy::sre(2.0).max_rejection(f64::NAN), "max_rejection"),
        (ThrottlePolicy::sre(2.0).max_rejection(1.5), "max_rejection"),
        (ThrottlePolicy::sre(2.0).window(Duration::ZERO), "window"),
    ] {
        assert_eq!(Throttle::new(policy).unwrap_err().key(), key);
    }
}

/// The sequence that botocore 1.44.8 (`tests/unit/retries/test_adaptive.py`), aws-sdk-go-v2
/// (`aws/retry/adaptive_ratelimit_test.go`) and smithy-rs share: time, throttled, measured rate, fill rate.
const UPDATES: [(f64, bool, f64, f64); 17] = [
    (0.2, false, 0.0, 0.5),
    (0.4, false, 0.0, 0.5),
    (0.6, false, 4.8, 0.5),
    (0.8, false, 4.8, 0.5),
    (1.0, false, 4.16, 0.5),
    (1.2, false, 4.16, 0.6912),
    (1.4, false, 4.16, 1.0976),
    (1.6, false, 5.632, 1.6384),
    (1.8, false, 5.632, 2.3328),
    (2.0, true, 4.3264, 3.02848),
    (2.2, false, 4.3264, 3.48663917347026),
    (2.4, false, 4.3264, 3.821874416040255),
    (2.6, false, 5.66528, 4.053385727709987),
    (2.8, false, 5.66528, 4.200373108479454),
    (3.0, false, 4.333056, 4.282036558348658),
    (3.2, true, 4.333056, 2.99742559084406),
    (3.4, false, 4.333056, 3.4522263943863463),
];

#[test]
fn the_adaptive_rate_follows_the_aws_sdks() {
    // From whichever time on it runs.
    for began in [0, 1_700_000_000_000_000_000] {
        let at = |secs: f64| Timestamp::from_nanos(began + s(secs).as_nanos());
        let mut rate = AdaptiveRate::new(at(0.0));
        for (time, throttled, measured, fill) in UPDATES {
            rate.update(throttled, at(time));
            assert!((rate.measured_rate() - measured).abs() < 1e-8, "{time}: {}", rate.measured_rate());
            assert!((rate.fill_rate() - fill).abs() < 1e-8, "{time}: {}", rate.fill_rate());
            assert_eq!(rate.is_enabled(), time >= 2.0);
        }
    }
}

/// Same sources: the measured rate.
#[test]
fn the_rate_is_measured_in_half_seconds() {
    let measured = |times: &[f64]| {
        let mut rate = AdaptiveRate::new(Timestamp::ZERO);
        times.iter().for_each(|time| rate.update(false, s(*time)));
        rate.measured_rate()
    };
    assert!((measured(&[1.0]) - 0.8).abs() < 1e-8);
    assert_eq!(measured(&[0.1, 0.2, 0.3, 0.4, 0.49]), 0.0);
    assert!((measured(&[0.1, 0.2, 0.3, 0.4, 0.49, 0.5]) - 9.6).abs() < 1e-8);
    let seconds: Vec<_> = (1..=20).map(f64::from).collect();
    assert!((measured(&seconds) - 1.0).abs() < 1e-8);
}

/// Same sources: ten callers get the same wait, and nothing is taken on credit.
#[test]
fn whoever_must_wait_takes_nothing() {
    let mut rate = AdaptiveRate::new(Timestamp::ZERO);
    assert_eq!(rate.acquire(1_000, Timestamp::ZERO), Ok(()));
    rate.update(true, Timestamp::ZERO);
    for _ in 0..10 {
        let wait = rate.acquire(1, s(0.1)).unwrap_err();
        assert!(wait.abs_diff(Duration::from_millis(1_900)) <= Duration::from_nanos(1), "{wait:?}");
        assert!((rate.capacity() - 0.05).abs() < 1e-8);
    }
    assert_eq!(rate.acquire(1, s(2.1)), Ok(()));
    assert!(rate.capacity().abs() < 1e-8);
    let mut rate = AdaptiveRate::new(Timestamp::ZERO);
    (0..50).for_each(|i| rate.update(true, s(f64::from(i) / 1_000.0)));
    assert_eq!(rate.fill_rate(), 0.5);
}

/// A wait that rounds to nothing would be asked for again and again: what is missing then is a rounding error of the
/// tokens, and is given.
#[test]
fn nobody_is_told_to_wait_for_nothing() {
    let mut waited = 0;
    for nanos in 0..2_000 {
        let mut rate = AdaptiveRate::new(Timestamp::ZERO);
        rate.update(true, Timestamp::ZERO);
        // Half a token a second: the first one is there after two seconds, give or take what floats do to it.
        let now = s(2.0).as_nanos() - 1_000 + nanos;
        match rate.acquire(1, Timestamp::from_nanos(now)) {
            Ok(()) => assert!(rate.capacity() >= 0.0, "{nanos}"),
            Err(wait) => {
                waited += 1;
                assert!(wait >= Duration::from_nanos(1), "{nanos}");
                assert!(nanos < 1_000, "{nanos}: {wait:?}");
            }
        }
    }
    assert!(waited >= 998, "{waited}");
}

proptest! {
    #![proptest_config(strategies::config(200))]

    #[test]
    fn the_adaptive_rate_stays_within_its_bounds_and_grants_what_it_said(
        events in prop::collection::vec((0..3_000_000_000u64, any::<bool>(), any::<bool>()), 0..200),
    ) {
        let mut rate = AdaptiveRate::new(Timestamp::ZERO);
        let mut now = Timestamp::ZERO;
        for (pause, asks, throttled) in events {
            now = now.plus(Duration::from_nanos(pause));
            if asks {
                if let Err(wait) = rate.acquire(1, now) {
                    prop_assert!(!wait.is_zero(), "whoever waits for nothing asks for ever");
                    // Exactly when it said, and within a few nanoseconds of it, since its numbers are floats.
                    prop_assert!(rate.clone().acquire(1, now.plus(wait + Duration::from_nanos(2))).is_ok());
                    let early = wait.saturating_sub(Duration::from_micros(1));
                    prop_assert!(wait <= early || rate.clone().acquire(1, now.plus(early)).is_err());
                }
            } else {
                rate.update(throttled, now);
                prop_assert!(rate.fill_rate() >= 0.5 && rate.fill_rate().is_finite());
                prop_assert!(rate.fill_rate() <= (2.0 * rate.measured_rate()).max(0.5) + 1e-9);
            }
            prop_assert!(rate.capacity() >= 0.0);
        }
    }

    #[test]
    fn a_rejection_is_a_share(requests: u64, accepted: u64, k in 1.0..10.0f64, aggression in 0.1..10.0f64) {
        for policy in [
            ThrottlePolicy::sre(k).aggression(aggression),
            ThrottlePolicy::envoy(1.0 / k),
            ThrottlePolicy::finagle(1.0 / k),
        ] {
            let share = policy.rejection(requests, accepted.min(requests));
            prop_assert!((0.0..=1.0).contains(&share), "{policy:?}: {share}");
        }
    }
}
