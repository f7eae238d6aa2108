//! A fleet: clients of several kinds, services that call services, and trouble at set times.

mod arrivals;
mod check;
mod race;
mod sharing;
mod world;

use std::time::Duration;

pub use arrivals::{Arrivals, Profile};
pub(crate) use world::Scratch;

use crate::luck::Law;
use crate::model::herd::nanos;
use crate::record::Frame;
use crate::strategy::Strategy;

/// Clients, services and trouble.
///
/// A call takes its way like this: the message travels; the service refuses it (it is out, over its rate or its queue
/// is full), or works on it at once, or lets it wait for a worker; after its own work the service makes its own calls
/// one after another while it keeps the worker; the answer travels back. A caller that stopped waiting takes no
/// answer, but the work is done all the same, unless the service [stops it](Service::stops_unwanted).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    /// The clients.
    pub clients: Vec<Clients>,
    /// The services.
    pub services: Vec<Service>,
    /// What goes wrong, and when.
    pub troubles: Vec<Trouble>,
    /// No call begins after this time.
    pub horizon: Duration,
    /// How much longer calls that are open then may take.
    pub grace: Duration,
    /// What the goodput before the incident leaves out at the start.
    pub warm_up: Duration,
    /// The service whose attempts are counted; `None`: those that the clients make.
    pub watch: Option<String>,
}

/// Clients of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Clients {
    /// Their name.
    pub name: String,
    /// How many there are.
    pub count: u32,
    /// When they call.
    pub arrivals: Arrivals,
    /// What they call, and how.
    pub call: Edge,
}

/// One service calling another, or clients calling a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The name of the service that is called.
    pub to: String,
    /// How long a message travels, one way.
    pub delay: Law,
    /// The end of each attempt, where the policy has no earlier one.
    pub timeout: Option<Duration>,
    /// The policy, and what calls under it share; `None`: the one that is being compared.
    pub policy: Option<Strategy>,
}

impl Edge {
    /// A call to `to` without delay or timeout, under the policy that is being compared.
    pub fn to(to: impl Into<String>) -> Self {
        Self { to: to.into(), delay: Law::ZERO, timeout: None, policy: None }
    }
}

/// A service.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// How many attempts it works on at a time; `None`: any number.
    pub workers: Option<u32>,
    /// Which waiting attempt comes next.
    pub order: Order,
    /// How many may wait; `None`: any number.
    pub queue: Option<u32>,
    /// Whether it passes over waiting attempts whose caller has stopped waiting.
    pub drop_expired: bool,
    /// How long its own work takes.
    pub time: Law,
    /// By how much each attempt in service, this one included, makes the work longer.
    pub slowdown: Duration,
    /// The part of its own work that fails, 0 to 1.
    pub error_rate: f64,
    /// What it takes per second.
    pub rate_limit: Option<RateLimit>,
    /// What it breaks under.
    pub overload: Option<Overload>,
    /// What it calls, one after another.
    pub calls: Vec<Edge>,
    /// How many shards it has: each has workers, a queue and limits of its own, and each call is for one of them.
    pub shards: u32,
    /// Whether it stops, at once, work on an attempt whose caller has stopped waiting. Otherwise that is done all the
    /// same.
    pub stops_unwanted: bool,
}

impl Service {
    /// A service that answers at once, never fails and knows no limit.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            workers: None,
            order: Order::Fifo,
            queue: None,
            drop_expired: false,
            time: Law::ZERO,
            slowdown: Duration::ZERO,
            error_rate: 0.0,
            rate_limit: None,
            overload: None,
            calls: Vec::new(),
            shards: 1,
            stops_unwanted: false,
        }
    }
}

/// Which waiting attempt comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The one that waits longest.
    #[default]
    Fifo,
    /// The one that came last.
    Lifo,
}

/// A token bucket in front of a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Attempts per second.
    pub per_second: f64,
    /// How many at once after a quiet time.
    pub burst: u32,
    /// The `Retry-After` of a refusal.
    pub retry_after: Option<Duration>,
}

/// A service that falls over: with more than `above` attempts in it, it refuses all for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overload {
    /// The most attempts in service and waiting that it bears.
    pub above: u32,
    /// How long it is out.
    pub out_for: Duration,
}

/// Something that goes wrong for a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// With which service.
    pub service: String,
    /// When.
    pub at: Duration,
    /// For how long.
    pub lasts: Duration,
    /// With which of its shards, from 1; `None`: with all.
    pub shard: Option<u32>,
    /// What.
    pub kind: TroubleKind,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TroubleKind {
    /// Attempts are refused at once; listeners lose their connection.
    Refuse,
    /// Attempts vanish without an answer; listeners lose their connection.
    Hang,
    /// The service goes on with this part of its workers, 0 to 1; 0: it stands still and attempts wait.
    Capacity(f64),
    /// This part of its work fails besides, 0 to 1.
    Errors(f64),
    /// Its work takes this many times as long.
    Slow(f64),
}

impl Fleet {
    /// From the first trouble to the last.
    pub fn incident(&self) -> Option<(Duration, Duration)> {
        let start = self.troubles.iter().map(|trouble| trouble.at).min()?;
        let end = self.troubles.iter().map(|trouble| trouble.at.saturating_add(trouble.lasts)).max()?;
        Some((start, end))
    }

    pub(crate) fn frame(
        &self,
        bin: Duration,
        cost: (f64, f64),
        incident: Option<(Duration, Duration)>,
    ) -> Frame {
        let incident = incident.or_else(|| self.incident());
        let once = |clients: &Clients| matches!(clients.arrivals, Arrivals::Burst { .. });
        Frame {
            bin: nanos(bin),
            horizon: nanos(self.horizon),
            incident: incident.map(|(start, end)| (nanos(start), nanos(end))),
            one_call_each: self.clients.iter().all(once),
            cost,
            warm_up: nanos(self.warm_up),
        }
    }

    pub(crate) fn client_count(&self) -> u64 {
        self.clients.iter().map(|clients| u64::from(clients.count)).sum()
    }

    /// Calls that the clients begin in all, about.
    pub(crate) fn expected_calls(&self) -> f64 {
        let horizon = self.horizon.as_secs_f64();
        self.clients.iter().map(|clients| clients.arrivals.expected(clients.count, horizon)).sum()
    }
}
