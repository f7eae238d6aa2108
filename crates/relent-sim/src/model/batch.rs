//! Batches with a poisoned item: what is tried again, all or what failed.

use std::time::Duration;

use relent_core::{Alone, Call, Class, Decision, Moment, Outcome, Policy, Reason, Timestamp};

use crate::luck::{Luck, Purpose, unit};
use crate::model::Pulse;
use crate::model::herd::nanos;
use crate::queue::Queue;
use crate::record::{Frame, Recorder};

/// Batches of items, some of which can never succeed. Each item is a call; an attempt takes on several at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// How many batches there are; they begin within a second.
    pub batches: u32,
    /// How many items each has.
    pub items: u32,
    /// How many of them always fail.
    pub poisoned: u32,
    /// The part of the attempts at a healthy item that fail, 0 to 1.
    pub error_rate: f64,
    /// How long an attempt takes per item.
    pub time: Duration,
    /// What is tried again.
    pub repeats: Repeats,
}

/// What is tried again when items of a batch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// All of them: the batch succeeds or fails as one.
    Batch,
    /// Both halves of what was tried, each by itself, down to single items.
    Halves,
    /// Those that failed.
    Failed,
}

impl Default for Batch {
    /// A hundred batches of nine healthy items and a poisoned one.
    fn default() -> Self {
        Self {
            batches: 100,
            items: 10,
            poisoned: 1,
            error_rate: 0.01,
            time: Duration::from_millis(10),
            repeats: Repeats::Batch,
        }
    }
}

/// Items that are tried together.
struct Together {
    call: Call,
    batch: u32,
    items: Vec<u32>,
}

/// What is kept between replications: memory.
#[derive(Default)]
pub(crate) struct Scratch {
    queue: Queue<u32>,
    sets: Vec<Together>,
}

impl Batch {
    pub(crate) fn horizon(&self) -> Duration {
        Duration::from_secs(24 * 3600)
    }

    pub(crate) fn frame(&self, bin: Duration, cost: (f64, f64)) -> Frame {
        let horizon = nanos(self.horizon());
        Frame { bin: nanos(bin), horizon, incident: None, one_call_each: true, cost, warm_up: 0 }
    }

    pub(crate) fn run(
        &self,
        policy: &Policy,
        luck: Luck,
        scratch: &mut Scratch,
        recorder: &mut Recorder,
        pulse: &mut Pulse<'_>,
    ) {
        let Scratch { queue, sets } = scratch;
        queue.clear();
        sets.clear();
        for batch in 0..self.batches {
            let began = (unit(&mut luck.dice(Purpose::Arrival, u64::from(batch), 0)) * 1e9) as u64;
            sets.push(Together {
                call: Call::new(Some(Timestamp::from_nanos(began))),
                batch,
                items: (0..self.items).collect(),
            });
            queue.push(began, batch);
        }
        while let Some((now, set)) = queue.pop() {
            if now > nanos(self.horizon()) || !pulse.beat(now) {
                break;
            }
            let Some(Together { call, batch, items }) = sets.get_mut(set as usize) else { continue };
            let (mut call, batch, items) = (*call, *batch, std::mem::take(items));
            let began = call.began().map_or(0, Timestamp::as_nanos);
            let (first, number) = (call.attempts() == 0, call.attempts() + 1);
            let takes = nanos(self.time).saturating_mul(items.len() as u64);
            let ended = now.saturating_add(takes);
            for _ in &items {
                if first {
                    recorder.begin(now);
                }
                recorder.attempt(now, first);
            }
            let (good, bad): (Vec<u32>, Vec<u32>) =
                items.iter().partition(|item| self.succeeds(luck, batch, **item, number));
            let all_good = bad.is_empty();
            // What succeeded is done, unless all is done or nothing.
            let done = if all_good || self.repeats == Repeats::Failed { good.len() } else { 0 };
            recorder.work(nanos(self.time).saturating_mul(done as u64), true);
            recorder.work(nanos(self.time).saturating_mul((items.len() - done) as u64), false);
            (0..done).for_each(|_| recorder.end(ended, began, 0, Reason::Succeeded));
            if all_good {
                call.succeed(&mut Alone, &|| None);
                continue;
            }
            let id = (u64::from(batch) << 32) | u64::from(bad.first().copied().unwrap_or(0));
            let moment = Moment::at(Timestamp::from_nanos(ended), luck.decision(id, number));
            match call.decide(policy, &mut Alone, Outcome::of(Class::Transient), moment) {
                Decision::Retry { after, .. } => {
                    recorder.wait(id, number, nanos(after));
                    let half = items.len().div_ceil(2);
                    let again: Vec<&[u32]> = match self.repeats {
                        Repeats::Batch => vec![&items],
                        Repeats::Failed => vec![&bad],
                        Repeats::Halves => items.chunks(half).collect(),
                    };
                    for items in again {
                        queue.push(ended.saturating_add(nanos(after)), sets.len() as u32);
                        sets.push(Together { call, batch, items: items.to_vec() });
                    }
                }
                Decision::Stop { reason, .. } => {
                    (done..items.len()).for_each(|_| recorder.end(ended, began, 0, reason));
                }
            }
        }
    }

    fn succeeds(&self, luck: Luck, batch: u32, item: u32, number: u32) -> bool {
        let id = (u64::from(batch) << 32) | u64::from(item);
        item >= self.poisoned && unit(&mut luck.dice(Purpose::Service, id, number)) >= self.error_rate
    }
}
