//! Presets: what one is and where its numbers are from; all of them side by side.

use std::io::{self, Write};

use relent_config::{Code, Preset, Resolved};
use relent_core::{Backoff, BudgetPolicy, Class, HintMode, OnBudget, Outcome, Policy};
use serde_json::{Value, json};

use super::text::wrapped;
use super::{attempts_in_words, backoff_parts};
use crate::durations::short;
use crate::exit::Error;
use crate::surroundings::Machine;
use crate::terminal::{Terminal, style};

/// A row of the table.
struct Row {
    preset: &'static Preset,
    attempts: String,
    waits: String,
    throttled: String,
    hint: String,
    shared: String,
}

impl Row {
    fn of(preset: &'static Preset) -> Result<Self, Error> {
        // Not the environment of whoever makes the table.
        let Ok(resolved) = preset.with(&[], None) else { return Ok(Self::of_none(preset)) };
        let policy = resolved.policy();
        Ok(Self {
            preset,
            attempts: attempts_in_words(policy.max_attempts()),
            waits: waits(policy.backoff()),
            throttled: own_backoff(policy).map_or_else(|| "as others".to_owned(), waits),
            hint: hint(policy),
            shared: shared(&resolved),
        })
    }

    /// Of a preset that is what its parameters and the environment say.
    fn of_none(preset: &'static Preset) -> Self {
        let depends = || "it depends".to_owned();
        Self {
            preset,
            attempts: depends(),
            waits: depends(),
            throttled: depends(),
            hint: depends(),
            shared: depends(),
        }
    }

    fn cells(&self) -> [(&'static str, &str); 5] {
        [
            ("attempts", &self.attempts),
            ("waits", &self.waits),
            ("after throttling", &self.throttled),
            ("hint", &self.hint),
            ("in common", &self.shared),
        ]
    }
}

fn waits(backoff: &Backoff) -> String {
    backoff_parts(backoff, Terminal { width: 80, unicode: true }).join(", ")
}

/// What throttled calls wait, where it is something of their own.
fn own_backoff(policy: &Policy) -> Option<&Backoff> {
    let rule = policy.rule_for(&Outcome::of(Class::Throttled))?;
    policy.rules().get(usize::from(rule.0))?.own_backoff()
}

fn hint(policy: &Policy) -> String {
    let hint = policy.hint();
    let word = match hint.mode_used() {
        HintMode::Minimum => "a minimum".to_owned(),
        HintMode::Exact => "exactly".to_owned(),
        HintMode::Clamp(over) => return format!("up to {} more than scheduled", short(over)),
        HintMode::Ignore => return "not looked at".to_owned(),
    };
    let max = hint.max_wait();
    if max.as_secs() > 1 << 32 { word } else { format!("{word}, up to {}", short(max)) }
}

fn shared(resolved: &Resolved) -> String {
    let common = resolved.common();
    let budget = |budget: &BudgetPolicy| match budget {
        BudgetPolicy::Quota(quota) => {
            let costs = [Class::Transient, Class::Throttled, Class::Timeout].map(|class| quota.cost(class));
            let [transient, throttled, timeout] = costs;
            format!("quota of {}: {transient}, throttled {throttled}, timeout {timeout}", quota.capacity())
        }
        other => format!("budget: {}", other.as_str().replace('_', " ")),
    };
    let mut parts: Vec<String> = common.budgets.iter().map(|(policy, _)| budget(policy)).collect();
    if resolved.policy().on_budget() == OnBudget::Wait {
        parts.push("waits where it refuses".to_owned());
    }
    let others = [
        (common.breaker.is_some(), "breaker"),
        (common.limiter.is_some(), "rate limit"),
        (common.adaptive, "adaptive rate"),
        (common.throttle.is_some(), "throttle"),
        (common.bulkhead.is_some(), "bulkhead"),
        (common.hedge.is_some(), "hedging"),
    ];
    parts.extend(others.into_iter().filter(|(is, _)| *is).map(|(_, what)| what.to_owned()));
    if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }
}

fn rows() -> Result<Vec<Row>, Error> {
    Preset::all().map(Row::of).collect()
}

/// All presets, for people.
pub(super) fn list(out: &mut impl Write, terminal: Terminal) -> Result<(), Error> {
    let (heading, faint) = (style::HEADING, style::FAINT);
    for row in rows()? {
        writeln!(out, "{heading}{}{heading:#}", row.preset.name())?;
        wrapped(out, row.preset.description(), 2, terminal)?;
        let parts = row.cells().map(|(what, text)| format!("{what}: {text}"));
        write!(out, "{faint}")?;
        wrapped(out, &parts.join("; "), 2, terminal)?;
        write!(out, "{faint:#}")?;
    }
    Ok(())
}

/// All presets, for documents.
pub(super) fn markdown(out: &mut impl Write) -> Result<(), Error> {
    writeln!(out, "| preset | follows | attempts | waits | after throttling | hint | in common |")?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for row in rows()? {
        let cells = row.cells().map(|(_, text)| text.replace('|', "\\|")).join(" | ");
        writeln!(out, "| `{}` | {} | {cells} |", row.preset.name(), row.preset.system())?;
    }
    Ok(())
}

/// All presets, for programs.
pub(super) fn json() -> Result<Value, Error> {
    Ok(rows()?
        .iter()
        .map(|row| {
            let mut value = about(row.preset);
            for (what, text) in row.cells() {
                if let Some(object) = value.as_object_mut() {
                    object.insert(what.replace(' ', "_"), json!(text));
                }
            }
            value
        })
        .collect())
}

/// What a preset is and where its numbers are from.
pub(super) fn about(preset: &Preset) -> Value {
    json!({
        "name": preset.name(),
        "description": preset.description(),
        "system": preset.system(),
        "version": preset.version(),
        "sources": preset.sources(),
        "checked": preset.checked(),
        "differs": preset.differs(),
        "parameters": preset.parameters(),
        "example": preset.example(),
    })
}

/// The same for people, below the policy.
pub(super) fn text(out: &mut impl Write, preset: &Preset, terminal: Terminal) -> io::Result<()> {
    let (heading, faint) = (style::HEADING, style::FAINT);
    writeln!(out, "\n{heading}Preset {}{heading:#}", preset.name())?;
    wrapped(out, &format!("{}.", preset.description()), 2, terminal)?;
    let follows =
        format!("Follows {}, {}; looked up on {}.", preset.system(), preset.version(), preset.checked());
    wrapped(out, &follows, 2, terminal)?;
    if let Some(example) = preset.example() {
        wrapped(out, &format!("It takes {}. In a policy of the policy file:", words(preset)), 2, terminal)?;
        writeln!(out, "    {example}")?;
    }
    for difference in preset.differs() {
        wrapped(out, &format!("- {difference}"), 2, terminal)?;
    }
    for source in preset.sources() {
        writeln!(out, "  {faint}{source}{faint:#}")?;
    }
    Ok(())
}

/// The same for documents.
pub(super) fn markdown_about(out: &mut impl Write, preset: &Preset) -> io::Result<()> {
    let follows = format!("{}, {}", preset.system(), preset.version());
    writeln!(
        out,
        "\nPreset `{}`: {}. Follows {follows}; looked up on {}.\n",
        preset.name(),
        preset.description(),
        preset.checked()
    )?;
    if let Some(example) = preset.example() {
        writeln!(out, "It takes {}: `{example}`.\n", words(preset))?;
    }
    for difference in preset.differs() {
        writeln!(out, "- {difference}")?;
    }
    for source in preset.sources() {
        writeln!(out, "- <{source}>")?;
    }
    Ok(())
}

fn words(preset: &Preset) -> String {
    preset.parameters().iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The preset of this name, if it is nothing until its parameters say more.
pub(super) fn bare(name: &str) -> Option<&'static Preset> {
    let preset = Preset::named(name).filter(|preset| preset.example().is_some())?;
    let errors = preset.with(&[], Some(&Machine)).err()?;
    errors.iter().all(|error| error.code() == Code::Missing).then_some(preset)
}

/// The preset of this name, as a policy.
pub(super) fn named(name: &str, flags: &[relent_config::Flag<'_>]) -> Result<Resolved, Error> {
    match Preset::named(name) {
        Some(preset) => Ok(preset.with(flags, Some(&Machine))?),
        None => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Error {
    let names: Vec<&str> = Preset::all().map(Preset::name).collect();
    // The reader knows which one is nearest.
    let known = format!("version = 1\n[policies.p]\npreset = {name:?}\n");
    let near = relent_config::File::parse(&known, "").err().and_then(|errors| {
        let error = errors.iter().next()?;
        error.help().iter().find(|help| help.starts_with("did you mean")).cloned()
    });
    let help = match near {
        Some(near) => format!("{near} All presets: {}", names.join(", ")),
        None => format!("all presets: {}", names.join(", ")),
    };
    Error::usage(format!("there is no preset {name:?}")).help(help)
}
