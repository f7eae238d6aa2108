//! `--list`: what there is to simulate, and who can meet in it.

use std::io::{self, Write};

use relent_sim::{BUILT_INS, BuiltIn, PREFIX, STRATEGIES, scenario_names};

use crate::exit::Error;
use crate::explain::wrapped;
use crate::policy_args::PolicyFile;
use crate::terminal::{Terminal, style};

use super::show::in_charset;

pub(super) fn write(
    out: &mut impl Write,
    scenario: Option<&str>,
    file: Option<&PolicyFile>,
    terminal: Terminal,
) -> Result<(), Error> {
    match scenario {
        None => all(out, file, terminal)?,
        Some(name) => {
            let known = BUILT_INS.map(|built_in| built_in.name).join(", ");
            let unknown = || {
                Error::usage(format!("\"{name}\" is not built in, and only those have options"))
                    .help(format!("one of: {known}"))
            };
            let found = BUILT_INS.iter().find(|built_in| built_in.name == name).ok_or_else(unknown)?;
            options(out, found, terminal)?;
        }
    }
    out.flush()?;
    Ok(())
}

fn all(out: &mut impl Write, file: Option<&PolicyFile>, terminal: Terminal) -> io::Result<()> {
    let (heading, accent, faint) = (style::HEADING, style::ACCENT, style::FAINT);
    if let Some(found) = file {
        let name = found.file.file_name();
        writeln!(out, "{heading}In {name}{heading:#}")?;
        let policies: Vec<_> = found.file.names().collect();
        let scenarios = scenario_names(&found.text);
        let listed = |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let scenarios: Vec<_> = scenarios.iter().map(String::as_str).collect();
        wrapped(out, &in_charset(&format!("scenarios: {}", listed(&scenarios)), terminal), 2, terminal)?;
        wrapped(out, &in_charset(&format!("policies: {}", listed(&policies)), terminal), 2, terminal)?;
        writeln!(out)?;
    }
    writeln!(out, "{heading}Built-in scenarios, with their options (--set KEY=VALUE){heading:#}")?;
    for built_in in &BUILT_INS {
        writeln!(out, "  {accent}{}{accent:#}", built_in.name)?;
        wrapped(out, &in_charset(built_in.about, terminal), 4, terminal)?;
        let options: Vec<_> =
            built_in.options.iter().map(|(key, value, _)| format!("{key}={value}")).collect();
        wrapped(out, &options.join(" "), 4, terminal)?;
    }
    writeln!(out, "  {faint}each: horizon bin replications seed{faint:#}")?;
    writeln!(out)?;
    writeln!(out, "{heading}Built-in strategies (--vs {PREFIX}NAME){heading:#}")?;
    for (name, about) in STRATEGIES {
        writeln!(out, "  {accent}{name}{accent:#}")?;
        wrapped(out, &in_charset(about, terminal), 4, terminal)?;
    }
    Ok(())
}

fn options(out: &mut impl Write, built_in: &BuiltIn, terminal: Terminal) -> io::Result<()> {
    let (heading, accent) = (style::HEADING, style::ACCENT);
    writeln!(out, "{heading}{}{heading:#}", built_in.name)?;
    wrapped(out, &in_charset(built_in.about, terminal), 2, terminal)?;
    writeln!(out)?;
    let common = [
        ("horizon", "", "when the simulation ends"),
        ("bin", "", "the width of the bins of all series"),
        ("replications", "", "how often each policy is simulated"),
        ("seed", "", "the luck"),
    ];
    for (key, value, about) in built_in.options.iter().chain(&common) {
        let equals = if value.is_empty() { "" } else { "=" };
        writeln!(out, "  {accent}{key}{accent:#}{equals}{value}")?;
        wrapped(out, &in_charset(about, terminal), 4, terminal)?;
    }
    Ok(())
}
