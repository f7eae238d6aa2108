//! Simulations against closed forms and against figures of independent programs.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // the helpers of a test may fail like the test

use std::time::Duration;

use relent_core::{Jitter, Policy};
use relent_sim::{
    Arrivals, Clients, Edge, Fleet, Law, Measure, Profile, Report, Scenario, Service, Simulation, built_in,
    metcalfe_boggs, vulnerability,
};

fn s(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

fn at_once(attempts: u32) -> Policy {
    Policy::constant(Duration::ZERO).jitter(Jitter::None).max_attempts(attempts).build().unwrap()
}

/// 100 clients that open calls at random, ten per second each, of a service that fails each attempt with `failure`
/// whatever the load (Brooker, "Fixing retries with token buckets and circuit breakers", 2022).
fn insensitive(failure: f64, arrivals: Arrivals, policy: Policy) -> Report {
    let call = Edge { delay: Law::Exponential { mean: s(0.01) }, ..Edge::to("service") };
    let fleet = Fleet {
        clients: vec![Clients { name: "clients".into(), count: 100, arrivals, call }],
        services: vec![Service { error_rate: failure, ..Service::new("service") }],
        horizon: s(50.0),
        grace: s(1000.0),
        ..Fleet::default()
    };
    let simulation = Simulation::new(Scenario::fleet("insensitive", "", fleet)).contender("policy", policy);
    simulation.replications(4).run().unwrap().reports.remove(0)
}

fn open() -> Arrivals {
    Arrivals::Open { rate: Profile::constant(1000.0), random: true }
}

/// Asserts that a share or a ratio lies within four standard errors of its law. `spread` is the standard deviation of
/// what one call contributes.
fn close(got: f64, expected: f64, spread: f64, calls: u64, what: &str) {
    let error = spread / (calls as f64).sqrt();
    assert!((got - expected).abs() <= 4.0 * error + 1e-12, "{what}: {got} instead of {expected} ± {error}");
}

#[test]
fn retries_of_a_service_that_does_not_mind_the_load_follow_their_law() {
    for failure in [0.0, 0.01, 0.05, 0.1, 0.2, 0.5] {
        for attempts in [1, 4] {
            let report = insensitive(failure, open(), at_once(attempts));
            let calls = report.tally.calls;
            assert_eq!(calls, report.tally.succeeded + report.tally.failed);
            // n attempts: success 1 − pⁿ, load (1 − pⁿ)/(1 − p).
            let lost = failure.powi(attempts as i32);
            let success = report.tally.succeeded as f64 / calls as f64;
            close(success, 1.0 - lost, (lost * (1.0 - lost)).sqrt(), calls, "success");
            let load = report.tally.attempts as f64 / calls as f64;
            let expected = (1.0 - lost) / (1.0 - failure);
            // The variance of a geometric number of attempts bounds that of a truncated one.
            close(load, expected, failure.sqrt() / (1.0 - failure), calls, "load");
        }
    }
}

#[test]
fn backoff_defers_work_and_only_serial_clients_do_less() {
    let backoff =
        Policy::exponential(s(0.1)).jitter(Jitter::None).cap(s(100.0)).max_attempts(4).build().unwrap();
    // Open loop at p = 0.5: load 1.863 without and 1.878 with backoff in Brooker's runs; the law says 1.875 for both.
    let without = insensitive(0.5, open(), at_once(4));
    let with = insensitive(0.5, open(), backoff.clone());
    for report in [&without, &with] {
        let load = report.tally.attempts as f64 / report.tally.calls as f64;
        close(load, 1.875, 1.1, report.tally.calls, "load");
    }
    // 100 serial clients that aim at ten calls per second each, 50 s: failure rate, first tries, attempts in all
    // (thousands), in his runs ("What is backoff for?", 2022).
    for (failure, first_tries, attempts) in
        [(0.0, 48_884.0, 48.9), (0.1, 44_545.0, 49.6), (0.5, 21_422.0, 40.0), (0.75, 11_583.0, 31.6)]
    {
        let report = insensitive(failure, Arrivals::Paced { rate: 10.0 }, backoff.clone());
        let calls = report.tally.calls as f64 / 4.0;
        let all = report.tally.attempts as f64 / 4.0 / 1000.0;
        // His figures are of one run: its own error is about √calls for the calls and half as much again for all.
        assert!((calls - first_tries).abs() < 4.0 * first_tries.sqrt(), "{failure}: {calls}");
        assert!((all / attempts - 1.0).abs() < 0.02, "{failure}: {all}");
    }
}

#[test]
fn a_spike_with_retries_and_without_backoff_often_never_ends() {
    let run = |shape: &str, replications: &str| {
        let scenario = built_in("collapse", &[("shape", shape), ("replications", replications)]).unwrap();
        Simulation::new(scenario).line_up().run().unwrap().reports
    };
    let good = |report: &Report, from: usize, to: usize| {
        let series = &report.series.succeeded[from..to];
        series.iter().sum::<u64>() as f64 / (to - from) as f64 / f64::from(report.replications)
    };
    // Goodput per second, means of ten runs of Brooker's simulator (simple_collapse_sim, 2023). Without backoff a run
    // either recovers or falls to nothing, so that ten of them have a standard error of 6.5; with it, of about 0.7.
    let spike = run("spike", "60");
    let (none, full) = (&spike[1], &spike[2]);
    for (report, from, to, expected, error) in [
        (none, 10, 20, 39.5, 0.8),
        (none, 30, 40, 17.6, 6.5),
        (none, 50, 60, 12.2, 6.5),
        (none, 70, 80, 12.1, 6.5),
        (full, 10, 20, 39.5, 0.8),
        (full, 30, 40, 49.1, 0.8),
        (full, 70, 80, 38.5, 0.8),
    ] {
        let got = good(report, from, to);
        assert!(
            (got - expected).abs() < 4.0 * error,
            "{} from {from} s: {got}, {expected} ± {error}",
            report.name
        );
    }
    let stuck = none.estimate(Measure::Recovery).unwrap();
    assert!(stuck.never > stuck.samples / 2, "{stuck:?}");
    assert_eq!(full.estimate(Measure::Recovery).unwrap().never, 0);
    // Without retries it recovers by itself.
    assert_eq!(spike[0].estimate(Measure::Recovery).unwrap().never, 0);
    // The ramp is too much for both, and for the retries more so.
    for report in &run("ramp", "10")[1..] {
        assert!(good(report, 45, 60) < 0.5, "{}", report.name);
    }
}

#[test]
fn hidden_capacity_is_capacity_over_amplification() {
    // One FIFO server at 300/s that stands still for 10 s; callers wait 1 s for an attempt (Bronson et al., HotOS
    // 2021, idealised). By the law C/attempts the boundary lies at 300/s without retries and at 150/s with one.
    // The times are those of an independent program with five seeds.
    for (rate, attempts, recovers_after) in
        [("290", 1, Some(252.0)), ("145", 2, Some(239.0)), ("151", 2, None), ("280", 2, None)]
    {
        let scenario = built_in("metastable", &[("rate", rate), ("replications", "5")]).unwrap();
        let simulation = Simulation::new(scenario).contender("policy", at_once(attempts));
        let report = simulation.run().unwrap().reports.remove(0);
        let offered: f64 = rate.parse().unwrap();
        // Before the trigger all of them look alike.
        assert!((report.mean(Measure::GoodputBefore).unwrap() / offered - 1.0).abs() < 0.02);
        let recovery = report.estimate(Measure::Recovery).unwrap();
        match recovers_after {
            Some(seconds) => {
                assert_eq!(recovery.never, 0, "{rate}");
                let error = 15.0f64.hypot(recovery.error);
                assert!((recovery.mean - seconds).abs() < 4.0 * error, "{rate}: {recovery:?}");
            }
            None => {
                assert_eq!(recovery.samples, 0, "{rate}");
                assert!(report.mean(Measure::GoodputAtEnd).unwrap() < 1.0, "{rate}");
            }
        }
    }
}

/// Whether a fleet with hidden capacity 150 recovers from a standstill is up to the load and to how long it lasted.
#[test]
fn a_longer_trigger_and_a_higher_load_are_worse() {
    let scenario = |load: f64, outage: f64| {
        let (load, outage) = (load.to_string(), format!("{outage}s"));
        built_in(
            "metastable",
            &[("rate", &load), ("outage", &outage), ("replications", "2"), ("horizon", "300s")],
        )
    };
    let map = vulnerability(&at_once(2).into(), &[100.0, 200.0], &[0.5, 8.0], scenario).unwrap();
    assert_eq!(map, [vec![1.0, 1.0], vec![1.0, 0.0]]);
}

#[test]
fn nested_layers_multiply_as_the_closed_form_says() {
    let mut rows = 0;
    for line in include_str!("data/sim-analytic-layers.csv").lines().skip(1) {
        let fields: Vec<f64> = line.split(',').map(|field| field.parse().unwrap()).collect();
        let [layers, attempts, failure, leaf_attempts, call_failure] = fields[..] else { panic!("{line}") };
        let text = |number: f64| number.to_string();
        let options = [
            ("layers", &text(layers)),
            ("attempts", &text(attempts)),
            ("failure", &text(failure)),
            ("rate", &text(30.0)),
        ];
        let options = options.map(|(key, value)| (key, value.as_str()));
        let scenario =
            built_in("layers", &[&options[..], &[("replications", "1"), ("horizon", "20s")]].concat());
        let simulation = Simulation::new(scenario.unwrap()).contender("policy", at_once(attempts as u32));
        let report = simulation.run().unwrap().reports.remove(0);
        let calls = report.tally.calls;
        assert_eq!(calls, report.tally.succeeded + report.tally.failed);
        // The variance of min(geometric, K), summed; K = nᴸ is the most that a call can make.
        let most = attempts.powf(layers);
        let (mut mean, mut square, mut alive) = (0.0, 0.0, 1.0);
        for k in 1..=most as u32 {
            mean += alive;
            square += (2.0 * f64::from(k) - 1.0) * alive;
            alive *= failure;
        }
        let deviation = (square - mean * mean).max(0.0).sqrt();
        let got = report.tally.attempts as f64 / calls as f64;
        // The file has six decimals.
        close(got, leaf_attempts, deviation + 2e-5, calls, line);
        let failed = report.tally.failed as f64 / calls as f64;
        close(failed, call_failure, (call_failure * (1.0 - call_failure)).sqrt() + 2e-5, calls, line);
        rows += 1;
    }
    assert_eq!(rows, 255);
}

#[test]
fn waits_have_the_quantiles_of_their_formulas() {
    let exponential = |initial: f64| Policy::exponential(s(initial)).uncapped();
    let mut waits = std::collections::BTreeMap::new();
    for line in include_str!("data/sim-jitter-quantiles.csv").lines().skip(1) {
        let (formula, numbers) =
            line.rsplitn(9, ',').last().map(|formula| (formula, &line[formula.len() + 1..])).unwrap();
        let numbers: Vec<f64> = numbers.split(',').map(|field| field.parse().unwrap()).collect();
        let [retry, p05, p25, p50, p75, p95, _p999, mean] = numbers[..] else { panic!("{line}") };
        let decorrelated = exponential(0.5).jitter(Jitter::Decorrelated).bound(relent_core::Bound::Sample);
        let builder = match formula.trim_matches('"') {
            "polly_v2_median1s" => exponential(1.0).jitter(Jitter::DecorrelatedV2),
            name if name.starts_with("full_jitter") => exponential(2.0),
            "equal_jitter_base4/3s" => exponential(4.0 / 3.0).jitter(Jitter::Equal),
            "aws_decorrelated_base0.5s_nocap" => decorrelated,
            "aws_decorrelated_base0.5s_cap10s" => decorrelated.cap(s(10.0)),
            "grpc_pm20pct_base1s" => exponential(1.0).jitter(Jitter::Proportional { factor: 0.2 }),
            "expo_no_jitter_base1s" => exponential(1.0).jitter(Jitter::None),
            other => panic!("{other}"),
        };
        let columns = waits.entry(formula).or_insert_with(|| {
            let policy = builder.build().unwrap();
            let mut columns = vec![Vec::new(); 6];
            for client in 0..100_000 {
                let times = policy.backoff().waits(relent_core::entropy(7, client, 0));
                columns.iter_mut().zip(times).for_each(|(column, wait)| column.push(wait.as_secs_f64()));
            }
            columns.iter_mut().for_each(|column| column.sort_by(f64::total_cmp));
            columns
        });
        let column = &columns[retry as usize - 1];
        for (part, expected) in [(0.05, p05), (0.25, p25), (0.5, p50), (0.75, p75), (0.95, p95)] {
            let got = column[(part * column.len() as f64) as usize];
            assert!((got / expected - 1.0).abs() < 0.02, "{formula} {retry} p{part}: {got} {expected}");
        }
        let got = column.iter().sum::<f64>() / column.len() as f64;
        assert!((got / mean - 1.0).abs() < 0.02, "{formula} {retry} mean: {got} {mean}");
    }
    assert_eq!(waits.len(), 7);
}

#[test]
fn truncated_backoff_on_a_cable_captures_it_and_drops_frames() {
    // Slotted simulations of the truncated binary exponential backoff with timers in real time, by an independent
    // program: two stations with long frames share it unfairly and so beat the "ideal" 0.9884; 256 with frames of one
    // slot fall to 0.262 (ideal 0.369) and drop 15 % of them.
    let run = |stations: &str, frame: &str| {
        let options = [("stations", stations), ("frame", frame), ("slots", "400000"), ("replications", "4")];
        let scenario = built_in("ethernet", &options).unwrap();
        let (name, policy) = scenario.line_up[0].clone();
        assert_eq!(name, "ethernet");
        Simulation::new(scenario).contender(name, policy).run().unwrap().reports.remove(0)
    };
    let two = run("2", "85");
    let efficiency = two.mean(Measure::Efficiency).unwrap();
    assert!((efficiency - 0.9947).abs() < 0.0004, "{efficiency}");
    assert!(efficiency > metcalfe_boggs(2, 85.0));
    let many = run("256", "1");
    let efficiency = many.mean(Measure::Efficiency).unwrap();
    assert!((efficiency - 0.262).abs() < 0.002, "{efficiency}");
    assert!(efficiency < metcalfe_boggs(256, 1.0));
    let sent = many.mean(Measure::Success).unwrap();
    assert!((sent - 0.85).abs() < 0.006, "{sent}");
}
