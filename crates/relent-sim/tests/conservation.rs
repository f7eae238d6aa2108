//! Nothing is lost and nothing appears: every call ends once, every wait is the core's, nothing depends on threads.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // the helpers of a test may fail like the test

use std::time::Duration;

use proptest::prelude::*;
use relent_core::{Alone, Call, Class, Decision, Jitter, Moment, Outcome, Policy, Timestamp};
use relent_sim::{Comparison, Herd, Luck, Measure, Occ, Scenario, Simulation, checksum};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn policy(attempts: Option<u32>, jitter: Jitter, deadline: Option<u64>) -> Policy {
    let builder = Policy::exponential(ms(100)).jitter(jitter);
    let builder = match attempts {
        Some(attempts) => builder.max_attempts(attempts),
        None => builder.unlimited_attempts(),
    };
    match deadline {
        Some(deadline) => builder.deadline(ms(deadline)).build().unwrap(),
        None => builder.build().unwrap(),
    }
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let jitter =
        prop_oneof![Just(Jitter::None), Just(Jitter::Full), Just(Jitter::Equal), Just(Jitter::Decorrelated)];
    (proptest::option::of(1u32..8), jitter, proptest::option::of(1u64..5_000))
        .prop_map(|(attempts, jitter, deadline)| policy(attempts, jitter, deadline))
}

fn conserved(comparison: &Comparison) {
    for report in &comparison.reports {
        let tally = &report.tally;
        assert_eq!(tally.calls, tally.succeeded + tally.failed + tally.unfinished);
        assert_eq!(tally.attempts, report.series.attempts.iter().sum::<u64>());
        assert!(tally.first_attempts <= tally.calls && tally.first_attempts <= tally.attempts);
        assert_eq!(tally.calls, report.series.calls.iter().sum::<u64>());
        assert_eq!(tally.succeeded, report.series.succeeded.iter().sum::<u64>());
        assert_eq!(tally.failed, report.series.failed.iter().sum::<u64>());
        assert_eq!(tally.succeeded, report.latency.len());
        assert_eq!(tally.failed, report.knows.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn herds_conserve_calls(
        policy in any_policy(), clients in 1u32..400, capacity in 1u64..20_000, seed: u64, outage in 0u64..3_000,
    ) {
        let outage = Some((Duration::ZERO, ms(outage)));
        let herd = Herd { clients, capacity, outage, horizon: Duration::from_secs(60), ..Herd::default() };
        let run = |threads| {
            let simulation = Simulation::new(Scenario::herd(herd)).contender("a", policy.clone()).line_up();
            simulation.replications(3).seed(seed).threads(threads).run().unwrap()
        };
        let (one, two) = (run(1), run(2));
        conserved(&one);
        for (a, b) in one.reports.iter().zip(&two.reports) {
            prop_assert_eq!(a.tally, b.tally);
            prop_assert_eq!(&a.series, &b.series);
            for measure in Measure::ALL {
                prop_assert_eq!(a.estimate(measure), b.estimate(measure));
            }
        }
    }

    #[test]
    fn contention_conserves_calls(policy in any_policy(), clients in 1u32..60, seed: u64) {
        let scenario = Scenario::occ(Occ { clients, ..Occ::default() });
        let comparison = Simulation::new(scenario).contender("a", policy).seed(seed).replications(2).run().unwrap();
        conserved(&comparison);
        let tally = &comparison.reports[0].tally;
        prop_assert_eq!(tally.calls, u64::from(clients) * 2);
        prop_assert_eq!(tally.first_attempts, tally.calls);
    }
}

/// With a server that is out for good every outcome is known, so the waits can be computed without the simulator.
#[test]
fn the_waits_are_those_that_the_core_decides() {
    let outage = Some((Duration::ZERO, Duration::from_secs(1_000_000)));
    let herd = Herd { clients: 500, within: Duration::ZERO, outage, ..Herd::default() };
    for jitter in [Jitter::None, Jitter::Full, Jitter::Decorrelated, Jitter::DecorrelatedV2] {
        let policy = policy(Some(6), jitter, None);
        let simulation = Simulation::new(Scenario::herd(herd)).contender("a", policy.clone());
        let comparison = simulation.seed(42).run().unwrap();

        let luck = Luck::new(42, 0);
        let mut expected = 0u64;
        for client in 0..500 {
            let mut call = Call::new(Some(Timestamp::ZERO));
            for attempt in 1.. {
                let moment = Moment::at(Timestamp::ZERO, luck.decision(client, attempt));
                let decision = call.decide(&policy, &mut Alone, Outcome::of(Class::Transient), moment);
                let Decision::Retry { after, .. } = decision else { break };
                expected = expected.wrapping_add(checksum(client, attempt, after.as_nanos() as u64));
            }
        }
        assert_eq!(comparison.reports[0].tally.waits, expected, "{jitter:?}");
        assert_eq!(comparison.reports[0].tally.attempts, 500 * 6);
    }
}
