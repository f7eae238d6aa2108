//! Times and allocations.

use std::fmt;
use std::time::Instant;

use crate::case::Case;

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Samples of each case; the figures are their median and minimum.
    pub(crate) samples: usize,
    /// Calls per sample.
    pub(crate) calls: u64,
}

impl Effort {
    pub(crate) const FULL: Self = Self { samples: 401, calls: 20_000 };
    pub(crate) const QUICK: Self = Self { samples: 41, calls: 4_000 };
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples of {} calls each", self.samples, self.calls)
    }
}

/// A case and what was found.
pub(crate) struct Measured {
    pub(crate) case: Case,
    /// Nanoseconds per result.
    pub(crate) median: f64,
    pub(crate) minimum: f64,
    /// Allocations per call that succeeds at once.
    pub(crate) allocations: f64,
    /// Allocations per call that fails.
    pub(crate) failing_allocations: Option<f64>,
    /// Instructions per result, where they could be counted.
    pub(crate) instructions: Option<f64>,
}

/// Runs all cases in turn, over and over, each round beginning with another one: what else the machine does meets
/// all of them alike.
pub(crate) fn measure(mut cases: Vec<Case>, effort: Effort) -> Vec<Measured> {
    let mut samples = vec![Vec::with_capacity(effort.samples); cases.len()];
    for case in &mut cases {
        (case.run)(effort.calls);
    }
    let mut order: Vec<usize> = (0..cases.len()).collect();
    for _ in 0..effort.samples {
        for &index in &order {
            if let (Some(case), Some(samples)) = (cases.get_mut(index), samples.get_mut(index)) {
                samples.push(time(case, effort.calls));
            }
        }
        order.rotate_left(1);
    }
    cases.into_iter().zip(samples).map(|(case, samples)| summarize(case, samples)).collect()
}

fn time(case: &mut Case, calls: u64) -> f64 {
    let start = Instant::now();
    (case.run)(calls);
    start.elapsed().as_nanos() as f64 / (calls * case.per_call) as f64
}

fn summarize(mut case: Case, mut samples: Vec<f64>) -> Measured {
    samples.sort_by(f64::total_cmp);
    let allocations = allocations_of(&mut case.run, 100);
    let failing_allocations = case.fail.as_mut().map(|fail| allocations_of(fail, 10));
    Measured {
        median: samples.get(samples.len() / 2).copied().unwrap_or_default(),
        minimum: samples.first().copied().unwrap_or_default(),
        allocations,
        failing_allocations,
        instructions: None,
        case,
    }
}

/// Per call: the difference between twice as many calls and so many, without what entering the loop takes.
fn allocations_of(run: &mut dyn FnMut(u64), calls: u64) -> f64 {
    let mut count = |calls| allocation_counter::measure(|| run(calls)).count_total as f64;
    count(calls); // thread-locals and the like, once
    let once = count(calls);
    (count(2 * calls) - once) / calls as f64
}
