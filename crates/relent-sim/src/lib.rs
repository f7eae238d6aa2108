//! What a retry policy does to a fleet, before it ships.
//!
//! Nobody can read a policy and see the herd. Here clients that run the very decision core
//! ([`Call::decide`](relent_core::Call::decide)) meet models of servers in virtual time: up to ten million clients,
//! some million attempts per second.
//!
//! Everything is deterministic: times are integer nanoseconds; events of one instant are handled in the order in which
//! they were scheduled; every random number is a hash of (seed, replication, client, attempt, purpose). One seed gives
//! one result, on one thread or many, in debug and in release.

mod builtin;
mod luck;
mod measure;
mod model;
mod nearest;
mod queue;
mod record;
mod run;
mod scenario;
mod show;
mod spread;
mod strategy;
mod text;

pub use builtin::{BUILT_INS, BuiltIn, built_in};
pub use luck::{Law, Luck, Purpose};
pub use measure::{Better, Estimate, Measure, Unit, Value, Values};
pub use model::{
    Arrivals, Broken, Clients, Edge, Fleet, Herd, Model, Occ, Order, Overload, Profile, RateLimit, Service,
    Trouble, TroubleKind,
};
pub use queue::Queue;
pub use record::{Series, Tally, checksum};
pub use run::{Comparison, Forecast, Progress, Report, RunError, Simulation};
pub use scenario::{Cost, MAX_CLIENTS, Scenario, ScenarioError};
pub use show::{Axis, Column, Figure, Line, Panel, Shape, panels};
pub use strategy::{PREFIX, STRATEGIES, Strategies};
