//! The answer for people.

use std::io::{self, Write};

use relent_core::{OnDeadline, Reason};

use super::schedule::{LONGEST_CALL, LONGEST_DRAWN, Plan, Planned, Span};
use super::warnings::Level;
use super::{Explanation, herd, one_line, presets, shared};
use crate::chart::range_bar;
use crate::durations::{column, short};
use crate::terminal::{Terminal, style};

pub(super) fn write(out: &mut impl Write, explanation: &Explanation, terminal: Terminal) -> io::Result<()> {
    let (heading, faint) = (style::HEADING, style::FAINT);
    writeln!(out, "{heading}{}{heading:#}", explanation.title())?;
    wrapped(out, &one_line(explanation.resolved.policy(), terminal), 2, terminal)?;
    if let Some(rule) = explanation.rule(terminal) {
        wrapped(out, &rule, 2, terminal)?;
    }
    writeln!(out)?;
    if explanation.with_values {
        values(out, explanation)?;
    }
    table(out, &explanation.plan, terminal)?;
    for line in summary(explanation).into_iter().chain(shared::lines(&explanation.resolved)) {
        wrapped(out, &line, 0, terminal)?;
    }
    if let Some(means) = explanation.means() {
        writeln!(out, "{faint}{means}{faint:#}")?;
    }
    gains(out, explanation, terminal)?;
    warnings(out, explanation, terminal)?;
    explanation.resolved.preset().map_or(Ok(()), |preset| presets::text(out, preset, terminal))
}

const NUMBER: usize = 8;

fn table(out: &mut impl Write, plan: &Plan, terminal: Terminal) -> io::Result<()> {
    let (heading, faint, accent) = (style::HEADING, style::FAINT, style::ACCENT);
    let cut_short = plan.attempts.iter().any(|attempt| attempt.reached < 1.0);
    let reached_width = if cut_short { 9 } else { 0 };
    // attempt + three columns of waits, three of times since the start, two gaps.
    let full = 7 + 6 * NUMBER + 2 + reached_width;
    let with_since = terminal.width >= full;
    let used = if with_since { full } else { full - 3 * NUMBER - 1 };
    let bar = terminal.width.saturating_sub(used + 2);
    let bar = if bar < 8 { 0 } else { bar.min(48) };

    let reached = |text: &str| if cut_short { format!("{text:>9}") } else { String::new() };
    let since = |text: String| if with_since { text } else { String::new() };
    let group = since(format!(" {:^24}", "since the start"));
    let groups = format!("{:>7} {:^24}{group}", "", "wait before it");
    writeln!(out, "{heading}{}{heading:#}", groups.trim_end())?;
    let names = format!("{:>NUMBER$}{:>NUMBER$}{:>NUMBER$}", "lowest", "mean", "highest");
    let since_names = since(format!(" {names}"));
    writeln!(out, "{faint}{:>7} {names}{since_names}{}{faint:#}", "attempt", reached("reached"))?;
    let unit = plan.attempts.iter().map(|attempt| attempt.wait.highest.as_secs_f64()).fold(0.0, f64::max);
    for attempt in &plan.attempts {
        let Planned { number, wait, since_start, .. } = *attempt;
        let dash = if terminal.unicode { "–" } else { "-" };
        let waits = if number == 1 && wait == Span::default() {
            format!("{dash:>NUMBER$}{dash:>NUMBER$}{dash:>NUMBER$}")
        } else {
            numbers(wait)
        };
        let since_start = since(format!(" {}", numbers(since_start)));
        let [low, mean, high] = [wait.lowest, wait.mean, wait.highest].map(|time| time.as_secs_f64());
        let drawn = range_bar(low, mean, high, unit, bar, terminal);
        let line = format!(
            "{number:>7} {waits}{since_start}{}  {accent}{drawn}{accent:#}",
            reached(&percent(attempt.reached))
        );
        let line = if drawn.is_empty() { line.replace(&format!("  {accent}{accent:#}"), "") } else { line };
        if attempt.reached == 0.0 {
            writeln!(out, "{faint}{line}{faint:#}")?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    match plan.unlisted() {
        Some(0) => {}
        Some(more) => writeln!(out, "{faint}    ... and {more} more (--rows){faint:#}")?,
        None => writeln!(out, "{faint}    ... and so on{faint:#}")?,
    }
    if bar > 0 {
        let [full, dark, light] = if terminal.unicode { ['█', '▓', '░'] } else { ['#', '=', '-'] };
        writeln!(
            out,
            "{faint}        bars: {full} up to the lowest, {dark} to the mean, {light} to the highest{faint:#}"
        )?;
    }
    writeln!(out)
}

fn numbers(span: Span) -> String {
    [span.lowest, span.mean, span.highest].map(|time| column(time, NUMBER)).concat()
}

/// Worst case, mean and end, in sentences.
fn summary(explanation: &Explanation) -> Vec<String> {
    let Explanation { plan, assumed, resolved, .. } = explanation;
    let policy = resolved.policy();
    let mut lines = Vec::new();
    let calls = match (plan.calls, policy.max_attempts()) {
        (Some(1), _) => "1 call".to_owned(),
        (Some(calls), _) | (None, Some(calls)) => format!("up to {calls} calls"),
        (None, None) => "calls without limit".to_owned(),
    };
    let waits = match plan.waits {
        Some(waits) => format!(
            "waits of {} to {}, {} on average",
            short(waits.lowest),
            short(waits.highest),
            short(waits.mean)
        ),
        None if policy.max_attempts().is_some() => {
            format!("the waits of {LONGEST_CALL} and more are not added up")
        }
        None => "waits without end".to_owned(),
    };
    lines.push(format!("If every attempt fails: {calls}; {waits}."));
    lines.push(match (plan.worst, plan.waits) {
        (Some(worst), _) => format!("Worst case: the failure is known after {}.", short(worst)),
        (None, Some(waits)) => format!(
            "Worst case: {} of waits and the attempts' own time, which nothing limits.",
            short(waits.highest)
        ),
        (None, None) if policy.max_attempts().is_some() => {
            "Worst case: not computed for so many attempts.".to_owned()
        }
        (None, None) => "Worst case: the call never ends.".to_owned(),
    });
    if let Some(waits) = plan.waits_if_asked {
        let waits = policy.deadline().map_or(waits, |deadline| waits.min(deadline.usable()));
        lines.push(format!("A server that asks for waits can stretch them to {}.", short(waits)));
    }
    if policy.deadline().is_some() {
        lines.push(match decimal(plan.mean_calls).as_str() {
            "1" => "With the deadline a failing call makes 1 attempt.".to_owned(),
            ENDLESS => format!("With the deadline a failing call makes more than {LONGEST_DRAWN} attempts."),
            mean => format!("With the deadline a failing call makes {mean} attempts on average."),
        });
    }
    if policy.on_deadline() == OnDeadline::Fit {
        lines.push(
            "The table is without the deadline, which cuts the waits that would reach past it.".to_owned(),
        );
    }
    if let Some(end) = plan.ends {
        lines.push(format!("It usually ends with {}: {}.", end.as_str(), meaning(end)));
    }
    if !assumed.latency.is_zero() || assumed.retry_after.is_some() {
        let asked =
            assumed.retry_after.map(|asked| format!(" and asks for {}", short(asked))).unwrap_or_default();
        lines.push(format!("Assumed: a failing attempt takes {}{asked}.", short(assumed.latency)));
    }
    lines.extend(explanation.fleet.as_ref().map(herd::line));
    lines
}

/// A stop reason in a few words.
pub(super) fn meaning(reason: Reason) -> &'static str {
    match reason {
        Reason::Succeeded => "an attempt succeeded",
        Reason::NotRetryable => "another try of this class would not help",
        Reason::AttemptsExhausted => "all attempts are used",
        Reason::DeadlineWouldPass => "the next attempt would start after the deadline",
        Reason::DeadlinePassed => "the deadline passes during an attempt",
        Reason::HintOverMax => "the server asks for a longer wait than is obeyed",
        Reason::NotIdempotent => "a repeat might do the thing twice",
        _ => "see the documentation",
    }
}

fn gains(out: &mut impl Write, explanation: &Explanation, terminal: Terminal) -> io::Result<()> {
    let (heading, faint, good) = (style::HEADING, style::FAINT, style::GOOD);
    let (Some(rate), Some(load)) = (explanation.assumed.failure_rate, explanation.plan.load) else {
        let tip = "Add --failure-rate 0.1 to see what each attempt gains.";
        return writeln!(out, "{faint}{tip}{faint:#}");
    };
    writeln!(out)?;
    writeln!(out, "{heading}If {} of attempts fail, each independently{heading:#}", percent(rate))?;
    writeln!(out, "{faint}{:>7} {:>12} {:>14}{faint:#}", "attempt", "succeeded", "it gains")?;
    let bar = terminal.width.saturating_sub(40).min(40);
    for attempt in &explanation.plan.attempts {
        let Some(success) = attempt.success else { continue };
        let drawn = range_bar(success.gain, success.gain, success.gain, 1.0, bar, terminal);
        let (by_now, gain) = (fine_percent(success.by_now), fine_percent(success.gain));
        writeln!(
            out,
            "{:>7} {by_now:>12} {:>14}  {good}{drawn}{good:#}",
            attempt.number,
            format!("+{gain}")
        )?;
    }
    let (load, in_outage) = (decimal(load), decimal(explanation.plan.mean_calls));
    let attempts = if load == "1" { "attempt" } else { "attempts" };
    let line = format!("The service sees {load} {attempts} per call; in an outage {in_outage}.");
    wrapped(out, &line, 0, terminal)
}

fn values(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    let (heading, faint) = (style::HEADING, style::FAINT);
    let values = explanation.resolved.settings();
    let key = values.iter().map(|value| value.path.len()).max().unwrap_or(0);
    let text = values.iter().map(|value| value.value.chars().count()).max().unwrap_or(0);
    writeln!(out, "{heading}Where each value came from{heading:#}")?;
    for value in values {
        let origin = explanation.resolved.origin(value);
        writeln!(out, "  {:<key$} = {:<text$}  {faint}# {origin}{faint:#}", value.path, value.value)?;
    }
    writeln!(out)
}

fn warnings(out: &mut impl Write, explanation: &Explanation, terminal: Terminal) -> io::Result<()> {
    for warning in &explanation.warnings {
        let mark = match warning.level {
            Level::Warning => style::WARNING,
            Level::Note => style::ACCENT,
        };
        let (level, faint) = (warning.level.as_str(), style::FAINT);
        writeln!(out)?;
        writeln!(out, "{mark}{level}{mark:#} {faint}{}{faint:#}", warning.code)?;
        wrapped(out, &warning.text, 2, terminal)?;
        wrapped(out, warning.help, 2, terminal)?;
    }
    Ok(())
}

/// Writes `text`, broken between words, each line indented.
pub(crate) fn wrapped(out: &mut impl Write, text: &str, indent: usize, terminal: Terminal) -> io::Result<()> {
    let width = terminal.width.min(100).saturating_sub(indent);
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            writeln!(out, "{:indent$}{line}", "")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{:indent$}{line}", "")
}

/// `12 %`, `<1 %`; 0 and 100 only where it is exactly that.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        ..1.0 => "<1 %".to_owned(),
        100.0 => "100 %".to_owned(),
        99.0.. => ">99 %".to_owned(),
        _ => format!("{percent:.0} %"),
    }
}

/// Enough digits to tell the nines apart.
pub(super) fn fine_percent(share: f64) -> String {
    let percent = share * 100.0;
    let distance = percent.min(100.0 - percent).abs();
    let decimals = match distance {
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        0.01.. => 4,
        _ => 6,
    };
    let text = format!("{percent:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}

/// What [`decimal`] makes of an infinite number.
const ENDLESS: &str = "without end";

pub(super) fn decimal(number: f64) -> String {
    if number.is_infinite() {
        return ENDLESS.to_owned();
    }
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
