//! The tables, and what was promised against what was found.

use std::fmt::Write as _;

use crate::case::Table;
use crate::machine::Machine;
use crate::sample::Measured;

/// All tables as Markdown, fastest first, losses included.
pub(crate) fn markdown(measured: &[Measured], machine: &Machine) -> String {
    let mut text = format!("{machine}\n");
    text.push_str(&promises(measured));
    for table in Table::ALL {
        let rows = sorted(measured, table);
        let _ = writeln!(text, "\n### {}\n", table.title());
        text.push_str(&if table.is_calls() { calls(&rows, table) } else { waits(&rows) });
    }
    text.trim_end().to_owned()
}

fn sorted(measured: &[Measured], table: Table) -> Vec<&Measured> {
    let mut rows: Vec<_> = measured.iter().filter(|row| row.case.table == table).collect();
    rows.sort_by(|a, b| a.median.total_cmp(&b.median));
    rows
}

fn calls(rows: &[&Measured], table: Table) -> String {
    let mut header = vec!["", "", "ns", "min", "over bare", "× bare", "instr.", "allocs", "allocs, failing"];
    if table.is_async() {
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
        if table.is_async() {
            cells.push(maybe(row.case.future, |bytes| bytes.to_string()));
        }
        cells
    });
    markdown_table(&header, lines)
}

fn waits(rows: &[&Measured]) -> String {
    let header = ["", "", "ns per wait", "min", "instr."];
    let lines = rows.iter().map(|row| {
        let case = &row.case;
        vec![
            case.name.to_owned(),
            case.variant.to_owned(),
            nanos(row.median),
            nanos(row.minimum),
            maybe(row.instructions, count),
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
fn bare_of(rows: &[&Measured], row: &Measured) -> Option<f64> {
    let bare = row.case.bare?;
    rows.iter().find(|other| other.case.name == bare).map(|bare| bare.median)
}

/// What relent holds itself to, and what was found.
fn promises(measured: &[Measured]) -> String {
    let mut lines = Vec::new();
    for table in [Table::AsyncSmall, Table::AsyncIo] {
        let overheads = overheads(measured, table);
        let others: Vec<f64> =
            overheads.iter().filter(|(name, _)| *name != OURS).map(|(_, ns)| *ns).collect();
        let what = "ns over bare, at most the second-fastest other crate's";
        lines.push(promise(table.title(), what, ours(&overheads), others.get(1).copied()));
    }
    for table in [Table::BlockingSmall, Table::BlockingIo] {
        lines.push(promise(
            table.title(),
            "ns over bare, at most 1",
            ours(&overheads(measured, table)),
            Some(1.0),
        ));
    }
    let table = Table::WaitsDoubling;
    let rows = sorted(measured, table);
    let median = |name| rows.iter().find(|row| row.case.name == name).map(|row| row.median);
    let quarter = median("tokio-retry").map(|ns| ns / 4.0);
    lines.push(promise(
        table.title(),
        "ns per wait, at most a quarter of tokio-retry's",
        median(OURS),
        quarter,
    ));

    let relents = measured.iter().filter(|row| row.case.name == OURS && row.case.table.is_calls());
    let most = relents.map(|row| row.allocations).reduce(f64::max);
    lines.push(promise("Success at the first attempt", "allocations, none", most, Some(0.0)));
    markdown_table(&["bar", "", "found", "allowed", "kept"], lines.into_iter())
}

/// The crate that the bars are for.
const OURS: &str = "relent";

/// What each crate's call without a limit in time takes over the bare one, fastest first.
fn overheads(measured: &[Measured], table: Table) -> Vec<(&'static str, f64)> {
    let rows = sorted(measured, table);
    let unlimited = rows.iter().filter(|row| row.case.variant.is_empty());
    let mut overheads: Vec<_> =
        unlimited.filter_map(|row| Some((row.case.name, row.median - bare_of(&rows, row)?))).collect();
    overheads.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    overheads
}

fn ours(overheads: &[(&'static str, f64)]) -> Option<f64> {
    overheads.iter().find(|(name, _)| *name == OURS).map(|(_, ns)| *ns)
}

fn promise(title: &str, what: &str, found: Option<f64>, allowed: Option<f64>) -> Vec<String> {
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
