//! Scenarios: a model with its numbers, how long and how often it runs, and what meets in it.

use std::fmt;
use std::time::Duration;

use relent_core::Policy;

use crate::model::{Batch, Ethernet, Fleet, Herd, Model, Occ};
use crate::record::{Frame, MAX_BINS};
use crate::strategy::{PREFIX, Strategies, Strategy};

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
    /// When the incident begins and ends that goodput is told apart by; `None`: from the first trouble to the last.
    pub incident: Option<(Duration, Duration)>,
    /// What an attempt costs, and a second of a server's work.
    pub cost: Cost,
    /// The numbers of the built-in strategies here.
    pub strategies: Strategies,
    /// Who meets when nobody says otherwise.
    pub line_up: Vec<(String, Strategy)>,
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
            incident: None,
            cost: Cost::default(),
            strategies: Strategies::default(),
            line_up: line_up(
                &Strategies::default(),
                &["none", "exponential", "equal", "full", "decorrelated"],
            ),
        }
    }

    /// A herd.
    pub fn herd(herd: Herd) -> Self {
        let line_up = line_up(&Strategies::default(), &["exponential", "equal", "full", "decorrelated"]);
        let description =
            "All clients call at once; the server takes so many at a time and refuses the rest.";
        Self { line_up, ..Self::new("herd", description, Model::Herd(herd)) }
    }

    /// Contention for one row, as in AWS's simulator: waits from 10 ms up to 2 s.
    pub fn occ(occ: Occ) -> Self {
        let (initial, cap) = (Duration::from_millis(10), Duration::from_secs(2));
        let strategies = Strategies { initial, cap, ..Strategies::default() };
        let description =
            "Clients contend for one row with optimistic locking (AWS Architecture Blog, 2015).";
        Self {
            replications: 100,
            strategies,
            line_up: line_up(&strategies, &["none", "exponential", "equal", "full", "decorrelated"]),
            ..Self::new("occ", description, Model::Occ(occ))
        }
    }

    /// Stations on a cable: Ethernet's own backoff against others in its slots.
    pub fn ethernet(ethernet: Ethernet) -> Self {
        let (slot, attempts) = (ethernet.slot, 16);
        let strategies = Strategies {
            initial: slot.saturating_mul(2),
            cap: slot.saturating_mul(1024),
            attempts: Some(attempts),
            attempt_timeout: None,
        };
        // IEEE 802.3: a window that doubles up to 1024 slots, the frame dropped at the sixteenth collision.
        let standard = Policy::csma(slot).uncapped().max_attempts(attempts).build().ok();
        let mut contenders: Vec<(String, Strategy)> =
            standard.into_iter().map(|policy| ("ethernet".to_owned(), policy.into())).collect();
        contenders.extend(line_up(&strategies, &["full", "equal", "decorrelated"]));
        let description =
            "Stations that always have a frame to send share one cable (Metcalfe, Boggs, CACM 1976).";
        Self {
            bin: ethernet.horizon() / 1000,
            replications: 5,
            strategies,
            line_up: contenders,
            ..Self::new("ethernet", description, Model::Ethernet(ethernet))
        }
    }

    /// Batches with poisoned items: five attempts.
    pub fn batch(batch: Batch) -> Self {
        let strategies = Strategies { attempts: Some(5), ..Strategies::default() };
        let description =
            "Batches in which some items can never succeed: what is tried again, all or what failed.";
        Self {
            bin: Duration::from_secs(1),
            replications: 5,
            strategies,
            line_up: line_up(&strategies, &["no-retry", "none", "full"]),
            ..Self::new("batch", description, Model::Batch(batch))
        }
    }

    /// A fleet, in bins of a second.
    pub fn fleet(name: &str, description: &str, fleet: Fleet) -> Self {
        Self { bin: Duration::from_secs(1), ..Self::new(name, description, Model::Fleet(fleet)) }
    }

    /// Ends the simulation at another time. Batches end by themselves.
    pub fn set_horizon(&mut self, horizon: Duration) {
        match &mut self.model {
            Model::Herd(herd) => herd.horizon = horizon,
            Model::Occ(occ) => occ.horizon = horizon,
            Model::Fleet(fleet) => fleet.horizon = horizon,
            Model::Ethernet(ethernet) => {
                let slots = horizon.as_nanos() / ethernet.slot.as_nanos().max(1);
                ethernet.slots = u64::try_from(slots).unwrap_or(u64::MAX);
            }
            Model::Batch(_) => {}
        }
    }

    /// Whether something goes wrong in it at a set time.
    pub fn has_incident(&self) -> bool {
        self.frame().incident.is_some()
    }

    /// When the trouble begins and ends, if there is any.
    pub(crate) fn trouble(&self) -> Option<(Duration, Duration)> {
        let (start, end) = self.frame().incident?;
        Some((Duration::from_nanos(start), Duration::from_nanos(end)))
    }

    /// Whether it is over some day by itself: each client makes one call.
    pub(crate) fn ends(&self) -> bool {
        self.frame().one_call_each
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
            Model::Fleet(fleet) => (fleet.client_count(), fleet.horizon.saturating_add(fleet.grace)),
            Model::Batch(batch) => {
                if batch.poisoned > batch.items {
                    return Err(ScenarioError::new("poisoned", "more than there are items"));
                }
                if !(0.0..=1.0).contains(&batch.error_rate) {
                    return Err(ScenarioError::new("error-rate", "a share from 0 to 1"));
                }
                check_clients("items", u64::from(batch.items))?;
                (u64::from(batch.batches) * u64::from(batch.items), batch.horizon())
            }
            Model::Ethernet(ethernet) => {
                if ethernet.stations > 4096 {
                    return Err(ScenarioError::new("stations", "at most 4096"));
                }
                if !(0.5..=1e6).contains(&ethernet.frame) {
                    return Err(ScenarioError::new("frame", "from half a slot to a million"));
                }
                if ethernet.slot < Duration::from_nanos(10) {
                    return Err(ScenarioError::new("slot", "at least 10ns"));
                }
                if !(1..=u64::from(u32::MAX)).contains(&ethernet.slots) {
                    return Err(ScenarioError::new("slots", "from 1 to 4 000 000 000"));
                }
                (u64::from(ethernet.stations), ethernet.horizon())
            }
        };
        check_horizon(horizon)?;
        let narrowest = horizon / MAX_BINS;
        if self.bin < narrowest {
            let why = format!("{MAX_BINS} bins must reach to the horizon: at least {narrowest:?}");
            return Err(ScenarioError::new("bin", why));
        }
        match &self.model {
            Model::Fleet(fleet) => fleet.check(),
            _ => check_clients("clients", clients),
        }
    }

    pub(crate) fn frame(&self) -> Frame {
        let cost = (self.cost.attempt, self.cost.work_second);
        match &self.model {
            Model::Herd(herd) => herd.frame(self.bin, cost),
            Model::Occ(occ) => occ.frame(self.bin, cost),
            Model::Fleet(fleet) => fleet.frame(self.bin, cost, self.incident),
            Model::Ethernet(ethernet) => ethernet.frame(self.bin, cost),
            Model::Batch(batch) => batch.frame(self.bin, cost),
        }
    }

    /// How many clients there are whose successes are counted one by one.
    pub(crate) fn clients(&self) -> usize {
        match &self.model {
            Model::Herd(herd) => herd.clients as usize,
            Model::Occ(occ) => occ.clients as usize,
            Model::Fleet(fleet) => fleet.client_count() as usize,
            Model::Ethernet(ethernet) => ethernet.stations as usize,
            Model::Batch(batch) => batch.batches as usize * batch.items as usize,
        }
    }

    /// Bytes that a replication needs at its peak, and roughly how many events it has.
    pub(crate) fn forecast(&self) -> (u64, u64) {
        match &self.model {
            // A call of 32 bytes, an event of 16 and what its bucket has too much: 68 were measured. About nine attempts.
            Model::Herd(herd) => (u64::from(herd.clients) * 72 + (1 << 20), u64::from(herd.clients) * 9),
            Model::Occ(occ) => {
                let clients = u64::from(occ.clients);
                (clients * 128 + (1 << 20), clients * clients / 4)
            }
            // Per call an arrival, and per attempt five; two attempts each; a thousandth of the calls open at once.
            Model::Fleet(fleet) => {
                let calls = fleet.expected_calls() as u64;
                (fleet.client_count() * 64 + calls / 5 + (1 << 20), calls.saturating_mul(11))
            }
            Model::Ethernet(ethernet) => (1 << 20, ethernet.slots),
            Model::Batch(batch) => {
                let items = u64::from(batch.batches) * u64::from(batch.items);
                (items * 256 + (1 << 20), u64::from(batch.batches) * 8)
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

/// The built-in strategies of these names, those that can be built.
fn line_up(strategies: &Strategies, names: &[&str]) -> Vec<(String, Strategy)> {
    let strategy = |name: &&str| Some((format!("{PREFIX}{name}"), strategies.strategy(name)?.ok()?));
    names.iter().filter_map(strategy).collect()
}
