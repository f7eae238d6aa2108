//! The answer for programs. Times are milliseconds, to the microsecond; shares go from 0 to 1; null is "no limit".

use std::time::Duration;

use relent_config::Preset;
use relent_core::Reason;
use serde_json::{Value, json};

use super::schedule::{DRAWS, Planned, SEED, Span};
use super::{Explanation, herd, one_line, presets, shared};
use crate::terminal::Terminal;

/// The version of the format: it changes when a reader of the old one could be misled.
const VERSION: u32 = 1;

pub(super) fn of(explanation: &Explanation) -> Value {
    let Explanation { resolved, assumed, plan, warnings, fleet, with_values, .. } = explanation;
    let attempts: Vec<_> = plan.attempts.iter().map(attempt).collect();
    let warnings: Vec<_> = warnings
        .iter()
        .map(|warning| {
            json!({
                "code": warning.code,
                "level": warning.level.as_str(),
                "text": warning.text,
                "help": warning.help,
            })
        })
        .collect();
    let mut answer = json!({
        "v": VERSION,
        "policy": {
            "name": resolved.name(),
            "file": resolved.file(),
            "summary": one_line(resolved.policy(), Terminal { width: 80, unicode: false }),
            "rule": explanation.rule(Terminal { width: 80, unicode: false }),
        },
        "assumed": {
            "class": assumed.class.as_str(),
            "latency_ms": millis(assumed.latency),
            "retry_after_ms": assumed.retry_after.map(millis),
            "failure_rate": assumed.failure_rate,
        },
        "means": if plan.exact { json!("exact") } else { json!({ "draws_at_most": DRAWS, "seed": SEED }) },
        "attempts": attempts,
        "when_all_fail": {
            "calls": resolved.policy().max_attempts(),
            "mean_calls": plan.mean_calls.is_finite().then_some(plan.mean_calls),
            "waits_ms": plan.waits.map(span),
            "waits_if_asked_ms": plan.waits_if_asked.map(millis),
            "worst_case_ms": plan.worst.map(millis),
            "usual_reason": plan.ends.map(Reason::as_str),
        },
        "attempts_per_call": plan.load.filter(|load| load.is_finite()),
        "fleet": fleet.as_ref().map(herd::json),
        "shared": shared::lines(resolved),
        "warnings": warnings,
    });
    if let (Some(preset), Some(policy)) =
        (resolved.preset(), answer.get_mut("policy").and_then(Value::as_object_mut))
    {
        policy.insert("preset".to_owned(), presets::about(preset));
    }
    if *with_values && let Some(policy) = answer.get_mut("policy").and_then(Value::as_object_mut) {
        let settings = resolved.settings().iter();
        let values: Vec<_> = settings
            .map(|setting| {
                json!({ "key": setting.path, "value": setting.value, "origin": resolved.origin(setting) })
            })
            .collect();
        policy.insert("values".to_owned(), values.into());
    }
    answer
}

/// The answer for a preset that is nothing until its parameters say more.
pub(super) fn of_bare(preset: &Preset) -> Value {
    json!({ "v": VERSION, "policy": { "preset": presets::about(preset) } })
}

fn attempt(attempt: &Planned) -> Value {
    json!({
        "attempt": attempt.number,
        "wait_ms": span(attempt.wait),
        "since_start_ms": span(attempt.since_start),
        "reached": attempt.reached,
        "succeeded_by_now": attempt.success.map(|success| success.by_now),
        "gain": attempt.success.map(|success| success.gain),
    })
}

fn span(span: Span) -> Value {
    json!({ "lowest": millis(span.lowest), "mean": millis(span.mean), "highest": millis(span.highest) })
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
