//! What calls share, as a policy file says it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::time::Duration;

use relent_config::{BuiltIn, File, Flag, Home, Origin, Resolved, Scope};
use relent_core::{
    Backoff, BreakerMode, BreakerPolicy, BulkheadPolicy, Class, CommonPolicy, ConcurrentBudget, HedgePolicy,
    Jitter, LimiterPolicy, MemoryPolicy, Multiplier, Quota, Rate, Ratio, Schedule, ThrottlePolicy,
    TokenBucket, WindowBudget,
};

fn file(text: &str) -> File {
    File::parse(&format!("version = 1\n{text}"), "relent.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn common(keys: &str) -> CommonPolicy {
    file(&format!("[policies.p]\n{keys}")).resolved("p").unwrap().common().clone()
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn per_second(count: u32) -> Rate {
    Rate::new(count, secs(1)).unwrap()
}

#[test]
fn who_says_nothing_shares_nothing() {
    assert_eq!(common("max_attempts = 3"), CommonPolicy::default());
    assert_eq!(BuiltIn::Library.with(&[]).unwrap().common(), &CommonPolicy::default());
}

#[test]
fn every_kind_of_budget_is_read_with_the_defaults_of_the_core() {
    let budget = |keys: &str| common(&format!("budget = {{ {keys} }}")).budgets;
    let whole = |policy| vec![(policy, Ratio::ZERO)];
    let tokens = TokenBucket::new(100);
    assert_eq!(
        budget("kind = \"token_bucket\", capacity = 100, refill = \"5/100ms\""),
        whole(tokens.refill(Rate::new(5, Duration::from_millis(100)).unwrap()).into())
    );
    assert_eq!(
        budget(
            "kind = \"token_bucket\", capacity = 100, per_success = 0.1, per_failure = 1, per_retry = 0, half_full = true"
        ),
        whole(TokenBucket::grpc(100, 100).into())
    );
    assert_eq!(budget("kind = \"window\""), whole(WindowBudget::new(Ratio::percent(20)).into()));
    assert_eq!(
        budget("kind = \"window\", ratio = 0.1, ttl = \"1m\", floor = 0"),
        whole(WindowBudget::new(Ratio::percent(10)).ttl(secs(60)).floor(0).into())
    );
    assert_eq!(budget("kind = \"concurrent\""), whole(ConcurrentBudget::new(Ratio::percent(20)).into()));
    assert_eq!(
        budget("kind = \"quota\", capacity = 500, cost = { transient = 14, throttled = 5 }"),
        whole(Quota::aws_2026().into())
    );
    assert_eq!(
        budget("kind = \"quota\", capacity = 500, cost = 5, first_success = 3, reserve = 0.25"),
        [(Quota::new(500, 5).first_success(3).into(), Ratio::percent(25))]
    );
}

#[test]
fn every_kind_of_breaker_is_read_with_the_defaults_of_the_core() {
    let breaker = |keys: &str| common(&format!("breaker = {{ {keys} }}")).breaker.unwrap();
    let time = "window = { kind = \"time\", size = \"30s\" }";
    assert_eq!(breaker(time), BreakerPolicy::time(secs(30)));
    assert_eq!(breaker("window = { size = \"30s\" }"), BreakerPolicy::time(secs(30)));
    assert_eq!(breaker("window = { size = 10 }"), BreakerPolicy::count(10));
    assert_eq!(breaker("window = { kind = \"consecutive\" }, failures = 5"), BreakerPolicy::consecutive(5));
    assert_eq!(
        breaker(&format!(
            "{time}, failure_ratio = 0.3, min_calls = 5, slow_ratio = 0.8, slow_after = \"2s\""
        )),
        BreakerPolicy::time(secs(30))
            .failure_ratio(Ratio::percent(30))
            .min_calls(5)
            .slow_calls(Ratio::percent(80), secs(2))
    );
    assert_eq!(
        breaker(&format!(
            "{time}, failure_ratio = \"none\", failures = 7, max_probes = 3, success_ratio = 0.6, \
             max_probe_duration = \"5s\", ramp = \"1m\", mode = \"forced_open\""
        )),
        BreakerPolicy::time(secs(30))
            .no_failure_ratio()
            .failures(7)
            .max_probes(3)
            .success_ratio(Ratio::percent(60))
            .max_probe_duration(secs(5))
            .ramp(secs(60))
            .mode(BreakerMode::ForcedOpen)
    );
}

#[test]
fn the_open_time_is_a_backoff_over_the_built_in_one() {
    let open_for = |keys: &str| {
        let breaker = format!("breaker = {{ window = {{ size = 10 }}, open_for = {{ {keys} }} }}");
        common(&breaker).breaker.unwrap().open_for
    };
    let built_in = Jitter::Proportional { factor: 0.2 };
    let exponential = |initial| Backoff::new(Schedule::exponential(secs(initial))).jitter(built_in);
    assert_eq!(open_for("initial = \"1s\""), exponential(1).cap(secs(120)));
    assert_eq!(
        open_for("cap = \"5m\", jitter = \"none\""),
        exponential(5).cap(secs(300)).jitter(Jitter::None)
    );
    assert_eq!(
        open_for("multiplier = 1.5, jitter.factor = 0.1"),
        Backoff::new(Schedule::Exponential { initial: secs(5), multiplier: Multiplier::new(1.5).unwrap() })
            .cap(secs(120))
            .jitter(Jitter::Proportional { factor: 0.1 })
    );
    assert_eq!(
        open_for("kind = \"constant\", initial = \"1m\""),
        Backoff::new(Schedule::Constant { initial: secs(60) }).uncapped().jitter(built_in)
    );
}

#[test]
fn limits_and_hedges_are_read() {
    let limit = LimiterPolicy::new(per_second(100));
    assert_eq!(common("rate_limit = \"100/s\"").limiter, Some(limit));
    assert_eq!(
        common("rate_limit = { rate = \"100/1s\", burst = 1, max_wait = \"2s\" }").limiter,
        Some(limit.burst(1).max_wait(secs(2)))
    );
    assert_eq!(
        common("bulkhead = { capacity = 10, queue = 5, max_wait = \"1s\", retry_share = 0.5 }").bulkhead,
        Some(BulkheadPolicy::new(10).queue(5).max_wait(secs(1)).retry_share(Ratio::percent(50)))
    );
    assert_eq!(common("throttle = \"sre\"").throttle, Some(ThrottlePolicy::sre(2.0)));
    assert_eq!(common("throttle = \"finagle\"").throttle, Some(ThrottlePolicy::finagle(0.5)));
    assert_eq!(
        common("throttle = { kind = \"envoy\", aggression = 2, rejected = [\"throttled\"] }").throttle,
        Some(ThrottlePolicy::envoy(0.95).aggression(2.0).rejected(Class::Throttled))
    );
    let memory = MemoryPolicy::new(secs(30));
    assert_eq!(common("memory = {}").memory, Some(memory));
    let other = common("memory = { half_life = \"1m\", steps = 3 }").memory;
    assert_eq!(other, Some(MemoryPolicy::new(secs(60)).steps(3)));
    assert!(common("adaptive_rate = true").adaptive && !common("adaptive_rate = false").adaptive);
    let p95 = HedgePolicy::quantile(Ratio::percent(95));
    for (hedge, policy) in [
        ("\"quantile\"", p95),
        ("{}", p95),
        (
            "{ quantile = 0.95, floor = \"5ms\", ceiling = \"1s\" }",
            p95.between(Duration::from_millis(5), secs(1)),
        ),
        ("{ delay = \"1s\", max_attempts = 3 }", HedgePolicy::after(secs(1)).max_attempts(3)),
        ("\"at_once\"", HedgePolicy::at_once()),
        ("\"on_failure\"", HedgePolicy::on_failure()),
    ] {
        assert_eq!(common(&format!("hedge = {hedge}")).hedge, Some(policy), "{hedge}");
    }
}

const NAMED: &str = r#"
    [budgets.outbound]
    kind = "token_bucket"
    scope = "process"
    capacity = 100
    refill = "10/s"
    [budgets.nobody-uses-me]
    kind = "concurrent"
    [breakers.db]
    window = { kind = "consecutive" }
    failures = 5
    [policies.base]
    budget = "outbound"
    breaker = "db"
    hedge = { quantile = 0.99 }
    rate_limit = { rate = "10/s", burst = 3 }
    [policies.p]
    base = "base"
    budget = [{ kind = "window" }, "outbound"]
    hedge = { max_attempts = 3 }
    rate_limit = "20/s"
    [policies.none]
    base = "base"
    budget = "none"
    breaker = "none"
    hedge = "none"
    rate_limit = "none"
"#;

#[test]
fn names_lead_to_what_they_stand_for_and_who_shares_it() {
    let file = file(NAMED);
    let (base, p, none) = ["base", "p", "none"].map(|name| file.resolved(name).unwrap()).into();
    let outbound = TokenBucket::new(100).refill(per_second(10)).into();
    let window = WindowBudget::new(Ratio::percent(20)).into();
    assert_eq!(base.common().budgets, [(outbound, Ratio::ZERO)]);
    assert_eq!(base.common().breaker, Some(BreakerPolicy::consecutive(5)));
    assert_eq!(base.breaker_home(), Some(&Home { name: Some("db".into()), scope: Scope::Target }));
    assert_eq!(p.common().budgets, [(window, Ratio::ZERO), (outbound, Ratio::ZERO)]);
    let process = Home { name: Some("outbound".into()), scope: Scope::Process };
    assert_eq!(p.budget_homes(), [Home::default(), process]);
    // A table goes over a table key by key; a bare rate is all of it.
    assert_eq!(p.common().hedge, Some(HedgePolicy::quantile(Ratio::percent(99)).max_attempts(3)));
    assert_eq!(p.common().limiter, Some(LimiterPolicy::new(per_second(20))));
    assert_eq!(none.common(), &CommonPolicy::default());
}

#[test]
fn every_value_says_where_it_comes_from() {
    let file = file(NAMED);
    let find = |resolved: &Resolved, path: &str| {
        let setting = resolved.settings().iter().find(|setting| setting.path == path);
        let setting = setting.unwrap_or_else(|| panic!("{path} is not told")).clone();
        (setting.value, setting.origin, setting.line)
    };
    let p = file.resolved("p").unwrap();
    let origin = |path| find(p, path);
    let shared = |name: &str| Origin::Shared(name.into());
    assert_eq!(origin("budgets.outbound.refill"), ("\"10/s\"".into(), shared("budgets.outbound"), Some(7)));
    assert_eq!(origin("breakers.db.failures"), ("5".into(), shared("breakers.db"), Some(12)));
    assert_eq!(origin("breaker"), ("\"db\"".into(), Origin::Policy("base".into()), Some(15)));
    assert_eq!(origin("budget[1]"), ("\"outbound\"".into(), Origin::Policy("p".into()), Some(20)));
    assert_eq!(origin("hedge.quantile").1, Origin::Policy("base".into()));
    assert!(matches!(origin("budget[0].ratio").1, Origin::BuiltIn(why) if !why.is_empty()));
}

#[test]
fn high_priority_has_a_share_of_the_budgets_and_a_backoff() {
    let file = file(
        r#"
        [budgets.all]
        kind = "quota"
        scope = "process"
        capacity = 10
        cost = 1
        [policies.p]
        jitter = "none"
        budget = ["all", { kind = "window" }, { kind = "concurrent", reserve = 0.5 }]
        on.priority.high = { backoff = { initial = "10ms" }, budget_share = 0.2 }
        on.throttled.max_attempts = 2
        [policies.none]
        base = "p"
        on.priority.high = "none"
        "#,
    );
    let p = file.resolved("p").unwrap();
    let reserves: Vec<f64> = p.common().budgets.iter().map(|(_, reserve)| reserve.as_f64()).collect();
    assert_eq!(reserves, [0.0, 0.2, 0.5]);
    let plain = p.policy().backoff().clone();
    let high = Backoff::new(Schedule::exponential(Duration::from_millis(10))).jitter(Jitter::None);
    assert_eq!(p.policy().high_backoff(), Some(&high));
    assert_ne!(p.policy().high_backoff(), Some(&plain));
    assert_eq!(file.policy("none").unwrap().high_backoff(), None);
}

#[test]
fn options_lie_over_what_is_shared_too() {
    let flags = [
        Flag::new("--breaker", "breaker", "{ window = { size = 10 } }"),
        Flag::new("--min-calls", "breaker.min_calls", "3"),
        Flag::new("--budget", "budget", "outbound,db"),
        Flag::new("--rate-limit", "rate_limit", "5/m"),
    ];
    let errors = BuiltIn::Library.with(&flags).unwrap_err().to_string();
    assert!(errors.contains("there is no budget \"outbound\""), "{errors}");
    let [breaker, min_calls, _, rate] = flags;
    let resolved = BuiltIn::Library.with(&[breaker, min_calls, rate]).unwrap();
    assert_eq!(resolved.common().breaker, Some(BreakerPolicy::count(10).min_calls(3)));
    assert_eq!(resolved.common().limiter.unwrap().rate, Rate::new(5, secs(60)).unwrap());
    let budget = file(NAMED).policy_with("none", &[Flag::new("--budget", "budget", "outbound")]).unwrap();
    assert_eq!(budget.budget_homes().len(), 1);
}
