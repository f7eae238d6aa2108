//! Instructions, counted by valgrind: unlike times they come out the same again.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::sample::Measured;

/// Calls of the shorter of the two runs.
const CALLS: u64 = 1_000;

/// Counts the instructions of each case, if valgrind is there.
pub(crate) fn count(measured: &mut [Measured]) -> Result<(), Box<dyn Error>> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("valgrind is not installed: no instruction counts");
        return Ok(());
    }
    let program = std::env::current_exe()?;
    for measured in measured {
        let id = measured.case.id();
        // What starting up takes is in both.
        let (once, twice) = (total(&program, &id, CALLS)?, total(&program, &id, 2 * CALLS)?);
        measured.instructions = Some((twice - once) / (CALLS * measured.case.per_call) as f64);
    }
    Ok(())
}

/// The instructions of a whole process that makes so many calls.
fn total(program: &Path, id: &str, calls: u64) -> Result<f64, Box<dyn Error>> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["--run", id, "--calls", &calls.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected :"));
    let (_, count) = collected.ok_or_else(|| format!("valgrind failed on {id}: {said}"))?;
    Ok(count.trim().parse()?)
}
