//! What calls share, in fleets: against closed forms, and against figures of independent programs.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // the helpers of a test may fail like the test

use std::time::Duration;

use relent_core::{
    CommonPolicy, Dice, HedgePolicy, Jitter, MemoryPolicy, Policy, Quota, Rate, Ratio, Reason, TokenBucket,
    WindowBudget,
};
use relent_sim::{
    Arrivals, Clients, Comparison, Edge, Fleet, Law, Measure, Profile, Report, RunError, Scenario, Scope,
    Service, Simulation, Strategy, built_in,
};

fn s(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at_once(attempts: Option<u32>) -> Strategy {
    let builder = Policy::constant(Duration::ZERO).jitter(Jitter::None);
    let builder = match attempts {
        Some(attempts) => builder.max_attempts(attempts),
        None => builder.unlimited_attempts(),
    };
    builder.build().unwrap().into()
}

fn budget(budget: impl Into<relent_core::BudgetPolicy>) -> CommonPolicy {
    CommonPolicy { budgets: vec![(budget.into(), Ratio::ZERO)], ..CommonPolicy::default() }
}

fn run(name: &str, options: &[(&str, &str)]) -> Comparison {
    Simulation::new(built_in(name, options).unwrap()).line_up().run().unwrap()
}

fn named<'c>(comparison: &'c Comparison, name: &str) -> &'c Report {
    comparison.reports.iter().find(|report| report.name == name).unwrap()
}

/// Success and load, of all replications together.
fn shares(report: &Report) -> (f64, f64) {
    let calls = report.tally.calls as f64;
    (report.tally.succeeded as f64 / calls, report.tally.attempts as f64 / calls)
}

/// The bucket of "Fixing retries with token buckets and circuit breakers" (Brooker, 2022) as its program has it: 5
/// tokens, full at first, a tenth more at the start of each call, a retry where there is more than one. Written down
/// again from its description, with another generator, and no other part in common with what it is compared to.
fn brooker(failure: f64, clients: u32, rate: f64) -> [(f64, f64); 2] {
    let unit = |dice: &mut Dice| (dice.roll() >> 11) as f64 / (1u64 << 53) as f64;
    let runs: Vec<(f64, f64)> = (0..8)
        .map(|run| {
            let (mut dice, mut calls, mut attempts, mut good) = (Dice::new(run + 77), 0.0, 0.0, 0.0);
            for _ in 0..clients {
                let (mut bucket, mut now) = (5.0f64, 0.0);
                loop {
                    now -= (1.0 - unit(&mut dice)).ln() * f64::from(clients) / rate;
                    if now > 50.0 {
                        break;
                    }
                    calls += 1.0;
                    bucket = (bucket + 0.1).min(5.0);
                    loop {
                        attempts += 1.0;
                        if unit(&mut dice) >= failure {
                            good += 1.0;
                            break;
                        }
                        if bucket <= 1.0 {
                            break;
                        }
                        bucket -= 1.0;
                    }
                }
            }
            (good / calls, attempts / calls)
        })
        .collect();
    // Each with the standard error of a mean of four, which is what it is compared to.
    let estimate = |of: fn(&(f64, f64)) -> f64| {
        let mean = runs.iter().map(of).sum::<f64>() / 8.0;
        let variance = runs.iter().map(|run| (of(run) - mean).powi(2)).sum::<f64>() / 7.0;
        (mean, (variance / 4.0).sqrt())
    };
    [estimate(|run| run.0), estimate(|run| run.1)]
}

#[test]
fn a_bucket_of_retries_is_that_of_brookers_program() {
    // The failure rate; success and load of the program itself, in one run.
    let table = [
        (0.01, 1.0, 1.010),
        (0.05, 0.9998, 1.054),
        (0.1, 0.985, 1.096),
        (0.2, 0.885, 1.107),
        (0.5, 0.557, 1.109),
    ];
    for (failure, success, load) in table {
        let comparison = run("budget", &[("failure", &failure.to_string())]);
        let got = shares(named(&comparison, "bucket, 10 %"));
        let [again_success, again_load] = brooker(failure, 100, 1000.0);
        // Time brings its tokens and not the calls, so that 0.0005 are due to that.
        for (got, (mean, error)) in [(got.0, again_success), (got.1, again_load)] {
            assert!((got - mean).abs() < 4.0 * error * 1.25 + 0.0015, "{failure}: {got}, {mean} ± {error}");
        }
        // Against the table: a single run of the program has twice the error of four, and three digits.
        assert!((got.0 - success).abs() < 8.0 * again_success.1 + 0.001, "{failure}: {got:?}");
        assert!((got.1 - load).abs() < 8.0 * again_load.1 + 0.001, "{failure}: {got:?}");
        // Three retries: 1 − p⁴, (1 − p⁴)/(1 − p).
        let three = shares(named(&comparison, "3 retries"));
        assert!((three.1 - (1.0 - failure.powi(4)) / (1.0 - failure)).abs() < 0.01, "{failure}: {three:?}");
    }
}

#[test]
fn the_fewer_calls_a_client_makes_the_more_its_bucket_lets_through() {
    // At p = 0.5, 100 calls per second in all: 1 + 0.1 + (5 − 1)/(calls of a client), as long as buckets are emptied.
    for (clients, law) in [(10, Some(1.108)), (100, Some(1.18)), (1000, None)] {
        let clients_text = clients.to_string();
        let comparison = run("budget", &[("clients", &clients_text), ("rate", "100")]);
        let (success, load) = shares(named(&comparison, "bucket, 10 %"));
        let [(_, _), (mean, error)] = brooker(0.5, clients, 100.0);
        assert!((load - mean).abs() < 5.0 * error + 0.006, "{clients}: {load}, {mean} ± {error}");
        assert!(law.is_none_or(|law| (load - law).abs() < 0.01), "{clients}: {load}");
        // Each attempt succeeds with 1 − p, whatever let it through.
        assert!((success - load * 0.5).abs() < 0.02, "{clients}: {success}");
    }
}

/// gRPC's throttling lets retries be while failures are below ratio / (1 + ratio) of the attempts, as Brooker's breaker
/// does below a tenth of the calls: far above it neither retries.
#[test]
fn throttled_retries_end_where_too_much_fails() {
    let at = |failure: &str| {
        shares(named(&run("budget", &[("failure", failure)]), "3 retries, gRPC's throttling"))
    };
    let (low, high) = (at("0.02"), at("0.5"));
    assert!(low.0 > 0.999, "{low:?}");
    assert!(high.0 < 0.52 && high.1 < 1.02, "{high:?}");
}

/// The recovery of a service of 300/s after it stood still for ten seconds (Bronson et al., HotOS 2021).
fn recovers(strategy: &Strategy, rate: &str) -> bool {
    let metastable = built_in("metastable", &[("rate", rate), ("replications", "2")]).unwrap();
    let comparison = Simulation::new(metastable).contender("it", strategy.clone()).run().unwrap();
    let recovery = comparison.reports[0].estimate(Measure::Recovery).unwrap();
    assert!(recovery.samples == 0 || recovery.never == 0, "{rate}/s: {recovery:?}");
    recovery.never == 0
}

#[test]
fn a_budget_leaves_as_much_capacity_as_its_share_says() {
    let three = at_once(Some(4));
    let tenth = WindowBudget::new(Ratio::percent(10)).floor(0);
    let budgeted = three.clone().sharing(budget(tenth)).scope(Scope::Service);
    // C / 1.1 = 272.7, C / 4 = 75.
    assert!(recovers(&budgeted, "260"));
    assert!(!recovers(&budgeted, "280"));
    assert!(!recovers(&three, "100"));
    // And the load that it is stuck with is 1.1.
    let stuck = built_in("metastable", &[("rate", "285"), ("replications", "1")]).unwrap();
    let report = Simulation::new(stuck).contender("it", budgeted).run().unwrap().reports.remove(0);
    let (calls, attempts): (u64, u64) =
        (report.series.calls[300..590].iter().sum(), report.series.attempts[300..590].iter().sum());
    let load = attempts as f64 / calls as f64;
    assert!((load - 1.1).abs() < 0.005, "{load}");
}

/// Leaves whose latencies follow the law through the points of "The Tail at Scale" (Dean, Barroso, CACM 2013): P(L > 10
/// ms) = 0.02, and 1.8 s for the slowest of 100 in one of 1000 cases.
fn leaves(calls: u32, hedge: Option<HedgePolicy>, seed: u64) -> Report {
    let time = Law::Lognormal { median: Duration::from_secs_f64((-2.521f64).exp() / 1e3), sigma: 2.3487 };
    let fleet = Fleet {
        clients: vec![Clients {
            name: "roots".into(),
            count: calls,
            arrivals: Arrivals::Burst { at: Duration::ZERO, within: s(100.0) },
            call: Edge::to("leaf"),
        }],
        services: vec![Service { time, ..Service::new("leaf") }],
        horizon: s(101.0),
        grace: s(10_000.0),
        ..Fleet::default()
    };
    let shared = CommonPolicy { hedge, ..CommonPolicy::default() };
    // A hedge is an attempt: the policy has to allow it.
    let strategy = at_once(Some(2)).sharing(shared).scope(Scope::Service);
    let simulation = Simulation::new(Scenario::fleet("leaves", "", fleet)).contender("it", strategy);
    simulation.seed(seed).run().unwrap().reports.remove(0)
}

/// P(L > t), t in milliseconds.
fn tail(t: f64) -> f64 {
    if t <= 0.0 { 1.0 } else { libm::erfc((t.ln() + 2.521) / 2.3487 / 2f64.sqrt()) / 2.0 }
}

#[test]
fn hedges_cut_the_tail_as_the_tail_at_scale_has_it() {
    let calls = 600_000u32;
    let n = f64::from(calls);
    // The hedge's delay in ms; the p99.9 of the slowest of 100, in ms, and what part more requests.
    let curve =
        [(1, 49.5, 0.14), (5, 51.6, 0.039), (10, 54.0, 0.020), (20, 59.9, 0.0094), (50, 79.3, 0.0031)];
    for (delay, p999_of_100, more) in curve {
        let law = |t: f64| tail(t) * tail(t - delay as f64);
        // The curve itself: the p99.9 of the slowest of 100 is where 1 − 0.999^(1/100) are slower.
        let slower = 1.0 - 0.999f64.powf(0.01);
        assert!((law(p999_of_100) / slower - 1.0).abs() < 0.03, "{delay} ms: {}", law(p999_of_100));
        assert!((tail(delay as f64) / more - 1.0).abs() < 0.04, "{delay} ms: {}", tail(delay as f64));

        let report = leaves(calls, Some(HedgePolicy::after(ms(delay))), delay);
        assert_eq!(report.tally.succeeded, u64::from(calls));
        let hedges = report.tally.attempts as f64 - n;
        let expected = tail(delay as f64) * n;
        assert!((hedges - expected).abs() < 4.0 * expected.sqrt(), "{delay} ms: {hedges} {expected}");
        // From the hundredth slowest to the hundred-thousandth, and there too is where 100 leaves meet their p99.9.
        for t in [1.5 * delay as f64, 25.0, 40.0, p999_of_100] {
            let beyond = report.latency.len() - report.latency.count_between(0, (t * 1e3) as u64);
            let expected = law(t) * n;
            let error = expected.sqrt() + 0.004 * expected;
            assert!(
                (beyond as f64 - expected).abs() < 4.0 * error,
                "{delay} ms, {t} ms: {beyond} {expected}"
            );
        }
    }
    // Without one the slowest of 100 take 1.8 s.
    let alone = leaves(calls, None, 1);
    let beyond = alone.latency.len() - alone.latency.count_between(0, 1_800_000);
    assert!((beyond as f64 - 6.0).abs() < 4.0 * 6f64.sqrt(), "{beyond}");
}

#[test]
fn hedges_after_the_observed_p95_are_a_twentieth_however_slow_it_is() {
    let comparison = run("hedging", &[("replications", "2")]);
    let load = |report: &Report, from: usize, to: usize| {
        let of = |series: &[u64]| series[from..to].iter().sum::<u64>() as f64;
        of(&report.series.attempts) / of(&report.series.calls)
    };
    let p95 = named(&comparison, "after the p95");
    // Known to an eighth: between the p95 and the p96.4 of this law.
    for (from, to) in [(30, 60), (95, 120)] {
        let load = load(p95, from, to);
        assert!((1.033..1.055).contains(&load), "{from} to {to} s: {load}");
    }
    for (name, at_ease, slow) in [("after 150 ms", 0.049_3, 0.390), ("after 200 ms", 0.022_1, 0.261)] {
        let fixed = named(&comparison, name);
        // P(L > delay) for a median of 40 ms, then 120 ms.
        assert!((load(fixed, 5, 60) - 1.0 - at_ease).abs() < 0.004, "{name}: {}", load(fixed, 5, 60));
        assert!((load(fixed, 61, 120) - 1.0 - slow).abs() < 0.012, "{name}: {}", load(fixed, 61, 120));
    }
    let p99 = |name| named(&comparison, name).mean(Measure::P99).unwrap();
    assert!(p99("after 150 ms") < p99("after 200 ms") && p99("after 200 ms") < p99("after the p95"));
    assert!(p99("after the p95") < 0.9 * p99("no hedge"));
}

#[test]
fn a_breaker_for_a_whole_service_makes_a_full_outage_of_a_shards() {
    let comparison = run("breaker", &[("replications", "3")]);
    let during = |name| named(&comparison, name).mean(Measure::GoodputDuring).unwrap();
    // Nine of ten shards are well.
    assert!((during("strategy:full") - 450.0).abs() < 5.0);
    assert!((during("breaker for each shard") - 450.0).abs() < 5.0);
    assert!(during("breaker for the service") < 225.0, "{}", during("breaker for the service"));
    // And a breaker of its own spares the shard that fails.
    let wasted = |name| named(&comparison, name).mean(Measure::Wasted).unwrap();
    assert!(wasted("breaker for each shard") < 0.1 * wasted("strategy:full"));
    assert!(named(&comparison, "breaker for the service").tally.ended(Reason::CircuitOpen) > 0);
}

/// SRE book, chapter 21: the service sees K times what it accepts, and clients reject 1 − K · capacity / offered.
#[test]
fn clients_that_throttle_themselves_send_k_times_what_is_accepted() {
    let comparison = run("overload", &[("replications", "2")]);
    for (name, k, tolerance) in [("K = 2", 2.0, 0.05), ("K = 1.1", 1.1, 0.05)] {
        let report = named(&comparison, name);
        // The last four minutes: the window is of two.
        let of = |series: &[u64]| series[360..600].iter().sum::<u64>() as f64;
        let (calls, attempts, good) =
            (of(&report.series.calls), of(&report.series.attempts), of(&report.series.succeeded));
        assert!((attempts / good / k - 1.0).abs() < tolerance, "{name}: {}", attempts / good);
        let rejected = 1.0 - attempts / calls;
        assert!((rejected - (1.0 - k * good / calls)).abs() < 0.02, "{name}: {rejected}");
    }
    let open = named(&comparison, "no throttle");
    assert_eq!(open.tally.attempts, open.tally.calls);
}

/// One process and a table that it hammers; then others of it that call a table with room.
#[test]
fn an_adaptive_rate_fits_one_table_and_starves_the_other() {
    let alone = run("adaptive", &[("replications", "2")]);
    let (standard, adaptive) = (named(&alone, "standard"), named(&alone, "adaptive"));
    let good = |report: &Report| report.series.succeeded.iter().sum::<u64>() as f64 / 2.0;
    // As much as the table gives, with a twentieth of the attempts.
    assert!(good(adaptive) > 0.9 * good(standard), "{} {}", good(adaptive), good(standard));
    assert!(adaptive.tally.attempts * 20 < standard.tally.attempts);

    let both = run("adaptive", &[("others", "10"), ("replications", "2")]);
    let idle = |name| named(&both, name).tally.attempts as f64;
    let (standard, one, each) = (
        idle("standard"),
        idle("adaptive, one client for both tables"),
        idle("adaptive, a client for each table"),
    );
    assert!(one < 0.1 * standard, "{one} of {standard}");
    assert!((each / standard - 1.0).abs() < 0.02, "{each} of {standard}");
}

/// Three layers of four attempts over a leaf that fails: 4³ without budgets, 1.1³ with one in each process, and with a
/// single one no layer adds to another.
#[test]
fn budgets_keep_layers_from_multiplying() {
    let load = |strategy: Strategy| {
        let layers = [("layers", "3"), ("attempts", "4"), ("failure", "1"), ("replications", "2")];
        let scenario = built_in("layers", &layers).unwrap();
        let report = Simulation::new(scenario).contender("it", strategy).run().unwrap().reports.remove(0);
        report.tally.attempts as f64 / report.tally.calls as f64
    };
    let tenth = || budget(WindowBudget::new(Ratio::percent(10)).floor(0));
    assert_eq!(load(at_once(Some(4))), 64.0);
    let each = load(at_once(Some(4)).sharing(tenth()).scope(Scope::Service));
    assert!((each - 1.1f64.powi(3)).abs() < 0.02, "{each}");
    // A bucket of ten that nothing fills: ten retries in all.
    let empty = Rate::new(1, Duration::from_secs(1_000_000_000)).unwrap();
    let all = load(at_once(Some(4)).sharing(budget(TokenBucket::new(10).refill(empty))).scope(Scope::All));
    assert!(all < 1.01, "{all}");
}

#[test]
fn a_call_that_is_alone_shares_nothing() {
    let herd = built_in("herd", &[("clients", "10")]).unwrap();
    let shared = at_once(Some(2)).sharing(budget(Quota::new(10, 5)));
    let refused = Simulation::new(herd).contender("shared", shared).run().unwrap_err();
    assert!(matches!(&refused, RunError::CallsAreAlone { contender } if contender == "shared"), "{refused}");

    let outage = built_in("outage", &[("replications", "1")]).unwrap();
    let shared = at_once(Some(2)).sharing(budget(Quota::new(10, 11)));
    let refused = Simulation::new(outage).contender("shared", shared).run().unwrap_err();
    assert!(refused.to_string().starts_with("shared: cost"), "{refused}");
}

/// What a service does with attempts that nobody waits for any more.
#[test]
fn losers_are_worked_off_or_not_as_the_service_has_it() {
    let work = |stops_unwanted| {
        let call = Edge::to("service");
        let arrivals = Arrivals::Open { rate: Profile::constant(50.0), random: true };
        let time = Law::Uniform { from: ms(10), to: ms(30) };
        let fleet = Fleet {
            clients: vec![Clients { name: "c".into(), count: 1, arrivals, call }],
            services: vec![Service { time, stops_unwanted, ..Service::new("service") }],
            horizon: s(100.0),
            grace: s(10.0),
            ..Fleet::default()
        };
        let hedged = CommonPolicy { hedge: Some(HedgePolicy::at_once()), ..CommonPolicy::default() };
        let simulation = Simulation::new(Scenario::fleet("losers", "", fleet));
        simulation.contender("it", at_once(Some(2)).sharing(hedged)).run().unwrap().reports.remove(0)
    };
    let (all, stopped) = (work(false), work(true));
    assert_eq!(all.tally.succeeded, stopped.tally.succeeded);
    assert_eq!(all.tally.attempts, 2 * all.tally.calls);
    // The longer of two even numbers from 10 to 30 is 23.3 in the mean, the shorter 16.7: worked on until then both.
    let wasted = |report: &Report| report.mean(Measure::Wasted).unwrap();
    assert!((wasted(&all) - 23.33 / 40.0).abs() < 0.01, "{}", wasted(&all));
    assert!((wasted(&stopped) - 0.5).abs() < 1e-6, "{}", wasted(&stopped));
}

/// A call to a service that takes a second, or fails at once.
fn one_call(error_rate: f64, strategy: Strategy) -> Report {
    let fleet = Fleet {
        clients: vec![Clients {
            name: "client".into(),
            count: 1,
            arrivals: Arrivals::Burst { at: Duration::ZERO, within: Duration::ZERO },
            call: Edge::to("service"),
        }],
        services: vec![Service { time: Law::Fixed(s(1.0)), error_rate, ..Service::new("service") }],
        horizon: s(1.0),
        grace: s(1_000.0),
        ..Fleet::default()
    };
    let simulation = Simulation::new(Scenario::fleet("one", "", fleet)).contender("it", strategy);
    simulation.run().unwrap().reports.remove(0)
}

/// The simulator races as the drivers do: a hedge is an attempt, and the policy's limit bounds all of a call's.
#[test]
fn a_policy_bounds_hedges_and_retries_together() {
    let hedge = |most| CommonPolicy {
        hedge: Some(HedgePolicy::at_once().max_attempts(most)),
        ..CommonPolicy::default()
    };
    for (allowed, hedges, error_rate, made) in
        [(1, 3, 0.0, 1), (2, 3, 0.0, 2), (5, 3, 0.0, 3), (2, 3, 1.0, 2), (5, 3, 1.0, 5), (5, 2, 1.0, 5)]
    {
        let report = one_call(error_rate, at_once(Some(allowed)).sharing(hedge(hedges)));
        assert_eq!(
            report.tally.attempts, made,
            "{allowed} allowed, {hedges} beside each other, {error_rate}"
        );
    }
}

/// In a long outage calls begin with the last step that the memory has; one at a time, each waits for two of its waits.
#[test]
fn a_memory_puts_calls_off_in_an_outage_as_its_steps_say() {
    let attempts = |memory: Option<MemoryPolicy>, hedge: Option<HedgePolicy>| {
        let fleet = Fleet {
            clients: vec![Clients {
                name: "client".into(),
                count: 1,
                arrivals: Arrivals::Closed { think: Law::Fixed(Duration::ZERO) },
                call: Edge::to("service"),
            }],
            services: vec![Service {
                time: Law::Fixed(Duration::ZERO),
                error_rate: 1.0,
                ..Service::new("service")
            }],
            horizon: s(1_000.0),
            ..Fleet::default()
        };
        let policy = Policy::exponential(ms(100)).jitter(Jitter::None).max_attempts(3).build().unwrap();
        let strategy =
            Strategy::from(policy).sharing(CommonPolicy { memory, hedge, ..CommonPolicy::default() });
        let simulation = Simulation::new(Scenario::fleet("outage", "", fleet)).contender("it", strategy);
        let report = simulation.run().unwrap().reports.remove(0);
        // The last 600 s, in which the memory is full.
        report.series.attempts[400..1_000].iter().sum::<u64>() as f64
    };
    let memory = MemoryPolicy::new(s(30.0)).steps(4);
    // 100 + 200 ms without; 800 + 1600 ms from the fourth step on.
    for (memory, hedge, per_call) in [
        (None, None, 0.3),
        (Some(memory), None, 2.4),
        // Two at once, and one retry after them: the first wait or the fourth.
        (None, Some(HedgePolicy::at_once()), 0.1),
        (Some(memory), Some(HedgePolicy::at_once()), 0.8),
    ] {
        let (made, expected) = (attempts(memory, hedge), 600.0 / per_call * 3.0);
        assert!((made / expected - 1.0).abs() < 0.02, "{memory:?} {hedge:?}: {made}, not {expected}");
    }
}
