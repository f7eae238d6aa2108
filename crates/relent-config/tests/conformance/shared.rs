//! What calls share: budgets, breakers, throttles.

use relent_core::{
    Breaker, BreakerPolicy, Budget, Class, ConcurrentBudget, Outcome, Priority, Ratio, Stake, ThrottlePolicy,
    Timestamp, WindowBudget,
};
use serde_json::{Value, json};

use super::given::{self, Map, array, at, class, count, number, seconds, text};

/// Of so many calls, all at once, that fail and ask for a retry each, and go on asking: how many get it.
pub(crate) fn budget(given: &Map) -> Map {
    let policy = match given.get("budget").and_then(Value::as_str) {
        Some("window") => {
            let policy = WindowBudget::new(ratio(given, "ratio")).floor(count(given, "floor"));
            match given.get("ttl_s") {
                Some(_) => policy.ttl(seconds(number(given, "ttl_s"))).into(),
                None => policy.into(),
            }
        }
        Some("concurrent") => {
            ConcurrentBudget::new(ratio(given, "ratio")).floor(count(given, "floor")).into()
        }
        _ => given::resolved(given).common().budgets[0].0,
    };
    let mut budget = Budget::new(policy).unwrap();
    let now = Timestamp::ZERO;
    let mut running = vec![];
    let mut computed = Map::new();
    for _ in 0..count(given, "calls") {
        let mut stake = Stake::default();
        budget.begin(&mut stake, now);
        budget.settle(&Outcome::of(Class::Transient), &mut stake, now);
        running.push(stake);
    }
    computed.insert("balance".into(), json!(budget.balance(now) as f64 / 1e3));
    let mut granted = 0;
    for stake in &mut running {
        if budget.withdraw(Class::Transient, Priority::Normal, stake, now) {
            stake.start();
            granted += 1;
        }
    }
    computed.insert("granted".into(), json!(granted));
    computed
}

fn ratio(given: &Map, key: &str) -> Ratio {
    Ratio::new(number(given, key)).unwrap()
}

/// A breaker's state and ratio after each of some outcomes.
pub(crate) fn breaker(given: &Map) -> Map {
    let mut policy =
        BreakerPolicy::time(seconds(number(given, "window_s"))).min_calls(count(given, "min_calls"));
    if given.contains_key("failure_ratio") {
        policy = policy.failure_ratio(ratio(given, "failure_ratio"));
    }
    let mut breaker = Breaker::new(policy, 0).unwrap();
    let now = at(1.0);
    let (mut states, mut ratios, mut rejected) = (vec![], vec![], 0);
    for outcome in array(given, "outcomes") {
        ratios.push(json!(breaker.failure_ratio(now)));
        match breaker.admit(now) {
            Ok(permit) => breaker.settle(permit, &Outcome::of(class(outcome.as_str().unwrap())), now),
            Err(_) => rejected += 1,
        }
        states.push(Value::from(breaker.state(now).as_str()));
    }
    let mut computed = Map::new();
    computed.insert("end".into(), states.last().unwrap().clone());
    computed.insert("states".into(), Value::Array(states));
    computed.insert("ratios_before".into(), Value::Array(ratios));
    computed.insert("rejected".into(), json!(rejected));
    computed
}

/// With which probability a client rejects a call by itself.
pub(crate) fn rejection(given: &Map) -> Map {
    let mut policy = match text(given, "rule") {
        "sre" => ThrottlePolicy::sre(number(given, "k")),
        "envoy" => ThrottlePolicy::envoy(number(given, "threshold")),
        "finagle" => ThrottlePolicy::finagle(number(given, "threshold")),
        other => panic!("no rule {other}"),
    };
    if given.contains_key("aggression") {
        policy = policy.aggression(number(given, "aggression"));
    }
    let shares = array(given, "requests_accepted").iter().map(|pair| {
        let of = |index: usize| pair[index].as_u64().unwrap();
        json!(policy.rejection(of(0), of(1)))
    });
    Map::from_iter([("rejected".into(), shares.collect())])
}
