//! Measures relent beside other retry crates, in one binary: times, instructions, allocations, sizes.
//!
//! `cargo bench -p relent-bench --bench peers` prints the tables of `docs/benchmarks.md`, which says how it is done and how to
//! read them. It measures and never fails for what it finds; that is for people to judge.

mod case;
mod cases;
mod instructions;
mod machine;
mod operation;
mod page;
mod report;
mod sample;

use std::error::Error;

use clap::Parser;

use crate::case::Case;
use crate::machine::Machine;
use crate::sample::Effort;

/// Measures relent beside other retry crates.
#[derive(Parser)]
#[command(name = "cargo bench -p relent-bench --bench peers --")]
struct Arguments {
    /// Fewer and shorter samples, and no instruction counts: for development
    #[arg(long)]
    quick: bool,
    /// Leave out the instruction counts (they need valgrind and take a minute or two)
    #[arg(long)]
    no_instructions: bool,
    /// Put the tables into docs/benchmarks.md too
    #[arg(long)]
    write: bool,
    /// Print the names of the cases
    #[arg(long)]
    list: bool,
    /// Only run this case, for a profiler
    #[arg(long, value_name = "CASE")]
    run: Option<String>,
    /// How many calls `--run` makes
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    calls: u64,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

const PEERS: [&str; 7] = ["backon", "retry", "tokio-retry", "tokio-retry2", "tower", "tryhard", "tokio"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let mut cases = cases::all()?;
    if arguments.list {
        cases.iter().for_each(|case| println!("{}", case.id()));
        return Ok(());
    }
    if let Some(id) = &arguments.run {
        return run_alone(&mut cases, id, arguments.calls);
    }

    let effort = if arguments.quick { Effort::QUICK } else { Effort::FULL };
    let mut machine = Machine::look(effort.to_string(), &PEERS);
    let mut measured = sample::measure(cases, effort);
    machine.look_again();
    if !arguments.quick && !arguments.no_instructions {
        instructions::count(&mut measured)?;
    }

    let report = report::markdown(&measured, &machine);
    println!("{report}");
    if arguments.write {
        page::write("benchmarks.md", "cargo bench -p relent-bench --bench peers --", &report)?;
    }
    Ok(())
}

fn run_alone(cases: &mut [Case], id: &str, calls: u64) -> Result<(), Box<dyn Error>> {
    let case =
        cases.iter_mut().find(|case| case.id() == id).ok_or_else(|| format!("there is no case {id:?}"))?;
    (case.run)(calls);
    Ok(())
}
