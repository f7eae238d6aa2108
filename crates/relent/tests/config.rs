//! Retriers from a policy file: who shares what.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]
#![cfg(all(feature = "config", not(loom)))]

use relent::config::Retriers;
use relent::testing::Clock;
use relent::{BreakerState, Class, Reason, Target, Timestamp};
use relent_core::{Moment, Outcome, Shared, Start};

const FILE: &str = r#"
version = 1

[budgets.all]
scope = "process"
kind = "quota"
capacity = 10
cost = 10

[budgets.each]
kind = "quota"
capacity = 10
cost = 10

[breakers.all]
scope = "process"
window = { kind = "consecutive" }
failures = 1

[policies.one]
budget = [{ kind = "quota", capacity = 7, cost = 1 }, "all", { kind = "quota", capacity = 5, cost = 1 }]
[policies.two]
budget = "all"
[policies.three]
budget = "each"
breaker = "all"
[policies.six]
budget = "each"
[policies.four]
breaker = "all"
[policies.five]
breaker = { window = { kind = "consecutive" }, failures = 1, scope = "process" }
"#;

const START: Timestamp = Timestamp::ZERO;

fn retriers() -> Retriers {
    Retriers::parse(FILE, "relent.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn at(retriers: &Retriers, policy: &str, target: &str) -> Target {
    retriers.get(policy).unwrap().at(target)
}

/// Whether a retry is granted, and taken.
fn retries(target: &Target) -> bool {
    let mut member = target.join(Clock::new());
    let failed = Outcome::of(Class::Transient);
    assert_eq!(member.admit(Moment::at(START, 0)), Start::Go);
    member.settle(&failed, Some(START));
    member.withdraw(&failed, Some(START)).is_ok() && member.admit(Moment::at(START, 0)) == Start::Go
}

#[test]
fn what_belongs_to_the_process_is_there_once() {
    let retriers = retriers();
    assert!(retries(&at(&retriers, "two", "a")));
    assert!(!retries(&at(&retriers, "two", "b")), "another target has the same budget");
    assert!(!retries(&at(&retriers, "one", "a")), "another policy has the same budget");
    let again = self::retriers();
    assert!(retries(&at(&again, "one", "a")), "another reading has another one");
}

#[test]
fn what_belongs_to_a_target_is_there_for_each() {
    let retriers = retriers();
    assert!(retries(&at(&retriers, "six", "a")));
    assert!(!retries(&at(&retriers, "six", "a")));
    assert!(retries(&at(&retriers, "six", "b")));
}

#[test]
fn breakers_are_shared_as_budgets_are() {
    let retriers = retriers();
    at(&retriers, "three", "a").breaker().unwrap().with(|breaker| breaker.trip(START));
    let state = |policy, target| {
        at(&retriers, policy, target).breaker().unwrap().with(|breaker| breaker.state(START))
    };
    assert_eq!(state("four", "b"), BreakerState::Open);
    assert_eq!(state("five", "a"), BreakerState::Closed);
    at(&retriers, "five", "a").breaker().unwrap().with(|breaker| breaker.trip(START));
    assert_eq!(state("five", "b"), BreakerState::Open, "without a name it is the policy's");
    let mut member = at(&retriers, "four", "c").join(Clock::new());
    assert_eq!(member.admit(Moment::at(START, 0)), Start::Stop { reason: Reason::CircuitOpen });
}

#[test]
fn budgets_keep_their_order() {
    let budgets = retriers().get("one").unwrap().at("a").budgets().to_vec();
    let balances: Vec<u64> =
        budgets.iter().map(|budget| budget.with(|budget| budget.balance(START))).collect();
    assert_eq!(balances, [7_000, 10_000, 5_000]);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let error = Retriers::parse("version = 1\n[policies.p]\nbudget = \"al\"", "relent.toml").unwrap_err();
    assert!(error.to_string().contains("relent.toml:3:10"), "{error}");
    let unknown = retriers().get("on").unwrap_err();
    assert_eq!(unknown.nearest(), Some("one"));
    assert_eq!(retriers().names().collect::<Vec<_>>(), ["one", "two", "three", "six", "four", "five"]);
}
