//! What a comparison looks like, in each of its forms.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // the helpers of a test may fail like the test

use std::time::Duration;

use relent_core::Policy;
use relent_sim::{Column, Comparison, Herd, Measure, Scenario, Simulation, built_in};

fn compare(name: &str, options: &[(&str, &str)]) -> Comparison {
    Simulation::new(built_in(name, options).unwrap()).line_up().run().unwrap()
}

#[test]
fn the_table_marks_the_best_of_each_row() {
    let comparison = compare("statemachine", &[("replications", "1"), ("executions", "300")]);
    let expected = "\
NONE      FULL
calls                300       300
attempts           1 527     1 272*
amplification     5.09 ×    4.24 ×*
peak load         300 /s*   432 /s
success             100%      100%
p50                 15 s    5.85 s*
p99                243 s    22.8 s*
p99.9              243 s    37.5 s*
fairness (Jain)   0.3493    0.5825*
slowest            243 s    37.5 s*
peak open calls      261       261
cost               1 527     1 272*
all done after     244 s    38.4 s*
";
    // How many spaces is for the widths below; the figures are those of seed 1.
    let words = |text: &str| {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(words(&comparison.table(false)), words(expected));
    let widths: Vec<usize> =
        comparison.table(false).lines().map(|line| line.trim_end_matches('*').chars().count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{widths:?}");
    assert!(comparison.table(true).contains("\u{1b}[1m"));
    assert_eq!(comparison.best(Measure::Attempts), [1]);
    assert_eq!(comparison.best(Measure::Success), [0usize; 0]);
}

#[test]
fn the_only_one_that_fails_is_not_the_best_at_it() {
    let herd =
        Herd { clients: 50, outage: Some((Duration::ZERO, Duration::from_secs(2))), ..Herd::default() };
    let comparison = Simulation::new(Scenario::herd(herd))
        .contender("gives up", Policy::default())
        .contender(
            "goes on",
            Policy::exponential(Duration::from_millis(100)).unlimited_attempts().build().unwrap(),
        )
        .run()
        .unwrap();
    assert!(comparison.reports[0].mean(Measure::Knows).is_some());
    assert!(comparison.reports[1].mean(Measure::Knows).is_none());
    assert_eq!(comparison.best(Measure::Knows), [0usize; 0]);
    assert_eq!(comparison.best(Measure::Success), [1]);
}

#[test]
fn the_sentence_says_who_stays_down() {
    let comparison = compare("metastable", &[("replications", "2"), ("horizon", "300s")]);
    let sentence = comparison.sentence();
    assert!(sentence.starts_with("After 10 s of trouble strategy:no-retry recovers after "), "{sentence}");
    let fate = "strategy:none, strategy:exponential, strategy:full and 3 retries, 10 % budget stay down";
    assert!(sentence.contains(fate), "{sentence}");
    let comparison = compare("occ", &[("replications", "3")]);
    let sentence = comparison.sentence();
    assert!(sentence.starts_with("strategy:full makes the fewest attempts"), "{sentence}");
    assert!(sentence.contains("strategy:none is done first"), "{sentence}");
}

#[test]
fn other_programs_can_read_it() {
    let mut comparison =
        compare("outage", &[("replications", "2"), ("at", "5s"), ("outage", "5s"), ("horizon", "30s")]);
    comparison.reports[0].name = "a \"quoted\", name\n".into();
    let json: serde_json::Value = serde_json::from_str(&comparison.json()).unwrap();
    assert_eq!(json["v"], 1);
    assert_eq!(json["policies"][0]["name"], "a \"quoted\", name\n");
    let policy = &json["policies"][1];
    let attempts: u64 =
        policy["series"]["attempts"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(attempts, comparison.reports[1].tally.attempts);
    let mean = policy["measures"]["attempts"]["mean"].as_f64().unwrap();
    assert_eq!(Some(mean), comparison.reports[1].mean(Measure::Attempts));

    let csv = comparison.csv();
    assert!(
        csv.starts_with("policy,measure,mean,error,samples,never\n\"a \"\"quoted\"\", name\n\",calls,"),
        "{csv}"
    );
    let series = comparison.series_csv();
    let report = &comparison.reports[4];
    let rows = series.lines().filter(|line| line.starts_with(&format!("{},", report.name)));
    let total: f64 = rows.map(|row| row.split(',').nth(3).unwrap().parse::<f64>().unwrap()).sum();
    assert_eq!(total, report.tally.attempts as f64 / 2.0);

    for column in Column::ALL {
        let svg = comparison.figure(column).svg();
        assert!(
            svg.starts_with("<svg") && svg.contains("time in s") && svg.contains("&quot;quoted&quot;"),
            "{svg}"
        );
    }
    let chart = comparison.chart(60, false);
    assert!(chart.lines().all(|line| line.chars().count() <= 80 && !line.contains('\u{1b}')), "{chart}");
    assert!(comparison.chart(60, true).contains("\u{1b}["));
}
