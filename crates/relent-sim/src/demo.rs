//! A herd in few words: what `relent demo` draws.

use std::time::Duration;

use relent_core::Policy;

use crate::measure::Measure;
use crate::model::Herd;
use crate::run::{RunError, Simulation};
use crate::scenario::Scenario;

/// What an outage does to a herd under one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Aftermath {
    /// Attempts in each bin.
    pub load: Vec<u64>,
    /// The width of a bin.
    pub bin: Duration,
    /// The most attempts in a bin.
    pub peak: u64,
    /// From the end of the outage until the last client was served; `None`: some never were.
    pub drained: Option<Duration>,
    /// All attempts.
    pub attempts: u64,
    /// Clients that gave up.
    pub gave_up: u64,
}

/// `clients` call a server that is out for `outage` and then serves `capacity` per second; what comes of it under each
/// policy, with the same luck, in bins of `bin`.
///
/// ```
/// use std::time::Duration;
/// use relent_core::{Jitter, Policy};
///
/// let policy = |jitter| Policy::exponential(Duration::from_millis(100)).unlimited_attempts().jitter(jitter).build();
/// let [none, full] = relent_sim::aftermath(
///     1000, Duration::from_secs(5), 500, Duration::from_millis(100), 1, [policy(Jitter::None)?, policy(Jitter::Full)?],
/// )?;
/// assert!(full.drained < none.drained);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// No clients or too many, no capacity, bins of no width.
pub fn aftermath<const N: usize>(
    clients: u32,
    outage: Duration,
    capacity: u64,
    bin: Duration,
    seed: u64,
    policies: [Policy; N],
) -> Result<[Aftermath; N], RunError> {
    let herd = Herd { clients, capacity, outage: Some((Duration::ZERO, outage)), ..Herd::default() };
    let mut simulation = Simulation::new(Scenario { bin, ..Scenario::herd(herd) }).seed(seed);
    for policy in policies {
        simulation = simulation.contender("", policy);
    }
    let comparison = simulation.run()?;
    let mut reports = comparison.reports.into_iter().map(|report| Aftermath {
        peak: report.series.attempts.iter().copied().max().unwrap_or(0),
        drained: (report.tally.failed == 0)
            .then(|| report.mean(Measure::Drain))
            .flatten()
            .map(Duration::from_secs_f64),
        attempts: report.tally.attempts,
        gave_up: report.tally.failed,
        load: report.series.attempts,
        bin,
    });
    let nothing = Aftermath { load: Vec::new(), bin, peak: 0, drained: None, attempts: 0, gave_up: 0 };
    Ok(std::array::from_fn(|_| reports.next().unwrap_or_else(|| nothing.clone())))
}
