//! Scenarios as text: what they say, and what is said of bad ones. Never a hang.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // the helpers of a test may fail like the test

use std::time::Duration;

use proptest::prelude::*;
use relent_core::Policy;
use relent_sim::{
    Arrivals, BUILT_INS, Broken, BuiltIn, Law, Measure, Model, Order, Scenario, Scope, Simulation, Strategy,
    TroubleKind, built_in, read_scenario, scenario_names,
};

const WHOLE: &str = r#"description = "all of it"
horizon = "20s"
grace = "5s"
warm_up = "1s"
bin = "500ms"
seed = 7
replications = 2
cost = { attempt = 2, work_second = 10.5 }
incident = { from = "5s", to = "7s" }
watch = "database"
strategies = { initial = "50ms", cap = "2s", attempts = 3 }
policies = ["strategy:full", "mine"]

[clients.shoppers]
count = 100
to = "shop"
arrivals = { kind = "poisson", rate = [["0s", 10], ["5s", 40], ["5s", 20.5]] }
timeout = "1s"
delay = { kind = "uniform", from = "5ms", to = "15ms" }

[clients.robots]
count = 5
to = "shop"
policy = "strategy:no-retry"
arrivals = { kind = "closed", think = { kind = "exponential", mean = "300ms" } }

[services.shop]
workers = 10
queue = { order = "lifo", capacity = 30, drop_expired = true }
time = { kind = "lognormal", median = "20ms", sigma = 0.4 }
slowdown = "1ms"
error_rate = 0.01
rate_limit = { per_second = 100, burst = 20, retry_after = "1s" }
overload = { above = 35, out_for = "2s" }
calls = [{ to = "database", timeout = "300ms", policy = "mine" }]

[services.database]
workers = "unlimited"
time = "3ms"

[[trouble]]
service = "database"
kind = "errors"
rate = 0.5
at = "5s"
for = "2s"
"#;

fn mine(name: &str) -> Option<Strategy> {
    (name == "mine").then(|| Policy::default().into())
}

fn read(text: &str) -> Result<Scenario, String> {
    read_scenario(text, "s.toml", None, &mine).map_err(|errors| errors.to_string())
}

#[test]
fn a_scenario_says_what_it_says() {
    let scenario = read(WHOLE).unwrap();
    let Model::Fleet(fleet) = &scenario.model else { panic!("{scenario:?}") };
    assert_eq!(scenario.description, "all of it");
    assert_eq!((scenario.bin, scenario.seed, scenario.replications), (Duration::from_millis(500), 7, 2));
    assert_eq!((scenario.cost.attempt, scenario.cost.work_second), (2.0, 10.5));
    assert_eq!(scenario.incident, Some((Duration::from_secs(5), Duration::from_secs(7))));
    assert_eq!(
        scenario.line_up.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["strategy:full", "mine"]
    );
    assert_eq!(scenario.line_up[0].1.policy.max_attempts(), Some(3));
    assert_eq!(fleet.watch.as_deref(), Some("database"));
    // Tables keep the order of the file.
    assert_eq!(fleet.clients[0].name, "shoppers");
    let Arrivals::Open { rate, random: true } = &fleet.clients[0].arrivals else { panic!() };
    assert_eq!(rate.0[2], (Duration::from_secs(5), 20.5));
    assert_eq!(fleet.clients[1].call.policy.as_ref().unwrap().policy.max_attempts(), Some(1));
    let shop = &fleet.services[0];
    assert_eq!(
        (shop.workers, shop.order, shop.queue, shop.drop_expired),
        (Some(10), Order::Lifo, Some(30), true)
    );
    assert_eq!(shop.time, Law::Lognormal { median: Duration::from_millis(20), sigma: 0.4 });
    assert_eq!(shop.calls[0].policy, Some(Policy::default().into()));
    assert_eq!(fleet.services[1].workers, None);
    assert_eq!(fleet.troubles[0].kind, TroubleKind::Errors(0.5));
    let comparison = Simulation::new(scenario).line_up().run().unwrap();
    assert!(comparison.reports[0].tally.succeeded > 0);
}

#[test]
fn a_scenario_is_found_in_a_file_and_may_be_a_built_in_one() {
    let text = "version = 1\n[policies.default]\n[scenarios.small]\nscenario = \"herd\"\nclients = 100\noutage = \"2s\"\n\
                policies = [\"strategy:full\"]\n[scenarios.other]\nscenario = \"occ\"\n";
    let scenario = read_scenario(text, "relent.toml", Some("small"), &mine).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.line_up.len()), ("small", 1));
    let Model::Herd(herd) = scenario.model else { panic!() };
    assert_eq!((herd.clients, herd.outage), (100, Some((Duration::ZERO, Duration::from_secs(2)))));
    assert_eq!(scenario_names(text), ["other", "small"]);
    let error = read_scenario(text, "relent.toml", Some("smal"), &mine).unwrap_err().to_string();
    assert_eq!(error, "relent.toml:1:1: unknown scenario \"smal\"; did you mean \"small\"?");
}

/// What is changed in [`WHOLE`], and what is said.
const WRONG: [(&str, &str, &str); 34] = [
    (
        "horizon =",
        "hoizon =",
        "s.toml:1:1: `horizon` is missing\ns.toml:2:1: unknown key \"hoizon\"; did you mean \"horizon\"?",
    ),
    ("count = 100", "count = 1000000000000", "s.toml:15:9: `count`: 1000000000000 is too large"),
    (
        "count = 100",
        "count = 100000000",
        "s.toml:15:1: clients.shoppers.count: 100000000 are too many: at most 20000000",
    ),
    ("count = 100", "count = 0", "s.toml:15:1: clients.shoppers.count: at least 1"),
    ("count = 5", "count = -5", "s.toml:22:9: `count` is -5; it must be 0 or more"),
    ("20.5]]", "-1]]", "s.toml:17:71: `rate` is -1; it must be 0 or more"),
    ("20.5]]", "nan]]", "s.toml:17:71: `rate` is nan; it must be 0 or more"),
    (
        "[\"5s\", 40], [\"5s\"",
        "[\"5s\", 40], [\"4s\"",
        "s.toml:17:32: clients.shoppers.arrivals.rate: its points must be in order of time",
    ),
    ("timeout = \"1s\"", "timeout = 1", "s.toml:18:11: a duration needs a unit; write \"1s\" or \"1ms\""),
    ("timeout = \"1s\"", "timeout = \"0s\"", "s.toml:18:1: clients.shoppers.timeout: leaves no time at all"),
    ("from = \"5ms\"", "from = \"50ms\"", "s.toml:19:1: clients.shoppers.delay: `to` lies below `from`"),
    (
        "to = \"shop\"\npolicy",
        "to = \"shpo\"\npolicy",
        "s.toml:23:1: clients.robots.to: unknown service \"shpo\"; did you mean \"shop\"?",
    ),
    (
        "strategy:no-retry",
        "strategy:no-rety",
        "s.toml:24:10: unknown strategy \"no-rety\"; did you mean \"no-retry\"?",
    ),
    (
        "policy = \"mine\"",
        "policy = \"yours\"",
        "s.toml:35:57: unknown policy \"yours\"; a built-in strategy is written \"strategy:full\"",
    ),
    (
        "workers = 10",
        "workers = 0",
        "s.toml:28:1: services.shop.workers: a service without workers never answers",
    ),
    (
        "workers = 10",
        "workers = \"unlimited\"",
        "s.toml:29:1: services.shop.queue: has no effect: with any number of workers nothing waits",
    ),
    ("workers = 10", "workers = \"many\"", "s.toml:28:11: `workers` is a whole number"),
    ("\"lifo\"", "\"filo\"", "s.toml:29:19: unknown order \"filo\"; did you mean \"fifo\"?"),
    (
        "error_rate = 0.01",
        "error_rate = 1.5",
        "s.toml:32:1: services.shop.error_rate: 1.5 is no share: 0 to 1",
    ),
    (
        "per_second = 100",
        "per_second = 0",
        "s.toml:33:16: services.shop.rate_limit.per_second: must be a number above 0",
    ),
    ("burst = 20", "bust = 20", "s.toml:33:34: unknown key \"bust\"; did you mean \"burst\"?"),
    (
        "time = \"3ms\"",
        "calls = [{ to = \"shop\" }]",
        "s.toml:35:1: services.shop.calls: services call each other in a circle: shop, database",
    ),
    ("\nfor = \"2s\"", "\nfor = \"0s\"", "s.toml:46:1: trouble[0].for: lasts no time"),
    ("at = \"5s\"\nfor", "at = \"50s\"\nfor", "s.toml:45:1: trouble[0].at: lies after the horizon"),
    (
        "kind = \"errors\"",
        "kind = \"capacity\"\nfactor = 0.5",
        "s.toml:45:1: unknown key \"rate\"; known: service, at, for, kind, factor, shard",
    ),
    (
        "watch = \"database\"",
        "watch = \"databse\"",
        "s.toml:10:1: watch: unknown service \"databse\"; did you mean \"database\"?",
    ),
    (
        "bin = \"500ms\"",
        "bin = \"1us\"",
        "s.toml:5:1: bin: 200000 bins must reach to the horizon: at least 125µs",
    ),
    (
        "horizon = \"20s\"",
        "horizon = \"20y\"",
        "s.toml:2:11: \"20y\" is no duration; write \"250ms\", \"1.5s\" or \"1m30s\"",
    ),
    ("workers = 10", "workers = 10\nshards = 0", "s.toml:29:1: services.shop.shards: from 1 to 1000"),
    ("rate = 0.5", "rate = 0.5\nshard = 2", "s.toml:45:1: trouble[0].shard: database has the shards 1 to 1"),
    ("workers = 10", "workers = 10\nstops_unwanted = 1", "s.toml:29:18: `stops_unwanted` is true or false"),
    (
        "timeout = \"1s\"",
        "timeout = \"1s\"\nscope = \"service\"",
        "s.toml:19:9: `scope` has no effect without `policy`; the scenario's `policies` say it for those that are \
         compared",
    ),
    (
        "\"mine\"]",
        "{ policy = \"mine\", scope = \"servce\" }]",
        "s.toml:12:57: unknown scope \"servce\"; did you mean \"service\"?",
    ),
    (
        "\"mine\"]",
        "7]",
        "s.toml:12:30: a policy's name is a string; with more, { policy = \"NAME\", scope = \"service\" }",
    ),
];

#[test]
fn bad_scenarios_get_an_error_with_its_place() {
    for (from, to, expected) in WRONG {
        assert!(WHOLE.contains(from), "{from}");
        let error = read(&WHOLE.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error, expected, "{to}");
    }
    // What is no TOML at all is told in the words of the TOML reader.
    let error = read(&WHOLE.replace("kind = \"poisson\",", "kind = \"poisson\"")).unwrap_err();
    assert!(error.starts_with("s.toml:17:") && error.contains("comma"), "{error}");
    // All at once, in order of place.
    let error = read("horizon = 5\nbin = \"1\"\n[services.a]\nwokers = 1\n").unwrap_err();
    assert_eq!(error.lines().count(), 3, "{error}");
    // Options of built-in scenarios have their place too.
    let error = read("scenario = \"herd\"\nclients = 0\n").unwrap_err();
    assert_eq!(error, "s.toml:2:1: clients: at least 1");
    let error = read("scenario = \"herd\"\noutge = \"1s\"\n").unwrap_err();
    assert_eq!(error, "s.toml:2:1: outge: unknown option \"outge\"; did you mean \"outage\"?");
    let error = read("scenario = \"hred\"\n").unwrap_err();
    assert_eq!(error, "s.toml:1:1: scenario: unknown scenario \"hred\"; did you mean \"herd\"?");
    let error = read("scenario = \"herd\"\nclients = 1000000000000\n").unwrap_err();
    assert_eq!(error, "s.toml:2:1: clients: 1000000000000 is too large");
}

/// Who shares a state stands beside the policy's name.
#[test]
fn a_scenario_says_who_shares_what() {
    let text = WHOLE.replace(
        "\"mine\"]",
        "\"mine\", { policy = \"strategy:breaker\", name = \"by shard\", scope = \"all\", per_shard = true }]",
    );
    let scenario = read(&text).unwrap();
    let (name, strategy) = scenario.line_up.last().unwrap();
    assert_eq!((name.as_str(), strategy.scope, strategy.per_shard), ("by shard", Scope::All, true));
    assert!(strategy.shared.breaker.is_some() && !scenario.line_up[1].1.shares());
    let text = WHOLE.replace("time = \"3ms\"", "time = \"3ms\"\nshards = 3\nstops_unwanted = true");
    let scenario = read(&text.replace("rate = 0.5", "rate = 0.5\nshard = 3")).unwrap();
    let Model::Fleet(fleet) = &scenario.model else { panic!("{scenario:?}") };
    assert_eq!((fleet.services[1].shards, fleet.services[1].stops_unwanted), (3, true));
    assert_eq!(fleet.troubles[0].shard, Some(3));
}

#[test]
fn what_never_ends_is_broken_off() {
    // No delay, no wait, no success: time stands still.
    let text = "horizon = \"10s\"\n[clients.a]\ncount = 1\nto = \"s\"\narrivals = { kind = \"burst\" }\n\
                [services.s]\nerror_rate = 1\n";
    let run = |text: &str, name: &str| {
        let scenario = read(text).unwrap();
        let policy = scenario.strategies.policy(name).unwrap().unwrap();
        Simulation::new(scenario)
            .contender(name, policy)
            .max_events(2_000_000)
            .run()
            .unwrap()
            .reports
            .remove(0)
    };
    assert_eq!(run(text, "none").broken, Some(Broken::TimeStandsStill));
    assert_eq!(run(text, "full").broken, None);
    // A closed loop without thinking time likewise.
    let text = text.replace("burst\"", "closed\", think = \"0s\"").replace("error_rate = 1", "");
    assert_eq!(run(&text, "none").broken, Some(Broken::TimeStandsStill));
    // Far more events than the limit, in time that passes.
    let text = text.replace("\"0s\"", "\"1us\"");
    assert_eq!(run(&text, "none").broken, Some(Broken::TooManyEvents));
    // More calls than can be.
    let text = WHOLE.replace("rate = [[\"0s\", 10], [\"5s\", 40], [\"5s\", 20.5]]", "rate = 1e12");
    let error = read(&text).unwrap_err();
    assert_eq!(error, "s.toml:14:2: clients: would begin about 2e13 calls; at most 1e9");
}

#[test]
fn a_cancelled_run_gives_what_there_is() {
    let cancelled = std::sync::atomic::AtomicBool::new(false);
    let scenario = built_in("herd", &[("clients", "50000"), ("replications", "50")]).unwrap();
    let full = scenario.strategies.policy("full").unwrap().unwrap();
    let comparison = Simulation::new(scenario)
        .contender("full", full)
        .threads(1)
        .cancelled_by(&cancelled)
        .progress(|progress| {
            assert_eq!(progress.of, 50);
            if progress.done == 1 {
                cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        })
        .run()
        .unwrap();
    let report = &comparison.reports[0];
    assert!((1..50).contains(&report.replications), "{}", report.replications);
    assert_eq!(report.mean(Measure::Calls), Some(50_000.0));
}

#[test]
fn every_built_in_scenario_runs_by_itself_and_says_so() {
    for BuiltIn { name, .. } in BUILT_INS {
        // Small ones, where the usual ones take seconds.
        let options: &[(&str, &str)] = match name {
            "herd" => &[("clients", "500"), ("horizon", "60s")],
            "occ" => &[("clients", "20"), ("replications", "3")],
            "reconnect" => &[("clients", "500"), ("capacity", "50")],
            "cron" => &[("clients", "500"), ("capacity", "20")],
            "ethernet" => &[("slots", "20000")],
            "metastable" | "outage" => &[("rate", "50"), ("capacity", "55"), ("replications", "2")],
            "layers" | "collapse" => &[("replications", "2")],
            "budget" | "overload" | "adaptive" => &[("horizon", "10s"), ("replications", "2")],
            "breaker" | "hedging" => &[("rate", "50"), ("replications", "2")],
            _ => &[],
        };
        let comparison = Simulation::new(built_in(name, options).unwrap()).line_up().run().unwrap();
        assert!(comparison.reports.iter().all(|report| report.tally.attempts > 0), "{name}");
        assert!(comparison.sentence().ends_with('.'), "{name}");
        assert!(comparison.table(false).contains("amplification"), "{name}");
        assert!(!comparison.svg().contains("NaN"), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the text: an error or a scenario, and a scenario that can be run is run to an end.
    #[test]
    fn no_text_makes_it_panic_or_hang(cuts in proptest::collection::vec((0usize..1500, 0usize..12, "[a-z0-9=\"\\[\\]{}., -]{0,6}"), 1..4)) {
        let mut text = WHOLE.to_owned();
        for (at, length, with) in cuts {
            let at = at.min(text.len());
            text.replace_range(at..(at + length).min(text.len()), &with);
        }
        if let Ok(scenario) = read(&text) {
            let simulation = Simulation::new(scenario).line_up().replications(1).max_events(200_000);
            prop_assert!(simulation.run().is_ok() || text.contains("policies"));
        }
    }
}
