//! Presets that take what they say from another system's own text: they say what that text says, and what is wrong with
//! it is told at its place there.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use relent_config::foreign::{ServiceConfig, StateMachine};
use relent_config::{Errors, File, Origin, Reader, Surroundings};
use relent_core::{
    Alone, Call, Class, HedgePolicy, Moment, Outcome, Policy, Ratio, StateExecution, TokenBucket,
};

/// One file.
#[derive(Debug)]
struct Folder {
    name: &'static str,
    text: String,
}

impl Surroundings for Folder {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, path: &str) -> Result<Option<String>, String> {
        match path {
            "secret" => Err("permission denied".to_owned()),
            path => Ok((path == self.name).then(|| self.text.clone())),
        }
    }
}

fn read(name: &'static str, text: &str, policies: &str) -> Result<File, Errors> {
    let folder = Folder { name, text: text.to_owned() };
    let policies = format!("version = 1\n{policies}\n");
    Reader::new().surroundings(Arc::new(folder)).parse(&policies, "relent.toml")
}

fn file(name: &'static str, text: &str, policies: &str) -> File {
    read(name, text, policies).unwrap_or_else(|errors| panic!("{errors}"))
}

const MACHINE: &str = r#"{
  "States": {
    "Fetch": {
      "Type": "Task",
      "Retry": [
        { "ErrorEquals": ["Lambda.TooManyRequestsException", "Lambda.ServiceException"], "IntervalSeconds": 2, "MaxAttempts": 6, "JitterStrategy": "FULL", "MaxDelaySeconds": 60 },
        { "ErrorEquals": ["States.Timeout"], "MaxAttempts": 0 },
        { "ErrorEquals": ["States.ALL"] }
      ]
    },
    "Store": { "Type": "Task", "Retry": [{ "ErrorEquals": ["Taken"] }] }
  }
}"#;

#[test]
fn a_state_becomes_rules() {
    let file = file(
        "machine.json",
        MACHINE,
        r#"
[policies.fetch]
preset = { name = "step-functions", definition = "machine.json", state = "Fetch" }
deadline = "5m"
[policies.store]
preset = { name = "step-functions", definition = "machine.json", state = "Store" }
"#,
    );
    let fetch = file.resolved("fetch").unwrap();
    assert_eq!(
        fetch.rules(),
        ["Lambda.TooManyRequestsException | Lambda.ServiceException", "States.Timeout", "States.ALL"]
    );
    assert_eq!(fetch.policy().deadline().unwrap().total.as_secs(), 300);
    let origin = &fetch.settings().iter().find(|setting| setting.path == "max_attempts").unwrap().origin;
    assert_eq!(*origin, Origin::Outside("machine.json, Fetch".to_owned()));
    let store = file.resolved("store").unwrap();
    assert_eq!(store.rules(), ["Taken", "what no retrier names"]);
    let waits = |policy: &Policy, outcomes: &[Outcome]| {
        let mut call = Call::new(None);
        let decide = |outcome: &Outcome| match call.decide(policy, &mut Alone, *outcome, Moment::timeless(0))
        {
            relent_core::Decision::Retry { after, .. } => Some(after.as_secs()),
            relent_core::Decision::Stop { .. } => None,
        };
        outcomes.iter().map(decide).collect::<Vec<_>>()
    };
    let taken = Outcome::of(Class::Permanent).rule(store.rule("Taken").unwrap());
    assert_eq!(waits(store.policy(), &[taken; 4]), [Some(1), Some(2), Some(4), None]);
    assert_eq!(waits(store.policy(), &[Outcome::of(Class::Transient)]), [None]);
    assert_eq!(waits(fetch.policy(), &[Outcome::of(Class::Timeout)]), [None]);
    assert_eq!(waits(fetch.policy(), &[Outcome::of(Class::Permanent); 2]), [Some(1), Some(2)]);
}

#[test]
fn a_method_becomes_a_policy() {
    let text = r#"{"methodConfig": [{
        "name": [{"service": "shop.Orders"}], "timeout": "3s",
        "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s",
            "backoffMultiplier": 1.6, "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}
    }, {
        "name": [{"service": "shop.Stock"}],
        "hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.2s", "nonFatalStatusCodes": ["INTERNAL"]}
    }], "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.5}}"#;
    let policies = "[policies.stock]\npreset = { name = \"grpc\", config = \"grpc.json\", method = \"shop.Stock/Count\" }\n[policies.orders]\npreset = { name = \"grpc\", config = \"grpc.json\", method = \"shop.Orders/List\" }";
    let file = file("grpc.json", text, policies);
    let policy = file.policy("orders").unwrap();
    let config = ServiceConfig::parse(text, "grpc.json").unwrap();
    let method = config.method("shop.Orders/List").unwrap();
    assert_eq!(policy.backoff(), method.policy().backoff());
    assert_eq!(policy.deadline(), method.policy().deadline());
    assert_eq!(policy.hint(), method.policy().hint());
    assert_eq!(policy.max_attempts(), Some(3));
    assert_eq!(
        policy.retry_on().iter().collect::<Vec<_>>(),
        [Class::Transient, Class::Throttled, Class::NotSent]
    );
    for name in ["orders", "stock"] {
        let common = file.resolved(name).unwrap().common();
        assert_eq!(common.budgets, [(TokenBucket::grpc(100, 500).into(), Ratio::ZERO)], "{name}");
    }
    let stock = file.resolved("stock").unwrap();
    let hedge = HedgePolicy::after(Duration::from_millis(200)).max_attempts(3);
    assert_eq!((stock.policy().max_attempts(), stock.common().hedge), (Some(1), Some(hedge)));
}

#[test]
fn what_is_wrong_is_told_at_its_place() {
    let told = |name, text: &str, preset: &str| {
        read(name, text, &format!("[policies.p]\npreset = {preset}")).unwrap_err().to_string()
    };
    let machine = |preset: &str| told("m.json", MACHINE, preset);
    for (preset, expected) in [
        (r#"{ name = "step-functions" }"#, "`preset` has no `definition`"),
        (r#"{ name = "step-functions", definition = 3 }"#, "`definition` is an integer"),
        (r#"{ name = "step-functions", definition = "x.json" }"#, "there is no file x.json"),
        (r#"{ name = "step-functions", definition = "secret" }"#, "secret cannot be read: permission denied"),
        (r#"{ name = "step-functions", definition = "m.json" }"#, "m.json has 2 states that can be retried"),
        (r#"{ name = "step-functions", definition = "m.json", state = "Fecth" }"#, "did you mean \"Fetch\"?"),
        (r#"{ name = "step-functions", definitoin = "m.json" }"#, "did you mean `definition`?"),
        (r#"{ name = "grpc", method = "a.B/C" }"#, "`method` has no effect without a `config`"),
        (r#"{ name = "grpc", config = "m.json" }"#, "`preset` has no `method`"),
        (
            r#"{ name = "grpc", config = "m.json", method = "a.B/C" }"#,
            "m.json says nothing about the method a.B/C",
        ),
    ] {
        let told = machine(preset);
        assert!(told.contains(expected) && told.contains("--> relent.toml:3:"), "{preset}: {told}");
    }
    let preset = r#"{ name = "step-functions", definition = "m.json" }"#;
    let text = "[\n  { \"ErrorEquals\": [\"X\"], \"MaxAttempts\": -1 }\n]";
    let told = told("m.json", text, preset);
    assert!(
        told.starts_with("error[wrong-type]: `Retry[0].MaxAttempts` is -1\n --> m.json:2:42\n"),
        "{told}"
    );
    // Where nothing is read.
    let alone =
        File::parse(&format!("version = 1\n[policies.p]\npreset = {preset}\n"), "relent.toml").unwrap_err();
    assert!(alone.to_string().contains("no files are read here"), "{alone}");
}

#[test]
fn an_array_that_is_too_long_says_so() {
    let retriers: Vec<String> = (0..7).map(|n| format!("{{\"ErrorEquals\": [\"E{n}\"]}}")).collect();
    let text = format!("[{}]", retriers.join(", "));
    let policies = "[policies.p]\npreset = { name = \"step-functions\", definition = \"m.json\" }";
    let told = read("m.json", &text, policies).unwrap_err().to_string();
    assert!(
        told.contains("a policy has 6 rules, and this array needs 8") && told.contains("StateRetry"),
        "{told}"
    );
    let often = r#"[{"ErrorEquals": ["X"], "MaxAttempts": 254}]"#;
    let told = read("m.json", often, policies).unwrap_err().to_string();
    assert!(told.contains("at most 253 retries"), "{told}");
    let most = r#"[{"ErrorEquals": ["X"], "MaxAttempts": 253}]"#;
    assert!(read("m.json", most, policies).is_ok());
}

/// Arrays that name nothing but what classes stand for, and so mean the same to both.
fn array() -> impl Strategy<Value = String> {
    let names = prop_oneof![
        Just(r#"["States.TaskFailed"]"#),
        Just(r#"["States.Timeout"]"#),
        Just(r#"["States.Timeout", "States.TaskFailed"]"#),
        Just(r#"["Mine", "States.Timeout"]"#),
    ];
    let numbers = (1u32..50, 0u32..6, 10u32..40, prop::option::of(1u32..90), any::<bool>());
    let retrier = (names, numbers).prop_map(|(names, (interval, attempts, rate, most, full))| {
        let most = most.map_or(String::new(), |most| format!(", \"MaxDelaySeconds\": {most}"));
        let jitter = if full { "FULL" } else { "NONE" };
        format!(
            "{{\"ErrorEquals\": {names}, \"IntervalSeconds\": {interval}, \"MaxAttempts\": {attempts}, \
             \"BackoffRate\": {}.{}, \"JitterStrategy\": \"{jitter}\"{most}}}",
            rate / 10,
            rate % 10
        )
    });
    (vec(retrier, 0..4), any::<bool>()).prop_map(|(mut retriers, all)| {
        if all {
            retriers.push(r#"{"ErrorEquals": ["States.ALL"], "MaxAttempts": 4}"#.to_owned());
        }
        format!("[{}]", retriers.join(", "))
    })
}

proptest! {
    /// The evaluator of arrays and the rules of a policy are two ways to ask the one decision.
    #[test]
    fn rules_decide_as_the_evaluator_does(text in array(), steps in vec((any::<bool>(), any::<u64>()), 1..12)) {
        let policies = "[policies.p]\npreset = { name = \"step-functions\", definition = \"m.json\" }";
        let file = file("m.json", &text, policies);
        let policy = file.policy("p").unwrap();
        let machine = StateMachine::parse(&text, "m.json").unwrap();
        let retry = machine.only_state().unwrap().retry();
        let (mut call, mut execution) = (Call::new(None), StateExecution::new(None));
        for (timeout, entropy) in steps {
            let (class, error) =
                if timeout { (Class::Timeout, "States.Timeout") } else { (Class::Transient, "States.TaskFailed") };
            let (outcome, moment) = (Outcome::of(class), Moment::timeless(entropy));
            let of_rules = call.decide(policy, &mut Alone, outcome, moment);
            let of_evaluator = execution.decide(retry, &mut Alone, error, outcome, moment);
            match (of_rules, of_evaluator) {
                (relent_core::Decision::Stop { .. }, relent_core::Decision::Stop { .. }) => break,
                (one, other) => prop_assert_eq!(one, other, "{}", text),
            }
        }
    }
}
