//! `relent demo`: what this is for, in the first minute.

mod live;
mod service;

use std::env;
use std::io::{self, Write};
use std::time::Duration;

use relent_core::{Jitter, Policy, PolicyError};

use crate::chart;
use crate::durations::short;
use crate::exit::{Error, ExitCode};
use crate::explain::{one_line, wrapped};
use crate::fleet::{Met, Outage};
use crate::terminal::{Terminal, style};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Other luck for the fleet
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &Args, terminal: &Terminal) -> Result<ExitCode, Error> {
    let refused = |error: PolicyError| Error::usage(error.to_string());
    let mut out = anstream::stdout();
    let heading = style::HEADING;
    writeln!(out, "{heading}1. One call to a flaky service, for real{heading:#}")?;
    wrapped(&mut out, &one_line(&live::policy().map_err(refused)?, *terminal), 3, *terminal)?;
    live::call(&mut out)?;

    writeln!(out)?;
    let (without, with) = policies().map_err(refused)?;
    let fleet = Outage { seed: args.seed, ..Outage::USUAL };
    let described = one_line(&with, *terminal);
    let met = fleet.meet([without, with]).map_err(|error| Error::usage(error.to_string()))?;
    outage(&mut out, &fleet, &met, &described, *terminal)?;

    writeln!(out)?;
    writeln!(out, "{heading}3. Next{heading:#}")?;
    let accent = style::ACCENT;
    let program = program();
    for (command, what) in NEXT {
        writeln!(out, "   {accent}{program} {command}{accent:#}")?;
        wrapped(&mut out, what, 6, *terminal)?;
    }
    out.flush()?;
    Ok(ExitCode::Success)
}

/// How the program was called: whoever came with `cargo run` has no `relent` to type yet.
fn program() -> &'static str {
    if env::var_os("CARGO_MANIFEST_DIR").is_some() { "cargo run -qr --" } else { "relent" }
}

const NEXT: [(&str, &str); 4] = [
    ("explain --failure-rate 0.1", "what each attempt of the default policy gains"),
    ("explain --jitter none --deadline 500ms", "what is wrong with a policy"),
    ("simulate outage", "what other policies do to a service that is out"),
    ("run --max-attempts 3 -- curl -fsS http://localhost/", "the same decisions around a command"),
];

/// The same policy without jitter and with it.
fn policies() -> Result<(Policy, Policy), PolicyError> {
    let policy = Policy::exponential(Duration::from_millis(100))
        .cap(Duration::from_secs(5))
        .unlimited_attempts()
        .deadline(Duration::from_secs(600));
    Ok((policy.clone().jitter(Jitter::None).build()?, policy.build()?))
}

fn outage(
    out: &mut impl Write,
    fleet: &Outage,
    [together, spread]: &[Met; 2],
    policy: &str,
    terminal: Terminal,
) -> io::Result<()> {
    let (heading, bad, good) = (style::HEADING, style::BAD, style::GOOD);
    writeln!(
        out,
        "{heading}2. {} clients meet an outage of {}{heading:#}",
        fleet.clients,
        short(fleet.lasts)
    )?;
    let about = format!(
        "In virtual time. Once back, the service serves {} calls a second and refuses the rest. Policy: {policy}.",
        fleet.capacity
    );
    wrapped(out, &about, 3, terminal)?;
    let charts = Charts::of(fleet, together, spread, terminal);
    writeln!(out)?;
    charts.draw(out, "without jitter", together, bad)?;
    charts.draw(out, "with it", spread, good)?;
    charts.axis(out)?;
    writeln!(out)?;
    wrapped(out, &sentence(fleet, together, spread), 3, terminal)
}

/// What the two charts show, in numbers.
fn sentence(fleet: &Outage, together: &Met, spread: &Met) -> String {
    let fate = |met: &Met| {
        let (peak, bin, drained) = (met.peak, short(fleet.bin), short(met.drained));
        match u64::from(fleet.clients).saturating_sub(met.served) {
            0 => format!(
                "meets up to {peak} calls per {bin} and has served everybody {drained} after the outage"
            ),
            lost => format!("meets up to {peak} calls per {bin} and never serves {lost} clients"),
        }
    };
    format!("Without jitter the service {}; with it, it {}.", fate(together), fate(spread))
}

/// Two charts on the same scales.
struct Charts {
    terminal: Terminal,
    bin: Duration,
    /// How many bins a column stands for.
    per_column: usize,
    columns: usize,
    top: u64,
    outage: Duration,
}

/// Columns at the left for the numbers of the vertical axis.
const MARGIN: usize = 6;
const ROWS: usize = 5;

impl Charts {
    fn of(fleet: &Outage, together: &Met, spread: &Met, terminal: Terminal) -> Self {
        // Both end where the slower one ends, but the faster one must stay visible.
        let longest = together.load.len().max(spread.load.len());
        let shown = longest.min(spread.load.len().saturating_mul(3)).max(1);
        let width = terminal.width.saturating_sub(MARGIN + 3).max(10);
        let per_column = shown.div_ceil(width).max(1);
        Self {
            terminal,
            bin: fleet.bin,
            per_column,
            columns: shown.div_ceil(per_column),
            // The first moment, when all clients notice at once, is the same for both and would hide the rest.
            top: together.peak.max(spread.peak).max(1),
            outage: fleet.lasts,
        }
    }

    /// The busiest bin of each column.
    fn draw(&self, out: &mut impl Write, title: &str, met: &Met, colour: anstyle::Style) -> io::Result<()> {
        let busiest = |bins: &[u64]| bins.iter().copied().max().unwrap_or(0) as f64;
        let columns: Vec<_> = met.load.chunks(self.per_column).map(busiest).take(self.columns).collect();
        let faint = style::FAINT;
        let cut = if self.terminal.width >= 66 { " (the first moment is cut off)" } else { "" };
        writeln!(out, "   {title}{faint}: calls per {}{cut}{faint:#}", short(self.bin))?;
        for (row, line) in chart::area(&columns, self.top as f64, ROWS, self.terminal).into_iter().enumerate()
        {
            let mark = if row == 0 { self.top.to_string() } else { String::new() };
            let border = if self.terminal.unicode { '│' } else { '|' };
            writeln!(out, "{faint}{mark:>MARGIN$}{border}{faint:#}{colour}{line}{colour:#}")?;
        }
        Ok(())
    }

    /// The time, with the end of the outage marked.
    fn axis(&self, out: &mut impl Write) -> io::Result<()> {
        let faint = style::FAINT;
        let column = self.bin * u32::try_from(self.per_column).unwrap_or(u32::MAX);
        let back = (self.outage.as_nanos() / column.as_nanos().max(1)) as usize;
        let [line, corner, tick] =
            if self.terminal.unicode { ['─', '└', '┴'] } else { ['-', '+', '+'] };
        let axis: String = (0..self.columns).map(|column| if column == back { tick } else { line }).collect();
        writeln!(out, "{faint}{:MARGIN$}{corner}{axis}{faint:#}", "")?;
        let ends = short(self.outage);
        let label = format!("outage until {ends}");
        // The label stands where there is room for it, and points at the end of the outage.
        let labels = if back >= label.len() {
            format!("{label:>back$} ^")
        } else {
            format!("{:>1$} back after {ends}", "^", back + 2)
        };
        let to = short(column * u32::try_from(self.columns).unwrap_or(u32::MAX));
        let room = (self.columns + 1).saturating_sub(labels.len() + 1);
        writeln!(out, "{faint}{:MARGIN$}{labels} {to:>room$}{faint:#}", "")
    }
}
