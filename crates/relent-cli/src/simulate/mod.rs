//! `relent simulate`: what policies do to a fleet, in virtual time, before they ship.

mod blocks;
mod boundary;
mod contenders;
mod list;
mod lookup;
mod progress;
mod show;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use relent_sim::{RunError, Scenario, Simulation, Strategy};

use crate::exit::{Error, ExitCode};
use crate::policy_args::PolicyArgs;
use crate::terminal::{Terminal, style};

use progress::Watch;

pub(crate) const EXAMPLES: &str = "\
Examples:
  relent simulate --list                                     scenarios and strategies
  relent simulate outage                                     usual strategies in an outage
  relent simulate occ --set clients=40 --initial 5ms         your values beside them
  relent simulate outage --policy payments --vs strategy:full --svg load.svg
  relent simulate black-friday --vs payments                 [scenarios.black-friday] of relent.toml
  relent simulate metastable --boundary 100..300             the load above which it stays down
  relent simulate herd --set clients=1000000 --vs strategy:none --json

Without policy options and --vs, the policies that the scenario itself names meet. \
With policy options alone, yours meets them; with --vs, it meets only those \
(the default policy, where no option says otherwise).

Ctrl-C shows what there is by then; the exit code is 130.";

#[derive(Debug, clap::Args)]
// One number seeds the policy elsewhere; here all luck comes from the simulation.
#[command(mut_arg("seed", |seed| seed.help("Other luck [default: the scenario's]").help_heading("Simulation")))]
pub(crate) struct Args {
    /// Scenario: a file, a name of [scenarios] in the policy file, or a built-in one, looked up in this order
    #[arg(value_name = "SCENARIO", required_unless_present = "list")]
    scenario: Option<String>,
    #[command(flatten)]
    policy: PolicyArgs,

    /// List scenarios and strategies; with SCENARIO, its options
    #[arg(long, help_heading = "Simulation")]
    list: bool,
    /// Option of a built-in scenario, as often as needed
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Simulation")]
    set: Vec<String>,
    /// Policy of the policy file, or `strategy:NAME`, to compare with, as often as needed
    #[arg(long, value_name = "NAME", help_heading = "Simulation")]
    vs: Vec<String>,
    /// Look for the load between these above which the service stays down, for each policy; the other figures are not
    /// shown
    #[arg(long, value_name = "LOW..HIGH", value_parser = boundary::parse, conflicts_with_all = ["svg", "csv", "series", "threads"], help_heading = "Simulation")]
    boundary: Option<boundary::Range>,
    /// How often each policy is simulated, each time with other luck [default: the scenario's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Simulation")]
    replications: Option<u32>,
    /// On how many threads; the answer does not depend on it [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Simulation")]
    threads: Option<u16>,

    /// Write the load over time as a picture
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
    /// What the picture shows instead of the load
    #[arg(
        long,
        value_name = "SERIES",
        requires = "svg",
        default_value = "load",
        hide_default_value = true,
        help_heading = "Output"
    )]
    draw: show::Drawn,
    /// Write the figures: policy, measure, mean, standard error
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// Write the series: policy, time, calls, attempts, ...
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    series: Option<PathBuf>,
    /// Print everything as JSON instead
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Draw the load over time (which is the default)
    #[arg(long, overrides_with = "no_chart", help_heading = "Output")]
    chart: bool,
    /// Draw nothing
    #[arg(long, overrides_with = "chart", help_heading = "Output")]
    no_chart: bool,
}

pub(crate) fn run(mut args: Args, terminal: &Terminal) -> Result<ExitCode, Error> {
    let seed = args.policy.take_seed().map(|text| parse_seed(&text)).transpose()?;
    let file = args.policy.open()?;
    let Some(name) = args.scenario.as_deref().filter(|_| !args.list) else {
        let mut out = anstream::stdout().lock();
        list::write(&mut out, args.scenario.as_deref(), file.as_ref(), *terminal)?;
        return Ok(ExitCode::Success);
    };
    if args.boundary.is_some() {
        boundary::check(name, &args.set, file.as_ref())?;
    }
    let scenario = lookup::scenario(name, &args.set, file.as_ref())?;
    let contenders = contenders::of(&args, file.as_ref(), &scenario)?;
    if let Some(range) = args.boundary {
        return look_for_boundary(&args, range, &scenario, contenders, seed, *terminal);
    }
    let outputs = [&args.svg, &args.csv, &args.series];
    outputs.into_iter().flatten().try_for_each(|path| check_writable(path))?;

    let watch = Watch::begin()?;
    let mut simulation =
        Simulation::new(scenario).cancelled_by(watch.cancelled()).progress(|at| watch.report(at));
    for (name, policy) in contenders {
        simulation = simulation.contender(name, policy);
    }
    if let Some(replications) = args.replications {
        simulation = simulation.replications(replications);
    }
    if let Some(seed) = seed {
        simulation = simulation.seed(seed);
    }
    if let Some(threads) = args.threads {
        simulation = simulation.threads(threads.into());
    }
    progress::announce(simulation.estimate());
    let comparison = simulation.run();
    let interrupted = watch.end();
    let comparison = comparison.map_err(|error| cannot_work(name, &error))?;

    write_file(args.svg.as_deref(), || show::picture(&comparison, args.draw).svg())?;
    write_file(args.csv.as_deref(), || comparison.csv())?;
    write_file(args.series.as_deref(), || comparison.series_csv())?;
    let mut out = anstream::stdout().lock();
    if args.json {
        out.write_all(comparison.json().as_bytes())?;
    } else {
        show::write(&mut out, &comparison, !args.no_chart, *terminal)?;
    }
    out.flush()?;
    if interrupted {
        let warning = style::WARNING;
        // Whoever cannot be told has the exit code.
        let _ = writeln!(
            anstream::stderr(),
            "{warning}interrupted{warning:#}: the figures are of what there was by then"
        );
    }
    Ok(if interrupted { ExitCode::Interrupted } else { ExitCode::Success })
}

fn look_for_boundary(
    args: &Args,
    range: boundary::Range,
    scenario: &Scenario,
    contenders: Vec<(String, Strategy)>,
    seed: Option<u64>,
    terminal: Terminal,
) -> Result<ExitCode, Error> {
    let adjust = |scenario: &mut Scenario| {
        scenario.seed = seed.unwrap_or(scenario.seed);
        scenario.replications = args.replications.unwrap_or(scenario.replications);
    };
    let found = boundary::Found::of(scenario, &args.set, contenders, range, adjust)
        .map_err(|error| cannot_work(&scenario.name, &error))?;
    let mut out = anstream::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", found.json())?;
    } else {
        found.write(&mut out, terminal)?;
    }
    out.flush()?;
    Ok(ExitCode::Success)
}

fn parse_seed(text: &str) -> Result<u64, Error> {
    let refused = |_| Error::usage(format!("--seed: \"{text}\" is no whole number from 0 to {}", u64::MAX));
    text.parse().map_err(refused)
}

/// Better before a long simulation than after it.
fn check_writable(path: &Path) -> Result<(), Error> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|source| Error::Failure { what: format!("writing {}", path.display()), source })
}

fn write_file(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), Error> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, text())
        .map_err(|source| Error::Failure { what: format!("writing {}", path.display()), source })
}

fn cannot_work(name: &str, error: &RunError) -> Error {
    Error::usage(format!("scenario {name}: {error}"))
}
