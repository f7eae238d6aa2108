//! `relent explain`: what a policy does, before it does it.

mod defaults;
mod herd;
mod json;
mod markdown;
mod presets;
mod schedule;
mod shared;
mod text;
mod warnings;

use std::io::Write;
use std::time::Duration;

use clap::ValueEnum;
use relent_config::{BuiltIn, Flag, Preset};
use relent_core::{Backoff, Class, First, HintMode, Jitter, Policy, Schedule};

use crate::durations::{self, short};
use crate::exit::{Error, ExitCode};
use crate::fleet::Met;
use crate::policy_args::{PolicyArgs, Resolved};
use crate::terminal::Terminal;

pub(crate) use text::wrapped;

use schedule::{Assumptions, Plan};
use warnings::{Caller, Level, Warning};

pub(crate) const EXAMPLES: &str = "\
Examples:
  relent explain                                     the default policy
  relent explain --run --max-attempts 8              what `relent run` would do
  relent explain payments --resolved                 a policy of relent.toml, value by value
  relent explain --deadline 5s --failure-rate 0.1    what each attempt gains within 5 s
  relent explain --preset aws-standard               what the AWS SDKs do; --presets lists all
  relent explain payments --strict                   for CI: exit 1 if there is a warning";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Policy of the policy file; the same as --policy
    #[arg(value_name = "POLICY", conflicts_with = "policy")]
    name: Option<String>,
    /// A preset by its name, instead of a policy; --presets lists them
    #[arg(long, value_name = "NAME", conflicts_with_all = ["name", "policy", "run"], help_heading = "Policy")]
    preset: Option<String>,
    #[command(flatten)]
    policy: PolicyArgs,
    /// Start from the defaults of `relent run` instead of the library's
    #[arg(long, help_heading = "Policy")]
    run: bool,
    /// Classes that are retried, separated by commas
    #[arg(long, value_name = "CLASS,...", help_heading = "Policy")]
    retry_on: Option<String>,

    /// Share of attempts that fail, each independently of the others: 0 to 1
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = parse_share, help_heading = "Assumptions")]
    failure_rate: Option<f64>,
    /// How the attempts fail: transient, throttled, timeout, not_sent, permanent, ...
    #[arg(long, value_name = "CLASS", default_value = "transient", value_parser = parse_class, help_heading = "Assumptions")]
    class: Class,
    /// How long a failing attempt takes
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = durations::parse, help_heading = "Assumptions")]
    latency: Duration,
    /// What the server asks for after each failure
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, help_heading = "Assumptions")]
    retry_after: Option<Duration>,
    /// When the caller gives up
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, help_heading = "Assumptions")]
    caller_timeout: Option<Duration>,
    /// The calls have effects that a repeat would double
    #[arg(long, help_heading = "Assumptions")]
    not_idempotent: bool,

    /// How the answer is written
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    json: bool,
    /// How many attempts are listed
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1000), help_heading = "Output")]
    rows: u16,
    /// Show each value and where it came from
    #[arg(long, help_heading = "Output")]
    resolved: bool,
    /// Show the defaults and the reason for each, and nothing else
    #[arg(long, help_heading = "Output")]
    defaults: bool,
    /// Show all presets side by side, and nothing else
    #[arg(long, conflicts_with = "defaults", help_heading = "Output")]
    presets: bool,
    /// Exit with 1 if there is a warning (notes do not count)
    #[arg(long, help_heading = "Output")]
    strict: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// For programs; versioned
    Json,
    /// For documents and reviews
    Markdown,
}

/// What all formats show.
struct Explanation {
    resolved: Resolved,
    assumed: Assumptions,
    plan: Plan,
    warnings: Vec<Warning>,
    /// What the policy does to a fleet in an outage.
    fleet: Option<Met>,
    /// Whether it starts from the defaults of `relent run`.
    for_run: bool,
    /// Whether each value is to be shown with its origin.
    with_values: bool,
}

pub(crate) fn run(args: &Args, terminal: &Terminal) -> Result<ExitCode, Error> {
    let format = if args.json { Format::Json } else { args.format };
    let mut out = anstream::stdout().lock();
    if args.defaults {
        match format {
            Format::Text => defaults::text(&mut out, *terminal)?,
            Format::Json => writeln!(out, "{:#}", defaults::json()?)?,
            Format::Markdown => defaults::markdown(&mut out)?,
        }
        return Ok(ExitCode::Success);
    }
    if args.presets {
        match format {
            Format::Text => presets::list(&mut out, *terminal)?,
            Format::Json => writeln!(out, "{:#}", presets::json()?)?,
            Format::Markdown => presets::markdown(&mut out)?,
        }
        return Ok(ExitCode::Success);
    }
    if let Some(preset) = args.preset.as_deref().and_then(presets::bare) {
        match format {
            Format::Text => {
                writeln!(out, "preset {}\nSays nothing until its parameters do.", preset.name())?;
                presets::text(&mut out, preset, *terminal)?;
            }
            Format::Json => writeln!(out, "{:#}", json::of_bare(preset))?,
            Format::Markdown => presets::markdown_about(&mut out, preset)?,
        }
        out.flush()?;
        return Ok(ExitCode::Success);
    }
    let explanation = Explanation::of(args)?;
    match format {
        Format::Text => text::write(&mut out, &explanation, *terminal)?,
        Format::Json => writeln!(out, "{:#}", json::of(&explanation))?,
        Format::Markdown => markdown::write(&mut out, &explanation)?,
    }
    out.flush()?;
    let warned = explanation.warnings.iter().any(|warning| warning.level == Level::Warning);
    Ok(if args.strict && warned { ExitCode::Failure } else { ExitCode::Success })
}

impl Explanation {
    fn of(args: &Args) -> Result<Self, Error> {
        let mut policy_args = args.policy.clone();
        if args.name.is_some() {
            policy_args.policy.clone_from(&args.name);
        }
        let built_in = if args.run { BuiltIn::Run } else { BuiltIn::Library };
        let retry_on = args.retry_on.as_deref().map(|classes| Flag::new("--retry-on", "retry_on", classes));
        let resolved = match &args.preset {
            Some(name) => {
                let flags = [&policy_args.flags(), retry_on.as_slice()].concat();
                Resolved::alone(presets::named(name, &flags)?)
            }
            None => policy_args.resolve(built_in, retry_on.as_slice())?,
        };
        crate::run::check_table(&resolved)?;
        let assumed = Assumptions {
            class: args.class,
            retry_after: args.retry_after,
            latency: args.latency,
            failure_rate: args.failure_rate,
            rows: args.rows.into(),
        };
        let plan = Plan::of(resolved.policy(), &assumed);
        let caller = Caller { timeout: args.caller_timeout, not_idempotent: args.not_idempotent };
        let mut warnings = warnings::of(&resolved, &plan, &assumed, caller);
        warnings.extend(shared::warnings(&resolved, caller));
        warnings.sort_by_key(|warning| warning.level != Level::Warning);
        let fleet = herd::of(resolved.policy());
        Ok(Self { resolved, assumed, plan, warnings, fleet, for_run: args.run, with_values: args.resolved })
    }

    /// What is explained: the policy's name and file, or "the default policy".
    fn title(&self) -> String {
        let options = if self.resolved.has_options() { ", with options" } else { "" };
        match (self.resolved.name(), self.resolved.file()) {
            (None, None) if self.resolved.preset().is_some() => {
                let name = self.resolved.preset().map_or("", Preset::name);
                format!("preset {name}{options}")
            }
            (Some(name), Some(file)) => format!("{name} ({file}{options})"),
            (Some(name), None) => name.to_owned(),
            (None, _) if self.for_run => format!("the default of relent run{options}"),
            (None, _) => format!("the default policy{options}"),
        }
    }

    /// The backoff that the assumed failures meet, where it is not the policy's own.
    fn rule(&self, terminal: Terminal) -> Option<String> {
        let policy = self.resolved.policy();
        let backoff = schedule::backoff_in_use(policy, &self.assumed);
        let parts = || backoff_parts(backoff, terminal).join(", ");
        (backoff != policy.backoff()).then(|| format!("{}: {}", self.assumed.class.as_str(), parts()))
    }

    /// The means' pedigree, as a sentence; none where they are exact.
    fn means(&self) -> Option<String> {
        let draws = schedule::DRAWS;
        (!self.plan.exact).then(|| format!("Means are of up to {draws} calls drawn from a fixed seed."))
    }
}

/// The policy in one line: `exponential 100ms ×2, cap 20s, full jitter, 4 attempts, no deadline`.
pub(crate) fn one_line(policy: &Policy, terminal: Terminal) -> String {
    let mut parts = backoff_parts(policy.backoff(), terminal);
    parts.push(attempts_in_words(policy.max_attempts()));
    parts.push(match policy.deadline() {
        Some(deadline) => format!("deadline {}", short(deadline.usable())),
        None => "no deadline".to_owned(),
    });
    if let Some(timeout) = policy.attempt_timeout() {
        parts.push(format!("attempt timeout {}", short(timeout)));
    }
    if policy.hint().mode_used() == HintMode::Ignore {
        parts.push("hints ignored".to_owned());
    }
    parts.join(", ")
}

/// A backoff in a few words each.
fn backoff_parts(backoff: &Backoff, terminal: Terminal) -> Vec<String> {
    let times = if terminal.unicode { "×" } else { "x" };
    let initial = short(backoff.schedule().initial());
    let mut parts = vec![match backoff.schedule() {
        Schedule::Constant { .. } => format!("constant {initial}"),
        Schedule::Linear { step, .. } => format!("linear {initial} + {}", short(*step)),
        Schedule::Exponential { multiplier, .. } => format!("exponential {initial} {times}{multiplier}"),
        Schedule::Fibonacci { .. } => format!("fibonacci {initial}"),
        Schedule::List(waits) => {
            let listed: Vec<_> = waits.iter().take(6).map(|wait| short(*wait)).collect();
            let more = if waits.len() > listed.len() { ", ..." } else { "" };
            format!("list {}{more}", listed.join(", "))
        }
        Schedule::Stages(stages) => format!("{} stages from {initial}", stages.len()),
        Schedule::Csma { .. } => format!("csma in slots of {initial}"),
        other => other.as_str().to_owned(),
    }];
    if let Some(cap) = backoff.longest() {
        parts.push(format!("cap {}", short(cap)));
    }
    if !backoff.shortest().is_zero() {
        parts.push(format!("floor {}", short(backoff.shortest())));
    }
    if backoff.first_used() == First::Immediate {
        parts.push("first retry at once".to_owned());
    }
    parts.push(match backoff.jitter_used() {
        Jitter::None if matches!(backoff.schedule(), Schedule::Csma { .. }) => "drawn by itself".to_owned(),
        Jitter::None => "no jitter".to_owned(),
        Jitter::Proportional { factor } => format!("proportional jitter {factor}"),
        Jitter::Additive { max } => format!("additive jitter {}", short(max)),
        jitter => format!("{} jitter", jitter.as_str()),
    });
    parts
}

fn attempts_in_words(attempts: Option<u32>) -> String {
    match attempts {
        Some(1) => "1 attempt".to_owned(),
        Some(attempts) => format!("{attempts} attempts"),
        None => "unlimited attempts".to_owned(),
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share: f64 =
        text.parse().map_err(|_| "not a number; 0.1 means that one attempt in ten fails".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("must be from 0 to 1".to_owned()) }
}

fn parse_class(text: &str) -> Result<Class, String> {
    let known = || Class::ALL.into_iter().skip(1).map(Class::as_str).collect::<Vec<_>>().join(", ");
    match text.parse() {
        Ok(Class::Success) => Err(format!("attempts do not fail that way; one of {}", known())),
        class => class.map_err(|_| format!("no such class; one of {}", known())),
    }
}
