//! The AWS SDKs: whole calls through the presets, from responses to waits and tokens.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use relent_config::Resolved;
use relent_core::{
    AdaptiveRate, Backoff, BudgetPolicy, BudgetSnapshot, Call, Class, Common, Decision, Held, Moment,
    Outcome, Reason, Share, Start, Timestamp,
};
use relent_http::aws::{Errors, Modelled, Times};
use serde_json::{Value, json};

use super::given::{self, Map, array, at, number, text};

/// Calls of one policy, one after another, in virtual time: attempts take none.
struct Client {
    resolved: Resolved,
    common: Common,
    draw: u64,
    now: Timestamp,
    slept: Duration,
    held: Held,
    call: Option<Call>,
}

impl Client {
    fn new(given: &Map) -> Self {
        let resolved = given::resolved(given);
        let mut common = resolved.common().build(7).unwrap();
        if let Some(quota) = given.get("quota") {
            let balance = quota.as_u64().unwrap() as u32;
            let full = common.budgets.pop().unwrap();
            common.budgets = vec![full.restored(&BudgetSnapshot::Quota { balance }, Timestamp::ZERO)];
        }
        let draw = given.get("draw").map_or(0, |_| given::entropy(number(given, "draw")));
        let (now, held) = (Timestamp::ZERO, Held::default());
        Self { resolved, common, draw, now, slept: Duration::ZERO, held, call: None }
    }

    /// Makes an attempt that ends like this, and the waits before it and after it.
    fn attempt(&mut self, outcome: Outcome) -> Decision {
        let policy = self.resolved.policy();
        let mut call = self.call.take().unwrap_or_else(|| Call::new(Some(self.now)));
        let mut share = Share { parts: &mut self.common, held: &mut self.held };
        while let Start::Wait { after, .. } = call.admit(policy, &mut share, Moment::at(self.now, self.draw))
        {
            self.slept += after;
            self.now = self.now.plus(after);
        }
        let decision = call.decide(policy, &mut share, outcome, Moment::at(self.now, self.draw));
        let wait = match decision {
            Decision::Retry { after, .. } => {
                self.call = Some(call);
                after
            }
            Decision::Stop { after, .. } => {
                share.end(self.now);
                after.unwrap_or_default()
            }
        };
        self.slept += wait;
        self.now = self.now.plus(wait);
        decision
    }

    fn quota(&mut self) -> Option<u64> {
        self.common.budgets.first_mut().map(|budget| budget.balance(self.now) / 1_000)
    }
}

/// What is decided after each response, what is left of the quota, and how long is waited. After an end the next
/// response is that of a new call.
pub(crate) fn steps(given: &Map) -> Map {
    let mut client = Client::new(given);
    if let (Some(service), Some(operation)) = (given.get("service"), given.get("operation")) {
        assert!(relent_http::aws::polls(service.as_str().unwrap(), operation.as_str().unwrap()));
    }
    let (mut outcomes, mut quota, mut waits) = (vec![], vec![], vec![]);
    for step in array(given, "steps") {
        let (word, wait) = match client.attempt(outcome(step)) {
            Decision::Retry { after, .. } => ("retry", Some(after)),
            Decision::Stop { reason, after } => (reason.as_str(), after),
        };
        outcomes.push(Value::from(word));
        quota.push(Value::from(client.quota()));
        waits.push(Value::from(wait.map(millis)));
    }
    Map::from_iter([
        ("outcomes".into(), Value::Array(outcomes)),
        ("quota".into(), Value::Array(quota)),
        ("waits_ms".into(), Value::Array(waits)),
    ])
}

/// How long all of it has waited after each call.
pub(crate) fn calls(given: &Map) -> Map {
    let mut client = Client::new(given);
    let slept: Vec<f64> = array(given, "calls")
        .iter()
        .map(|call| {
            for response in call.as_array().unwrap() {
                let _ = client.attempt(outcome(response));
            }
            assert!(client.call.is_none(), "a call has not ended: {call}");
            millis(client.slept)
        })
        .collect();
    Map::from_iter([("last_slept_ms".into(), json!(slept.last())), ("slept_ms".into(), json!(slept))])
}

/// How long a call waits that fails to the end, altogether and at last.
pub(crate) fn sum(given: &Map) -> Map {
    let mut client = Client::new(given);
    let asked = given.get("asked_ms").map(|asked| Duration::from_millis(asked.as_u64().unwrap()));
    let outcome = Outcome {
        hint: asked.map(relent_core::Hint::After),
        ..Outcome::of(given::class(text(given, "class")))
    };
    let (mut attempts, mut last) = (1, Duration::ZERO);
    let reason = loop {
        match client.attempt(outcome) {
            Decision::Retry { after, .. } => (attempts, last) = (attempts + 1, after),
            Decision::Stop { reason, .. } => break reason,
        }
    };
    assert_eq!(reason, Reason::AttemptsExhausted);
    Map::from_iter([
        ("attempts".into(), json!(attempts)),
        ("sum_ms".into(), json!(millis(client.slept))),
        ("last_ms".into(), json!(millis(last))),
    ])
}

/// The numbers of a preset that the SDKs name.
pub(crate) fn numbers(given: &Map) -> Map {
    let resolved = given::resolved(given);
    let policy = resolved.policy();
    let base = |backoff: &Backoff| millis(backoff.schedule().initial());
    let throttled = policy.rule_for(&Outcome::of(Class::Throttled));
    let rule = throttled.and_then(|id| policy.rules()[usize::from(id.0)].own_backoff());
    let quota = resolved.common().budgets.first().map(|(budget, _)| match budget {
        BudgetPolicy::Quota(quota) => *quota,
        other => panic!("{other:?} is no quota"),
    });
    let cost = |class| json!(quota.map(|quota| quota.cost(class)));
    Map::from_iter([
        ("attempts".into(), json!(policy.max_attempts())),
        ("base_ms".into(), json!(base(policy.backoff()))),
        ("throttle_base_ms".into(), json!(base(rule.unwrap_or(policy.backoff())))),
        ("cap_ms".into(), json!(policy.backoff().longest().map(millis))),
        ("quota".into(), json!(quota.map(|quota| quota.capacity()))),
        ("cost".into(), cost(Class::Transient)),
        ("throttle_cost".into(), cost(Class::Throttled)),
        ("timeout_cost".into(), cost(Class::Timeout)),
    ])
}

/// How many retries a full quota allows when nothing succeeds: over calls that fail on every attempt, one after another.
pub(crate) fn burst(given: &Map) -> Map {
    let mut client = Client::new(given);
    let outcome = Outcome::of(given::class(text(given, "class")));
    let (mut retries, mut calls) = (0, 0);
    loop {
        match client.attempt(outcome) {
            Decision::Retry { .. } => retries += 1,
            Decision::Stop { reason: Reason::AttemptsExhausted, .. } => calls += 1,
            Decision::Stop { .. } => break,
        }
    }
    Map::from_iter([
        ("retries".into(), json!(retries)),
        ("whole_calls".into(), json!(calls)),
        ("left".into(), json!(client.quota())),
    ])
}

/// The classes of responses.
pub(crate) fn classes(given: &Map) -> Map {
    let classes = array(given, "responses").iter().map(|response| json!(outcome(response).class.as_str()));
    Map::from_iter([("classes".into(), classes.collect())])
}

/// Which operations poll.
pub(crate) fn polls(given: &Map) -> Map {
    let polls = array(given, "operations")
        .iter()
        .map(|pair| json!(relent_http::aws::polls(pair[0].as_str().unwrap(), pair[1].as_str().unwrap())));
    Map::from_iter([("polls".into(), polls.collect())])
}

/// The adaptive rate after each response that it was told of, and what it granted.
pub(crate) fn adaptive(given: &Map) -> Map {
    let mut rate = AdaptiveRate::new(Timestamp::ZERO);
    let (mut measured, mut fill, mut waits, mut capacity) = (vec![], vec![], vec![], vec![]);
    for event in array(given, "events") {
        let now = at(event["t"].as_f64().unwrap());
        if let Some(tokens) = event.get("acquire") {
            let granted = rate.acquire(tokens.as_u64().unwrap() as u32, now);
            waits.push(json!(granted.err().map(|wait| wait.as_nanos() as f64 / 1e9)));
            capacity.push(json!(rate.capacity()));
            continue;
        }
        for _ in 0..event.get("times").map_or(1, |times| times.as_u64().unwrap()) {
            rate.update(event["throttled"].as_bool().unwrap(), now);
        }
        measured.push(json!(rate.measured_rate()));
        fill.push(json!(rate.fill_rate()));
    }
    Map::from_iter([
        ("last_measured".into(), json!(rate.measured_rate())),
        ("last_fill_rate".into(), json!(rate.fill_rate())),
        ("measured".into(), Value::Array(measured)),
        ("fill_rate".into(), Value::Array(fill)),
        ("waits_s".into(), Value::Array(waits)),
        ("capacity".into(), Value::Array(capacity)),
    ])
}

/// The curve alone.
pub(crate) fn curve(given: &Map) -> Map {
    let mut last_max = number(given, "last_max");
    let mut computed = Map::new();
    computed.insert("recovers_after_s".into(), json!(AdaptiveRate::recovers_after(last_max)));
    if given.contains_key("steps") {
        let (mut throttled_at, mut rates) = (number(given, "throttled_at_s"), Vec::<f64>::new());
        for step in array(given, "steps") {
            let now = step["t"].as_f64().unwrap();
            if step["throttled"].as_bool().unwrap() {
                (last_max, throttled_at) = (rates.last().unwrap() * 0.7, now);
                rates.push(last_max);
            } else {
                rates.push(AdaptiveRate::curve(last_max, now - throttled_at));
            }
        }
        computed.insert("rates".into(), json!(rates));
    }
    computed
}

/// What a response says: its class alone, or status, code and headers.
fn outcome(response: &Value) -> Outcome {
    let mut headers = HeaderMap::new();
    for (name, value) in response.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let value = HeaderValue::from_str(value.as_str().unwrap()).unwrap();
        headers.insert(HeaderName::try_from(name.as_str()).unwrap(), value);
    }
    let code = response.get("code").and_then(Value::as_str);
    let body =
        code.map_or_else(String::new, |code| format!("{{\"__type\":\"com.amazonaws.service#{code}\"}}"));
    let mut errors = Errors::new();
    if let (Some(code), Some(says)) = (code, response.get("modelled")) {
        assert_eq!(says, "plain");
        errors = errors.modelled(code, Modelled::Plain);
    }
    // Some day in 2026, at a whole second, in the middle of the round trip.
    let ours = Duration::from_secs(1_790_000_000);
    let times = response.get("skew_s").map(|skew| {
        let date = UNIX_EPOCH + Duration::from_secs(ours.as_secs().strict_add_signed(skew.as_i64().unwrap()));
        headers.insert("date", HeaderValue::from_str(&httpdate::fmt_http_date(date)).unwrap());
        let half = Duration::from_secs(response.get("trip_s").map_or(0, |trip| trip.as_u64().unwrap())) / 2;
        Times { sent: ours - half, received: ours + half }
    });
    let read = |status: &Value| {
        let status = StatusCode::from_u16(status.as_u64().unwrap() as u16).unwrap();
        errors.read(status, &headers, &body, times).outcome()
    };
    match response.get("class") {
        Some(class) => {
            Outcome { hint: read(&json!(503)).hint, ..Outcome::of(given::class(class.as_str().unwrap())) }
        }
        None => read(&response["status"]),
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}
