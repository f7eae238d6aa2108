//! The answer for people: the table, the load over time, and what happened in a sentence.

use std::borrow::Cow;
use std::io::{self, Write};

use relent_sim::{Column, Comparison, Figure};

use super::blocks;
use crate::chart::area;
use crate::explain::wrapped;
use crate::terminal::{Terminal, style};

pub(super) fn write(
    out: &mut impl Write,
    comparison: &Comparison,
    with_chart: bool,
    terminal: Terminal,
) -> io::Result<()> {
    let (heading, faint) = (style::HEADING, style::FAINT);
    let scenario = &comparison.scenario;
    writeln!(out, "{heading}{}{heading:#}", in_charset(&scenario.name, terminal))?;
    if !scenario.description.is_empty() {
        wrapped(out, &in_charset(&scenario.description, terminal), 2, terminal)?;
    }
    let runs = comparison.reports.iter().map(|report| report.replications).max().unwrap_or(0);
    let plural = if runs == 1 { "" } else { "s" };
    writeln!(out, "  {faint}{runs} run{plural} each, seed {}{faint:#}", comparison.seed)?;
    writeln!(out)?;
    write!(out, "{}", in_charset(&blocks::of(comparison, terminal.width), terminal))?;
    writeln!(out)?;
    if with_chart {
        if terminal.unicode {
            write!(out, "{}", comparison.chart(terminal.width, true))?;
        } else {
            write!(out, "{}", plain_chart(comparison, terminal))?;
        }
        writeln!(out)?;
    }
    wrapped(out, &in_charset(&comparison.sentence(), terminal), 0, terminal)
}

/// A series that a picture can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Drawn {
    /// Attempts per second
    Load,
    /// Successes per second
    Goodput,
    /// Calls per second that fail
    Failures,
    /// Calls that have begun and not ended
    Open,
}

impl Drawn {
    fn column(self) -> Column {
        match self {
            Self::Load => Column::Attempts,
            Self::Goodput => Column::Succeeded,
            Self::Failures => Column::Failed,
            Self::Open => Column::Open,
        }
    }
}

/// A series over time, under what the scenario says about itself where there is room for it.
pub(super) fn picture(comparison: &Comparison, drawn: Drawn) -> Figure {
    const ROOM: usize = 80;
    let description = comparison.scenario.description.trim_end_matches('.');
    let figure = comparison.figure(drawn.column());
    match description.chars().count() {
        1..=ROOM => Figure { title: description.to_owned(), ..figure },
        _ => figure,
    }
}

/// The chart where there is nothing but ASCII.
fn plain_chart(comparison: &Comparison, terminal: Terminal) -> String {
    const ROWS: usize = 5;
    let lines = comparison.figure(Column::Attempts).lines;
    let bins = lines.iter().map(|line| line.points.len()).max().unwrap_or(0).max(1);
    let per_column = bins.div_ceil(terminal.width.saturating_sub(3).max(10));
    let most = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    let top = lines.iter().map(|line| most(&line.points)).fold(0.0, f64::max);
    let mut text = String::new();
    for line in &lines {
        let columns: Vec<_> = line.points.chunks(per_column).map(most).collect();
        let name = in_charset(&line.name, terminal);
        text.push_str(&format!("{name}  (peak {:.0} attempts/s)\n", most(&line.points)));
        for row in area(&columns, top, ROWS, terminal) {
            text.push_str(&format!("  |{row}\n"));
        }
    }
    let end = format!("{:.0} s", bins as f64 * comparison.scenario.bin.as_secs_f64());
    let width = bins.div_ceil(per_column).max(end.len() + 2);
    text.push_str(&format!("  +{}\n   0{end:>1$}\n", "-".repeat(width), width - 1));
    text
}

/// The text in the characters that the terminal can show, each as wide as it was.
pub(super) fn in_charset(text: &str, terminal: Terminal) -> Cow<'_, str> {
    if terminal.unicode || text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let plain = |letter: char| match letter {
        letter if letter.is_ascii() => letter,
        '±' => '~',
        '×' => 'x',
        '–' | '—' | '−' => '-',
        'µ' | 'μ' => 'u',
        '…' => '.',
        letter if letter.is_whitespace() => ' ',
        _ => '?',
    };
    text.chars().map(plain).collect()
}
