//! Scenarios: a model with its numbers, how long and how often it runs, and what meets in it.

use std::fmt;
use std::time::Duration;

use relent_core::Policy;

use crate::model::{Herd, Model, Occ};
use crate::record::{Frame, MAX_BINS};
use crate::strategy::{PREFIX, Strategies};

/// A scenario.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// One sentence.
    pub description: String,
    /// What is simulated.
    pub model: Model,
    /// The width of the bins of all series.
    pub bin: Duration,
    /// How often it runs, each time with other luck.
    pub replications: u32,
    /// The seed.
    pub seed: u64,
    /// What an attempt costs, and a second of a server's work.
    pub cost: Cost,
    /// The numbers of the built-in strategies here.
    pub strategies: Strategies,
    /// Which of them meet when nobody says.
    pub line_up: Vec<String>,
}

/// Prices, in a unit of one's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Of an attempt.
    pub attempt: f64,
    /// Of a second of a server's work.
    pub work_second: f64,
}

impl Default for Cost {
    /// 1 each.
    fn default() -> Self {
        Self { attempt: 1.0, work_second: 1.0 }
    }
}

/// What is wrong with a scenario: the key, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    key: String,
    why: String,
}

impl ScenarioError {
    pub(crate) fn new(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self { key: key.into(), why: why.into() }
    }

    /// The key, as a scenario file has it: `"clients.shoppers.count"`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is wrong with it, as a sentence without the key.
    pub fn why(&self) -> &str {
        &self.why
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
    }
}

impl std::error::Error for ScenarioError {}

/// The most clients of one scenario: about 5 GB.
pub const MAX_CLIENTS: u64 = 20_000_000;

impl Scenario {
    pub(crate) fn new(name: &str, description: &str, model: Model) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            model,
            bin: Duration::from_millis(100),
            replications: 1,
            seed: 1,
            cost: Cost::default(),
            strategies: Strategies::default(),
            line_up: ["none", "exponential", "equal", "full", "decorrelated"].map(String::from).to_vec(),
        }
    }

    /// A herd.
    pub fn herd(herd: Herd) -> Self {
        let line_up = ["exponential", "equal", "full", "decorrelated"].map(String::from).to_vec();
        let description =
            "All clients call at once; the server takes so many at a time and refuses the rest.";
        Self { line_up, ..Self::new("herd", description, Model::Herd(herd)) }
    }

    /// Contention for one row, as in AWS's simulator: waits from 10 ms up to 2 s.
    pub fn occ(occ: Occ) -> Self {
        let (initial, cap) = (Duration::from_millis(10), Duration::from_secs(2));
        let description =
            "Clients contend for one row with optimistic locking (AWS Architecture Blog, 2015).";
        Self {
            replications: 100,
            strategies: Strategies { initial, cap, ..Strategies::default() },
            ..Self::new("occ", description, Model::Occ(occ))
        }
    }

    /// The built-in strategies that meet here when nobody says otherwise.
    pub fn line_up(&self) -> Vec<(String, Policy)> {
        let policy = |name: &String| {
            let policy = self.strategies.policy(name)?.ok()?;
            Some((format!("{PREFIX}{name}"), policy))
        };
        self.line_up.iter().filter_map(policy).collect()
    }

    /// Whether it can be run.
    ///
    /// # Errors
    ///
    /// The first thing that cannot work.
    pub fn check(&self) -> Result<(), ScenarioError> {
        if self.bin.is_zero() {
            return Err(ScenarioError::new("bin", "must be longer than nothing"));
        }
        let (clients, horizon) = match &self.model {
            Model::Herd(herd) => {
                if herd.capacity == 0 {
                    return Err(ScenarioError::new(
                        "capacity",
                        "a server that takes nothing never serves anybody",
                    ));
                }
                if herd.round_trip.1 < herd.round_trip.0 {
                    return Err(ScenarioError::new("round_trip", "the longest is below the shortest"));
                }
                (u64::from(herd.clients), herd.horizon)
            }
            Model::Occ(occ) => {
                if occ.delay.saturating_add(occ.deviation * 8) > Duration::from_secs(2) {
                    return Err(ScenarioError::new("delay", "a message may take up to two seconds here"));
                }
                (u64::from(occ.clients), occ.horizon)
            }
        };
        check_clients("clients", clients)?;
        check_horizon(horizon)?;
        Ok(())
    }

    pub(crate) fn frame(&self) -> Frame {
        let cost = (self.cost.attempt, self.cost.work_second);
        match &self.model {
            Model::Herd(herd) => herd.frame(self.bin, cost),
            Model::Occ(occ) => occ.frame(self.bin, cost),
        }
    }

    /// How many clients there are whose successes are counted one by one.
    pub(crate) fn clients(&self) -> usize {
        match &self.model {
            Model::Herd(herd) => herd.clients as usize,
            Model::Occ(occ) => occ.clients as usize,
        }
    }

    /// Bytes that a replication needs at its peak, and roughly how many events it has.
    pub(crate) fn forecast(&self) -> (u64, u64) {
        match &self.model {
            // A call, and an event that may lie twice while a bucket is spread or grows. About nine attempts each.
            Model::Herd(herd) => (u64::from(herd.clients) * 128 + (1 << 20), u64::from(herd.clients) * 9),
            Model::Occ(occ) => {
                let clients = u64::from(occ.clients);
                (clients * 128 + (1 << 20), clients * clients / 2)
            }
        }
    }
}

pub(crate) fn check_clients(key: &str, clients: u64) -> Result<(), ScenarioError> {
    match clients {
        0 => Err(ScenarioError::new(key, "at least 1")),
        1..=MAX_CLIENTS => Ok(()),
        _ => Err(ScenarioError::new(key, format!("{clients} are too many: at most {MAX_CLIENTS}"))),
    }
}

pub(crate) fn check_horizon(horizon: Duration) -> Result<(), ScenarioError> {
    if horizon.is_zero() {
        return Err(ScenarioError::new("horizon", "must be longer than nothing"));
    }
    if horizon > MAX_HORIZON {
        return Err(ScenarioError::new("horizon", "at most 10 years"));
    }
    Ok(())
}

const MAX_HORIZON: Duration = Duration::from_secs(10 * 366 * 86_400);

/// Long series are cut: no bins beyond this many.
const _: () = assert!(MAX_BINS < u32::MAX as u64);
