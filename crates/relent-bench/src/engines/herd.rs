//! The herd: clients that all call within 2 ms a server that refuses what it has no room for, full jitter.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use desru::{Event, EventScheduler};
use nexosim::model::{Context, Model, schedulable};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use relent_core::{Dice, Policy};
use relent_sim::{Herd, Luck, Scenario, Simulation, checksum};
use serde::{Deserialize, Serialize};

use crate::run::{Run, Stopwatch};

const BASE: Duration = Duration::from_millis(100);

fn herd(clients: u32) -> Herd {
    Herd { clients, capacity: u64::from(clients) / 50, ..Herd::default() }
}

/// The simulator, the core deciding; so many times one after another or at once.
pub(crate) fn relent(clients: u32, replications: u32, threads: usize) -> Result<Run, Box<dyn Error>> {
    let policy = Policy::exponential(BASE).unlimited_attempts().build()?;
    let watch = Stopwatch::start();
    let simulation = Simulation::new(Scenario::herd(herd(clients))).contender("full", policy).seed(SEED);
    let comparison = simulation.replications(replications).threads(threads).run()?;
    let report = comparison.reports.first().ok_or("no report")?;
    Ok(Run::of(report.tally.events, watch, report.tally.waits))
}

pub(crate) fn heap(clients: u32) -> Run {
    let watch = Stopwatch::start();
    let mut plain = Plain::new(clients);
    let mut heap = BinaryHeap::new();
    for id in 0..clients {
        heap.push(Reverse((plain.begin(id), id)));
    }
    while let Some(Reverse((now, id))) = heap.pop() {
        if let Some(next) = plain.attempt(now, id) {
            heap.push(Reverse((next, id)));
        }
    }
    Run::of(plain.events, watch, plain.waits)
}

pub(crate) fn desru(clients: u32) -> Run {
    fn schedule(scheduler: &mut EventScheduler, at: u64, plain: Rc<RefCell<Plain>>, id: u32) {
        let action = Box::new(move |scheduler: &mut EventScheduler| {
            // Its time is a float in seconds; good to some nanoseconds here.
            let now = (scheduler.current_time * 1e9) as u64;
            let next = plain.borrow_mut().attempt(now, id);
            if let Some(next) = next {
                schedule(scheduler, next, Rc::clone(&plain), id);
            }
            None
        });
        scheduler.schedule(Event::new(at as f64 / 1e9, Some(action), None));
    }
    let watch = Stopwatch::start();
    let plain = Rc::new(RefCell::new(Plain::new(clients)));
    let mut scheduler = EventScheduler::new();
    for id in 0..clients {
        let at = plain.borrow_mut().begin(id);
        schedule(&mut scheduler, at, Rc::clone(&plain), id);
    }
    scheduler.run(Box::new(|_| false), Some(Box::new(|_, _| false)));
    let plain = plain.borrow();
    Run::of(plain.events, watch, plain.waits)
}

pub(crate) fn nexosim(clients: u32) -> Result<Run, Box<dyn Error>> {
    let watch = Stopwatch::start();
    let totals = Arc::new(Mutex::new((0, 0)));
    let model = Clients { plain: Plain::new(clients), clients, totals: Arc::clone(&totals) };
    let simulation = SimInit::with_num_threads(1).add_model(model, Mailbox::new(), "clients");
    let mut simulation = simulation.init(MonotonicTime::EPOCH)?;
    simulation.run()?;
    let (events, waits) = *totals.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Run::of(events, watch, waits))
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Clients {
    plain: Plain,
    clients: u32,
    /// Events and checksum, once all are served.
    #[serde(skip)]
    totals: Arc<Mutex<(u64, u64)>>,
}

#[Model]
impl Clients {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        for id in 0..self.clients {
            let at = self.plain.begin(id);
            // It refuses what is due now, hence the nanosecond.
            let _ = cx.schedule_event(Duration::from_nanos(at.max(1)), schedulable!(Self::attempt), (at, id));
        }
    }

    #[nexosim(schedulable)]
    async fn attempt(&mut self, (now, id): (u64, u32), cx: &Context<Self>) {
        if let Some(next) = self.plain.attempt(now, id) {
            let wait = Duration::from_nanos(next - now);
            let _ = cx.schedule_event(wait, schedulable!(Self::attempt), (next, id));
        } else if self.plain.served == self.clients {
            *self.totals.lock().unwrap_or_else(PoisonError::into_inner) =
                (self.plain.events, self.plain.waits);
        }
    }
}

const SEED: u64 = 1;

/// The herd as one would write it for the occasion: full jitter inline, no core, no statistics but the series, a sum of
/// latencies and the checksum. All engines but the simulator run this.
#[derive(Serialize, Deserialize)]
struct Plain {
    clients: Vec<Client>,
    /// The length of the server's slot of time in nanoseconds, and how many attempts it takes in one.
    length: u64,
    per_slot: u64,
    slot: u64,
    left: u64,
    series: Vec<u64>,
    latency: u64,
    events: u64,
    waits: u64,
    served: u32,
}

#[derive(Serialize, Deserialize)]
struct Client {
    began: u64,
    attempts: u32,
}

impl Plain {
    fn new(clients: u32) -> Self {
        let capacity = herd(clients).capacity;
        let length = (10_000_000_000 / capacity).max(1_000_000);
        Self {
            clients: Vec::with_capacity(clients as usize),
            length,
            per_slot: capacity * length / 1_000_000_000,
            slot: u64::MAX,
            left: 0,
            series: vec![0; 10_000],
            latency: 0,
            events: 0,
            waits: 0,
            served: 0,
        }
    }

    /// A client's first attempt is due; its number is the next one.
    fn begin(&mut self, id: u32) -> u64 {
        let began = below(2_000_000, Dice::new(luck().decision(u64::from(id), 0)).roll());
        self.clients.push(Client { began, attempts: 0 });
        began
    }

    /// An attempt, and when the next one is due.
    fn attempt(&mut self, now: u64, id: u32) -> Option<u64> {
        self.events += 1;
        if let Some(bin) = self.series.get_mut((now / 100_000_000) as usize) {
            *bin += 1;
        }
        let client = self.clients.get_mut(id as usize)?;
        client.attempts += 1;
        let luck = luck().decision(u64::from(id), client.attempts);
        let round_trip = 10_000_000 + below(2_000_000, Dice::new(luck).roll());
        if now / self.length != self.slot {
            (self.slot, self.left) = (now / self.length, self.per_slot);
        }
        if self.left > 0 {
            self.left -= 1;
            self.latency += now + round_trip / 2 - client.began;
            self.served += 1;
            return None;
        }
        let ceiling = (100_000_000u64 << (client.attempts - 1).min(30)).min(20_000_000_000);
        let wait = below(ceiling, luck);
        self.waits = self.waits.wrapping_add(checksum(u64::from(id), client.attempts, wait));
        Some(now + round_trip + wait)
    }
}

/// The first replication's, so that all engines meet the same.
fn luck() -> Luck {
    Luck::new(SEED, 0)
}

fn below(range: u64, luck: u64) -> u64 {
    ((u128::from(range) * u128::from(luck)) >> 64) as u64
}
