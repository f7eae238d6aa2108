//! The tables, and how what was promised is set against what was found.

use std::fmt::Write as _;

use crate::case::{Rows, Table};
use crate::machine::Machine;
use crate::sample::Measured;

/// All tables as Markdown, fastest first, losses included.
pub(crate) fn markdown(
    measured: &[Measured],
    machine: &Machine,
    tables: &[Table],
    promises: Vec<Vec<String>>,
) -> String {
    let mut text = format!("{machine}\n");
    text.push_str(&markdown_table(&["bar", "", "found", "allowed", "kept"], promises.into_iter()));
    for &table in tables {
        let rows = sorted(measured, table);
        let _ = writeln!(text, "\n### {}\n", table.title);
        text.push_str(&match table.rows {
            Rows::BlockingCalls | Rows::AsyncCalls => calls(&rows, table),
            Rows::Per(what) => parts(&rows, what),
        });
    }
    text.trim_end().to_owned()
}

pub(crate) fn sorted(measured: &[Measured], table: Table) -> Vec<&Measured> {
    let mut rows: Vec<_> = measured.iter().filter(|row| row.case.table == table).collect();
    rows.sort_by(|a, b| a.median.total_cmp(&b.median));
    rows
}

fn calls(rows: &[&Measured], table: Table) -> String {
    let mut header = vec!["", "", "ns", "min", "over bare", "× bare", "instr.", "allocs", "allocs, failing"];
    if table.rows == Rows::AsyncCalls {
        header.push("future, bytes");
    }
    let lines = rows.iter().map(|row| {
        let bare = bare_of(rows, row);
        let mut cells = vec![
            row.case.name.to_owned(),
            row.case.variant.to_owned(),
            nanos(row.median),
            nanos(row.minimum),
            maybe(bare.map(|bare| row.median - bare), nanos),
            maybe(bare.map(|bare| row.median / bare), nanos),
            maybe(row.instructions, count),
            count(row.allocations),
            maybe(row.failing_allocations, count),
        ];
        if table.rows == Rows::AsyncCalls {
            cells.push(maybe(row.case.future, |bytes| bytes.to_string()));
        }
        cells
    });
    markdown_table(&header, lines)
}

fn parts(rows: &[&Measured], what: &str) -> String {
    let header = ["", "", &format!("ns per {what}"), "min", "instr.", "allocs"];
    let lines = rows.iter().map(|row| {
        let case = &row.case;
        vec![
            case.name.to_owned(),
            case.variant.to_owned(),
            nanos(row.median),
            nanos(row.minimum),
            maybe(row.instructions, count),
            count(row.allocations),
        ]
    });
    markdown_table(&header, lines)
}

/// The first two columns are words, all others figures.
fn markdown_table(header: &[&str], lines: impl Iterator<Item = Vec<String>>) -> String {
    let rule = (0..header.len()).map(|column| if column < 2 { "---" } else { "---:" });
    let mut text = format!("| {} |\n| {} |\n", header.join(" | "), rule.collect::<Vec<_>>().join(" | "));
    for line in lines {
        let _ = writeln!(text, "| {} |", line.join(" | "));
    }
    text
}

/// The median of the row that does the same without retries.
pub(crate) fn bare_of(rows: &[&Measured], row: &Measured) -> Option<f64> {
    let bare = row.case.bare?;
    rows.iter().find(|other| other.case.name == bare).map(|bare| bare.median)
}

/// The crate that the bars are for.
pub(crate) const OURS: &str = "relent";

/// What each crate's call without a limit in time takes over the bare one, fastest first.
pub(crate) fn overheads(measured: &[Measured], table: Table) -> Vec<(&'static str, f64)> {
    let rows = sorted(measured, table);
    let unlimited = rows.iter().filter(|row| row.case.variant.is_empty());
    let mut overheads: Vec<_> =
        unlimited.filter_map(|row| Some((row.case.name, row.median - bare_of(&rows, row)?))).collect();
    overheads.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    overheads
}

pub(crate) fn ours(overheads: &[(&'static str, f64)]) -> Option<f64> {
    overheads.iter().find(|(name, _)| *name == OURS).map(|(_, ns)| *ns)
}

pub(crate) fn promise(title: &str, what: &str, found: Option<f64>, allowed: Option<f64>) -> Vec<String> {
    let kept = found.zip(allowed).map(|(found, allowed)| if found <= allowed { "yes" } else { "**no**" });
    let kept = kept.unwrap_or("not measured").to_owned();
    vec![title.to_owned(), what.to_owned(), maybe(found, nanos), maybe(allowed, nanos), kept]
}

fn nanos(value: f64) -> String {
    let places = if value.abs() < 100.0 { 2 } else { 0 };
    format!("{value:.places$}")
}

fn count(value: f64) -> String {
    let whole = (value - value.round()).abs() < 0.05;
    if whole { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn maybe<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}
