//! `--boundary`: the load above which a service stays down, for each policy.

use std::io::{self, Write};

use relent_sim::{
    BUILT_INS, Boundary, BuiltIn, Forecast, RunError, Scenario, ScenarioError, Simulation, Strategy,
    boundary, built_in,
};
use serde_json::json;

use super::show::in_charset;
use super::{lookup, progress};
use crate::exit::Error;
use crate::explain::wrapped;
use crate::policy_args::PolicyFile;
use crate::terminal::{Terminal, style};

/// The loads between which it is looked for, in calls per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    low: f64,
    high: f64,
}

/// How often the range is halved: to a sixty-fourth of it.
const STEPS: u32 = 6;

/// The option of a scenario that is its load.
const LOAD: &str = "rate";

pub(super) fn parse(text: &str) -> Result<Range, String> {
    let wrong = || "expected LOW..HIGH in calls per second, such as 100..300".to_owned();
    let (low, high) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    match (number(low), number(high)) {
        (Some(low), Some(high)) if low < high => Ok(Range { low, high }),
        _ => Err(wrong()),
    }
}

/// Refuses what has no load to change, nothing to recover from, or a load that is told already.
pub(super) fn check(name: &str, set: &[String], file: Option<&PolicyFile>) -> Result<(), Error> {
    let suits = |built_in: &&BuiltIn| {
        let has_load = built_in.options.iter().any(|(key, ..)| *key == LOAD);
        has_load && relent_sim::built_in(built_in.name, &[]).is_ok_and(|scenario| scenario.has_incident())
    };
    let suiting: Vec<_> = BUILT_INS.iter().filter(suits).map(|built_in| built_in.name).collect();
    if !lookup::is_built_in(name, file) || !suiting.contains(&name) {
        let what = format!("--boundary: {name} has no option \"{LOAD}\", or nothing to recover from");
        return Err(Error::usage(what).help(format!("built in with both: {}", suiting.join(", "))));
    }
    match set.iter().find(|option| option.split('=').next() == Some(LOAD)) {
        Some(option) => Err(Error::usage(format!("--set {option}: --boundary tries the loads by itself"))),
        None => Ok(()),
    }
}

/// What was found for each policy.
pub(super) struct Found {
    scenario: Scenario,
    range: Range,
    boundaries: Vec<(String, Boundary)>,
}

impl Found {
    /// Looks for them, with the scenario's options.
    pub(super) fn of(
        scenario: &Scenario,
        set: &[String],
        contenders: Vec<(String, Strategy)>,
        range: Range,
        adjust: impl Fn(&mut Scenario),
    ) -> Result<Self, RunError> {
        let given: Vec<_> = set.iter().filter_map(|option| option.split_once('=')).collect();
        let at = |load: f64| -> Result<Scenario, ScenarioError> {
            let load = load.to_string();
            let mut scenario = built_in(&scenario.name, &[&given[..], &[(LOAD, load.as_str())]].concat())?;
            adjust(&mut scenario);
            Ok(scenario)
        };
        progress::announce(forecast(at(range.high)?, &contenders));
        let found = contenders
            .into_iter()
            .map(|(name, strategy)| Ok((name, boundary(&strategy, range.low, range.high, STEPS, at)?)));
        let boundaries = found.collect::<Result<_, RunError>>()?;
        Ok(Self { scenario: scenario.clone(), range, boundaries })
    }

    /// For people.
    pub(super) fn write(&self, out: &mut impl Write, terminal: Terminal) -> io::Result<()> {
        let (heading, faint) = (style::HEADING, style::FAINT);
        writeln!(out, "{heading}{}{heading:#}", self.scenario.name)?;
        wrapped(out, &in_charset(&self.scenario.description, terminal), 2, terminal)?;
        let Range { low, high } = self.range;
        let step = (high - low) / f64::from(1u32 << STEPS);
        writeln!(out, "  {faint}tried from {low}/s to {high}/s, to {step}/s{faint:#}")?;
        writeln!(out)?;
        for (name, boundary) in &self.boundaries {
            wrapped(out, &in_charset(&format!("{name} {}", boundary.sentence()), terminal), 0, terminal)?;
        }
        Ok(())
    }

    /// For programs.
    pub(super) fn json(&self) -> serde_json::Value {
        let found = self.boundaries.iter().map(|(name, boundary)| {
            json!({ "name": name, "recovers_at_per_s": boundary.recovers, "stuck_at_per_s": boundary.stuck })
        });
        json!({
            "v": 1,
            "scenario": self.scenario.name,
            "tried_per_s": [self.range.low, self.range.high],
            "policies": found.collect::<Vec<_>>(),
        })
    }
}

/// Of all loads together, each taken for the highest one.
fn forecast(scenario: Scenario, contenders: &[(String, Strategy)]) -> Forecast {
    let simulation = contenders
        .iter()
        .fold(Simulation::new(scenario), |all, (name, strategy)| all.contender(name, strategy.clone()));
    let Forecast { bytes, events } = simulation.estimate();
    Forecast { bytes, events: events.saturating_mul(u64::from(STEPS) + 2) }
}
