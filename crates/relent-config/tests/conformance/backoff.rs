//! Waits of one call.

use std::time::Duration;

use relent_core::{
    Alone, Call, Class, Decision, Dice, Hint, Memory, Moment, Outcome, Policy, Reason, Timestamp,
};
use serde_json::{Value, json};

use super::given::{self, Map, array, count, number, of, seconds};

/// The bounds of each wait, as many draws meet them and as `range` tells them; and, where `draws` are given, the waits of
/// a series with them.
pub(crate) fn waits(given: &Map) -> Map {
    let policy = given::policy(given);
    let backoff = policy.backoff();
    let mut computed = Map::new();
    computed.insert("attempts".into(), json!(policy.max_attempts()));
    if let Some(draws) = given.get("draws") {
        let mut memory = Memory::default();
        let draws = draws.as_array().unwrap().iter().map(|draw| given::entropy(draw.as_f64().unwrap()));
        let waits =
            (1..).zip(draws).map(|(n, entropy)| of(backoff.wait(n, Duration::ZERO, &mut memory, entropy)));
        computed.insert("waits_s".into(), waits.collect());
        return computed;
    }
    let from = given.get("from").map_or(1, |from| from.as_u64().unwrap() as u32);
    let ranges = (from..from + count(given, "waits")).map(|n| {
        let range = backoff.range(n, Duration::ZERO, Memory::default());
        let mut dice = Dice::new(u64::from(n));
        let draws = std::iter::from_fn(|| Some(dice.roll())).take(2_000).chain([0, u64::MAX]);
        for entropy in draws {
            let wait = backoff.wait(n, Duration::ZERO, &mut Memory::default(), entropy);
            assert!((range.lowest..=range.highest).contains(&wait), "wait {n} is {wait:?}, not in {range:?}");
        }
        json!([of(range.lowest), of(range.highest)])
    });
    computed.insert("ranges_s".into(), ranges.collect());
    computed
}

/// When the attempts of a call are made that all fail, each after `took_s`, and why it ends. `first` and `last` say how
/// many of them are told.
pub(crate) fn timeline(given: &Map) -> Map {
    let policy = given::policy(given);
    let took = given.get("took_s").map_or(Duration::ZERO, |took| seconds(took.as_f64().unwrap()));
    let most = given.get("most").map_or(usize::MAX, |most| most.as_u64().unwrap() as usize);
    let mut call = Call::new(Some(Timestamp::ZERO));
    let (mut now, mut attempts) = (Duration::ZERO, vec![Duration::ZERO]);
    let end = loop {
        now += took;
        let moment = Moment::at(Timestamp::from_duration(now), 0);
        match call.decide(&policy, &mut Alone, Outcome::of(Class::Transient), moment) {
            Decision::Retry { .. } if attempts.len() == most => break None,
            Decision::Retry { after, .. } => now += after,
            Decision::Stop { reason, .. } => break Some(reason),
        }
        attempts.push(now);
    };
    let unit = given.get("unit_s").map_or(1.0, |unit| unit.as_f64().unwrap());
    let at: Vec<f64> = attempts.iter().map(|at| at.as_nanos() as f64 / 1e9 / unit).collect();
    let waits: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0] - took.as_secs_f64() / unit).collect();
    let mut computed = Map::new();
    computed.insert("attempts".into(), json!(at.len()));
    computed.insert("end".into(), json!(end.map(Reason::as_str)));
    computed.insert("last".into(), json!(at.last()));
    computed.insert("waits".into(), json!(waits));
    computed.insert("at".into(), json!(at));
    computed
}

/// The waits after failures that each come after so long a time in health.
pub(crate) fn healthy(given: &Map) -> Map {
    let policy = given::policy(given);
    let mut call = Call::new(None);
    let waits = array(given, "healthy_s").iter().map(|healthy| {
        let outcome = Outcome::of(Class::Transient).healthy_for(seconds(healthy.as_f64().unwrap()));
        retry(call.decide(&policy, &mut Alone, outcome, Moment::timeless(0)))
    });
    Map::from_iter([("waits_s".into(), waits.collect())])
}

/// The first wait where the server asked for one, or why there is none.
pub(crate) fn hints(given: &Map) -> Map {
    let policy: Policy = given::policy(given);
    let draw = given::entropy(given.get("draw").map_or(0.0, |_| number(given, "draw")));
    let outcome = Outcome::of(Class::Throttled);
    let waits = array(given, "asked_s").iter().map(|asked| {
        let hint = Hint::After(seconds(asked.as_f64().unwrap()));
        retry(Call::new(None).decide(&policy, &mut Alone, outcome.hint(hint), Moment::timeless(draw)))
    });
    Map::from_iter([("waits_s".into(), waits.collect())])
}

fn retry(decision: Decision) -> Value {
    match decision {
        Decision::Retry { after, .. } => of(after),
        Decision::Stop { reason, .. } => Value::from(reason.as_str()),
    }
}
