//! One command that measures: what it takes, and what it does with it.

use std::error::Error;

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::case::{Case, Table};
use crate::machine::Machine;
use crate::sample::{self, Effort, Measured};
use crate::{instructions, page, report};

/// A command that measures.
pub(crate) struct Bench {
    /// What one types to run it.
    pub(crate) command: &'static str,
    /// The page that shows its tables, in the documentation.
    pub(crate) page: &'static str,
    /// The crates whose versions matter.
    pub(crate) peers: &'static [&'static str],
    pub(crate) tables: &'static [Table],
    pub(crate) promises: fn(&[Measured]) -> Vec<Vec<String>>,
}

#[derive(Parser)]
struct Arguments {
    /// Fewer and shorter samples, and no instruction counts: for development
    #[arg(long)]
    quick: bool,
    /// Leave out the instruction counts (they need valgrind and take a minute or two)
    #[arg(long)]
    no_instructions: bool,
    /// Put the tables into the page too
    #[arg(long)]
    write: bool,
    /// Print the names of the cases
    #[arg(long)]
    list: bool,
    /// Only measure the cases with this word in their name
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
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

impl Bench {
    /// Does what the command line says with these cases.
    pub(crate) fn run(&self, mut cases: Vec<Case>) -> Result<(), Box<dyn Error>> {
        let command = Arguments::command().name(self.command).bin_name(self.command);
        let arguments = Arguments::from_arg_matches(&command.get_matches())?;
        if let Some(word) = &arguments.only {
            cases.retain(|case| case.id().contains(word));
        }
        if arguments.list {
            cases.iter().for_each(|case| println!("{}", case.id()));
            return Ok(());
        }
        if let Some(id) = &arguments.run {
            return run_alone(&mut cases, id, arguments.calls);
        }

        let effort = if arguments.quick { Effort::QUICK } else { Effort::FULL };
        let mut machine = Machine::look(effort.to_string(), self.peers);
        let mut measured = sample::measure(cases, effort);
        machine.look_again();
        if !arguments.quick && !arguments.no_instructions {
            instructions::count(&mut measured)?;
        }

        let report = report::markdown(&measured, &machine, self.tables, (self.promises)(&measured));
        println!("{report}");
        if arguments.write {
            page::write(self.page, self.command, &report)?;
        }
        Ok(())
    }
}

fn run_alone(cases: &mut [Case], id: &str, calls: u64) -> Result<(), Box<dyn Error>> {
    let case =
        cases.iter_mut().find(|case| case.id() == id).ok_or_else(|| format!("there is no case {id:?}"))?;
    (case.run)(calls);
    Ok(())
}
