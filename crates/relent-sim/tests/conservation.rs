//! Nothing is lost and nothing appears: every call ends once, every wait is the core's, nothing depends on threads.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // the helpers of a test may fail like the test

use std::time::Duration;

use proptest::prelude::*;
use relent_core::{Alone, Call, Class, Decision, Jitter, Moment, Outcome, Policy, Reason, Timestamp};
use relent_sim::{
    Arrivals, Batch, Clients, Comparison, Edge, Fleet, Herd, Law, Luck, Measure, Occ, Order, Overload,
    Profile, RateLimit, Repeats, Scenario, Service, Simulation, Trouble, TroubleKind, built_in, checksum,
};

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
    fn batches_conserve_items(
        policy in any_policy(), batches in 1u32..20, items in 1u32..12, poisoned in 0u32..3, which in 0usize..3, seed: u64,
    ) {
        let repeats = [Repeats::Batch, Repeats::Halves, Repeats::Failed][which];
        let poisoned = poisoned.min(items);
        let batch = Batch { batches, items, poisoned, error_rate: 0.2, repeats, ..Batch::default() };
        let simulation = Simulation::new(Scenario::batch(batch)).contender("a", policy.clone()).line_up();
        let comparison = simulation.seed(seed).replications(1).max_events(300_000).run().unwrap();
        conserved(&comparison);
        let tally = &comparison.reports[0].tally;
        // The poisoned ones never succeed; where only what failed is tried again, nobody else pays for them.
        prop_assert!(tally.succeeded <= u64::from(batches * (items - poisoned)));
        prop_assert_eq!(tally.first_attempts, tally.calls);
        if tally.unfinished == 0 {
            prop_assert_eq!(tally.calls, u64::from(batches * items));
        }
    }

    /// A thousand executions of a Retry: each is a call of its own, and none is left over.
    #[test]
    fn state_machines_conserve_executions(
        policy in any_policy(), executions in 1u32..400, rate in 1u32..2_000, retries in 0u32..6, seed: u64,
    ) {
        let numbers = [executions, rate, retries].map(|number| number.to_string());
        let options: Vec<(&str, &str)> =
            ["executions", "rate", "max-attempts"].into_iter().zip(numbers.iter().map(String::as_str)).collect();
        let scenario = built_in("statemachine", &options).unwrap();
        let run = |threads| {
            let simulation = Simulation::new(scenario.clone()).line_up().contender("a", policy.clone());
            simulation.replications(2).seed(seed).threads(threads).max_events(300_000).run().unwrap()
        };
        let (one, two) = (run(1), run(2));
        conserved(&one);
        for (a, b) in one.reports.iter().zip(&two.reports) {
            prop_assert_eq!(a.tally, b.tally);
        }
        for report in one.reports.iter().filter(|report| report.broken.is_none()) {
            let tally = &report.tally;
            prop_assert_eq!(tally.calls, u64::from(executions) * 2);
            if report.name != "a" {
                prop_assert_eq!(tally.unfinished, 0);
                prop_assert!(tally.attempts <= tally.calls * u64::from(retries + 1));
                prop_assert_eq!(tally.ended(Reason::AttemptsExhausted), tally.failed);
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

/// Fleets of one to three services with all that they can have.
fn any_fleet() -> impl Strategy<Value = Fleet> {
    let arrivals = prop_oneof![
        (1u64..100).prop_map(|think| Arrivals::Closed { think: Law::Exponential { mean: ms(think * 10) } }),
        (1u32..50).prop_map(|rate| Arrivals::Paced { rate: f64::from(rate) / 10.0 }),
        (1u32..200, any::<bool>()).prop_map(|(rate, random)| {
            Arrivals::Open { rate: Profile::spike(f64::from(rate), 300.0, ms(2_000), ms(1_000)), random }
        }),
        (0u64..3_000).prop_map(|within| Arrivals::Burst { at: ms(10), within: ms(within) }),
        (0u64..500).prop_map(|within| Arrivals::Cron { every: ms(1_500), within: ms(within) }),
        proptest::option::of(100u64..5_000).prop_map(|lifetime| Arrivals::Listen {
            lifetime: lifetime.map(|mean| Law::Exponential { mean: ms(mean) }),
            notice: Law::Fixed(ms(3)),
        }),
    ];
    let service = (
        proptest::option::of(1u32..5),
        any::<bool>(),
        proptest::option::of(0u32..20),
        any::<bool>(),
        0u64..40,
        0.0f64..0.6,
        proptest::option::of(1u32..100),
        proptest::option::of(1u32..50),
    )
        .prop_map(|(workers, lifo, queue, drop_expired, time, error_rate, rate, above)| Service {
            workers,
            order: if lifo { Order::Lifo } else { Order::Fifo },
            queue: queue.filter(|_| workers.is_some()),
            drop_expired: drop_expired && workers.is_some(),
            time: Law::Uniform { from: ms(time / 2), to: ms(time) },
            slowdown: ms(time / 10),
            error_rate,
            rate_limit: rate.map(|rate| RateLimit {
                per_second: f64::from(rate),
                burst: rate,
                retry_after: (rate % 2 == 0).then_some(ms(200)),
            }),
            overload: above.map(|above| Overload { above, out_for: ms(300) }),
            ..Service::new("")
        });
    let trouble = (0usize..3, 0u64..4_000, 1u64..2_000, 0u32..5);
    let kinds = proptest::collection::vec((arrivals, 1u32..40, proptest::option::of(5u64..500)), 1..4);
    (kinds, proptest::collection::vec(service, 1..4), proptest::collection::vec(trouble, 0..4)).prop_map(
        |(kinds, mut services, troubles)| {
            let count = services.len();
            let name = |index: usize| format!("s{}", index % count);
            for (index, service) in services.iter_mut().enumerate() {
                service.name = name(index);
                if index + 1 < count {
                    let delay = Law::Exponential { mean: ms(5) };
                    service.calls = vec![Edge { delay, timeout: Some(ms(400)), ..Edge::to(name(index + 1)) }];
                }
            }
            let troubles = troubles.into_iter().filter_map(|(index, at, lasts, kind)| {
                let kind = match kind {
                    0 => TroubleKind::Refuse,
                    1 => TroubleKind::Hang,
                    2 if services[index % count].workers.is_some() => TroubleKind::Capacity(0.3),
                    2 => return None,
                    3 => TroubleKind::Errors(0.5),
                    _ => TroubleKind::Slow(4.0),
                };
                Some(Trouble { service: name(index), at: ms(at), lasts: ms(lasts), shard: None, kind })
            });
            Fleet {
                troubles: troubles.collect(),
                clients: kinds
                    .into_iter()
                    .enumerate()
                    .map(|(index, (arrivals, count, timeout))| {
                        let delay = Law::Uniform { from: ms(1), to: ms(20) };
                        let call = Edge { delay, timeout: timeout.map(ms), ..Edge::to("s0") };
                        Clients { name: format!("c{index}"), count, arrivals, call }
                    })
                    .collect(),
                services,
                horizon: ms(5_000),
                grace: ms(2_000),
                ..Fleet::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn fleets_conserve_calls(fleet in any_fleet(), policy in any_policy(), seed: u64) {
        let run = |threads| {
            let scenario = Scenario::fleet("any", "", fleet.clone());
            let simulation = Simulation::new(scenario).contender("a", policy.clone());
            let simulation = simulation.contender("full", Policy::default());
            simulation.replications(2).seed(seed).threads(threads).max_events(3_000_000).run().unwrap()
        };
        let (one, two) = (run(1), run(2));
        conserved(&one);
        for (a, b) in one.reports.iter().zip(&two.reports) {
            prop_assert_eq!(a.tally, b.tally);
            prop_assert_eq!(&a.series, &b.series);
            // A call that ended ended with one reason, and only where attempts failed was there another.
            let tally = &a.tally;
            prop_assert_eq!(tally.succeeded, tally.ended(Reason::Succeeded));
            prop_assert!(tally.attempts >= tally.succeeded);
        }
        // What the policy allows at most, for each call.
        let default = &one.reports[1].tally;
        prop_assert!(default.attempts <= default.calls * 4);
    }
}
