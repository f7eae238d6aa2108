//! The defaults, and the reason for each. The values are read from the policies that have them.

use std::io::{self, Write};

use relent_core::{HintMode, OverMax, Policy, Schedule};
use serde_json::{Value, json};

use super::text::wrapped;
use crate::durations::short;
use crate::policy_args::{library_defaults, run_defaults};
use crate::terminal::{Terminal, style};

struct Row {
    key: &'static str,
    library: String,
    run: String,
    why: &'static str,
}

fn rows() -> Vec<Row> {
    let row = |key, value: fn(&Policy) -> String, why| Row {
        key,
        library: value(&library_defaults()),
        run: value(&run_defaults()),
        why,
    };
    vec![
        row("max_attempts", attempts, "three retries ride out a blip; a command is rarer and worth one more"),
        row(
            "backoff",
            |policy| policy.backoff().schedule().as_str().to_owned(),
            "each failure makes a longer outage likelier",
        ),
        row(
            "backoff.initial",
            initial,
            "long enough for the service to have changed; commands take longer than calls",
        ),
        row("backoff.multiplier", multiplier, "the usual one; three retries span a factor of four"),
        row("backoff.cap", cap, "after an outage nobody waits longer than this for the news"),
        row(
            "jitter",
            |policy| policy.backoff().jitter_used().as_str().to_owned(),
            "the least load on what is recovering",
        ),
        row(
            "deadline",
            |policy| policy.deadline().map_or("none".into(), |deadline| short(deadline.total)),
            "only the caller knows it",
        ),
        row(
            "attempt_timeout",
            |policy| policy.attempt_timeout().map_or("none".into(), short),
            "only the caller knows what is slow",
        ),
        row("hint.mode", hint_mode, "never come back earlier than the server asked"),
        row(
            "hint.max",
            |policy| short(policy.hint().max_wait()),
            "whoever asks for more wants the caller to decide",
        ),
        row("hint.over_max", over_max, "coming back earlier than asked is of no use"),
        row(
            "hint.spread",
            |policy| format!("{:.1}", policy.hint().spread_fraction()),
            "a thousand clients told \"60s\" must not return together",
        ),
        row("retry_on", classes, "what another try can help"),
    ]
}

pub(super) fn text(out: &mut impl Write, terminal: Terminal) -> io::Result<()> {
    let (heading, faint) = (style::HEADING, style::FAINT);
    writeln!(out, "{heading}{:<20}{:<14}{:<14}{heading:#}", "default of", "library", "relent run")?;
    for row in rows() {
        let long = row.library.len() > 12 || row.run.len() > 12;
        if long {
            writeln!(out, "{:<20}{}", row.key, row.library)?;
        } else {
            writeln!(out, "{:<20}{:<14}{:<14}", row.key, row.library, row.run)?;
        }
        write!(out, "{faint}")?;
        wrapped(out, row.why, 4, terminal)?;
        write!(out, "{faint:#}")?;
    }
    Ok(())
}

pub(super) fn json() -> Value {
    let rows = rows().into_iter();
    rows.map(|row| json!({ "key": row.key, "library": row.library, "run": row.run, "why": row.why }))
        .collect()
}

pub(super) fn markdown(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "| key | library | `relent run` | why |\n|---|---|---|---|")?;
    for row in rows() {
        writeln!(out, "| `{}` | {} | {} | {} |", row.key, row.library, row.run, row.why)?;
    }
    Ok(())
}

fn attempts(policy: &Policy) -> String {
    policy.max_attempts().map_or("unlimited".to_owned(), |attempts| attempts.to_string())
}

fn initial(policy: &Policy) -> String {
    short(policy.backoff().schedule().initial())
}

fn multiplier(policy: &Policy) -> String {
    match policy.backoff().schedule() {
        Schedule::Exponential { multiplier, .. } => multiplier.to_string(),
        _ => "-".to_owned(),
    }
}

fn cap(policy: &Policy) -> String {
    policy.backoff().longest().map_or("none".to_owned(), short)
}

fn hint_mode(policy: &Policy) -> String {
    match policy.hint().mode_used() {
        HintMode::Minimum => "minimum".to_owned(),
        HintMode::Exact => "exact".to_owned(),
        HintMode::Clamp(over) => format!("clamp {}", short(over)),
        HintMode::Ignore => "ignore".to_owned(),
    }
}

fn over_max(policy: &Policy) -> String {
    match policy.hint().over_max_used() {
        OverMax::Abort => "abort",
        OverMax::Clamp => "clamp",
        OverMax::Ignore => "ignore",
    }
    .to_owned()
}

fn classes(policy: &Policy) -> String {
    let words: Vec<_> = policy.retry_on().iter().map(relent_core::Class::as_str).collect();
    words.join(", ")
}
