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

use std::rc::Rc;
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

/// A row of the file, and the waits of that retry that we drew.
struct Row {
    formula: String,
    retry: usize,
    /// In the order of [`QUANTILES`].
    quantiles: Vec<f64>,
    mean: f64,
    waits: Rc<Vec<Vec<f64>>>,
}

fn rows() -> Vec<Row> {
    let mut drawn: (String, Rc<Vec<Vec<f64>>>) = Default::default();
    let lines = include_str!("data/jitter-quantiles.csv").lines().skip(1);
    let row = |line| {
        let (formula, numbers) = row(line);
        if drawn.0 != formula {
            drawn = (formula.clone(), Rc::new(draw(&backoff(&formula))));
        }
        let (retry, quantiles, mean) = (numbers[0] as usize, numbers[1..7].to_vec(), numbers[7]);
        Row { formula, retry, quantiles, mean, waits: Rc::clone(&drawn.1) }
    };
    lines.map(row).collect()
}

impl Row {
    /// Where what was drawn differs from what was published.
    fn differences(&self, quantiles: &[f64], mean: f64) -> Vec<String> {
        let waits = &self.waits[self.retry - 1];
        let mut differences = vec![];
        for (quantile, value) in QUANTILES.into_iter().zip(quantiles) {
            // Five standard deviations of a share among our calls; what the file's own sample adds is less.
            let error = 5.0 * (quantile * (1.0 - quantile) / CALLS as f64).sqrt() + 1.0 / CALLS as f64;
            let share = |below: &dyn Fn(f64) -> bool| {
                waits.iter().filter(|wait| below(**wait)).count() as f64 / CALLS as f64
            };
            let (up_to, below) = (share(&|wait| wait <= value + 6e-5), share(&|wait| wait < value - 6e-5));
            if up_to < quantile - error || below > quantile + error {
                differences
                    .push(format!("{value} s is the {quantile} quantile there; here {below} to {up_to}"));
            }
        }
        let ours = waits.iter().sum::<f64>() / CALLS as f64;
        let variance = waits.iter().map(|wait| (wait - ours).powi(2)).sum::<f64>() / CALLS as f64;
        if (ours - mean).abs() >= 5.0 * (variance / CALLS as f64).sqrt() + 6e-5 {
            differences.push(format!("{mean} s is the mean there; here {ours}"));
        }
        differences
    }
}

#[test]
fn draws_are_distributed_as_published() {
    let rows = rows();
    assert_eq!(rows.len(), 7 * RETRIES);
    for row in rows {
        let differences = row.differences(&row.quantiles, row.mean);
        assert!(differences.is_empty(), "{}, retry {}: {differences:?}", row.formula, row.retry);
    }
}

#[test]
fn every_change_of_a_published_figure_is_seen() {
    for row in rows() {
        for (index, quantile) in QUANTILES.into_iter().enumerate() {
            let mut quantiles = row.quantiles.clone();
            // Towards the middle, where the draws are.
            quantiles[index] *= if quantile < 0.5 { 1.2 } else { 0.8 };
            let seen = row.differences(&quantiles, row.mean);
            assert!(!seen.is_empty(), "{}, retry {}: {quantile} of {quantiles:?}", row.formula, row.retry);
        }
        let seen = row.differences(&row.quantiles, row.mean * 1.2);
        assert!(!seen.is_empty(), "{}, retry {}: {} more", row.formula, row.retry, row.mean);
    }
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
