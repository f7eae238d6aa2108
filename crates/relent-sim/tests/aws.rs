//! The model of "Exponential Backoff And Jitter" against figures made with an independent program.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // the helpers of a test may fail like the test

use std::collections::BTreeMap;

use relent_sim::{Estimate, Measure, Occ, Scenario, Simulation};

const STRATEGIES: [&str; 5] = ["none", "exponential", "equal", "full", "decorrelated"];

/// Clients, strategy, mean calls ± error, mean completion in ms ± error: 10 000 replications of a program that agrees
/// with the original classes (aws-samples/aws-arch-backoff-simulator, commit 66cb169) in 95 cells with z-scores of
/// rms 1.03 and 0.85.
const TABLE: [(u32, &str, f64, f64, f64, f64); 10] = [
    (10, "none", 50.855, 0.041, 379.7, 0.35),
    (10, "exponential", 50.828, 0.041, 3474.1, 13.0),
    (10, "equal", 42.470, 0.026, 726.3, 1.9),
    (10, "full", 38.987, 0.023, 463.8, 1.1),
    (10, "decorrelated", 37.694, 0.023, 434.7, 0.85),
    (100, "none", 2423.25, 0.32, 2028.1, 0.44),
    (100, "exponential", 1855.57, 0.59, 63439.0, 38.0),
    (100, "equal", 812.25, 0.08, 6619.3, 6.5),
    (100, "full", 796.02, 0.07, 4915.1, 5.4),
    (100, "decorrelated", 1001.80, 0.29, 4587.7, 6.8),
];

/// Attempts and completion in seconds, by strategy.
type Row = BTreeMap<&'static str, (Estimate, Estimate)>;

fn simulate(clients: u32) -> Row {
    let scenario = Scenario::occ(Occ { clients, ..Occ::default() });
    let comparison = Simulation::new(scenario).line_up().replications(1000).run().unwrap();
    let reports = STRATEGIES.into_iter().zip(&comparison.reports);
    reports
        .map(|(name, report)| {
            assert_eq!(report.name, format!("strategy:{name}"));
            assert_eq!(report.tally.succeeded, u64::from(clients) * 1000);
            let figure = |measure| report.estimate(measure).unwrap();
            (name, (figure(Measure::Attempts), figure(Measure::Completion)))
        })
        .collect()
}

/// Asserts that `names` are in rising order wherever the difference exceeds four standard errors; how often it did.
fn rises(row: &Row, names: [&str; 5], figure: impl Fn(&(Estimate, Estimate)) -> Estimate) -> u32 {
    let mut clear = 0;
    for pair in names.windows(2) {
        let (less, more) = (figure(&row[pair[0]]), figure(&row[pair[1]]));
        let above = more.above(&less);
        assert!(above > -4.0, "{} above {} by {above} errors", pair[0], pair[1]);
        clear += u32::from(above > 4.0);
    }
    clear
}

#[test]
fn reproduces_the_table_and_the_rank_orders() {
    let sizes = [10, 20, 40, 60, 80, 100, 120, 140, 160, 190];
    let rows: BTreeMap<u32, Row> = sizes.into_iter().map(|clients| (clients, simulate(clients))).collect();

    for (clients, strategy, calls, calls_error, time, time_error) in TABLE {
        let (attempts, completion) = rows[&clients][strategy];
        let reference = |mean, error| Estimate { mean, error, samples: 10_000, never: 0 };
        let z_calls = attempts.above(&reference(calls, calls_error));
        let z_time = completion.above(&reference(time / 1e3, time_error / 1e3));
        println!(
            "{clients} {strategy} {:.2} {:.1} z {z_calls:.2} {z_time:.2}",
            attempts.mean,
            completion.mean * 1e3
        );
        assert!(z_calls.abs() < 4.0, "calls of {strategy} at {clients}: z = {z_calls}");
        assert!(z_time.abs() < 4.0, "time of {strategy} at {clients}: z = {z_time}");
    }

    let mut clear = 0;
    for (clients, row) in &rows {
        if (40..=160).contains(clients) {
            clear += rises(row, ["full", "equal", "decorrelated", "exponential", "none"], |row| row.0);
        }
        if *clients >= 170 {
            clear += rises(row, ["equal", "full", "decorrelated", "exponential", "none"], |row| row.0);
        }
        let times = match clients {
            ..=130 => ["none", "decorrelated", "full", "equal", "exponential"],
            _ => ["none", "full", "decorrelated", "equal", "exponential"],
        };
        clear += rises(row, times, |row| row.1);
    }
    // 8 sizes × 4 pairs of calls, 10 × 4 of times: nearly all of them are clear at a thousand replications.
    assert!(clear >= 66, "{clear}");
    let fewest =
        |clients| rows[&clients].iter().min_by(|a, b| a.1.0.mean.total_cmp(&b.1.0.mean)).map(|row| *row.0);
    assert_eq!(fewest(10), Some("decorrelated"));

    // "With 100 contending clients, the call count falls by more than half" (the post), and the time by 12.9.
    let (exponential, full) = (rows[&100]["exponential"], rows[&100]["full"]);
    assert!((exponential.0.mean / full.0.mean - 2.33).abs() < 0.02);
    assert!((exponential.1.mean / full.1.mean - 12.9).abs() < 0.3);
}
