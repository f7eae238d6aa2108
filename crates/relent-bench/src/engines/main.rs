//! Measures the simulator's engine beside others: `cargo bench -p relent-bench --bench engines`.
//!
//! Each measurement is a process of its own, so that none finds the memory of another; they take turns, several rounds.
//! It measures and never fails for what it finds: `docs/simulation/speed.md` says how to read it.

mod grid;
mod herd;
mod hold;
#[path = "../machine.rs"]
mod machine;
#[path = "../page.rs"]
mod page;
mod report;
mod run;

use std::error::Error;
use std::process::{Command, Stdio};

use clap::Parser;

use crate::hold::Hold;
use crate::machine::Machine;
use crate::report::Measured;
use crate::run::Run;

/// Measures the simulator's engine beside others.
#[derive(Parser)]
#[command(name = "cargo bench -p relent-bench --bench engines --")]
struct Arguments {
    /// Smaller herds, one round: for development
    #[arg(long)]
    quick: bool,
    /// Rounds; the figures are medians
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Only what has this word in its name
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
    /// Put the tables into docs/simulation/speed.md too
    #[arg(long)]
    write: bool,
    /// Only run this engine on this model, in this process
    #[arg(long, value_name = "ENGINE/MODEL/SIZE")]
    run: Option<String>,
    /// The Python that may have SimPy
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: String,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

/// One engine on one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) model: &'static str,
    pub(crate) size: u32,
    pub(crate) engine: &'static str,
}

const ENGINES: [&str; 5] = ["relent", "BinaryHeap", "desru", "nexosim", "SimPy"];
/// The grid written plainly with the simulator's saving.
const ONE_EVENT: &str = "BinaryHeap, an event per attempt";
const PENDING: [u32; 3] = [1_000, 100_000, 1_000_000];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    if let Some(name) = &arguments.run {
        println!("{}", run_here(name)?);
        return Ok(());
    }
    let rounds = if arguments.quick { 1 } else { arguments.rounds.max(1) };
    let simpy = simpy_version(&arguments.python);
    if simpy.is_none() {
        eprintln!("`{} -c 'import simpy'` fails: SimPy is left out", arguments.python);
    }
    let mut machine = Machine::look(format!("medians of {rounds}"), &["nexosim", "desru"]);
    let mut measured: Vec<Measured> =
        cases(arguments.quick).into_iter().map(|case| Measured { case, runs: Vec::new() }).collect();
    if let Some(word) = &arguments.only {
        measured.retain(|measured| name(measured.case).contains(word.as_str()));
    }
    for round in 0..rounds {
        for Measured { case, runs } in &mut measured {
            let python = case.engine == "SimPy";
            // It takes minutes for what takes the others seconds.
            if python && (simpy.is_none() || round > 0) {
                continue;
            }
            eprintln!("round {} of {rounds}: {}", round + 1, name(*case));
            runs.push(if python { run_python(&arguments.python, *case)? } else { run_alone(*case)? });
        }
    }
    machine.look_again();
    let simpy =
        simpy.map_or("SimPy left out: it is not installed".into(), |version| format!("SimPy {version}"));
    let report = report::markdown(&measured, &format!("{machine}- {simpy}\n"));
    println!("{report}");
    if arguments.write {
        page::write("simulation/speed.md", "cargo bench -p relent-bench --bench engines --", &report)?;
    }
    Ok(())
}

fn cases(quick: bool) -> Vec<Case> {
    let clients = if quick { 100_000 } else { 1_000_000 };
    let holds =
        PENDING.into_iter().flat_map(|size| ENGINES.map(|engine| Case { model: "hold", size, engine }));
    let herds = ENGINES.map(|engine| Case { model: "herd", size: clients, engine });
    let grids = ["relent", "BinaryHeap", ONE_EVENT].map(|engine| Case { model: "grid", size: 9_500, engine });
    let alone = |model, size| Case { model, size, engine: "relent" };
    let threads = [alone("one-thread", clients), alone("two-threads", clients)];
    holds.chain(herds).chain(grids).chain(threads).chain([alone("big-herd", clients * 10)]).collect()
}

fn name(case: Case) -> String {
    let Case { model, size, engine } = case;
    format!("{engine}/{model}/{size}")
}

/// How many events of the hold model are enough to see 10 ms in.
fn hold(case: Case) -> Hold {
    let million = match case.engine {
        "relent" | "BinaryHeap" => 8,
        "SimPy" => 1,
        _ => 2,
    };
    Hold { pending: case.size, steps: million * 1_000_000 }
}

fn run_here(wanted: &str) -> Result<Run, Box<dyn Error>> {
    let mut all = cases(false).into_iter().chain(cases(true));
    let case =
        all.find(|case| name(*case) == wanted).ok_or_else(|| format!("there is no case {wanted:?}"))?;
    let size = case.size;
    match (case.model, case.engine) {
        ("hold", "relent") => Ok(hold(case).relent()),
        ("hold", "BinaryHeap") => Ok(hold(case).heap()),
        ("hold", "desru") => Ok(hold(case).desru()),
        ("hold", "nexosim") => hold(case).nexosim(),
        ("herd" | "big-herd", "relent") => herd::relent(size, 1, 1),
        ("herd", "BinaryHeap") => Ok(herd::heap(size)),
        ("herd", "desru") => Ok(herd::desru(size)),
        ("herd", "nexosim") => herd::nexosim(size),
        ("grid", "relent") => grid::relent(),
        ("grid", "BinaryHeap") => Ok(grid::heap()),
        ("grid", _) => Ok(grid::heap_of_writes()),
        ("one-thread", _) => herd::relent(size, 2, 1),
        ("two-threads", _) => herd::relent(size, 2, 2),
        _ => Err(format!("{wanted} does not run in this process").into()),
    }
}

fn run_alone(case: Case) -> Result<Run, Box<dyn Error>> {
    said(Command::new(std::env::current_exe()?).args(["--run", &name(case)]))
}

const SIMPY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/engines/simpy_engine.py");

fn run_python(python: &str, case: Case) -> Result<Run, Box<dyn Error>> {
    let mut command = Command::new(python);
    command.args([SIMPY, case.model, &case.size.to_string()]);
    if case.model == "hold" {
        command.arg(hold(case).steps.to_string());
    }
    said(&mut command)
}

fn said(command: &mut Command) -> Result<Run, Box<dyn Error>> {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn simpy_version(python: &str) -> Option<String> {
    let output = Command::new(python).args(["-c", "import simpy; print(simpy.__version__)"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
