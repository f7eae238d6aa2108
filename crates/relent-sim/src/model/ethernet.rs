//! Ethernet: stations that share one cable.

use std::time::Duration;

use relent_core::{Alone, Call, Class, Decision, Moment, Outcome, Policy, Reason, Timestamp};

use crate::luck::Luck;
use crate::model::Pulse;
use crate::model::herd::nanos;
use crate::record::{Frame, Recorder};

/// Stations that always have a frame to send over one cable (Metcalfe, Boggs, CACM 1976).
///
/// Time goes in slots. A station whose wait is over sends as soon as the cable is free. One alone has it for a frame's
/// time; several collide, lose a slot, and each waits as its policy says, in whole slots. A frame given up is dropped,
/// and the next one takes its place. Each frame is a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ethernet {
    /// How many stations there are.
    pub stations: u32,
    /// A slot: 51.2 µs at 10 Mb/s.
    pub slot: Duration,
    /// How many slots a frame takes.
    pub frame: f64,
    /// After how many slots the simulation ends.
    pub slots: u64,
}

impl Default for Ethernet {
    /// Ten stations with frames of 4096 bits at 3 Mb/s in slots of 16 µs, a million slots.
    fn default() -> Self {
        Self { stations: 10, slot: Duration::from_micros(16), frame: 4096.0 / 3.0 / 16.0, slots: 1_000_000 }
    }
}

/// The efficiency that Metcalfe and Boggs derive for `stations` that each send with the best probability 1/Q in every
/// free slot, and frames of `frame` slots: E = P / (P + W) with A = (1 − 1/Q)^(Q−1), W = (1 − A)/A.
pub fn metcalfe_boggs(stations: u32, frame: f64) -> f64 {
    let q = f64::from(stations.max(1));
    let acquires = libm::pow(1.0 - 1.0 / q, q - 1.0);
    let wasted = (1.0 - acquires) / acquires;
    frame / (frame + wasted)
}

#[derive(Clone, Copy)]
struct Station {
    call: Call,
    /// In nanoseconds: when it wants to send, and when it got its frame.
    sends: u64,
    began: u64,
    frames: u32,
}

/// What is kept between replications: memory.
#[derive(Default)]
pub(crate) struct Scratch {
    stations: Vec<Station>,
}

impl Ethernet {
    pub(crate) fn horizon(&self) -> Duration {
        self.slot.saturating_mul(u32::try_from(self.slots).unwrap_or(u32::MAX))
    }

    pub(crate) fn frame(&self, bin: Duration, cost: (f64, f64)) -> Frame {
        let horizon = nanos(self.horizon());
        Frame { bin: nanos(bin), horizon, incident: None, one_call_each: false, cost, warm_up: 0 }
    }

    /// Runs one replication; the part of the time in which frames were on the cable.
    pub(crate) fn run(
        &self,
        policy: &Policy,
        luck: Luck,
        scratch: &mut Scratch,
        recorder: &mut Recorder,
        pulse: &mut Pulse<'_>,
    ) -> f64 {
        let (slot, ends) = (nanos(self.slot), nanos(self.horizon()));
        let frame = (self.frame * slot as f64) as u64;
        let stations = &mut scratch.stations;
        let fresh = |now: u64, frames| Station {
            call: Call::new(Some(Timestamp::from_nanos(now))),
            sends: now,
            began: now,
            frames,
        };
        stations.clear();
        for _ in 0..self.stations {
            stations.push(fresh(0, 0));
            recorder.begin(0);
        }
        let (mut free, mut carried) = (0u64, 0u64);
        // A few hundred stations: looking at all of them is as quick as a queue.
        while let Some(first) = stations.iter().map(|station| station.sends).min() {
            let now = first.max(free);
            if now >= ends || !pulse.beat(now) {
                break;
            }
            let collide = stations.iter().filter(|station| station.sends <= now).count() > 1;
            // A collision takes a slot, a frame its time; both end when the cable is free again.
            free = now + if collide { slot } else { frame };
            carried += if collide { 0 } else { frame };
            for (index, station) in
                stations.iter_mut().enumerate().filter(|(_, station)| station.sends <= now)
            {
                recorder.attempt(now, station.call.attempts() == 0);
                let id = ((index as u64) << 32) | u64::from(station.frames);
                let ended = if collide {
                    let attempt = station.call.attempts() + 1;
                    let moment = Moment::at(Timestamp::from_nanos(free), luck.decision(id, attempt));
                    match station.call.decide(policy, &mut Alone, Outcome::of(Class::Transient), moment) {
                        Decision::Retry { after, .. } => {
                            recorder.wait(id, attempt, nanos(after));
                            station.sends = free.saturating_add(nanos(after));
                            continue;
                        }
                        Decision::Stop { reason, .. } => reason,
                    }
                } else {
                    station.call.succeed(&mut Alone, &|| None);
                    Reason::Succeeded
                };
                recorder.end(free, station.began, index, ended);
                recorder.begin(free);
                *station = fresh(free, station.frames + 1);
            }
        }
        carried as f64 / free.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_gives_the_published_table() {
        // Stations, A, W, then E for frames of 4096, 1024, 512 and 48 bits (Metcalfe, Boggs 1976, table 1; T = 16 µs,
        // C = 3 Mb/s).
        let lines = include_str!("../../tests/data/sim-ethernet-metcalfe-boggs.csv").lines().skip(1);
        let mut rows = 0;
        for line in lines {
            let fields: Vec<f64> = line.split(',').map(|field| field.parse().unwrap()).collect();
            for (bits, expected) in [4096.0, 1024.0, 512.0, 48.0].into_iter().zip(&fields[3..]) {
                let got = metcalfe_boggs(fields[0] as u32, bits / 3.0 / 16.0);
                assert!((got - expected).abs() <= 0.000_05 + 1e-9, "{line} {bits}: {got}");
            }
            rows += 1;
        }
        assert_eq!(rows, 10);
    }
}
