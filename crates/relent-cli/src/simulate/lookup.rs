//! Which scenario is meant, and where it stands.

use std::fmt::Write as _;
use std::path::Path;

use relent_sim::{BUILT_INS, ReadErrors, Scenario, Strategy, built_in, read_scenario, scenario_names};

use super::contenders;
use crate::exit::Error;
use crate::policy_args::{PolicyFile, text_of};

/// A file of this name, or a table of the policy file, or a built-in scenario.
pub(super) fn scenario(name: &str, set: &[String], policies: Option<&PolicyFile>) -> Result<Scenario, Error> {
    let options = set.iter().map(|option| split(option)).collect::<Result<Vec<_>, _>>()?;
    let resolve = |policy: &str| Some(contenders::of_policy(policies?.file.resolved(policy).ok()?));
    if is_file(name) {
        refuse_options(&options, name)?;
        return of_file(name, &resolve);
    }
    if let Some(found) = policies.filter(|found| has(found, name)) {
        let file = found.file.file_name();
        refuse_options(&options, &format!("[scenarios.{name}] of {file}"))?;
        return read_scenario(&found.text, file, Some(name), &resolve)
            .map_err(|errors| located(&errors, file, &found.text));
    }
    if !BUILT_INS.iter().any(|built_in| built_in.name == name) {
        return Err(unknown(name, policies));
    }
    built_in(name, &options).map_err(|error| {
        let given = options.iter().any(|(key, _)| *key == error.key());
        let place = if given { format!("--set {}", error.key()) } else { format!("{name}: {}", error.key()) };
        Error::usage(format!("{place}: {}", harmless(error.why())))
            .help(format!("its options: relent simulate {name} --list"))
    })
}

/// Whether the name leads to a built-in scenario.
pub(super) fn is_built_in(name: &str, policies: Option<&PolicyFile>) -> bool {
    let hidden = is_file(name) || policies.is_some_and(|found| has(found, name));
    !hidden && BUILT_INS.iter().any(|built_in| built_in.name == name)
}

/// A pipe is one too: `relent simulate <(generate)`.
fn is_file(name: &str) -> bool {
    Path::new(name).metadata().is_ok_and(|found| !found.is_dir())
}

fn has(policies: &PolicyFile, name: &str) -> bool {
    scenario_names(&policies.text).iter().any(|known| known == name)
}

fn of_file(name: &str, resolve: &dyn Fn(&str) -> Option<Strategy>) -> Result<Scenario, Error> {
    let text = text_of(Path::new(name))
        .map_err(|source| Error::Failure { what: format!("reading the scenario {name}"), source })?;
    let scenarios = scenario_names(&text);
    if let Some(first) = scenarios.first() {
        let what = format!("{name} is a policy file with the scenarios {}", scenarios.join(", "));
        return Err(
            Error::usage(harmless(&what)).help(harmless(&format!("relent simulate --config {name} {first}")))
        );
    }
    let mut scenario =
        read_scenario(&text, name, None, resolve).map_err(|errors| located(&errors, name, &text))?;
    let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or(name).clone_into(&mut scenario.name);
    Ok(scenario)
}

fn split(option: &str) -> Result<(&str, &str), Error> {
    let parts = option.split_once('=').filter(|(key, _)| !key.is_empty());
    parts.ok_or_else(|| {
        Error::usage(format!("--set {option}: expected KEY=VALUE")).help("such as --set clients=40")
    })
}

fn refuse_options(options: &[(&str, &str)], place: &str) -> Result<(), Error> {
    match options.first() {
        None => Ok(()),
        Some((key, _)) => Err(Error::usage(format!("--set {key}: {place} has its values in its text"))
            .help("--set is for built-in scenarios; change the text")),
    }
}

fn unknown(name: &str, policies: Option<&PolicyFile>) -> Error {
    let near = |error: &str| error.split_once("did you mean").map(|(_, near)| format!("did you mean{near}"));
    let in_file = policies.map(|found| (found.file.file_name(), scenario_names(&found.text)));
    let of_file = policies.and_then(|found| {
        let read = read_scenario(&found.text, "", Some(name), &|_| None);
        near(read.err()?.errors().first()?.message.as_str())
    });
    let of_built_ins = || near(built_in(name, &[]).err()?.why());
    let places = match in_file {
        Some((file, names)) if !names.is_empty() => {
            format!("it is no file, none of {file} ({}) and not built in", names.join(", "))
        }
        Some((file, _)) => {
            format!("it is no file, not in {file}, which has no [scenarios], and not built in")
        }
        None => "it is no file and not built in, and there is no relent.toml".to_owned(),
    };
    let help = of_file.or_else(of_built_ins).unwrap_or_else(|| "relent simulate --list shows all".to_owned());
    Error::usage(harmless(&format!("unknown scenario \"{name}\": {places}"))).help(harmless(&help))
}

/// The errors with the lines that they are in.
fn located(errors: &ReadErrors, file: &str, text: &str) -> Error {
    let mut what = String::new();
    for (index, error) in errors.errors().iter().enumerate() {
        if index > 0 {
            what.push_str("\nerror: ");
        }
        let (line, column) = (error.line, error.column);
        let number = line.to_string();
        let gutter = number.len();
        let shown: String =
            text.lines().nth(line.saturating_sub(1)).unwrap_or_default().chars().take(LONGEST).collect();
        let indent = column.saturating_sub(1);
        // Writing to a string does not fail.
        let _ = write!(what, "{}\n{:gutter$}--> {file}:{line}:{column}", harmless(&error.message), "");
        // A place beyond what is shown, or at the end of the text, has no mark.
        if indent < shown.chars().count() {
            let shown: String =
                shown.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
            let _ = write!(
                what,
                "\n{:gutter$} |\n{number} | {}\n{:gutter$} | {:indent$}^",
                "",
                shown.trim_end(),
                "",
                ""
            );
        }
    }
    Error::usage(what)
}

/// Of longer lines no more is shown.
const LONGEST: usize = 160;

/// A text with parts of files or arguments in it, safe for a terminal.
fn harmless(text: &str) -> String {
    let escape = |letter: char| {
        if letter.is_control() { letter.escape_unicode().collect() } else { String::from(letter) }
    };
    text.chars().map(escape).collect()
}
