//! The defaults, and the reason for each: what the policy reader says of a policy of which nobody said anything.

use std::io::Write;

use relent_config::{BuiltIn, Origin, Setting};
use serde_json::{Value, json};

use super::text::wrapped;
use crate::exit::Error;
use crate::terminal::{Terminal, style};

/// A default: for the library, for `relent run`, and why.
pub(super) struct Default {
    path: String,
    library: String,
    run: String,
    why: &'static str,
    /// Why `relent run` has another one.
    why_run: Option<&'static str>,
}

pub(super) fn all() -> Result<Vec<Default>, Error> {
    let (library, run) = (BuiltIn::Library.with(&[])?, BuiltIn::Run.with(&[])?);
    let of_run = |path: &str| run.settings().iter().find(|setting| setting.path == path);
    let default = |setting: &Setting| {
        let (path, library) = (setting.path.clone(), setting.value.clone());
        let for_run = of_run(&path);
        let run = for_run.map_or_else(|| library.clone(), |setting| setting.value.clone());
        let why_run = for_run.filter(|_| run != library).map(why);
        Default { why: why(setting), path, library, run, why_run }
    };
    Ok(library.settings().iter().map(default).collect())
}

fn why(setting: &Setting) -> &'static str {
    match setting.origin {
        Origin::BuiltIn(why) => why,
        _ => "",
    }
}

pub(super) fn text(out: &mut impl Write, terminal: Terminal) -> Result<(), Error> {
    let (heading, faint) = (style::HEADING, style::FAINT);
    let defaults = all()?;
    let path = defaults.iter().map(|default| default.path.len()).max().unwrap_or(0);
    for default in defaults {
        write!(out, "{heading}{:<path$}{heading:#} = {}", default.path, default.library)?;
        match default.why_run {
            Some(_) => writeln!(out, "   {faint}relent run:{faint:#} {}", default.run)?,
            None => writeln!(out)?,
        }
        let why_run = default.why_run.map(|why| format!("; relent run: {why}")).unwrap_or_default();
        write!(out, "{faint}")?;
        wrapped(out, &format!("{}{why_run}", default.why), 4, terminal)?;
        write!(out, "{faint:#}")?;
    }
    Ok(())
}

pub(super) fn json() -> Result<Value, Error> {
    let row = |default: Default| {
        json!({
            "key": default.path,
            "library": default.library,
            "run": default.run,
            "why": default.why,
            "why_run": default.why_run,
        })
    };
    Ok(all()?.into_iter().map(row).collect())
}

pub(super) fn markdown(out: &mut impl Write) -> Result<(), Error> {
    writeln!(out, "| key | library | `relent run` | why |\n|---|---|---|---|")?;
    for Default { path, library, run, why, why_run } in all()? {
        let why_run = why_run.map(|why| format!("; `relent run`: {why}")).unwrap_or_default();
        writeln!(out, "| `{path}` | `{library}` | `{run}` | {why}{why_run} |")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_has_its_reason() {
        let defaults = all().unwrap();
        assert!(defaults.len() > 10, "{}", defaults.len());
        for default in defaults {
            assert!(!default.why.is_empty(), "{}", default.path);
        }
    }
}
