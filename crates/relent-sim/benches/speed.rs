//! How fast the engine is, beside the same work written plainly: `cargo bench -p relent-sim --bench speed -- [queues] [herd]
//! [grid] [CLIENTS]`.
//!
//! 1. Event queues on the hold model (take the earliest, schedule it again).
//! 2. The herd of a million clients: the engine with the real core, against a loop on `BinaryHeap` whose waits are
//!    computed in place.
//! 3. The AWS grid, 19 sizes × 5 strategies × 100 replications, likewise.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use relent_core::{Dice, Policy, entropy};
use relent_sim::{Herd, Law, Measure, Occ, Queue, Scenario, Simulation};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let clients = words.iter().find_map(|word| word.parse().ok()).unwrap_or(1_000_000);
    let parts: Vec<&str> =
        ["queues", "herd", "grid"].into_iter().filter(|part| words.iter().any(|word| word == part)).collect();
    let asked = |part| parts.is_empty() || parts.contains(&part);
    if asked("queues") {
        queues();
    }
    if asked("herd") {
        herds(clients);
    }
    if asked("grid") {
        grid();
    }
}

/// Nanoseconds per step of the hold model with increments like a backoff ladder's.
fn queues() {
    println!("event queues, ns per event (hold model, eight doublings)");
    for pending in [200u32, 1_000, 100_000, 1_000_000] {
        let steps = 4_000_000u32;
        let mut dice = Dice::new(1);
        let mut step = move || {
            let luck = dice.roll();
            (luck >> 20) % (100_000_000 << (luck & 7))
        };
        let mut queue = Queue::new();
        let mut heap = BinaryHeap::new();
        for id in 0..pending {
            let time = step();
            queue.push(time, id);
            heap.push(Reverse((time, id)));
        }
        let started = Instant::now();
        for _ in 0..steps {
            let (time, id) = queue.pop().unwrap();
            queue.push(time + step(), id);
        }
        let radix = started.elapsed();
        let started = Instant::now();
        for _ in 0..steps {
            let Reverse((time, id)) = heap.pop().unwrap();
            heap.push(Reverse((time + step(), id)));
        }
        let binary = started.elapsed();
        black_box((queue.len(), heap.len()));
        let per_step = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(steps);
        println!(
            "{pending:>10} pending: radix {:6.1}   BinaryHeap {:6.1}",
            per_step(radix),
            per_step(binary)
        );
    }
}

fn herds(clients: u32) {
    let herd = Herd { clients, capacity: u64::from(clients) / 50, ..Herd::default() };
    let policy = Policy::exponential(Duration::from_millis(100)).unlimited_attempts().build().unwrap();
    let run = |replications: u32, threads: usize| {
        let (wall, started) = (Instant::now(), Stopwatch::start());
        let simulation = Simulation::new(Scenario::herd(herd)).contender("full", policy.clone());
        let comparison = simulation.replications(replications).threads(threads).run().unwrap();
        (wall.elapsed(), started.read(), comparison)
    };
    let (_, one, comparison) = run(1, 1);
    let report = &comparison.reports[0];
    println!("\nherd of {clients}: {} events, checksum {:016x}", report.tally.events, report.tally.waits);
    println!("  drained after {:.1} s", report.mean(Measure::Drain).unwrap());
    rate("engine with the core", one, report.tally.events);
    #[cfg(target_os = "linux")]
    println!("  peak memory so far {}", peak_memory());
    if clients > 2_000_000 {
        // The plain loop would take minutes, two replications at once twice the memory.
        return;
    }
    let started = Stopwatch::start();
    let (events, sum) = plain_herd(&herd);
    rate("plain BinaryHeap, no core", started.read(), events);
    println!("  (its checksum: {sum:016x})");
    let (serial, ..) = run(2, 1);
    let (parallel, ..) = run(2, 2);
    println!(
        "  two replications on two threads: {:.2} times as fast",
        serial.as_secs_f64() / parallel.as_secs_f64()
    );
}

/// A stopwatch for the processor's time of this process, all threads, where it is known (to 10 ms): other processes
/// do not disturb it. Elsewhere the wall's.
struct Stopwatch(Instant, Option<f64>);

impl Stopwatch {
    fn start() -> Self {
        Self(Instant::now(), processor_seconds())
    }

    fn read(&self) -> Duration {
        let used = processor_seconds().zip(self.1).map(|(now, then)| now - then);
        used.map_or_else(|| self.0.elapsed(), Duration::from_secs_f64)
    }
}

fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The fields after the name in brackets; the 12th and 13th are the time in user and system mode, in ticks of 10 ms.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

fn rate(name: &str, time: Duration, events: u64) {
    let seconds = time.as_secs_f64();
    println!(
        "  {name:28} {seconds:6.2} s of processor   {:6.2} million events/s",
        events as f64 / seconds / 1e6
    );
}

#[cfg(target_os = "linux")]
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim().to_owned()
}

/// The herd as one would write it for the occasion: full jitter inline, a binary heap, no core, no statistics but the
/// series and a sum of latencies.
fn plain_herd(herd: &Herd) -> (u64, u64) {
    struct Client {
        began: u64,
        attempts: u32,
    }
    let nanos = |time: Duration| time.as_nanos() as u64;
    let below = |range: u64, luck: u64| ((u128::from(range) * u128::from(luck)) >> 64) as u64;
    let (shortest, longest) = (nanos(herd.round_trip.0), nanos(herd.round_trip.1));
    let mut heap = BinaryHeap::new();
    let mut clients = Vec::new();
    for id in 0..herd.clients {
        let began = below(nanos(herd.within), entropy(1, u64::from(id), 0));
        clients.push(Client { began, attempts: 0 });
        heap.push(Reverse((began, id)));
    }
    let (mut slot, mut left) = (u64::MAX, 0);
    let mut series = vec![0u64; 100_000];
    let (mut events, mut sum, mut latency) = (0, 0u64, 0u64);
    while let Some(Reverse((now, id))) = heap.pop() {
        events += 1;
        series[(now / 100_000_000) as usize] += 1;
        let client = &mut clients[id as usize];
        client.attempts += 1;
        let luck = entropy(1, u64::from(id), client.attempts);
        let round_trip = shortest + below(longest - shortest, Dice::new(luck).roll());
        if now / 1_000_000 != slot {
            (slot, left) = (now / 1_000_000, herd.capacity / 1000);
        }
        if left > 0 {
            left -= 1;
            latency += now + round_trip / 2 - client.began;
            continue;
        }
        let ceiling = (100_000_000u64 << (client.attempts - 1).min(30)).min(20_000_000_000);
        let wait = below(ceiling, luck);
        sum = sum.wrapping_add(wait);
        heap.push(Reverse((now + round_trip + wait, id)));
    }
    black_box((series, latency));
    (events, sum)
}

fn grid() {
    println!("\nAWS grid: 19 sizes × 5 strategies × 100 replications");
    let engine = |threads| {
        let (started, mut events) = (Stopwatch::start(), 0);
        for clients in (10..=190).step_by(10) {
            let scenario = Scenario::occ(Occ { clients, ..Occ::default() });
            let comparison = Simulation::new(scenario).line_up().threads(threads).run().unwrap();
            events += comparison.reports.iter().map(|report| report.tally.events).sum::<u64>();
        }
        (started.read(), events)
    };
    let (time, events) = engine(1);
    rate("engine with the core", time, events);
    let (started, mut events) = (Stopwatch::start(), 0);
    for clients in (10..=190).step_by(10) {
        for strategy in 0..5 {
            for replication in 0..100 {
                events += plain_occ(clients, strategy, replication);
            }
        }
    }
    rate("plain BinaryHeap, no core", started.read(), events);
}

/// The AWS model as one would write it for the occasion, two events per attempt.
fn plain_occ(clients: u32, strategy: u32, replication: u64) -> u64 {
    struct Client {
        seen: u32,
        attempts: u32,
        sleep: u64,
    }
    let mut dice = Dice::new(entropy(replication, u64::from(clients), strategy));
    let law = Law::Normal { mean: Duration::from_millis(10), deviation: Duration::from_millis(2) };
    let (base, cap) = (5_000_000u64, 2_000_000_000u64);
    let below = |range: u64, luck: u64| ((u128::from(range) * u128::from(luck)) >> 64) as u64;
    let mut heap = BinaryHeap::new();
    let mut states = Vec::new();
    for id in 0..clients {
        heap.push(Reverse((law.draw(&mut dice), id, false)));
        states.push(Client { seen: 0, attempts: 0, sleep: base });
    }
    let (mut version, mut events) = (0, 0);
    while let Some(Reverse((now, id, write))) = heap.pop() {
        events += 1;
        let client = &mut states[id as usize];
        if !write {
            client.seen = version;
            heap.push(Reverse((now + law.draw(&mut dice) + law.draw(&mut dice), id, true)));
            continue;
        }
        if client.seen == version {
            version += 1;
            continue;
        }
        client.attempts += 1;
        let ladder = (base << client.attempts.min(30)).min(cap);
        let wait = match strategy {
            0 => 0,
            1 => ladder,
            2 => ladder / 2 + below(ladder / 2, dice.roll()),
            3 => below(ladder, dice.roll()),
            _ => {
                client.sleep = (base + below(client.sleep * 3 - base, dice.roll())).min(cap);
                client.sleep
            }
        };
        heap.push(Reverse((now + law.draw(&mut dice) + law.draw(&mut dice) + wait, id, false)));
    }
    events
}
