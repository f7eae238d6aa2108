//! The models: what the clients call.

pub(crate) mod batch;
pub(crate) mod ethernet;
pub(crate) mod fleet;
pub(crate) mod herd;
pub(crate) mod occ;

pub use batch::{Batch, Repeats};
pub use ethernet::{Ethernet, metcalfe_boggs};
pub use fleet::{
    Arrivals, Clients, Edge, Fleet, Order, Overload, Profile, RateLimit, Service, Trouble, TroubleKind,
};
pub use herd::Herd;
pub use occ::Occ;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::luck::Luck;
use crate::measure::Values;
use crate::record::{Pool, Recorder};
use crate::scenario::Scenario;
use crate::strategy::Strategy;

/// What a scenario simulates.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Model {
    /// Clients that all call at once.
    Herd(Herd),
    /// Clients that contend for one row.
    Occ(Occ),
    /// Clients, services and trouble.
    Fleet(Fleet),
    /// Stations that share a cable.
    Ethernet(Ethernet),
    /// Batches with poisoned items.
    Batch(Batch),
}

/// A thread's place of work: a model, the memory that it uses again, and what it writes down.
pub(crate) struct Runner<'a> {
    work: Work<'a>,
    recorder: Recorder,
    efficiency: Option<f64>,
}

enum Work<'a> {
    Herd(&'a Herd, herd::Scratch),
    Occ(&'a Occ, occ::Scratch),
    Fleet(&'a Fleet, fleet::Scratch),
    Ethernet(&'a Ethernet, ethernet::Scratch),
    Batch(&'a Batch, batch::Scratch),
}

impl<'a> Runner<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let work = match &scenario.model {
            Model::Herd(herd) => Work::Herd(herd, herd::Scratch::default()),
            Model::Occ(occ) => Work::Occ(occ, occ::Scratch::default()),
            Model::Fleet(fleet) => Work::Fleet(fleet, fleet::Scratch::default()),
            Model::Ethernet(ethernet) => Work::Ethernet(ethernet, ethernet::Scratch::default()),
            Model::Batch(batch) => Work::Batch(batch, batch::Scratch::default()),
        };
        Self { work, recorder: Recorder::new(scenario.frame(), scenario.clients()), efficiency: None }
    }

    /// Runs one replication.
    pub(crate) fn run(&mut self, strategy: &Strategy, luck: Luck, pulse: &mut Pulse<'_>) {
        let (policy, recorder) = (&strategy.policy, &mut self.recorder);
        match &mut self.work {
            Work::Herd(herd, scratch) => herd.run(policy, luck, scratch, recorder, pulse),
            Work::Occ(occ, scratch) => occ.run(policy, luck, scratch, recorder, pulse),
            Work::Fleet(fleet, scratch) => fleet.run(strategy, luck, scratch, recorder, pulse),
            Work::Batch(batch, scratch) => batch.run(policy, luck, scratch, recorder, pulse),
            Work::Ethernet(ethernet, scratch) => {
                self.efficiency = Some(ethernet.run(policy, luck, scratch, recorder, pulse));
            }
        }
    }

    /// Its figures; the counts go into the pool.
    pub(crate) fn finish(&mut self, events: u64, pool: &mut Pool) -> Values {
        self.recorder.finish(events, self.efficiency.take(), pool)
    }
}

/// What a model asks now and then: whether to go on, and that somebody hears how far it is.
pub(crate) struct Pulse<'a> {
    /// Set from outside when what there is is enough.
    pub(crate) cancelled: &'a AtomicBool,
    /// Told the number of events since it was last told, and the time.
    pub(crate) report: &'a (dyn Fn(u64, u64) + Sync),
    /// Events handled in this replication.
    pub(crate) events: u64,
    /// No more events than this.
    pub(crate) limit: u64,
    /// Events left until the next look.
    left: u32,
    /// The time of the last look: a model whose time stands still has lost its way.
    last_now: u64,
    standing: u64,
    /// How many looks at one instant are too many.
    too_long: u64,
    /// Why the replication was broken off, if it was.
    pub(crate) broken: Option<Broken>,
}

/// Why a replication was broken off before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It was cancelled.
    Cancelled,
    /// It reached the limit on events.
    TooManyEvents,
    /// Millions of events passed in one instant: a call without any delay is retried without any wait.
    TimeStandsStill,
}

const LOOK_EVERY: u32 = 1 << 16;

impl<'a> Pulse<'a> {
    pub(crate) fn new(
        cancelled: &'a AtomicBool,
        report: &'a (dyn Fn(u64, u64) + Sync),
        limit: u64,
        clients: u64,
    ) -> Self {
        // All clients may call at one instant, several times; a million events more, and time stands still.
        let too_long = (1_000_000 + clients.saturating_mul(16)) / u64::from(LOOK_EVERY);
        let left = LOOK_EVERY;
        Self { cancelled, report, events: 0, limit, left, last_now: 0, standing: 0, too_long, broken: None }
    }

    /// Counts an event; false: break off.
    #[inline]
    pub(crate) fn beat(&mut self, now: u64) -> bool {
        self.events += 1;
        self.left -= 1;
        self.left > 0 || self.look(now)
    }

    /// Events since the last look.
    pub(crate) fn rest(&self) -> u64 {
        u64::from(LOOK_EVERY - self.left)
    }

    #[cold]
    fn look(&mut self, now: u64) -> bool {
        self.left = LOOK_EVERY;
        (self.report)(u64::from(LOOK_EVERY), now);
        self.standing = if now == self.last_now { self.standing + 1 } else { 0 };
        self.last_now = now;
        self.broken = if self.cancelled.load(Ordering::Relaxed) {
            Some(Broken::Cancelled)
        } else if self.events >= self.limit {
            Some(Broken::TooManyEvents)
        } else if self.standing > self.too_long {
            Some(Broken::TimeStandsStill)
        } else {
            None
        };
        self.broken.is_none()
    }
}

/// Events handled so far by all threads.
#[derive(Debug, Default)]
pub(crate) struct Handled(AtomicU64);

impl Handled {
    pub(crate) fn add(&self, events: u64) -> u64 {
        self.0.fetch_add(events, Ordering::Relaxed) + events
    }
}
