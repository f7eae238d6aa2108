//! Measures what calls share beside other crates, in one binary: breakers, budgets, rate limits, whole calls.
//!
//! `cargo bench -p relent-bench --bench shared` prints the tables of `docs/benchmarks-shared.md`, which says how it is done
//! and how to read them. It measures and never fails for what it finds.

#[path = "../bench.rs"]
mod bench;
mod breakers;
mod budgets;
#[allow(dead_code, reason = "the other benchmarks use it")]
#[path = "../case.rs"]
mod case;
mod hedges;
#[path = "../instructions.rs"]
mod instructions;
mod limits;
#[allow(dead_code, reason = "the other benchmarks use it")]
#[path = "../looped.rs"]
mod looped;
#[path = "../machine.rs"]
mod machine;
#[allow(dead_code, reason = "the other benchmarks use it")]
#[path = "../operation.rs"]
mod operation;
#[path = "../page.rs"]
mod page;
mod promises;
#[allow(dead_code, reason = "the other benchmarks use it")]
#[path = "../report.rs"]
mod report;
#[path = "../sample.rs"]
mod sample;
mod threads;
mod whole;

use std::error::Error;

use tokio::runtime::{Builder, Runtime};

use crate::bench::Bench;
use crate::case::{Rows, Table};

const PEERS: [&str; 8] = [
    "failsafe",
    "governor",
    "recloser",
    "seatbelt",
    "tower",
    "tower-resilience-circuitbreaker",
    "tower-resilience-retry",
    "tokio",
];

impl Table {
    pub(crate) const ALL: [Self; 9] = [
        Self::BREAKERS,
        Self::BREAKERS_WITH_A_FAILURE,
        Self::BREAKERS_AWAITED,
        Self::DEPOSITS,
        Self::TURNS,
        Self::WHOLE,
        Self::WHOLE_AWAITED,
        Self::THREADS,
        Self::HEDGES,
    ];

    pub(crate) const BREAKERS: Self = Self {
        word: "breaker",
        title: "A closed breaker that has seen no failure, blocking",
        rows: Rows::BlockingCalls,
    };
    pub(crate) const BREAKERS_WITH_A_FAILURE: Self = Self {
        word: "breaker-failure",
        title: "A closed breaker with a failure in its window, blocking",
        rows: Rows::BlockingCalls,
    };
    pub(crate) const BREAKERS_AWAITED: Self = Self {
        word: "breaker-async",
        title: "A closed breaker that has seen no failure, async",
        rows: Rows::AsyncCalls,
    };
    pub(crate) const DEPOSITS: Self =
        Self { word: "deposit", title: "A deposit into a retry budget", rows: Rows::Per("deposit") };
    pub(crate) const TURNS: Self =
        Self { word: "turn", title: "A turn from a rate limit, or its refusal", rows: Rows::Per("turn") };
    pub(crate) const WHOLE: Self = Self {
        word: "whole",
        title: "Retries, budget and breaker together, success at the first attempt, blocking",
        rows: Rows::BlockingCalls,
    };
    pub(crate) const WHOLE_AWAITED: Self = Self {
        word: "whole-async",
        title: "Retries, budget and breaker together, success at the first attempt, async",
        rows: Rows::AsyncCalls,
    };
    pub(crate) const HEDGES: Self = Self {
        word: "hedge",
        title: "A hedged call, success at the first attempt, async",
        rows: Rows::AsyncCalls,
    };
    pub(crate) const THREADS: Self = Self {
        word: "threads",
        title: "The same from two threads at once, to one target",
        rows: Rows::Per("call"),
    };
}

fn main() -> Result<(), Box<dyn Error>> {
    // Lives as long as the process: the cases' loops borrow it.
    let runtime: &'static Runtime = Box::leak(Box::new(Builder::new_current_thread().enable_time().build()?));
    let mut cases = breakers::cases()?;
    cases.extend(breakers::awaited(runtime)?);
    cases.extend(budgets::cases()?);
    cases.extend(limits::cases()?);
    cases.extend(whole::cases()?);
    cases.extend(whole::awaited(runtime)?);
    cases.extend(threads::cases()?);
    cases.extend(hedges::cases(runtime)?);
    let bench = Bench {
        command: "cargo bench -p relent-bench --bench shared --",
        page: "benchmarks-shared.md",
        peers: &PEERS,
        tables: &Table::ALL,
        promises: promises::promises,
    };
    bench.run(cases)
}

/// What lives as long as the process, as a program's targets and breakers do, and is unknown to the compiler.
fn kept<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}
