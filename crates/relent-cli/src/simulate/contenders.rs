//! Who meets in the scenario.

use std::io::Write as _;

use relent_config::BuiltIn;
use relent_sim::{Model, PREFIX, STRATEGIES, Scenario, Strategy};

use super::Args;
use crate::exit::Error;
use crate::policy_args::{PolicyFile, Resolved};
use crate::terminal::style;

/// The policy under test first, then the others.
pub(super) fn of(
    args: &Args,
    file: Option<&PolicyFile>,
    scenario: &Scenario,
) -> Result<Vec<(String, Strategy)>, Error> {
    let mut contenders = named(args, file, scenario)?;
    if !matches!(scenario.model, Model::Fleet(_)) {
        for (name, strategy) in contenders.iter_mut().filter(|(_, strategy)| strategy.shares()) {
            let note = style::WARNING;
            // Whoever cannot be told has the figures all the same.
            let _ = writeln!(
                anstream::stderr(),
                "{note}note{note:#}: in {} each call is alone: the budgets, breakers and the like of {name} are left out",
                scenario.name
            );
            *strategy = Strategy::from(strategy.policy.clone());
        }
    }
    Ok(contenders)
}

fn named(
    args: &Args,
    file: Option<&PolicyFile>,
    scenario: &Scenario,
) -> Result<Vec<(String, Strategy)>, Error> {
    let asked = args.policy.is_given();
    if args.vs.is_empty() && !asked {
        return Ok(scenario.line_up.clone());
    }
    let mut contenders = vec![under_test(args, scenario)?];
    if args.vs.is_empty() {
        let others =
            scenario.line_up.iter().filter(|(name, _)| contenders.iter().all(|(mine, _)| mine != name));
        contenders.extend(others.cloned().collect::<Vec<_>>());
        return Ok(contenders);
    }
    for name in &args.vs {
        if contenders.iter().any(|(known, _)| known == name) {
            return Err(Error::usage(format!("--vs {name}: it is among them already")));
        }
        contenders.push((name.clone(), rival(name, file, scenario)?));
    }
    Ok(contenders)
}

fn under_test(args: &Args, scenario: &Scenario) -> Result<(String, Strategy), Error> {
    if let Some(name) = args.policy.policy.as_deref().filter(|name| name.starts_with(PREFIX)) {
        if args.policy.has_options() {
            return Err(Error::usage(format!(
                "--policy {name}: a built-in strategy takes no policy options"
            ))
            .help("give the values alone, such as --initial 100ms --jitter full"));
        }
        return Ok((name.to_owned(), strategy("--policy", name, scenario)?));
    }
    let resolved = args.policy.resolve(BuiltIn::Library, &[])?;
    let strategy = Strategy::from(resolved.policy().clone()).sharing(resolved.common().clone());
    Ok((name_of(&resolved), strategy))
}

/// A policy of a file with what its calls share.
pub(super) fn of_policy(resolved: &relent_config::Resolved) -> Strategy {
    Strategy::from(resolved.policy().clone()).sharing(resolved.common().clone())
}

fn name_of(resolved: &Resolved) -> String {
    match (resolved.name(), resolved.has_options()) {
        (Some(name), false) => name.to_owned(),
        (Some(name), true) => format!("{name} with options"),
        (None, false) => "default".to_owned(),
        (None, true) => "yours".to_owned(),
    }
}

fn rival(name: &str, file: Option<&PolicyFile>, scenario: &Scenario) -> Result<Strategy, Error> {
    if name.starts_with(PREFIX) {
        return strategy("--vs", name, scenario);
    }
    let a_strategy = || STRATEGIES.iter().any(|(strategy, _)| *strategy == name);
    let Some(found) = file else {
        let error = Error::usage(format!("--vs {name}: there is no relent.toml in this directory or above"));
        return Err(match a_strategy() {
            true => error.help(format!("the built-in strategy is --vs {PREFIX}{name}")),
            false => error.help(format!("name one with --config FILE, or a built-in strategy: {PREFIX}full")),
        });
    };
    match found.file.resolved(name) {
        Ok(resolved) => Ok(of_policy(resolved)),
        Err(_) if a_strategy() => {
            let what = format!("--vs {name}: {} has no policy of this name", found.file.file_name());
            Err(Error::usage(what).help(format!("the built-in strategy is --vs {PREFIX}{name}")))
        }
        Err(unknown) => Err(Error::usage(format!("--vs {name}: {unknown}"))
            .help(format!("built-in strategies have the prefix {PREFIX}, such as {PREFIX}full"))),
    }
}

/// The built-in strategy with the scenario's numbers.
fn strategy(option: &str, name: &str, scenario: &Scenario) -> Result<Strategy, Error> {
    match scenario.strategies.strategy(name) {
        Some(Ok(strategy)) => Ok(strategy),
        Some(Err(error)) => Err(Error::usage(format!("{option} {name}: {error}"))),
        None => {
            let known = STRATEGIES.map(|(name, _)| name).join(", ");
            Err(Error::usage(format!("{option} {name}: there is no such strategy"))
                .help(format!("one of: {known}")))
        }
    }
}
