//! Schedules: the waits before cap and jitter, and their defaults.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

use std::time::Duration;

use relent_core::{Backoff, Jitter, Multiplier, Policy, Stage};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The first waits without jitter, in seconds.
fn waits(backoff: &Backoff, count: usize) -> Vec<f64> {
    let plain = backoff.clone().jitter(Jitter::None);
    plain.waits(0).take(count).map(|wait| wait.as_secs_f64()).collect()
}

#[test]
fn waits_that_were_named_are_not_cut_by_a_default() {
    let hour = secs(3600);
    let stage = Stage { until: None, initial: hour, multiplier: Multiplier::ONE };
    for policy in [Policy::constant(hour), Policy::list([hour, hour]), Policy::stages([stage])] {
        let policy = policy.build().unwrap();
        assert_eq!(policy.backoff().longest(), None);
        assert_eq!(waits(policy.backoff(), 2), [3600.0, 3600.0]);
    }
    assert_eq!(Policy::csma(secs(30)).build().unwrap().backoff().longest(), None);
    for policy in [Policy::exponential(secs(9)), Policy::linear(secs(9), secs(9)), Policy::fibonacci(secs(9))]
    {
        let policy = policy.build().unwrap();
        assert_eq!(policy.backoff().longest(), Some(secs(20)));
        assert_eq!(waits(policy.backoff(), 9)[8], 20.0);
    }
}
