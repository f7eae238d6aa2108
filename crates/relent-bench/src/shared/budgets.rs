//! What each call does with a retry budget.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use relent::blocking::SystemTimer;
use relent::{
    Budget, BudgetPolicy, BudgetSnapshot, Class, Clock as _, Locked, Outcome, Policy, PolicyError, Quota,
    Ratio, Retrier, Timestamp, TokenBucket, WindowBudget,
};
use relent_core::Stake;
use tower::retry::budget::{Budget as _, TpsBudget};
use tower_resilience_retry::RetryBudgetBuilder;

use crate::case::{Case, Table};
use crate::kept;
use crate::operation::{Kind, Small};

const TABLE: Table = Table::DEPOSITS;

pub(crate) fn cases() -> Result<Vec<Case>, Box<dyn Error>> {
    let ratio = Ratio::percent(20);
    let mut cases = Vec::new();

    let bucket = budget(TokenBucket::new(1_000_000).per_success(100))?;
    bucket.with(|bucket| {
        let empty = BudgetSnapshot::TokenBucket { balance: 0, fraction: 0, latest: Timestamp::ZERO };
        *bucket = bucket.clone().restored(&empty, Timestamp::ZERO);
    });
    cases.push(relent("tokens by success, not full", move || settle(bucket)));
    let window = budget(WindowBudget::new(ratio))?;
    let now = SystemTimer.now();
    cases.push(relent("a share of the last calls, told the time", move || begin(window, now)));
    let window = budget(WindowBudget::new(ratio))?;
    cases
        .push(relent("a share of the last calls, reads the clock", move || begin(window, SystemTimer.now())));

    // While it is full nothing is to be told: what remains is the call.
    let target = kept(Retrier::new(Policy::default()).budget(Quota::aws_2026()).build()?.at("host"));
    cases.push(relent("a whole call, full", move || target.retry_blocking(Small::succeed)));
    let window = kept(Retrier::new(Policy::default()).budget(WindowBudget::new(ratio)).build()?.at("host"));
    cases.push(relent("a whole call, a share of the last calls", move || {
        window.retry_blocking(Small::succeed)
    }));
    cases.push(case("bare", "a whole call", Small::succeed));

    let tower = kept(TpsBudget::new(Duration::from_secs(10), 10, 0.2));
    cases.push(case("tower", "TpsBudget", || tower.deposit()));
    let tokens =
        kept(RetryBudgetBuilder::new().token_bucket().tokens_per_second(10.0).max_tokens(100).build()?);
    cases.push(case("tower-resilience", "token_bucket", || tokens.deposit()));
    let aimd = kept(RetryBudgetBuilder::new().aimd().build()?);
    cases.push(case("tower-resilience", "aimd", || aimd.deposit()));
    Ok(cases)
}

fn budget(policy: impl Into<BudgetPolicy>) -> Result<&'static Locked<Budget>, PolicyError> {
    Ok(kept(Locked::new(Budget::new(policy)?)))
}

fn settle(budget: &Locked<Budget>) {
    let success = Outcome::of(Class::Success);
    budget.with(|budget| budget.settle(&success, &mut Stake::default(), Timestamp::ZERO));
}

fn begin(budget: &Locked<Budget>, now: Timestamp) {
    budget.with(|budget| budget.begin(&mut Stake::default(), now));
}

fn relent<T>(variant: &'static str, deposit: impl Fn() -> T + 'static) -> Case {
    case("relent", variant, deposit)
}

fn case<T>(name: &'static str, variant: &'static str, deposit: impl Fn() -> T + 'static) -> Case {
    let run = move |calls| {
        for _ in 0..calls {
            black_box(deposit());
        }
    };
    Case::new(TABLE, name, run).variant(variant)
}
