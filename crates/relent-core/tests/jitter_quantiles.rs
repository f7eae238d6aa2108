//! The distributions of the jitter kinds, against a simulation that was made without this crate.
//!
//! `data/jitter-quantiles.csv`: the formulas as their authors published them (Polly v8's `RetryHelper`, the AWS
//! Architecture Blog of 2015, gRFC A6 of 2024), drawn by another program; waits in seconds, rounded to 0.1 ms.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

use std::time::Duration;

use relent_core::{Backoff, Bound, Dice, Jitter, Schedule};

const QUANTILES: [f64; 6] = [0.05, 0.25, 0.5, 0.75, 0.95, 0.999];
const CALLS: usize = 20_000;
const RETRIES: usize = 6;

fn backoff(formula: &str) -> Backoff {
    let exponential = |millis| Backoff::new(Schedule::exponential(Duration::from_millis(millis))).uncapped();
    match formula {
        "polly_v2_median1s" => exponential(1_000).jitter(Jitter::DecorrelatedV2),
        "full_jitter_base1s_attempt1=[0,2]" => exponential(2_000),
        "equal_jitter_base4/3s" => {
            let third = Duration::from_nanos(1_333_333_333);
            Backoff::new(Schedule::exponential(third)).uncapped().jitter(Jitter::Equal)
        }
        "aws_decorrelated_base0.5s_nocap" => exponential(500).jitter(Jitter::Decorrelated),
        "aws_decorrelated_base0.5s_cap10s" => {
            exponential(500).jitter(Jitter::Decorrelated).cap(Duration::from_secs(10)).bound(Bound::Sample)
        }
        "grpc_pm20pct_base1s" => {
            exponential(1_000).jitter(Jitter::Proportional { factor: 0.2 }).bound(Bound::Loose)
        }
        "expo_no_jitter_base1s" => exponential(1_000).jitter(Jitter::None),
        unknown => panic!("a formula that this test does not know: {unknown}"),
    }
}

#[test]
fn draws_are_distributed_as_published() {
    let mut rows = 0;
    let mut drawn: (String, Vec<Vec<f64>>) = Default::default();
    for line in include_str!("data/jitter-quantiles.csv").lines().skip(1) {
        let (formula, numbers) = row(line);
        if drawn.0 != formula {
            drawn = (formula.clone(), draw(&backoff(&formula)));
        }
        let retry = numbers[0] as usize;
        let waits = &drawn.1[retry - 1];
        for (quantile, value) in QUANTILES.into_iter().zip(&numbers[1..7]) {
            // Five standard deviations of a share among our calls; what the file's own sample adds is less.
            let error = 5.0 * (quantile * (1.0 - quantile) / CALLS as f64).sqrt() + 1.0 / CALLS as f64;
            let share = |below: &dyn Fn(f64) -> bool| {
                waits.iter().filter(|wait| below(**wait)).count() as f64 / CALLS as f64
            };
            let (up_to, below) = (share(&|wait| wait <= value + 6e-5), share(&|wait| wait < value - 6e-5));
            assert!(
                up_to >= quantile - error && below <= quantile + error,
                "{formula}, retry {retry}: {value} s is the {quantile} quantile there; here {below} to {up_to}"
            );
        }
        let mean = waits.iter().sum::<f64>() / CALLS as f64;
        let variance = waits.iter().map(|wait| (wait - mean).powi(2)).sum::<f64>() / CALLS as f64;
        let error = 5.0 * (variance / CALLS as f64).sqrt() + 6e-5;
        assert!((mean - numbers[7]).abs() < error, "{formula}, retry {retry}: {mean} for {}", numbers[7]);
        rows += 1;
    }
    assert_eq!(rows, 7 * RETRIES);
}

/// The formula's name, which may be quoted, and the numbers after it.
fn row(line: &str) -> (String, Vec<f64>) {
    let (formula, numbers) = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\",").unwrap(),
        None => line.split_once(',').unwrap(),
    };
    (formula.to_owned(), numbers.split(',').map(|number| number.parse().unwrap()).collect())
}

/// For each retry the waits of all calls, in seconds.
fn draw(backoff: &Backoff) -> Vec<Vec<f64>> {
    let mut seeds = Dice::new(1866);
    let mut waits = vec![vec![]; RETRIES];
    for _ in 0..CALLS {
        for (waits, wait) in waits.iter_mut().zip(backoff.waits(seeds.roll())) {
            waits.push(wait.as_secs_f64());
        }
    }
    waits
}
