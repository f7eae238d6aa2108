//! The tables, and what was promised against what was found.

use std::fmt::Write as _;

use crate::Case;
use crate::run::Run;

/// A case and its rounds.
pub(crate) struct Measured {
    pub(crate) case: Case,
    pub(crate) runs: Vec<Run>,
}

impl Measured {
    fn median(&self, figure: impl Fn(&Run) -> f64) -> Option<f64> {
        let mut figures: Vec<f64> = self.runs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied()
    }
}

/// All tables as Markdown, losses included.
pub(crate) fn markdown(measured: &[Measured], machine: &str) -> String {
    let mut text = format!("{machine}\n| bar | found | wanted | kept |\n| --- | ---: | ---: | --- |\n");
    for bar in bars(measured) {
        let _ = writeln!(text, "{bar}");
    }
    let titles = [
        ("herd", "The herd of a million clients"),
        ("grid", "The AWS grid, 19 sizes × 5 strategies × 100 replications"),
        ("hold", "The hold model: take the earliest, schedule it again"),
        ("one-thread", "Two replications of the herd, one after another"),
        ("two-threads", "Two replications of the herd, at once"),
        ("big-herd", "Ten million clients"),
    ];
    for (model, title) in titles {
        let rows: Vec<&Measured> = measured.iter().filter(|row| row.case.model == model).collect();
        if rows.iter().any(|row| !row.runs.is_empty()) {
            let _ = write!(text, "\n### {title}\n\n{}", table(&rows));
        }
    }
    text.trim_end().to_owned()
}

fn table(rows: &[&Measured]) -> String {
    let head = ["", "size", "events", "s of processor", "s on the wall", "ns per event", "MB", "checksum"];
    let mut text = format!("| {} |\n| --- |{}\n", head.join(" | "), " ---: |".repeat(head.len() - 1));
    for row in rows {
        let Some(run) = row.runs.first() else { continue };
        let figure = |figure: fn(&Run) -> f64| row.median(figure).unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.2} | {:.2} | {:.1} | {:.0} | {} |",
            row.case.engine,
            row.case.size,
            run.events,
            figure(|run| run.seconds),
            figure(|run| run.wall),
            figure(Run::nanos_per_event),
            figure(|run| run.megabytes),
            if row.case.model == "hold" || run.sum == 0 { "–".into() } else { format!("{:016x}", run.sum) },
        );
    }
    text
}

fn bars(measured: &[Measured]) -> Vec<String> {
    let find = |model: &str, engine: &str| {
        measured.iter().rfind(|row| row.case.model == model && row.case.engine == engine)
    };
    let per_event = |model, engine| find(model, engine)?.median(Run::nanos_per_event);
    let times = |model, engine| Some(per_event(model, engine)? / per_event(model, "relent")?);
    let wall = |model| find(model, "relent")?.median(|run| run.wall);
    let mut lines = Vec::new();
    for (engine, wanted) in [("BinaryHeap", 2.0), ("nexosim", 10.0), ("desru", 10.0), ("SimPy", 60.0)] {
        let what = format!("herd, events per second, times {engine}'s");
        lines.push(at_least(&what, times("herd", engine), wanted));
    }
    // The one that, too, lets events of one instant happen in the order in which they were scheduled.
    let sum = |engine| Some(find("herd", engine)?.runs.first()?.sum);
    let same = sum("relent").zip(sum("nexosim")).map(|(core, plain)| f64::from(u8::from(core == plain)));
    lines.push(at_least(
        "herd, the core's waits are those computed in place, on nexosim (1: yes)",
        same,
        1.0,
    ));
    // The same work in other numbers of events: as a whole.
    let grid = |engine| find("grid", engine)?.median(|run| run.seconds);
    let grids = grid("BinaryHeap").zip(grid("relent")).map(|(plain, ours)| plain / ours);
    lines.push(at_least("AWS grid, times as fast as the plain BinaryHeap version", grids, 1.0));
    let memory = find("big-herd", "relent").and_then(|row| row.median(|run| run.megabytes));
    lines.push(line("ten million clients, MB", memory, 2500.0, |found, allowed| found <= allowed));
    let both = wall("one-thread").zip(wall("two-threads")).map(|(one, two)| one / two);
    lines.push(at_least("two threads, times one (on the wall)", both, 1.5));
    lines
}

fn at_least(what: &str, found: Option<f64>, wanted: f64) -> String {
    line(what, found, wanted, |found, wanted| found >= wanted)
}

fn line(what: &str, found: Option<f64>, wanted: f64, keeps: fn(f64, f64) -> bool) -> String {
    let Some(found) = found else { return format!("| {what} | – | {wanted} | not measured |") };
    let places = if found < 100.0 { 2 } else { 0 };
    let kept = if keeps(found, wanted) { "yes" } else { "**no**" };
    format!("| {what} | {found:.places$} | {wanted} | {kept} |")
}
