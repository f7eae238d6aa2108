//! The AWS model's grid: 19 sizes × 5 strategies × 100 replications.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::time::Duration;

use relent_core::{Dice, entropy};
use relent_sim::{Law, Occ, Scenario, Simulation};

use crate::run::{Run, Stopwatch};

const SIZES: std::ops::RangeInclusive<u32> = 1..=19;

/// The simulator, the core deciding.
pub(crate) fn relent() -> Result<Run, Box<dyn Error>> {
    let (watch, mut events, mut waits) = (Stopwatch::start(), 0, 0u64);
    for tens in SIZES {
        let scenario = Scenario::occ(Occ { clients: tens * 10, ..Occ::default() });
        let comparison = Simulation::new(scenario).line_up().replications(100).threads(1).run()?;
        for report in &comparison.reports {
            events += report.tally.events;
            waits = waits.wrapping_add(report.tally.waits);
        }
    }
    Ok(Run::of(events, watch, waits))
}

/// Two events per attempt, its read and its write, as the original has them.
pub(crate) fn heap() -> Run {
    all(two_events)
}

/// An event per attempt, as the simulator has it.
pub(crate) fn heap_of_writes() -> Run {
    all(one_event)
}

fn all(plain: impl Fn(u32, u32, u64) -> u64) -> Run {
    let (watch, mut events) = (Stopwatch::start(), 0);
    for tens in SIZES {
        for strategy in 0..5 {
            for replication in 0..100 {
                events += plain(tens * 10, strategy, replication);
            }
        }
    }
    // Its luck is its own, and so would be its checksum.
    Run::of(events, watch, 0)
}

/// What is the same in both plain versions: chance, the law of messages, the strategies. No figures are taken.
struct World {
    dice: Dice,
    law: Law,
    strategy: u32,
}

struct Client {
    /// The version that was read, or when it was read.
    seen: u64,
    attempts: u32,
    sleep: u64,
}

const BASE: u64 = 10_000_000;
const CAP: u64 = 2_000_000_000;

impl World {
    fn new(clients: u32, strategy: u32, replication: u64) -> (Self, Vec<Client>) {
        let law = Law::Normal { mean: Duration::from_millis(10), deviation: Duration::from_millis(2) };
        let dice = Dice::new(entropy(replication, u64::from(clients), strategy));
        let client = |_| Client { seen: 0, attempts: 0, sleep: BASE / 2 };
        (Self { dice, law, strategy }, (0..clients).map(client).collect())
    }

    fn message(&mut self) -> u64 {
        self.law.draw(&mut self.dice)
    }

    fn wait(&mut self, client: &mut Client) -> u64 {
        let ladder = (BASE << client.attempts.min(30)).min(CAP);
        client.attempts += 1;
        match self.strategy {
            0 => 0,
            1 => ladder,
            2 => ladder / 2 + below(ladder / 2, self.dice.roll()),
            3 => below(ladder, self.dice.roll()),
            _ => {
                let range = client.sleep * 3 - BASE / 2;
                client.sleep = (BASE / 2 + below(range, self.dice.roll())).min(CAP);
                client.sleep
            }
        }
    }
}

fn two_events(clients: u32, strategy: u32, replication: u64) -> u64 {
    let (mut world, mut states) = World::new(clients, strategy, replication);
    let mut heap = BinaryHeap::new();
    for id in 0..clients {
        heap.push(Reverse((world.message(), id, false)));
    }
    let (mut version, mut events) = (0, 0);
    while let Some(Reverse((now, id, write))) = heap.pop() {
        events += 1;
        let Some(client) = states.get_mut(id as usize) else { continue };
        if !write {
            client.seen = version;
            heap.push(Reverse((now + world.message() + world.message(), id, true)));
        } else if client.seen == version {
            version += 1;
        } else {
            let wait = world.wait(client);
            heap.push(Reverse((now + world.message() + wait + world.message(), id, false)));
        }
    }
    events
}

fn one_event(clients: u32, strategy: u32, replication: u64) -> u64 {
    let (mut world, mut states) = World::new(clients, strategy, replication);
    let mut heap = BinaryHeap::new();
    for (id, client) in (0u32..).zip(&mut states) {
        client.seen = world.message();
        heap.push(Reverse((client.seen + world.message() + world.message(), id)));
    }
    let (mut written, mut events) = (0, 0);
    while let Some(Reverse((now, id))) = heap.pop() {
        events += 1;
        let Some(client) = states.get_mut(id as usize) else { continue };
        if client.seen >= written {
            written = now;
        } else {
            let wait = world.wait(client);
            client.seen = now + world.message() + wait + world.message();
            heap.push(Reverse((client.seen + world.message() + world.message(), id)));
        }
    }
    events
}

fn below(range: u64, luck: u64) -> u64 {
    ((u128::from(range) * u128::from(luck)) >> 64) as u64
}
