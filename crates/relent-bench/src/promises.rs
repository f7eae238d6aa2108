//! What relent holds itself to beside other retry crates.

use crate::case::Table;
use crate::report::{OURS, ours, overheads, promise, sorted};
use crate::sample::Measured;

/// What relent holds itself to, and what was found.
pub(crate) fn promises(measured: &[Measured]) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for table in [Table::ASYNC_SMALL, Table::ASYNC_IO] {
        let overheads = overheads(measured, table);
        let others: Vec<f64> =
            overheads.iter().filter(|(name, _)| *name != OURS).map(|(_, ns)| *ns).collect();
        let what = "ns over bare, at most the second-fastest other crate's";
        lines.push(promise(table.title, what, ours(&overheads), others.get(1).copied()));
    }
    for table in [Table::BLOCKING_SMALL, Table::BLOCKING_IO] {
        lines.push(promise(
            table.title,
            "ns over bare, at most 1",
            ours(&overheads(measured, table)),
            Some(1.0),
        ));
    }
    let table = Table::WAITS_DOUBLING;
    let rows = sorted(measured, table);
    let median = |name| rows.iter().find(|row| row.case.name == name).map(|row| row.median);
    let quarter = median("tokio-retry").map(|ns| ns / 4.0);
    lines.push(promise(
        table.title,
        "ns per wait, at most a quarter of tokio-retry's",
        median(OURS),
        quarter,
    ));

    let relents = measured.iter().filter(|row| row.case.name == OURS && row.case.table.is_calls());
    let most = relents.map(|row| row.allocations).reduce(f64::max);
    lines.push(promise("Success at the first attempt", "allocations, none", most, Some(0.0)));
    lines
}
