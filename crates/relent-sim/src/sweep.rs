//! Many scenarios that differ in one or two numbers: where a fleet still recovers.

use crate::measure::Measure;
use crate::run::{RunError, Simulation};
use crate::scenario::Scenario;
use crate::strategy::Strategy;
use crate::text;

/// The load up to which a fleet recovers under a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boundary {
    /// The highest load tried from which it recovered in every replication; `None`: from none.
    pub recovers: Option<f64>,
    /// The lowest load tried from which it did not; `None`: it recovered from all.
    pub stuck: Option<f64>,
}

/// Looks for the load between `low` and `high` above which a fleet does not recover, halving the distance `steps` times.
/// `scenario` makes the scenario for a load.
///
/// # Errors
///
/// A scenario that cannot be run.
///
/// ```
/// use std::time::Duration;
/// use relent_core::{Jitter, Policy};
/// use relent_sim::{boundary, built_in};
///
/// // One retry doubles the load of a service that answers too late, so that half of its capacity is all that is safe.
/// let retry = Policy::constant(Duration::ZERO).jitter(Jitter::None).max_attempts(2).build()?;
/// let scenario = |rate: f64| {
///     let rate = rate.to_string();
///     built_in("metastable", &[("capacity", "100"), ("rate", &rate), ("replications", "1")])
/// };
/// let boundary = boundary(&retry.into(), 30.0, 70.0, 2, scenario)?;
/// assert_eq!((boundary.recovers, boundary.stuck), (Some(40.0), Some(50.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn boundary<E>(
    strategy: &Strategy,
    low: f64,
    high: f64,
    steps: u32,
    scenario: impl Fn(f64) -> Result<Scenario, E>,
) -> Result<Boundary, RunError>
where
    RunError: From<E>,
{
    let mut found = Boundary { recovers: None, stuck: None };
    let (mut low, mut high) = (low, high);
    for load in [low, high] {
        found.note(load, recovers(scenario(load)?, strategy)?);
    }
    if found.recovers != Some(low) || found.stuck != Some(high) {
        return Ok(found);
    }
    // The middles of halves, so that low and high are never tried again.
    for _ in 0..steps {
        let middle = f64::midpoint(low, high);
        let fine = recovers(scenario(middle)?, strategy)?;
        found.note(middle, fine);
        if fine {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(found)
}

impl Boundary {
    fn note(&mut self, load: f64, recovers: bool) {
        if recovers {
            self.recovers = Some(self.recovers.map_or(load, |best| best.max(load)));
        } else {
            self.stuck = Some(self.stuck.map_or(load, |worst| worst.min(load)));
        }
    }

    /// "stays down for ever above 145/s", and its kin.
    pub fn sentence(&self) -> String {
        match (self.recovers, self.stuck) {
            (Some(up_to), Some(_)) => format!("stays down for ever above {}/s", text::number(up_to)),
            (Some(_), None) => "recovers from every load tried".into(),
            (None, Some(from)) => format!("stays down for ever, at {}/s and above", text::number(from)),
            (None, None) => "was not tried".into(),
        }
    }
}

/// The part of the replications in which the fleet recovers, for each pair of `rows` and `columns`: a map of how
/// vulnerable it is (Huang et al., OSDI 2022, figure 4c).
///
/// # Errors
///
/// A scenario that cannot be run.
pub fn vulnerability<E>(
    strategy: &Strategy,
    rows: &[f64],
    columns: &[f64],
    scenario: impl Fn(f64, f64) -> Result<Scenario, E>,
) -> Result<Vec<Vec<f64>>, RunError>
where
    RunError: From<E>,
{
    let cell = |row: f64, column: f64| share(scenario(row, column)?, strategy);
    rows.iter().map(|row| columns.iter().map(|column| cell(*row, *column)).collect()).collect()
}

fn recovers(scenario: Scenario, strategy: &Strategy) -> Result<bool, RunError> {
    Ok(share(scenario, strategy)? >= 1.0)
}

fn share(scenario: Scenario, strategy: &Strategy) -> Result<f64, RunError> {
    let comparison = Simulation::new(scenario).contender("policy", strategy.clone()).run()?;
    let recovery = comparison.reports.first().and_then(|report| report.estimate(Measure::Recovery));
    Ok(recovery.map_or(0.0, |found| f64::from(found.samples) / f64::from(found.samples + found.never)))
}
