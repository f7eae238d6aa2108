//! What relent holds itself to for what calls share.

use crate::case::Table;
use crate::report::{OURS, promise, sorted};
use crate::sample::Measured;
use crate::threads::{ONE, TWO};

pub(crate) fn promises(measured: &[Measured]) -> Vec<Vec<String>> {
    let found = Found(measured);
    let mut lines = Vec::new();
    for table in [Table::BREAKERS, Table::BREAKERS_WITH_A_FAILURE, Table::BREAKERS_AWAITED] {
        let window =
            if table == Table::BREAKERS_WITH_A_FAILURE { "the last calls" } else { "the last 100 calls" };
        let (ours, theirs) =
            (found.over_bare(table, OURS, window), found.over_bare(table, "recloser", window));
        lines.push(promise(
            table.title,
            "ns over bare, at most recloser's, both over the last calls",
            ours,
            theirs,
        ));
    }
    let third = found.median(Table::DEPOSITS, "tower", "TpsBudget").map(|ns| ns / 3.0);
    for kind in ["tokens by success, not full", "a share of the last calls, told the time"] {
        let ours = found.median(Table::DEPOSITS, OURS, kind);
        lines.push(promise(
            Table::DEPOSITS.title,
            &format!("ns at most a third of tower's: {kind}"),
            ours,
            third,
        ));
    }
    for clock in ["granted, a clock that stands still", "granted, quanta's clock", "granted, std's clock"] {
        let (ours, theirs) =
            (found.median(Table::TURNS, OURS, clock), found.median(Table::TURNS, "governor", clock));
        lines.push(promise(Table::TURNS.title, &format!("ns, at most governor's: {clock}"), ours, theirs));
    }
    for table in [Table::WHOLE, Table::WHOLE_AWAITED] {
        let rows = sorted(measured, table);
        let timeless =
            rows.iter().filter(|row| row.case.name == OURS && !row.case.variant.contains("the calls of"));
        let timeless = timeless.filter(|row| row.case.variant != "the same and a deadline");
        let most = timeless.filter_map(|row| found.over_bare(table, OURS, row.case.variant)).reduce(f64::max);
        lines.push(promise(table.title, "ns over bare, at most 8 where no clock is needed", most, Some(8.0)));
        let allocations = rows.iter().filter(|row| row.case.name == OURS).map(|row| row.allocations);
        lines.push(promise(table.title, "allocations, none", allocations.reduce(f64::max), Some(0.0)));
    }
    let one = found.median(Table::THREADS, OURS, ONE).map(|ns| ns * 1.5);
    let two = found.median(Table::THREADS, OURS, TWO);
    lines.push(promise(Table::THREADS.title, "ns, at most half as much again as one thread's", two, one));
    let watched = "at the 95th percentile";
    let (ours, theirs) =
        (found.over_bare(Table::HEDGES, OURS, watched), found.over_bare(Table::HEDGES, "tower", watched));
    lines.push(promise(Table::HEDGES.title, "ns over bare, at most tower's", ours, theirs));
    lines
}

struct Found<'a>(&'a [Measured]);

impl Found<'_> {
    fn median(&self, table: Table, name: &str, variant: &str) -> Option<f64> {
        let is =
            |row: &&Measured| row.case.table == table && row.case.name == name && row.case.variant == variant;
        self.0.iter().find(is).map(|row| row.median)
    }

    fn over_bare(&self, table: Table, name: &str, variant: &str) -> Option<f64> {
        Some(self.median(table, name, variant)? - self.median(table, "bare", "")?)
    }
}
