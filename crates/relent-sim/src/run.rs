//! Runs: contenders × replications on all cores, the same whatever their number.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hdrhistogram::Histogram;
use relent_core::PolicyError;

use crate::luck::Luck;
use crate::measure::{Estimate, Measure, Values};
use crate::model::{self, Broken, Handled, Model, Pulse};
use crate::record::{Pool, Series, Tally};
use crate::scenario::{Scenario, ScenarioError};
use crate::strategy::Strategy;

/// A simulation: a scenario, the policies that meet it, and how often.
///
/// ```
/// use std::time::Duration;
/// use relent_core::Policy;
/// use relent_sim::{Herd, Measure, Scenario, Simulation};
///
/// let herd = Herd { clients: 1000, outage: Some((Duration::ZERO, Duration::from_secs(5))), ..Herd::default() };
/// let policy = Policy::exponential(Duration::from_millis(100)).max_attempts(12).build()?;
/// let comparison = Simulation::new(Scenario::herd(herd)).contender("mine", policy).run()?;
/// let mine = &comparison.reports[0];
/// assert_eq!(mine.tally.succeeded, 1000);
/// assert!(mine.mean(Measure::Drain).is_some_and(|seconds| seconds < 30.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation<'a> {
    scenario: Scenario,
    contenders: Vec<(String, Strategy)>,
    replications: u32,
    seed: u64,
    threads: usize,
    max_events: u64,
    cancelled: Option<&'a AtomicBool>,
    progress: Option<Box<dyn Fn(Progress) + Sync + 'a>>,
}

/// How far a simulation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Events handled, in all threads.
    pub events: u64,
    /// Replications that are done.
    pub done: usize,
    /// Of how many, over all contenders.
    pub of: usize,
}

/// What one policy did.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// Mean and standard error of each figure, by [`Measure`].
    pub(crate) estimates: Vec<Option<Estimate>>,
    /// Sums over all replications.
    pub tally: Tally,
    /// Sums over all replications, per bin.
    pub series: Series,
    /// Times until calls succeeded, in microseconds.
    pub latency: Histogram<u64>,
    /// Times until calls failed, in microseconds.
    pub knows: Histogram<u64>,
    /// How many replications there were.
    pub replications: u32,
    /// Why replications were broken off, if some were.
    pub broken: Option<Broken>,
}

impl Report {
    /// A figure and its error; `None` where it has no meaning in this scenario.
    pub fn estimate(&self, measure: Measure) -> Option<Estimate> {
        self.estimates.get(measure as usize).copied().flatten()
    }

    /// A figure's mean; `None` where it has no meaning or mostly never happened.
    pub fn mean(&self, measure: Measure) -> Option<f64> {
        let estimate = self.estimate(measure)?;
        (!estimate.mostly_never()).then_some(estimate.mean)
    }
}

/// What all policies did in one scenario.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The scenario.
    pub scenario: Scenario,
    /// One for each contender, in their order.
    pub reports: Vec<Report>,
    /// The seed.
    pub seed: u64,
}

/// Why a simulation cannot be run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RunError {
    /// The scenario cannot work.
    Scenario(ScenarioError),
    /// There is no policy to run.
    NoContender,
    /// No replication was asked for.
    NoReplication,
    /// Calls of this contender share something, and in this model each call is alone.
    CallsAreAlone {
        /// The contender's name.
        contender: String,
    },
    /// What the calls of a contender share cannot work.
    Shared {
        /// The contender's name.
        contender: String,
        /// What is wrong with it.
        error: PolicyError,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario(error) => error.fmt(f),
            Self::NoContender => f.write_str("there is no policy to simulate"),
            Self::NoReplication => f.write_str("replications: at least 1"),
            Self::CallsAreAlone { contender } => write!(
                f,
                "{contender}: its calls share a budget, a breaker or the like, and here each call is alone; \
                 scenarios with services have clients that make many calls"
            ),
            Self::Shared { contender, error } => write!(f, "{contender}: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<ScenarioError> for RunError {
    fn from(error: ScenarioError) -> Self {
        Self::Scenario(error)
    }
}

/// How many events a replication may take unless told otherwise: some minutes.
const MAX_EVENTS: u64 = 2_000_000_000;

impl<'a> Simulation<'a> {
    /// A simulation of `scenario`, with its own number of replications and its own seed.
    pub fn new(scenario: Scenario) -> Self {
        Self {
            replications: scenario.replications,
            seed: scenario.seed,
            scenario,
            contenders: Vec::new(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            max_events: MAX_EVENTS,
            cancelled: None,
            progress: None,
        }
    }

    /// Adds a policy under a name, alone or with what its calls share.
    #[must_use]
    pub fn contender(mut self, name: impl Into<String>, strategy: impl Into<Strategy>) -> Self {
        self.contenders.push((name.into(), strategy.into()));
        self
    }

    /// Adds the scenario's own line-up.
    #[must_use]
    pub fn line_up(mut self) -> Self {
        self.contenders.extend(self.scenario.line_up.iter().cloned());
        self
    }

    /// How often each contender is simulated, each time with other luck. Default: the scenario's.
    #[must_use]
    pub fn replications(self, replications: u32) -> Self {
        Self { replications, ..self }
    }

    /// The seed. Default: the scenario's.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// On how many threads. Default: all cores. The result does not depend on it.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: threads.max(1), ..self }
    }

    /// After how many events a replication is broken off. Default: 2·10⁹.
    #[must_use]
    pub fn max_events(self, max_events: u64) -> Self {
        Self { max_events, ..self }
    }

    /// A flag that ends the simulation early; what there is by then is returned.
    #[must_use]
    pub fn cancelled_by(self, flag: &'a AtomicBool) -> Self {
        Self { cancelled: Some(flag), ..self }
    }

    /// Told now and then how far the simulation is, from whichever thread.
    #[must_use]
    pub fn progress(self, progress: impl Fn(Progress) + Sync + 'a) -> Self {
        Self { progress: Some(Box::new(progress)), ..self }
    }

    /// What it will take: memory for all threads, and roughly how many events, where that can be said beforehand.
    pub fn estimate(&self) -> Forecast {
        let jobs = self.contenders.len() as u64 * u64::from(self.replications);
        let at_once = (self.threads as u64).min(jobs.max(1));
        let (bytes, events) = self.scenario.forecast();
        Forecast { bytes: bytes.saturating_mul(at_once), events: events.saturating_mul(jobs) }
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// A scenario that cannot work, or nothing to do.
    pub fn run(self) -> Result<Comparison, RunError> {
        self.scenario.check()?;
        if self.contenders.is_empty() {
            return Err(RunError::NoContender);
        }
        if self.replications == 0 {
            return Err(RunError::NoReplication);
        }
        self.check_shared()?;
        let jobs = Jobs {
            simulation: &self,
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            of: self.contenders.len() * self.replications as usize,
            handled: Handled::default(),
            never: AtomicBool::new(false),
        };
        let finished = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.min(jobs.of) {
                scope.spawn(|| {
                    let mine = jobs.work();
                    finished.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(mine);
                });
            }
        });
        let finished = finished.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let reports = reports(&self, finished);
        Ok(Comparison { scenario: self.scenario, reports, seed: self.seed })
    }
}

impl Simulation<'_> {
    fn check_shared(&self) -> Result<(), RunError> {
        for (contender, strategy) in self.contenders.iter().filter(|(_, strategy)| strategy.shares()) {
            if !matches!(self.scenario.model, Model::Fleet(_)) {
                return Err(RunError::CallsAreAlone { contender: contender.clone() });
            }
            let shared = |error| RunError::Shared { contender: contender.clone(), error };
            strategy.shared.check().map_err(shared)?;
        }
        Ok(())
    }
}

/// What a simulation will take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Memory at the peak, in bytes.
    pub bytes: u64,
    /// Events of all replications, roughly.
    pub events: u64,
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Ten million events per second and core is what a herd of a million does.
        let seconds = self.events as f64 / 1e7;
        let megabytes = self.bytes as f64 / 1e6;
        write!(
            f,
            "about {:.1e} events ({seconds:.0} s on one core), {megabytes:.0} MB of memory",
            self.events as f64
        )
    }
}

/// Replications waiting for a thread.
struct Jobs<'s, 'a> {
    simulation: &'s Simulation<'a>,
    next: AtomicUsize,
    done: AtomicUsize,
    of: usize,
    handled: Handled,
    never: AtomicBool,
}

/// What a thread did: figures by job, and a pool for each contender that it met.
#[derive(Default)]
struct Finished {
    values: Vec<(usize, Values, Option<Broken>)>,
    pools: Vec<Option<Pool>>,
    /// Pools of replications that were broken off: looked at only where a contender has no whole one.
    partial: Vec<Option<Pool>>,
}

impl Jobs<'_, '_> {
    fn work(&self) -> Finished {
        let simulation = self.simulation;
        let contenders = simulation.contenders.len();
        let mut finished = Finished {
            values: Vec::new(),
            pools: (0..contenders).map(|_| None).collect(),
            partial: (0..contenders).map(|_| None).collect(),
        };
        let mut runner = model::Runner::new(&simulation.scenario);
        let cancelled = simulation.cancelled.unwrap_or(&self.never);
        let report = |events, _now| {
            let events = self.handled.add(events);
            if let Some(progress) = &simulation.progress {
                progress(Progress { events, done: self.done.load(Ordering::Relaxed), of: self.of });
            }
        };
        loop {
            let job = self.next.fetch_add(1, Ordering::Relaxed);
            if job >= self.of || cancelled.load(Ordering::Relaxed) {
                return finished;
            }
            // Neighbouring jobs are different contenders in one replication: a cancelled run then has all of them.
            let (contender, replication) = (job % contenders, job / contenders);
            let Some((_, strategy)) = simulation.contenders.get(contender) else { continue };
            let luck = Luck::new(simulation.seed, replication as u32);
            let mut pulse =
                Pulse::new(cancelled, &report, simulation.max_events, simulation.scenario.clients() as u64);
            runner.run(strategy, luck, &mut pulse);
            let pools = if pulse.broken.is_some() { &mut finished.partial } else { &mut finished.pools };
            let Some(slot) = pools.get_mut(contender) else { continue };
            let values = runner.finish(pulse.events, slot.get_or_insert_with(Pool::new));
            finished.values.push((job, values, pulse.broken));
            self.done.fetch_add(1, Ordering::Relaxed);
            report(pulse.rest(), 0);
        }
    }
}

/// Brings what the threads did into the order of jobs, so that no figure depends on who did it.
fn reports(simulation: &Simulation<'_>, finished: Vec<Finished>) -> Vec<Report> {
    let contenders = simulation.contenders.len();
    let mut values = Vec::new();
    let mut pools: Vec<(Option<Pool>, Option<Pool>)> = (0..contenders).map(|_| (None, None)).collect();
    for thread in finished {
        values.extend(thread.values);
        for ((whole, partial), (pool, part)) in
            pools.iter_mut().zip(thread.pools.into_iter().zip(thread.partial))
        {
            merge(whole, pool);
            merge(partial, part);
        }
    }
    values.sort_unstable_by_key(|(job, ..)| *job);
    let named = simulation.contenders.iter().zip(pools).enumerate();
    named
        .map(|(index, ((name, _), (whole, partial)))| {
            let mine = || values.iter().filter(move |(job, ..)| job % contenders == index);
            let broken = mine().find_map(|(_, _, broken)| *broken);
            let counted = |broken: &Option<Broken>| whole.is_none() || broken.is_none();
            let figures: Vec<&Values> =
                mine().filter(|(_, _, broken)| counted(broken)).map(|(_, values, _)| values).collect();
            let estimates = Measure::ALL
                .into_iter()
                .map(|measure| Estimate::of(figures.iter().map(|values| values.get(measure))))
                .collect();
            let pool = whole.or(partial).unwrap_or_else(Pool::new);
            Report {
                name: name.clone(),
                estimates,
                tally: pool.tally,
                series: pool.series,
                latency: pool.latency,
                knows: pool.knows,
                replications: pool.replications,
                broken,
            }
        })
        .collect()
}

fn merge(into: &mut Option<Pool>, pool: Option<Pool>) {
    match (into.as_mut(), pool) {
        (Some(into), Some(pool)) => into.merge(pool),
        (None, pool) => *into = pool,
        (Some(_), None) => {}
    }
}
