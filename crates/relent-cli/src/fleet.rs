//! A fleet meets an outage in virtual time: what `relent demo` draws and what `relent explain` says in a line.

use std::time::Duration;

use relent_core::Policy;
use relent_sim::{
    Arrivals, Clients, Edge, Fleet, Law, Measure, Report, RunError, Scenario, Service, Simulation, Trouble,
    TroubleKind,
};

/// Clients that all lose the same service, which comes back after a while, serves one call at a time and refuses
/// whatever comes meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    pub(crate) clients: u32,
    /// All of them notice within this time, and call.
    pub(crate) within: Duration,
    /// From the start until the service is back.
    pub(crate) lasts: Duration,
    /// Calls that the service can serve per second, evenly: one at a time.
    pub(crate) capacity: u32,
    /// The width of the bins that calls are counted in.
    pub(crate) bin: Duration,
    pub(crate) seed: u64,
    /// After so many events it is broken off.
    pub(crate) max_events: u64,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Met {
    /// Calls that arrived, by bin, from the start until nobody called any more.
    pub(crate) load: Vec<u64>,
    /// The most calls in one bin once the service was back.
    pub(crate) peak: u64,
    /// All calls.
    pub(crate) calls: u64,
    /// Clients that were served in the end.
    pub(crate) served: u64,
    /// From the end of the outage until the last client was served or had given up; zero where all did so before.
    pub(crate) drained: Duration,
    /// From the start until the last client was served or had given up.
    pub(crate) over: Duration,
    /// Whether it went on for longer than was simulated.
    pub(crate) broken_off: bool,
}

impl Outage {
    /// A thousand clients, half a minute, and a service that then needs ten seconds for all of them.
    pub(crate) const USUAL: Self = Self {
        clients: 1000,
        within: Duration::from_millis(500),
        lasts: Duration::from_secs(30),
        capacity: 100,
        bin: Duration::from_millis(100),
        seed: 1,
        max_events: 20_000_000,
    };

    /// Lets the fleet call under each policy, with the same luck.
    ///
    /// # Errors
    ///
    /// A fleet that cannot be, such as one of no clients.
    pub(crate) fn meet<const N: usize>(&self, policies: [Policy; N]) -> Result<[Met; N], RunError> {
        let mut simulation = Simulation::new(self.scenario()).seed(self.seed).max_events(self.max_events);
        for policy in policies {
            simulation = simulation.contender("", policy);
        }
        let comparison = simulation.run()?;
        let mut met = comparison.reports.iter().map(|report| self.met(report));
        let nothing = || Met {
            load: Vec::new(),
            peak: 0,
            calls: 0,
            served: 0,
            drained: Duration::ZERO,
            over: Duration::ZERO,
            broken_off: true,
        };
        Ok(std::array::from_fn(|_| met.next().unwrap_or_else(nothing)))
    }

    fn scenario(&self) -> Scenario {
        let name = || "service".to_owned();
        let one_at_a_time = Service {
            workers: Some(1),
            queue: Some(0),
            time: Law::Fixed(Duration::from_secs(1) / self.capacity.max(1)),
            ..Service::new(name())
        };
        let fleet = Fleet {
            clients: vec![Clients {
                name: "clients".to_owned(),
                count: self.clients,
                arrivals: Arrivals::Burst { at: Duration::ZERO, within: self.within },
                // A refusal travels, too: who retries without a wait makes many calls, not endlessly many.
                call: Edge { delay: Law::Fixed(Duration::from_millis(1)), ..Edge::to(name()) },
            }],
            services: vec![one_at_a_time],
            troubles: vec![Trouble {
                service: name(),
                at: Duration::ZERO,
                lasts: self.lasts,
                shard: None,
                kind: TroubleKind::Refuse,
            }],
            horizon: self.lasts.max(self.within).saturating_add(Duration::from_secs(1)),
            grace: Duration::from_secs(4 * 3600),
            ..Fleet::default()
        };
        let mut scenario = Scenario::fleet("outage", "", fleet);
        scenario.bin = self.bin;
        scenario.replications = 1;
        scenario
    }

    fn met(&self, report: &Report) -> Met {
        let load = report.series.attempts.clone();
        let back = (self.lasts.as_nanos() / self.bin.as_nanos().max(1)) as usize;
        let time =
            |measure| report.mean(measure).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Met {
            peak: load.iter().skip(back).copied().max().unwrap_or(0),
            calls: report.tally.attempts,
            served: report.tally.succeeded,
            drained: time(Measure::Drain).unwrap_or_default(),
            over: time(Measure::Completion).unwrap_or_default(),
            broken_off: report.broken.is_some() || report.mean(Measure::Completion).is_none(),
            load,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relent_core::{Jitter, PolicyBuilder};

    const FLEET: Outage = Outage {
        clients: 200,
        within: Duration::from_millis(100),
        lasts: Duration::from_secs(5),
        ..Outage::USUAL
    };

    fn meet(policy: PolicyBuilder) -> Met {
        let [met] = FLEET.meet([policy.build().unwrap()]).unwrap();
        met
    }

    fn patient(jitter: Jitter) -> PolicyBuilder {
        let policy = Policy::exponential(Duration::from_millis(100)).cap(Duration::from_secs(2));
        policy.jitter(jitter).unlimited_attempts()
    }

    #[test]
    fn everybody_is_served_no_faster_than_the_service_can() {
        for jitter in [Jitter::None, Jitter::Full] {
            let met = meet(patient(jitter));
            assert_eq!((met.served, met.broken_off), (200, false));
            assert_eq!(met.load.iter().sum::<u64>(), met.calls);
            assert!(met.drained >= Duration::from_millis(1990), "{:?}", met.drained);
            assert_eq!(met.over, met.drained + FLEET.lasts);
        }
    }

    #[test]
    fn an_idle_service_serves_whoever_comes() {
        // Spread over ten times the time that the service needs, nine in ten find it idle.
        let wide = Outage { within: Duration::from_secs(20), lasts: Duration::from_millis(1), ..FLEET };
        let [met] = wide.meet([patient(Jitter::Full).build().unwrap()]).unwrap();
        assert_eq!(met.served, 200);
        assert!(met.calls < 250, "{}", met.calls);
    }

    #[test]
    fn without_jitter_they_come_back_together_and_take_longer() {
        let (together, spread) = (meet(patient(Jitter::None)), meet(patient(Jitter::Full)));
        assert!(together.peak > 100, "{}", together.peak);
        assert!(spread.peak * 3 < together.peak, "{} and {}", spread.peak, together.peak);
        assert!(spread.drained * 3 < together.drained, "{:?} and {:?}", spread.drained, together.drained);
    }

    #[test]
    fn whoever_may_not_wait_longer_gives_up() {
        let met = meet(Policy::exponential(Duration::from_millis(100)).max_attempts(3));
        assert_eq!((met.served, met.calls, met.drained), (0, 600, Duration::ZERO));
        assert!(met.over < Duration::from_secs(1), "{:?}", met.over);
    }

    #[test]
    fn a_stampede_is_broken_off() {
        let policy =
            Policy::constant(Duration::ZERO).jitter(Jitter::None).unlimited_attempts().build().unwrap();
        let [met] = Outage { max_events: 100_000, ..FLEET }.meet([policy]).unwrap();
        assert!(met.broken_off);
    }
}
