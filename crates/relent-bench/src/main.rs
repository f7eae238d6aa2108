//! Measures relent beside other retry crates, in one binary: times, instructions, allocations, sizes.
//!
//! `cargo bench -p relent-bench --bench peers` prints the tables of `docs/benchmarks.md`, which says how it is done and how to
//! read them. It measures and never fails for what it finds; that is for people to judge.

mod bench;
mod case;
mod cases;
mod instructions;
mod looped;
mod machine;
mod operation;
mod page;
mod promises;
mod report;
mod sample;

use std::error::Error;

use crate::bench::Bench;
use crate::case::Table;

const PEERS: [&str; 7] = ["backon", "retry", "tokio-retry", "tokio-retry2", "tower", "tryhard", "tokio"];

fn main() -> Result<(), Box<dyn Error>> {
    let bench = Bench {
        command: "cargo bench -p relent-bench --bench peers --",
        page: "benchmarks.md",
        peers: &PEERS,
        tables: &Table::ALL,
        promises: promises::promises,
    };
    bench.run(cases::all()?)
}
