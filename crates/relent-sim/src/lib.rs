//! What a retry policy does to a fleet, before it ships.
//!
//! Nobody can read a policy and see the herd. Here clients that run the very decision core
//! ([`Call::decide`](relent_core::Call::decide)) meet models of servers in virtual time: up to ten million clients,
//! some million attempts per second.
//!
//! Everything is deterministic: times are integer nanoseconds; events of one instant are handled in the order in which
//! they were scheduled; every random number is a hash of (seed, replication, client, attempt, purpose). One seed gives
//! one result, on one thread or many, in debug and in release.
//!
//! # One's own policy in a test
//!
//! ```
//! use std::time::Duration;
//! use relent_core::Policy;
//! use relent_sim::{Column, Measure, Simulation, built_in};
//!
//! let policy = Policy::exponential(Duration::from_millis(500)).max_attempts(6).build()?;
//!
//! // Twenty seconds after an outage of 30 s the load is below 1.2 times what is usual, and all who called by then
//! // have their answer within 60 s.
//! let outage = built_in("outage", &[("rate", "200"), ("at", "30s"), ("outage", "30s"), ("replications", "3")])?;
//! let comparison = Simulation::new(outage).contender("mine", policy).run()?;
//! let mine = &comparison.reports[0];
//! let load = comparison.rates(mine, Column::Attempts);
//! assert!(load[80..].iter().all(|rate| *rate < 1.2 * 200.0));
//! assert!(mine.mean(Measure::Drain).is_some_and(|seconds| seconds < 60.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builtin;
mod demo;
mod luck;
mod measure;
mod model;
mod nearest;
mod queue;
mod read;
mod record;
mod run;
mod scenario;
mod script;
mod show;
mod spread;
mod strategy;
mod sweep;
mod text;

pub use builtin::{BUILT_INS, BuiltIn, built_in};
pub use demo::{Aftermath, aftermath};
pub use luck::{Law, Luck, Purpose};
pub use measure::{Better, Estimate, Measure, Unit, Value, Values};
pub use model::{
    Arrivals, Batch, Broken, Clients, Edge, Ethernet, Fleet, Herd, Model, Occ, Order, Overload, Profile,
    RateLimit, Repeats, Service, Trouble, TroubleKind, metcalfe_boggs,
};
pub use queue::Queue;
pub use read::{ReadError, ReadErrors, read_scenario, scenario_names};
pub use record::{Series, Tally, checksum};
pub use run::{Comparison, Forecast, Progress, Report, RunError, Simulation};
pub use scenario::{Cost, MAX_CLIENTS, Scenario, ScenarioError};
pub use script::{Played, Step, play};
pub use show::{Axis, Column, Figure, Line, Panel, Shade, Shape, panels};
pub use strategy::{PREFIX, STRATEGIES, Scope, Strategies, Strategy};
pub use sweep::{Boundary, boundary, vulnerability};
