//! Service configs.

use std::time::Duration;

use relent_config::foreign::{GrpcCode, MethodConfig, ServiceConfig};
use relent_core::{
    Alone, Budget, Call, Class, Decision, Hint, Memory, Moment, Outcome, Priority, Race, RaceEnd, Repeat,
    Source, Stake, Timestamp,
};
use serde_json::{Value, json};

use super::given::{self, Map, array, at, count, of, text};

fn config(given: &Map) -> ServiceConfig {
    let text = serde_json::to_string(&given["config"]).unwrap();
    ServiceConfig::parse(&text, "service-config.json").unwrap_or_else(|errors| panic!("{errors}"))
}

fn method_of(given: &Map) -> MethodConfig {
    let config = config(given);
    config.method(text(given, "method")).expect("the config says something about the method").clone()
}

fn code(name: &str) -> GrpcCode {
    name.parse().unwrap_or_else(|_| panic!("no code {name}"))
}

/// What holds for a method: its limits, the bounds of its waits, and the class of each of some codes.
pub(crate) fn method(given: &Map) -> Map {
    let mut computed = Map::new();
    let config = config(given);
    let Some(method) = config.method(text(given, "method")) else {
        computed.insert("configured".into(), json!(false));
        return computed;
    };
    let policy = method.policy();
    computed.insert("configured".into(), json!(true));
    computed.insert("attempts".into(), json!(policy.max_attempts()));
    computed.insert("deadline_s".into(), json!(policy.deadline().map(|deadline| of(deadline.total))));
    let most = policy.max_attempts().map_or(0, |attempts| attempts - 1);
    let waits = given.get("waits").map_or(most, |_| count(given, "waits"));
    let ranges = (1..=waits).map(|n| {
        let range = policy.backoff().range(n, Duration::ZERO, Memory::default());
        json!([of(range.lowest), of(range.highest)])
    });
    computed.insert("windows_s".into(), ranges.collect());
    if let Some(codes) = given.get("codes") {
        let codes = codes.as_array().unwrap().iter().map(|name| method.class(code(name.as_str().unwrap())));
        computed.insert("classes".into(), codes.map(|class| Value::from(class.as_str())).collect());
    }
    computed
}

/// What the bucket holds after each of some outcomes, and whether a retry would be allowed then.
pub(crate) fn throttling(given: &Map) -> Map {
    let mut budget = Budget::new(config(given).throttling().unwrap()).unwrap();
    let now = Timestamp::ZERO;
    let (mut tokens, mut allowed) = (vec![], vec![]);
    for entry in array(given, "outcomes") {
        let (word, times) = match entry {
            Value::String(word) => (word.as_str(), 1),
            entry => (entry[0].as_str().unwrap(), entry[1].as_u64().unwrap()),
        };
        let outcome = match word {
            "do-not-retry" => Outcome::of(Class::Permanent).hint(Hint::Stop),
            word => Outcome::of(given::class(word)),
        };
        let mut may_retry = false;
        for _ in 0..times {
            let mut stake = Stake::default();
            budget.begin(&mut stake, now);
            budget.settle(&outcome, &mut stake, now);
            may_retry = budget.withdraw(Class::Transient, Priority::Normal, &mut stake, now);
            stake.start();
            budget.end(stake);
        }
        tokens.push(json!(budget.balance(now) as f64 / 1e3));
        allowed.push(json!(may_retry));
    }
    Map::from_iter([("tokens".into(), Value::Array(tokens)), ("allowed".into(), Value::Array(allowed))])
}

/// When the attempts of a hedged call are sent, where some of them end, and what becomes of those that run then.
pub(crate) fn hedging(given: &Map) -> Map {
    let method = method_of(given);
    let hedge = method.hedge().unwrap();
    let start = at(given::number(given, "start_s"));
    let mut race = Race::new(&hedge, hedge.delay(None, start), Repeat::Safe, start);
    let mut ends: Vec<(Timestamp, u32, GrpcCode)> = array(given, "ends")
        .iter()
        .map(|end| {
            let [time, number, name] = [&end[0], &end[1], &end[2]];
            (at(time.as_f64().unwrap()), number.as_u64().unwrap() as u32, code(name.as_str().unwrap()))
        })
        .collect();
    let (mut now, mut sent, mut cancelled) = (start, vec![], vec![]);
    loop {
        while race.next(now) == relent_core::HedgeStep::Start {
            race.started(now);
            sent.push(of(now.since(Timestamp::ZERO)));
        }
        let due = match race.next(now) {
            relent_core::HedgeStep::WaitUntil(due) => Some(due),
            _ => None,
        };
        if ends.first().is_some_and(|(end, ..)| due.is_none_or(|due| *end <= due)) {
            let (end, number, code) = ends.remove(0);
            now = end;
            if race.ended(number, method.class(code), now) == RaceEnd::Decided {
                cancelled.extend((0..race.attempts()).filter(|number| race.is_running(*number)));
                break;
            }
        } else if let Some(due) = due {
            now = due;
        } else {
            break;
        }
    }
    let mut computed = Map::new();
    computed.insert("sent_s".into(), Value::Array(sent));
    computed.insert("cancelled".into(), json!(cancelled));
    computed.insert("retries_after".into(), json!(method.policy().max_attempts().unwrap() - 1));
    computed
}

/// The bounds of the waits after failures, some of which carry a pushback.
pub(crate) fn pushback(given: &Map) -> Map {
    let method = method_of(given);
    let bounds = |entropy: u64| -> Vec<Value> {
        let mut call = Call::new(None);
        let decided = array(given, "pushbacks").iter().map(|header| {
            let outcome = Outcome::of(method.class(code("UNAVAILABLE")));
            let outcome = match header.as_str() {
                Some(header) => outcome.hint(Hint::pushback_ms(header)),
                None => outcome,
            };
            match call.decide(method.policy(), &mut Alone, outcome, Moment::timeless(entropy)) {
                Decision::Retry { after, source: Source::Pushback } => json!(["exactly", of(after)]),
                Decision::Retry { after, .. } => of(after),
                Decision::Stop { reason, .. } => json!(reason.as_str()),
            }
        });
        decided.collect()
    };
    let (least, most) = (bounds(0), bounds(u64::MAX));
    let waits = least
        .into_iter()
        .zip(most)
        .map(|(least, most)| if least == most { least } else { json!([least, most]) });
    Map::from_iter([("waits_s".into(), waits.collect())])
}

/// What is said about a config, by the word of each thing that is wrong or doubtful.
pub(crate) fn validation(given: &Map) -> Map {
    let text = serde_json::to_string(&given["config"]).unwrap();
    let (verdict, told): (&str, Vec<_>) = match ServiceConfig::parse(&text, "service-config.json") {
        Ok(config) if config.warnings().is_empty() => ("ok", vec![]),
        Ok(config) => ("warning", config.warnings().to_vec()),
        Err(errors) => ("error", errors.iter().cloned().collect()),
    };
    let codes = told.iter().map(|told| Value::from(told.code().as_str()));
    Map::from_iter([("verdict".into(), json!(verdict)), ("codes".into(), codes.collect())])
}
