//! A fleet meets an outage in virtual time. Each client runs the very decision core that a real call runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use relent_core::{Alone, Call, Class, Decision, Moment, Outcome, Policy, Timestamp, entropy};

/// Clients that all lose the same service, which comes back after a while and then serves so many calls a second and
/// refuses the rest at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fleet {
    pub(super) clients: u32,
    /// All of them notice within this time, and call.
    pub(super) within: Duration,
    /// From the start until the service is back.
    pub(super) outage: Duration,
    /// Calls that the service can serve per second, evenly: one at a time.
    pub(super) capacity: u32,
    /// The width of the bins that calls are counted in.
    pub(super) bin: Duration,
    pub(super) seed: u64,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Met {
    /// Calls that arrived, by bin, from the start until nobody called any more.
    pub(super) load: Vec<u32>,
    /// The most calls in one bin once the service was back.
    pub(super) peak: u32,
    /// All calls.
    pub(super) calls: u64,
    /// Clients that were served in the end.
    pub(super) served: u32,
    /// From the end of the outage until the last client was served.
    pub(super) drained: Duration,
}

impl Fleet {
    /// Lets the fleet call under `policy`.
    pub(super) fn meet(&self, policy: &Policy) -> Met {
        let mut calls: Vec<Call> = Vec::new();
        let mut arrivals = BinaryHeap::new();
        for client in 0..self.clients {
            let noticed = self.within.mul_f64(share(entropy(self.seed, client.into(), 0)));
            calls.push(Call::new(Some(Timestamp::from_duration(noticed))));
            arrivals.push(Reverse((Timestamp::from_duration(noticed), client)));
        }
        let back = Timestamp::from_duration(self.outage);
        let service_time = Duration::from_secs(1) / self.capacity.max(1);
        let mut free_at = back;
        let mut met = Met { load: Vec::new(), peak: 0, calls: 0, served: 0, drained: Duration::ZERO };
        while let Some(Reverse((now, client))) = arrivals.pop() {
            met.count(now, self.bin);
            if now >= free_at {
                free_at = now.plus(service_time);
                met.served += 1;
                met.drained = now.since(back);
                continue;
            }
            let Some(call) = calls.get_mut(client as usize) else { continue };
            // Nobody listens during the outage; afterwards the service says that it is busy.
            let class = if now < back { Class::NotSent } else { Class::Throttled };
            let luck = entropy(self.seed, client.into(), call.attempts() + 1);
            if let Decision::Retry { after, .. } =
                call.decide(policy, &mut Alone, Outcome::of(class), Moment::at(now, luck))
            {
                arrivals.push(Reverse((now.plus(after), client)));
            }
        }
        let first = (self.outage.as_nanos() / self.bin.as_nanos().max(1)) as usize;
        met.peak = met.load.iter().skip(first).copied().max().unwrap_or(0);
        met
    }
}

impl Met {
    fn count(&mut self, now: Timestamp, bin: Duration) {
        let bin = (now.as_duration().as_nanos() / bin.as_nanos().max(1)) as usize;
        if self.load.len() <= bin {
            self.load.resize(bin + 1, 0);
        }
        if let Some(count) = self.load.get_mut(bin) {
            *count += 1;
        }
        self.calls += 1;
    }
}

/// A random number as a share, from 0 to below 1.
fn share(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use relent_core::Jitter;

    const FLEET: Fleet = Fleet {
        clients: 200,
        within: Duration::from_millis(100),
        outage: Duration::from_secs(5),
        capacity: 100,
        bin: Duration::from_millis(100),
        seed: 1,
    };

    fn policy(jitter: Jitter) -> Policy {
        let policy =
            Policy::exponential(Duration::from_millis(100)).cap(Duration::from_secs(2)).jitter(jitter);
        policy.unlimited_attempts().build().unwrap()
    }

    #[test]
    fn everybody_is_served_no_faster_than_the_service_can() {
        for jitter in [Jitter::None, Jitter::Full] {
            let met = FLEET.meet(&policy(jitter));
            assert_eq!(met.served, 200);
            assert_eq!(met.load.iter().map(|count| u64::from(*count)).sum::<u64>(), met.calls);
            assert!(met.drained >= Duration::from_millis(1990), "{:?}", met.drained);
        }
    }

    #[test]
    fn without_jitter_they_come_back_together_and_take_longer() {
        let (together, spread) = (FLEET.meet(&policy(Jitter::None)), FLEET.meet(&policy(Jitter::Full)));
        assert!(together.peak > 100, "{}", together.peak);
        assert!(spread.peak * 3 < together.peak, "{} and {}", spread.peak, together.peak);
        assert!(spread.drained * 3 < together.drained, "{:?} and {:?}", spread.drained, together.drained);
    }

    #[test]
    fn whoever_may_not_wait_longer_gives_up() {
        let policy = Policy::exponential(Duration::from_millis(100)).max_attempts(3).build().unwrap();
        let met = FLEET.meet(&policy);
        assert_eq!((met.served, met.calls), (0, 600));
    }

    #[test]
    fn the_same_seed_gives_the_same_herd() {
        assert_eq!(FLEET.meet(&policy(Jitter::Full)), FLEET.meet(&policy(Jitter::Full)));
    }
}
