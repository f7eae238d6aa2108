//! Retries, budget and breaker together, around an operation that succeeds at once.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use backon::{BlockingRetryable, ExponentialBuilder};
use layered::{Execute, Service as _, Stack as _};
use recloser::Recloser;
use relent::{BreakerPolicy, Policy, PolicyError, Quota, Ratio, Retrier, Target, TokenBucket, WindowBudget};
use seatbelt::breaker::Breaker;
use seatbelt::retry::Retry;
use seatbelt::{RecoveryInfo, ResilienceContext};
use tokio::runtime::Runtime;
use tower::retry::budget::{Budget as _, TpsBudget};
use tower::{Layer as _, service_fn};
use tower_resilience_circuitbreaker::CircuitBreakerLayer;
use tower_resilience_retry::{RetryBudgetBuilder, RetryLayer};

use crate::breakers::tick_clock;
use crate::case::{Case, Table};
use crate::kept;
use crate::looped::Looped;
use crate::operation::{Kind, Refused, Small};

/// Those of our rows that need no clock, and those that do.
pub(crate) const ROW_AND_TOKENS: &str = "failures in a row, token bucket";
const CALLS_AND_QUOTA: &str = "the last 100 calls, quota";
const TIMES: &str = "the calls of 30 s, a share of the calls of 10 s (reads the clock)";
const TIMES_AND_DEADLINE: &str = "the same and a deadline";

pub(crate) fn cases() -> Result<Vec<Case>, Box<dyn Error>> {
    let Targets { row, count, time, deadline } = Targets::new()?;
    let table = Table::WHOLE;
    let ours = |variant, case: Case| case.variant(variant).over("bare");
    let mut cases = vec![
        Case::new(table, "bare", run(Small::succeed)),
        ours(ROW_AND_TOKENS, Case::new(table, "relent", run(|| row.retry_blocking(Small::succeed)))),
        ours(CALLS_AND_QUOTA, Case::new(table, "relent", run(|| count.retry_blocking(Small::succeed)))),
        ours(TIMES, Case::new(table, "relent", run(|| time.retry_blocking(Small::succeed)))),
        ours(TIMES_AND_DEADLINE, Case::new(table, "relent", run(|| deadline.retry_blocking(Small::succeed)))),
    ];
    let breaker = kept(Recloser::custom().error_rate(0.5).closed_len(100).build());
    let waits = || ExponentialBuilder::default().with_jitter();
    let composed = run(move || (|| breaker.call(Small::succeed)).retry(waits()).call());
    cases
        .push(Case::new(table, "backon", composed).variant("around recloser, without a budget").over("bare"));
    Ok(cases)
}

pub(crate) fn awaited(runtime: &'static Runtime) -> Result<Vec<Case>, Box<dyn Error>> {
    let Targets { row, count, time, deadline } = Targets::new()?;
    let looped = Looped { table: Table::WHOLE_AWAITED, runtime };
    let service = || service_fn(|()| async { Small::succeed() });
    let ours = |variant, case: Case| case.variant(variant).over("bare");
    let mut cases = vec![
        looped.case("bare", || async { Small::succeed() }),
        looped.service("bare tower service", service()),
        ours(ROW_AND_TOKENS, looped.case("relent", || row.retry(|| async { Small::succeed() }))),
        ours(CALLS_AND_QUOTA, looped.case("relent", || count.retry(|| async { Small::succeed() }))),
        ours(TIMES, looped.case("relent", || time.retry(|| async { Small::succeed() }))),
        ours(TIMES_AND_DEADLINE, looped.case("relent", || deadline.retry(|| async { Small::succeed() }))),
    ];

    let budgeted = tower::retry::Retry::new(Budgeted::new(), service());
    let tower = looped.service("tower", budgeted).variant("Retry and TpsBudget, without a breaker");
    cases.push(tower.over("bare tower service"));

    let budget = RetryBudgetBuilder::new().token_bucket().tokens_per_second(10.0).max_tokens(100).build()?;
    let retry =
        RetryLayer::<(), u32, tower_resilience_circuitbreaker::CircuitBreakerError<Refused>>::builder();
    let retry = retry.max_attempts(4).exponential_backoff(Duration::from_millis(100)).budget(budget).build();
    let breaker =
        CircuitBreakerLayer::builder().failure_rate_threshold(0.5).sliding_window_size(100).build()?;
    let layered = retry.layer(breaker.layer(service()));
    cases.push(looped.service("tower-resilience", layered).over("bare tower service"));

    let context = ResilienceContext::new(tick_clock(runtime));
    let recovery = |result: &Result<u32, Refused>| match result {
        Ok(_) => RecoveryInfo::never(),
        Err(_) => RecoveryInfo::retry(),
    };
    let stack = (
        Retry::layer("retry", &context).clone_input().recovery_with(move |result, _| recovery(result)),
        Breaker::layer("breaker", &context)
            .recovery_with(move |result, _| recovery(result))
            .rejected_input_error(|(), _| Refused),
        Execute::new(|()| async { Small::succeed() }),
    );
    let service = kept(stack.into_service());
    let seatbelt = looped.case("seatbelt", || service.execute(())).variant("without a budget");
    cases.push(seatbelt.over("bare"));
    Ok(cases)
}

/// The targets of our rows.
pub(crate) struct Targets {
    pub(crate) row: &'static Target,
    pub(crate) count: &'static Target,
    pub(crate) time: &'static Target,
    pub(crate) deadline: &'static Target,
}

impl Targets {
    pub(crate) fn new() -> Result<Self, PolicyError> {
        let limited = Policy::default().to_builder().deadline(Duration::from_secs(30)).build()?;
        let timed = |policy| {
            let budget = WindowBudget::new(Ratio::percent(20));
            let breaker = BreakerPolicy::time(Duration::from_secs(30));
            Retrier::new(policy).budget(budget).breaker(breaker).build()
        };
        let retrier = || Retrier::new(Policy::default());
        let row =
            retrier().budget(TokenBucket::new(100).per_success(100)).breaker(BreakerPolicy::consecutive(5));
        let count = retrier().budget(Quota::aws_2026()).breaker(BreakerPolicy::count(100));
        Ok(Self {
            row: kept(row.build()?.at("host")),
            count: kept(count.build()?.at("host")),
            time: kept(timed(Policy::default())?.at("host")),
            deadline: kept(timed(limited)?.at("host")),
        })
    }
}

/// The policy that tower leaves to its users, as in the documentation of its budgets.
#[derive(Clone)]
struct Budgeted {
    budget: Arc<TpsBudget>,
}

impl Budgeted {
    fn new() -> Self {
        Self { budget: Arc::new(TpsBudget::new(Duration::from_secs(10), 10, 0.2)) }
    }
}

impl<T, E> tower::retry::Policy<(), T, E> for Budgeted {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut (), result: &mut Result<T, E>) -> Option<Self::Future> {
        if result.is_ok() {
            self.budget.deposit();
            return None;
        }
        self.budget.withdraw().then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, _: &()) -> Option<()> {
        Some(())
    }
}

fn run<T>(call: impl Fn() -> T + 'static) -> impl FnMut(u64) + 'static {
    move |calls| {
        for _ in 0..calls {
            black_box(call());
        }
    }
}
