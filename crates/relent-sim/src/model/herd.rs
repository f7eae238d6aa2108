//! A herd: all clients call at once, and the server takes so many at a time.

use std::time::Duration;

use relent_core::{Alone, Call, Class, Decision, Dice, Moment, Outcome, Policy, Reason, Start, Timestamp};

use crate::luck::Luck;
use crate::model::Pulse;
use crate::queue::Queue;
use crate::record::{Frame, Recorder};

/// Every client makes one call within `within`; the server serves `capacity` per second, refuses the rest at once, and
/// refuses all of them while it is out.
///
/// The lean model: a client is its [`Call`], an attempt is one event, so that ten million fit in 2.5 GB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Herd {
    /// How many clients there are.
    pub clients: u32,
    /// Their first attempts arrive evenly within this time.
    pub within: Duration,
    /// How many attempts the server serves per second. It counts them per millisecond, or where that would be fewer
    /// than ten, per the time of ten.
    pub capacity: u64,
    /// The shortest and the longest time from an answer until an immediate retry arrives.
    pub round_trip: (Duration, Duration),
    /// When the server is out, and for how long.
    pub outage: Option<(Duration, Duration)>,
    /// After this time the simulation ends.
    pub horizon: Duration,
}

impl Default for Herd {
    /// A hundred thousand clients within 2 ms on a server that takes 2 000 per second.
    fn default() -> Self {
        Self {
            clients: 100_000,
            within: Duration::from_millis(2),
            capacity: 2_000,
            round_trip: (Duration::from_millis(10), Duration::from_millis(12)),
            outage: None,
            horizon: Duration::from_secs(3600),
        }
    }
}

/// What is kept between replications: memory.
#[derive(Default)]
pub(crate) struct Scratch {
    queue: Queue<u32>,
    clients: Vec<Client>,
}

/// A client is its call. Aligned, or else every second one lies across two lines of the cache, and each line that is not
/// there costs more than a decision.
#[repr(align(32))]
struct Client(Call);

const _: () = assert!(size_of::<Client>() == 32);

impl Herd {
    pub(crate) fn frame(&self, bin: Duration, cost: (f64, f64)) -> Frame {
        Frame {
            bin: nanos(bin),
            horizon: nanos(self.horizon),
            incident: self.outage.map(|(at, lasts)| (nanos(at), nanos(at.saturating_add(lasts)))),
            one_call_each: true,
            cost,
            warm_up: 0,
        }
    }

    pub(crate) fn run(
        &self,
        policy: &Policy,
        luck: Luck,
        scratch: &mut Scratch,
        recorder: &mut Recorder,
        pulse: &mut Pulse<'_>,
    ) {
        let Scratch { queue, clients } = scratch;
        queue.clear();
        clients.clear();
        let within = nanos(self.within);
        let (shortest, longest) = (nanos(self.round_trip.0), nanos(self.round_trip.1));
        let outage = self.outage.map_or(0..0, |(at, lasts)| nanos(at)..nanos(at.saturating_add(lasts)));
        for client in 0..self.clients {
            let luck = luck.decision(u64::from(client), 0);
            let began = below(within, Dice::new(luck).roll());
            let now = Timestamp::from_nanos(began);
            let call = Call::new(Some(now));
            let spread = match call.start(policy, &mut Alone, Moment::at(now, luck)) {
                Start::Wait { after, .. } => nanos(after),
                Start::Go | Start::Stop { .. } => 0,
            };
            clients.push(Client(call));
            queue.push(began.saturating_add(spread), client);
        }
        let mut served = Slots::new(self.capacity);
        let horizon = nanos(self.horizon);
        // As in every driver: no time for a decision that does not need it.
        let timed = policy.needs_clock();
        loop {
            let touch = |next: &[(u64, u32)]| {
                let clients = next.iter().filter_map(|(_, client)| clients.get(*client as usize));
                std::hint::black_box(clients.map(|client| u64::from(client.0.attempts())).sum::<u64>());
            };
            let Some((now, client)) = queue.pop_foreseeing(touch) else { break };
            if now > horizon || !pulse.beat(now) {
                break;
            }
            let Some(Client(call)) = clients.get_mut(client as usize) else { continue };
            let began = call.began().map_or(0, Timestamp::as_nanos);
            let first = call.attempts() == 0;
            if first {
                recorder.begin(now);
            }
            recorder.attempt(now, first);
            let luck = luck.decision(u64::from(client), call.attempts() + 1);
            let round_trip = shortest + below(longest - shortest, Dice::new(luck).roll());
            let answered = now + round_trip / 2;
            if !outage.contains(&now) && served.take(now) {
                call.succeed(&mut Alone, &|| None);
                recorder.end(answered, began, client as usize, Reason::Succeeded);
                continue;
            }
            let moment = Moment { now: timed.then_some(Timestamp::from_nanos(answered)), entropy: luck };
            match call.decide(policy, &mut Alone, Outcome::of(Class::Transient), moment) {
                Decision::Retry { after, .. } => {
                    recorder.wait(u64::from(client), call.attempts(), nanos(after));
                    queue.push(now.saturating_add(round_trip).saturating_add(nanos(after)), client);
                }
                Decision::Stop { reason, .. } => recorder.end(answered, began, client as usize, reason),
            }
        }
    }
}

/// What the server may still take in the current slot of time.
struct Slots {
    capacity: u64,
    length: u64,
    ends: u64,
    left: u64,
}

impl Slots {
    fn new(capacity: u64) -> Self {
        let length = (10_000_000_000 / capacity.max(1)).clamp(1_000_000, 1_000_000_000);
        Self { capacity, length, ends: 0, left: 0 }
    }

    #[inline]
    fn take(&mut self, now: u64) -> bool {
        if now >= self.ends {
            let slot = now / self.length;
            self.ends = (slot + 1).saturating_mul(self.length);
            // A slot has what the capacity up to its end has more than up to its beginning, in whole attempts.
            let up_to = |slot: u64| {
                u128::from(slot) * u128::from(self.length) * u128::from(self.capacity) / 1_000_000_000
            };
            self.left = u64::try_from(up_to(slot + 1) - up_to(slot)).unwrap_or(u64::MAX);
        }
        let free = self.left > 0;
        self.left -= u64::from(free);
        free
    }
}

#[inline]
fn below(range: u64, luck: u64) -> u64 {
    ((u128::from(range) * u128::from(luck)) >> 64) as u64
}

#[inline]
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
