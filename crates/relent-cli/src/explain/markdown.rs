//! The answer for documents and reviews.

use std::io::{self, Write};

use super::schedule::Span;
use super::text::{decimal, fine_percent, meaning, percent};
use super::{Explanation, herd, one_line, presets, shared};
use crate::durations::short;
use crate::terminal::Terminal;

pub(super) fn write(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    let Explanation { resolved, plan, warnings, .. } = explanation;
    let policy = resolved.policy();
    writeln!(out, "### Retry policy: {}\n", cell(&explanation.title()))?;
    writeln!(out, "{}\n", cell(&one_line(policy, Terminal { width: 80, unicode: true })))?;
    if let Some(rule) = explanation.rule(Terminal { width: 80, unicode: true }) {
        writeln!(out, "{}\n", cell(&rule))?;
    }
    if explanation.with_values {
        writeln!(out, "| key | value | from |\n|---|---|---|")?;
        for setting in resolved.settings() {
            let origin = cell(&resolved.origin(setting));
            writeln!(out, "| `{}` | `{}` | {origin} |", setting.path, cell(&setting.value))?;
        }
        writeln!(out)?;
    }
    let with_success = explanation.assumed.failure_rate.is_some();
    let (heads, rule) = if with_success { (" succeeded | gain |", "---:|---:|") } else { ("", "") };
    writeln!(
        out,
        "| attempt | wait: lowest | mean | highest | since start: mean | latest | reached |{heads}"
    )?;
    writeln!(out, "|---:|---:|---:|---:|---:|---:|---:|{rule}")?;
    for attempt in &plan.attempts {
        let Span { lowest, mean, highest } = attempt.wait;
        let waits = [lowest, mean, highest].map(short).join(" | ");
        let since = [attempt.since_start.mean, attempt.since_start.highest].map(short).join(" | ");
        write!(out, "| {} | {waits} | {since} | {} |", attempt.number, percent(attempt.reached))?;
        if let Some(success) = attempt.success {
            write!(out, " {} | +{} |", fine_percent(success.by_now), fine_percent(success.gain))?;
        }
        writeln!(out)?;
    }
    writeln!(out)?;
    match plan.unlisted() {
        Some(0) => {}
        Some(more) => writeln!(out, "… and {more} more attempts.\n")?,
        None => writeln!(out, "… and so on.\n")?,
    }
    let calls = policy.max_attempts().map_or("unlimited".to_owned(), |calls| calls.to_string());
    writeln!(out, "- Calls at most: {calls}; on average when all fail: {}", decimal(plan.mean_calls))?;
    if let Some(waits) = plan.waits {
        writeln!(
            out,
            "- Waits: {} to {}, {} on average",
            short(waits.lowest),
            short(waits.highest),
            short(waits.mean)
        )?;
    }
    if let Some(waits) = plan.waits_if_asked {
        writeln!(out, "- Waits at most, if the server asks for them: {}", short(waits))?;
    }
    let worst = plan.worst.map_or("nothing limits it".to_owned(), short);
    writeln!(out, "- Worst case: {worst}")?;
    if let Some(end) = plan.ends {
        writeln!(out, "- Usual end when all fail: `{}`, {}", end.as_str(), meaning(end))?;
    }
    if let (Some(rate), Some(load)) = (explanation.assumed.failure_rate, plan.load) {
        writeln!(out, "- Attempts per call if {} fail: {}", percent(rate), decimal(load))?;
    }
    if let Some(met) = &explanation.fleet {
        writeln!(out, "- {}", herd::line(met))?;
    }
    for line in shared::lines(resolved) {
        writeln!(out, "- {}", cell(&line))?;
    }
    if let Some(means) = explanation.means() {
        writeln!(out, "- {means}")?;
    }
    if !warnings.is_empty() {
        writeln!(out)?;
    }
    for warning in warnings {
        writeln!(
            out,
            "- **{}** `{}`: {} {}",
            warning.level.as_str(),
            warning.code,
            cell(&warning.text),
            warning.help
        )?;
    }
    resolved.preset().map_or(Ok(()), |preset| presets::markdown_about(out, preset))
}

/// What may stand in a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
