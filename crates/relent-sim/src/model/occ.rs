//! Optimistic concurrency: clients that contend for one row.

use std::time::Duration;

use relent_core::{Alone, Call, Class, Decision, Dice, Moment, Outcome, Policy, Reason, Timestamp};

use crate::luck::{Luck, Ziggurat};
use crate::model::Pulse;
use crate::model::herd::nanos;
use crate::queue::Queue;
use crate::record::{Frame, Recorder};

/// The model of the AWS Architecture Blog's "Exponential Backoff And Jitter" (2015; aws-samples/
/// aws-arch-backoff-simulator): a row with a version, a server that answers at once, and clients that each want one
/// write. A client reads the version, writes against it, and where another came first it backs off and reads anew.
///
/// Every message takes |N(delay, deviation)|. An attempt is one event, its write: whether another write came since its
/// read can be told by the time of the last one, so that reads need no event of their own. A read at the very instant
/// of a write sees it. Reads are not counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Occ {
    /// How many clients there are.
    pub clients: u32,
    /// The mean time that a message takes.
    pub delay: Duration,
    /// Its standard deviation.
    pub deviation: Duration,
    /// After this time the simulation ends.
    pub horizon: Duration,
}

impl Default for Occ {
    /// A hundred clients; 10 ± 2 ms, as in the original.
    fn default() -> Self {
        Self {
            clients: 100,
            delay: Duration::from_millis(10),
            deviation: Duration::from_millis(2),
            horizon: Duration::from_secs(3600),
        }
    }
}

#[derive(Clone, Copy)]
struct Client {
    call: Call,
    /// When it reads the row, in nanoseconds.
    reads: u64,
    /// From its write's arrival to the answer, in nanoseconds.
    to_answer: u32,
}

/// What is kept between replications: memory.
#[derive(Default)]
pub(crate) struct Scratch {
    queue: Queue<u32>,
    clients: Vec<Client>,
}

impl Occ {
    pub(crate) fn frame(&self, bin: Duration, cost: (f64, f64)) -> Frame {
        let horizon = nanos(self.horizon);
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
        let Scratch { queue, clients } = scratch;
        queue.clear();
        clients.clear();
        let network = Network {
            ziggurat: Ziggurat::get(),
            delay: nanos(self.delay) as f64,
            deviation: nanos(self.deviation) as f64,
        };
        for id in 0..self.clients {
            let (to_read, to_write, to_answer) = network.attempt(luck.decision(u64::from(id), 0));
            let call = Call::new(Some(Timestamp::ZERO));
            let reads = u64::from(to_read);
            clients.push(Client { call, reads, to_answer });
            queue.push(reads + u64::from(to_write), id);
            recorder.begin(0);
        }
        let (mut written, horizon) = (0, nanos(self.horizon));
        // As in every driver: no time for a decision that does not need it.
        let timed = policy.needs_clock();
        while let Some((now, id)) = queue.pop() {
            if now > horizon || !pulse.beat(now) {
                break;
            }
            let Some(client) = clients.get_mut(id as usize) else { continue };
            recorder.attempt(now, client.call.attempts() == 0);
            let answered = now + u64::from(client.to_answer);
            if client.reads >= written {
                written = now;
                client.call.succeed(&mut Alone, &|| None);
                recorder.end(answered, 0, id as usize, Reason::Succeeded);
                continue;
            }
            let attempts = client.call.attempts() + 1;
            let entropy = luck.decision(u64::from(id), attempts);
            let moment = Moment { now: timed.then_some(Timestamp::from_nanos(answered)), entropy };
            match client.call.decide(policy, &mut Alone, Outcome::of(Class::Transient), moment) {
                Decision::Retry { after, .. } => {
                    recorder.wait(u64::from(id), attempts, nanos(after));
                    let (to_read, to_write, to_answer) = network.attempt(entropy);
                    client.reads = answered.saturating_add(nanos(after)).saturating_add(u64::from(to_read));
                    client.to_answer = to_answer;
                    queue.push(client.reads.saturating_add(u64::from(to_write)), id);
                }
                Decision::Stop { reason, .. } => recorder.end(answered, 0, id as usize, reason),
            }
        }
    }
}

struct Network {
    ziggurat: &'static Ziggurat,
    delay: f64,
    deviation: f64,
}

impl Network {
    /// The times of an attempt's messages: the read; its answer and the write; the write's answer. At most 4.3 s each.
    /// Drawn by the number that decided the wait before the attempt: a hash of it is as good as another hash.
    #[inline]
    fn attempt(&self, entropy: u64) -> (u32, u32, u32) {
        let mut dice = Dice::new(entropy ^ NETWORK);
        let mut message = || libm::fabs(self.delay + self.deviation * self.ziggurat.normal(&mut dice));
        (message() as u32, (message() + message()) as u32, message() as u32)
    }
}

const NETWORK: u64 = 0xd605_1d53_0e5b_0f11;
