//! Makes the pictures and tables of `docs/simulation`:
//!
//! ```text
//! cargo run --release -p relent-sim --example pages [-- PAGE …]
//! ```
//!
//! A page keeps its text; what stands between `<!-- begin NAME -->` and `<!-- end NAME -->` is made here.

// A page that cannot be made is a bug, and its author reads the panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use relent_core::{
    Bound, CommonPolicy, HedgePolicy, Jitter, Policy, PolicyBuilder, Ratio, WindowBudget, entropy,
};
use relent_sim::{
    Arrivals, Axis, BUILT_INS, Clients, Column, Comparison, Edge, Ethernet, Figure, Fleet, Herd, Law, Line,
    Measure, Occ, Profile, Report, Scenario, Scope, Service, Shape, Simulation, Strategy, boundary, built_in,
    metcalfe_boggs, vulnerability,
};

type Make = fn(&mut Page);

const PAGES: [(&str, Make); 12] = [
    ("aws", aws),
    ("retries", retries),
    ("collapse", collapse),
    ("metastable", metastable),
    ("layers", layers),
    ("ethernet", ethernet),
    ("jitter", jitter),
    ("budget", budget),
    ("breaker", breaker),
    ("hedging", hedging),
    ("adaptive", adaptive),
    ("scenarios", scenarios),
];

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    for (name, _) in PAGES {
        if asked.is_empty() || asked.iter().any(|word| word == name) {
            for (path, text) in made(name) {
                std::fs::write(path, text).expect("a page or a picture");
            }
        }
    }
}

/// A page and its pictures, as they are to stand in `docs/simulation`.
pub(crate) fn made(name: &str) -> Vec<(PathBuf, String)> {
    let (_, make) = PAGES.into_iter().find(|(page, _)| *page == name).expect("a page of that name");
    let mut page = Page::open(name);
    make(&mut page);
    page.pictures.push((page.path, page.text));
    page.pictures
}

/// A page and what is put into it.
struct Page {
    path: PathBuf,
    text: String,
    pictures: Vec<(PathBuf, String)>,
}

impl Page {
    fn open(name: &str) -> Self {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulation").join(format!("{name}.md"));
        let text = std::fs::read_to_string(&path).expect("the page");
        Self { path, text, pictures: Vec::new() }
    }

    fn fill(&mut self, block: &str, made: &str) {
        let (begin, end) = (format!("<!-- begin {block} -->"), format!("<!-- end {block} -->"));
        let from = self.text.find(&begin).expect(&begin) + begin.len();
        let to = self.text.find(&end).expect(&end);
        self.text.replace_range(from..to, &format!("\n{}\n", made.trim_end()));
    }

    fn picture(&mut self, name: &str, figure: &Figure) {
        self.pictures.push((self.path.with_file_name(format!("{name}.svg")), figure.svg()));
    }
}

/// A table in Markdown.
fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for row in rows {
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
    out
}

fn counted(n: i32, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn at_once(attempts: u32) -> Policy {
    Policy::constant(Duration::ZERO).jitter(Jitter::None).max_attempts(attempts).build().unwrap()
}

fn built(builder: PolicyBuilder) -> Policy {
    builder.build().unwrap()
}

fn line(name: &str, shape: Shape, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
    Line { name: name.into(), points: points.into_iter().collect(), shape }
}

const OCC: [(&str, &str); 5] = [
    ("strategy:none", "none"),
    ("strategy:exponential", "exponential"),
    ("strategy:equal", "equal"),
    ("strategy:full", "full"),
    ("strategy:decorrelated", "decorrelated"),
];

fn aws(page: &mut Page) {
    let grid: Vec<(u32, Comparison)> = (10..=190)
        .step_by(10)
        .map(|clients| {
            let scenario = Scenario::occ(Occ { clients, ..Occ::default() });
            (clients, Simulation::new(scenario).line_up().replications(1000).run().unwrap())
        })
        .collect();
    for (name, measure, title, unit, logarithmic) in [
        ("aws-calls", Measure::Attempts, "Writes until all have succeeded", "calls", false),
        ("aws-time", Measure::Completion, "Time until all have succeeded", "seconds", true),
    ] {
        let lines = OCC.iter().enumerate().map(|(index, (_, strategy))| {
            let mean = |comparison: &Comparison| comparison.reports[index].mean(measure).unwrap();
            line(
                strategy,
                Shape::Joined,
                grid.iter().map(|(n, comparison)| (f64::from(*n), mean(comparison))),
            )
        });
        let y = Axis { label: unit.into(), logarithmic };
        let figure = Figure {
            title: title.into(),
            x: Axis::linear("clients"),
            y,
            lines: lines.collect(),
            shade: None,
        };
        page.picture(name, &figure);
    }
    let mut rows = Vec::new();
    for (clients, comparison) in grid.iter().filter(|(clients, _)| [10, 50, 100, 150, 190].contains(clients))
    {
        for report in &comparison.reports {
            let (calls, time) =
                (report.estimate(Measure::Attempts).unwrap(), report.estimate(Measure::Completion).unwrap());
            rows.push(vec![
                clients.to_string(),
                report.name.clone(),
                format!("{:.2} ± {:.2}", calls.mean, calls.error),
                format!("{:.1} ± {:.1}", time.mean * 1e3, time.error * 1e3),
            ]);
        }
    }
    page.fill("table", &table(&["clients", "strategy", "calls", "all done after, ms"], &rows));
}

/// A service that fails each attempt with `failure`, whatever the load.
fn insensitive(failure: f64, arrivals: Arrivals, policy: &Policy) -> Report {
    let call = Edge { delay: Law::Exponential { mean: s(0.01) }, ..Edge::to("service") };
    let fleet = Fleet {
        clients: vec![Clients { name: "clients".into(), count: 100, arrivals, call }],
        services: vec![Service { error_rate: failure, ..Service::new("service") }],
        horizon: s(50.0),
        grace: s(1000.0),
        ..Fleet::default()
    };
    let simulation =
        Simulation::new(Scenario::fleet("insensitive", "", fleet)).contender("policy", policy.clone());
    simulation.replications(10).run().unwrap().reports.remove(0)
}

fn retries(page: &mut Page) {
    let open = || Arrivals::Open { rate: Profile::constant(1000.0), random: true };
    let failures = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
    let mut lines = Vec::new();
    let mut rows = Vec::new();
    for attempts in [1, 2, 4] {
        let runs = failures.map(|failure| insensitive(failure, open(), &at_once(attempts)));
        let load = |report: &Report| report.tally.attempts as f64 / report.tally.calls as f64;
        let name = counted(attempts as i32 - 1, "retry", "retries");
        lines.push(line(&name, Shape::Dots, failures.into_iter().zip(runs.iter().map(load))));
        let law = |p: f64| (p, (1.0 - p.powi(attempts as i32)) / (1.0 - p));
        lines.push(line(
            &format!("{name}, by the law"),
            Shape::Dashed,
            (1..95).map(|p| law(f64::from(p) / 100.0)),
        ));
        for (failure, report) in failures.iter().zip(&runs).filter(|(p, _)| [0.01, 0.1, 0.5].contains(*p)) {
            let success = report.tally.succeeded as f64 / report.tally.calls as f64;
            rows.push(vec![
                name.clone(),
                failure.to_string(),
                format!("{success:.4}"),
                format!("{:.4}", 1.0 - failure.powi(attempts as i32)),
                format!("{:.3}", load(report)),
                format!("{:.3}", law(*failure).1),
            ]);
        }
    }
    let x = Axis::linear("share of attempts that fail");
    let title = "Load of a service that does not mind it".into();
    page.picture(
        "retries-load",
        &Figure { title, x: x.clone(), y: Axis::linear("attempts per call"), lines, shade: None },
    );
    page.fill(
        "law",
        &table(&["", "failure", "success", "by the law", "attempts per call", "by the law"], &rows),
    );

    let backoff = built(Policy::exponential(s(0.1)).jitter(Jitter::None).cap(s(100.0)).max_attempts(4));
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for (name, serial) in [("clients that wait for their calls", true), ("calls that come anyway", false)] {
        let failures = [0.0, 0.1, 0.25, 0.5, 0.75];
        let arrivals = || if serial { Arrivals::Paced { rate: 10.0 } } else { open() };
        let runs = failures.map(|failure| insensitive(failure, arrivals(), &backoff));
        let thousands = |count: u64| count as f64 / 10.0 / 1000.0;
        let of = |count: fn(&Report) -> u64| {
            failures.into_iter().zip(runs.iter().map(move |run| thousands(count(run))))
        };
        lines.push(line(&format!("{name}: first tries"), Shape::Joined, of(|run| run.tally.calls)));
        lines.push(line(&format!("{name}: all"), Shape::Dashed, of(|run| run.tally.attempts)));
        for (failure, run) in failures.iter().zip(&runs) {
            rows.push(vec![
                name.into(),
                failure.to_string(),
                format!("{:.1}", thousands(run.tally.calls)),
                format!("{:.1}", thousands(run.tally.attempts)),
            ]);
        }
    }
    let title = "What backoff is for: 100 clients, ten calls per second each, 50 s".into();
    page.picture(
        "retries-serial",
        &Figure { title, x, y: Axis::linear("first tries, attempts, in thousands"), lines, shade: None },
    );
    page.fill("serial", &table(&["", "failure", "first tries, thousands", "attempts, thousands"], &rows));
}

fn collapse(page: &mut Page) {
    let scenario = built_in("collapse", &[("replications", "60")]).unwrap();
    let comparison = Simulation::new(scenario).line_up().run().unwrap();
    page.fill("table", &format!("```text\n{}\n{}\n```", comparison.table(false), comparison.sentence()));
}

fn metastable(page: &mut Page) {
    let scenario = built_in("metastable", &[("rate", "145")]).unwrap();
    let mut simulation = Simulation::new(scenario).contender("145/s, no retry", at_once(1));
    simulation = simulation.contender("145/s, 1 retry", at_once(2));
    let mut figure = simulation.run().unwrap().figure(Column::Succeeded);
    for (rate, name) in [("151", "151/s, 1 retry"), ("280", "280/s, 1 retry")] {
        let scenario = built_in("metastable", &[("rate", rate)]).unwrap();
        let comparison = Simulation::new(scenario).contender(name, at_once(2)).run().unwrap();
        figure.lines.extend(comparison.figure(Column::Succeeded).lines);
    }
    figure.title = "Goodput around ten seconds of standstill".into();
    page.picture("metastable", &figure);
    let mut rows = Vec::new();
    for attempts in [1, 2, 3, 4] {
        let scenario = |rate: f64| {
            let rate = rate.to_string();
            built_in("metastable", &[("rate", &rate), ("replications", "3"), ("horizon", "1200s")])
        };
        let law = 300.0 / f64::from(attempts);
        let found = boundary(
            &at_once(attempts).into(),
            law * 0.85,
            law * if attempts == 1 { 1.02 } else { 1.15 },
            4,
            scenario,
        )
        .unwrap();
        rows.push(vec![(attempts - 1).to_string(), format!("{law:.0}"), found.sentence()]);
    }
    let budgeted = Strategy::from(at_once(4)).sharing(tenth()).scope(Scope::Service);
    let scenario = |rate: f64| {
        let rate = rate.to_string();
        built_in("metastable", &[("rate", &rate), ("replications", "3"), ("horizon", "1200s")])
    };
    let found = boundary(&budgeted, 240.0, 290.0, 4, scenario).unwrap();
    rows.push(vec!["3, budget of 10 %".into(), format!("{:.0}", 300.0 / 1.1), found.sentence()]);
    page.fill("boundary", &table(&["retries", "capacity / attempts", "simulated"], &rows));
    let (loads, outages) = ([100.0, 150.0, 200.0, 250.0, 280.0], [0.5, 1.0, 2.0, 4.0, 8.0]);
    let scenario = |load: f64, outage: f64| {
        let (load, outage) = (load.to_string(), format!("{outage}s"));
        built_in("metastable", &[("rate", &load), ("outage", &outage), ("replications", "5")])
    };
    let map = vulnerability(&at_once(2).into(), &loads, &outages, scenario).unwrap();
    let rows: Vec<Vec<String>> = loads
        .iter()
        .zip(map)
        .map(|(load, shares)| {
            let shares = shares.iter().map(|share| format!("{:.0} %", share * 100.0));
            std::iter::once(format!("{load}/s")).chain(shares).collect()
        })
        .collect();
    page.fill("map", &table(&["load \\ standstill", "0.5 s", "1 s", "2 s", "4 s", "8 s"], &rows));
}

/// Retries are at most a tenth of the calls of the last ten seconds.
fn tenth() -> CommonPolicy {
    let budget = WindowBudget::new(Ratio::percent(10)).floor(0);
    CommonPolicy { budgets: vec![(budget.into(), Ratio::ZERO)], ..CommonPolicy::default() }
}

fn layers(page: &mut Page) {
    let law = |failure: f64, most: f64| {
        if failure < 1.0 { (1.0 - failure.powf(most)) / (1.0 - failure) } else { most }
    };
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for (layers, attempts) in [(1, 4), (2, 4), (3, 4), (5, 3)] {
        let most = f64::from(attempts).powi(layers);
        let name = format!("{} of {attempts} attempts", counted(layers, "layer", "layers"));
        let simulated: Vec<(f64, f64)> = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0]
            .into_iter()
            .map(|failure| {
                let options = [
                    ("layers", layers.to_string()),
                    ("attempts", attempts.to_string()),
                    ("failure", failure.to_string()),
                ];
                let options: Vec<(&str, &str)> =
                    options.iter().map(|(key, value)| (*key, value.as_str())).collect();
                let scenario = built_in("layers", &options).unwrap();
                let policy = at_once(attempts);
                let report =
                    Simulation::new(scenario).contender("policy", policy).run().unwrap().reports.remove(0);
                let amplification = report.estimate(Measure::Amplification).unwrap();
                rows.push(vec![
                    name.clone(),
                    failure.to_string(),
                    format!("{:.2} ± {:.2}", amplification.mean, amplification.error),
                    format!("{:.2}", law(failure, most)),
                ]);
                (failure, amplification.mean)
            })
            .collect();
        lines.push(line(&name, Shape::Dots, simulated));
        let curve =
            (0..=200).map(|step| f64::from(step) / 200.0).map(|failure| (failure, law(failure, most)));
        lines.push(line("its law", Shape::Dashed, curve));
    }
    let x = Axis::linear("share of the leaf's attempts that fail");
    let y = Axis::logarithmic("attempts at the leaf per call");
    page.picture("layers", &Figure { title: "Layers that each retry".into(), x, y, lines, shade: None });
    page.fill("table", &table(&["", "failure", "simulated", "by the law"], &rows));
}

fn ethernet(page: &mut Page) {
    let bits = [4096.0, 1024.0, 512.0, 48.0];
    let slots = |bits: f64| bits / 3.0 / 16.0;
    let stations = [1u32, 2, 3, 4, 5, 10, 32, 64, 128, 256];
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for bits in bits {
        lines.push(line(&format!("{bits} bits, simulated"), Shape::Dots, []));
        lines.push(line(
            &format!("{bits} bits, formula"),
            Shape::Dashed,
            stations.iter().map(|q| (f64::from(*q), metcalfe_boggs(*q, slots(bits)))),
        ));
    }
    for q in stations {
        let mut row = vec![q.to_string()];
        for (index, bits) in bits.into_iter().enumerate() {
            let model = Ethernet {
                stations: q,
                frame: slots(bits).max(1.0),
                slots: 1_000_000,
                ..Ethernet::default()
            };
            let scenario = Scenario::ethernet(model);
            let (name, policy) = scenario.line_up[0].clone();
            let report = Simulation::new(scenario).contender(name, policy).run().unwrap().reports.remove(0);
            let efficiency = report.mean(Measure::Efficiency).unwrap();
            row.push(format!("{:.4}", metcalfe_boggs(q, slots(bits))));
            row.push(format!("{efficiency:.4}"));
            if index == 3 {
                row.push(format!("{:.1} %", 100.0 - report.mean(Measure::Success).unwrap() * 100.0));
            }
            lines[2 * index].points.push((f64::from(q), efficiency));
        }
        rows.push(row);
    }
    let title = "A cable under full load: the formula and truncated backoff".into();
    page.picture(
        "ethernet",
        &Figure {
            title,
            x: Axis::logarithmic("stations"),
            y: Axis::linear("efficiency"),
            lines,
            shade: None,
        },
    );
    let heads = [
        "stations",
        "4096 bits",
        "sim.",
        "1024",
        "sim.",
        "512",
        "sim.",
        "48",
        "sim. (1 slot)",
        "frames dropped",
    ];
    page.fill("table", &table(&heads, &rows));
}

fn jitter(page: &mut Page) {
    let kinds: Vec<(&str, Policy)> = vec![
        ("none", built(Policy::exponential(s(1.0)).jitter(Jitter::None).cap(s(60.0)))),
        (
            "proportional 20 %",
            built(Policy::exponential(s(1.0)).jitter(Jitter::Proportional { factor: 0.2 }).cap(s(60.0))),
        ),
        ("equal", built(Policy::exponential(s(1.0)).jitter(Jitter::Equal).cap(s(60.0)))),
        ("full", built(Policy::exponential(s(1.0)).cap(s(60.0)))),
        (
            "decorrelated",
            built(Policy::exponential(s(0.5)).jitter(Jitter::Decorrelated).bound(Bound::Sample).cap(s(60.0))),
        ),
        ("decorrelated_v2", built(Policy::exponential(s(1.0)).jitter(Jitter::DecorrelatedV2).cap(s(60.0)))),
    ];
    let mut rows = Vec::new();
    for (name, policy) in &kinds {
        let mut columns = vec![Vec::new(); 6];
        for client in 0..100_000 {
            let waits = policy.backoff().waits(entropy(7, client, 0));
            columns.iter_mut().zip(waits).for_each(|(column, wait)| column.push(wait.as_secs_f64()));
        }
        for (retry, column) in columns.iter_mut().enumerate() {
            column.sort_by(f64::total_cmp);
            let at = |part: f64| format!("{:.3}", column[(part * column.len() as f64) as usize]);
            let mean = column.iter().sum::<f64>() / column.len() as f64;
            let mut row = vec![(*name).to_owned(), (retry + 1).to_string()];
            row.extend([0.05, 0.25, 0.5, 0.75, 0.95, 0.999].map(at));
            row.push(format!("{mean:.3}"));
            rows.push(row);
        }
    }
    page.fill(
        "quantiles",
        &table(&["jitter", "retry", "p5", "p25", "p50", "p75", "p95", "p99.9", "mean, s"], &rows),
    );

    // A herd at a server with room for all, and at one without.
    let herd = |clients: u32, capacity: u64, outage: f64| {
        let outage = Some((Duration::ZERO, s(outage)));
        let mut simulation =
            Simulation::new(Scenario::herd(Herd { clients, capacity, outage, ..Herd::default() }));
        for (name, initial) in
            [("none", 1.0), ("equal", 1.0), ("full", 1.0), ("full, from 2 s", 2.0), ("decorrelated", 0.5)]
        {
            let jitter = match name {
                "none" => Jitter::None,
                "equal" => Jitter::Equal,
                "decorrelated" => Jitter::Decorrelated,
                _ => Jitter::Full,
            };
            let policy =
                built(Policy::exponential(s(initial)).jitter(jitter).cap(s(20.0)).unlimited_attempts());
            simulation = simulation.contender(name, policy);
        }
        simulation.replications(5).run().unwrap()
    };
    let (room, crowd) = (herd(1000, 100_000_000, 5.0), herd(1000, 100, 5.0));
    let mut rows = Vec::new();
    for (place, comparison) in [("room for all", &room), ("100 per second", &crowd)] {
        for report in &comparison.reports {
            let mean = |measure| report.mean(measure).unwrap_or(f64::NAN);
            rows.push(vec![
                place.into(),
                report.name.clone(),
                format!("{:.2}", mean(Measure::Amplification)),
                format!("{:.0}", mean(Measure::Peak) / 10.0),
                format!("{:.1}", mean(Measure::P50)),
                report.mean(Measure::Drain).map_or("never".into(), |seconds| format!("{seconds:.1}")),
            ]);
        }
    }
    let heads =
        ["server", "jitter", "attempts per call", "peak in 100 ms", "median latency, s", "drained after, s"];
    page.fill("changes", &table(&heads, &rows));
}

fn run(name: &str, options: &[(&str, &str)]) -> Comparison {
    Simulation::new(built_in(name, options).unwrap()).line_up().run().unwrap()
}

fn console(comparison: &Comparison) -> String {
    format!("```text\n{}\n{}\n```", comparison.table(false), comparison.sentence())
}

fn budget(page: &mut Page) {
    let failures = [0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9];
    let runs = failures.map(|failure| run("budget", &[("failure", &failure.to_string())]));
    let of = |report: &Report, count: u64| count as f64 / report.tally.calls as f64;
    let mut rows = Vec::new();
    for (failure, comparison) in failures.iter().zip(&runs) {
        let cell = |report: &Report| {
            let (success, load) = (of(report, report.tally.succeeded), of(report, report.tally.attempts));
            format!("{success:.4} / {load:.3}")
        };
        rows.push(
            std::iter::once(failure.to_string())
                .chain(comparison.reports.iter().map(cell))
                .collect::<Vec<_>>(),
        );
    }
    let names: Vec<&str> = runs[0].reports.iter().map(|report| report.name.as_str()).collect();
    page.fill("table", &table(&[&["failure"], &names[..]].concat(), &rows));
    let lines = names.iter().enumerate().map(|(index, name)| {
        let load = |comparison: &Comparison| {
            let report = &comparison.reports[index];
            of(report, report.tally.attempts)
        };
        line(name, Shape::Joined, failures.into_iter().zip(runs.iter().map(load)))
    });
    let figure = Figure {
        title: "Load of a service that fails, whatever it is asked".into(),
        x: Axis::linear("share of attempts that fail"),
        y: Axis::linear("attempts per call"),
        lines: lines.collect(),
        shade: None,
    };
    page.picture("budget", &figure);
    let clients = [(10, 500.0), (100, 50.0), (1000, 5.0)].map(|(clients, calls)| {
        let comparison = run("budget", &[("clients", &clients.to_string()), ("rate", "100")]);
        let report = &comparison.reports[2];
        vec![
            format!("{calls}"),
            format!("{:.3}", of(report, report.tally.attempts)),
            format!("{:.3}", 1.1 + 4.0 / calls),
        ]
    });
    page.fill("clients", &table(&["calls of a client", "attempts per call", "1.1 + 4 / calls"], &clients));
    let mut rows = Vec::new();
    for (name, shared) in [("none", CommonPolicy::default()), ("a tenth, in each process", tenth())] {
        let mut row = vec![name.to_owned()];
        for failure in ["0.5", "0.9", "0.99", "1"] {
            let scenario = built_in("layers", &[("attempts", "4"), ("failure", failure)]).unwrap();
            let strategy = Strategy::from(at_once(4)).sharing(shared.clone()).scope(Scope::Service);
            let comparison = Simulation::new(scenario).contender("it", strategy).run().unwrap();
            row.push(format!("{:.2}", comparison.reports[0].mean(Measure::Amplification).unwrap()));
        }
        rows.push(row);
    }
    page.fill("layers", &table(&["budget", "0.5", "0.9", "0.99", "1"], &rows));
}

fn breaker(page: &mut Page) {
    let comparison = run("breaker", &[]);
    let mut figure = comparison.figure(Column::Succeeded);
    figure.title = "Goodput while one of ten shards fails".into();
    page.picture("breaker", &figure);
    page.fill("table", &console(&comparison));
    page.fill("overload", &console(&run("overload", &[])));
}

fn hedging(page: &mut Page) {
    let comparison = run("hedging", &[]);
    let mut figure = comparison.figure(Column::Attempts);
    figure.title = "Load, while the service is three times as slow".into();
    page.picture("hedging", &figure);
    page.fill("table", &console(&comparison));
    // P(L > t) of the lognormal law through the points of the paper.
    let tail = |t: f64| {
        if t <= 0.0 { 1.0 } else { libm::erfc((t.ln() + 2.521) / 2.3487 / 2f64.sqrt()) / 2.0 }
    };
    let slower = 1.0 - 0.999f64.powf(0.01);
    let law = |delay: f64| {
        let (mut low, mut high) = (delay, 1e6);
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            if tail(middle) * tail(middle - delay) > slower { low = middle } else { high = middle }
        }
        low
    };
    let simulated = |delay: u64| {
        let time = Law::Lognormal { median: s((-2.521f64).exp() / 1e3), sigma: 2.3487 };
        let fleet = Fleet {
            clients: vec![Clients {
                name: "roots".into(),
                count: 1_000_000,
                arrivals: Arrivals::Burst { at: Duration::ZERO, within: s(100.0) },
                call: Edge::to("leaf"),
            }],
            services: vec![Service { time, ..Service::new("leaf") }],
            horizon: s(101.0),
            grace: s(10_000.0),
            ..Fleet::default()
        };
        let hedge = Some(HedgePolicy::after(Duration::from_millis(delay)));
        let shared = CommonPolicy { hedge, ..CommonPolicy::default() };
        let strategy = Strategy::from(at_once(1)).sharing(shared).scope(Scope::Service);
        let simulation = Simulation::new(Scenario::fleet("leaves", "", fleet)).contender("it", strategy);
        let report = simulation.replications(4).run().unwrap().reports.remove(0);
        let more = report.tally.attempts as f64 / report.tally.calls as f64 - 1.0;
        (report.latency.value_at_quantile(1.0 - slower) as f64 / 1e3, more * 100.0)
    };
    let delays = [1u64, 5, 10, 20, 50];
    let found = delays.map(simulated);
    let rows: Vec<Vec<String>> = delays
        .iter()
        .zip(&found)
        .map(|(delay, (p999, more))| {
            let at = *delay as f64;
            vec![
                format!("{delay} ms"),
                format!("{p999:.1} ms"),
                format!("{:.1} ms", law(at)),
                format!("{more:.2} %"),
                format!("{:.2} %", tail(at) * 100.0),
            ]
        })
        .collect();
    let heads = ["hedge after", "p99.9 of the slowest of 100", "by the law", "more requests", "by the law"];
    page.fill("tail", &table(&heads, &rows));
    let curve =
        (0..=100).map(|step| 10f64.powf(f64::from(step) * 0.02)).map(|at| (tail(at) * 100.0, law(at)));
    let lines = vec![
        line("simulated", Shape::Dots, found.iter().map(|(p999, more)| (*more, *p999))),
        line("by the law", Shape::Dashed, curve),
    ];
    let figure = Figure {
        title: "What a hedge costs, and what it brings".into(),
        x: Axis::logarithmic("more requests, in percent"),
        y: Axis::linear("p99.9 of the slowest of 100, in ms"),
        lines,
        shade: None,
    };
    page.picture("hedging-tail", &figure);
}

fn adaptive(page: &mut Page) {
    for (block, picture, options, column, title) in [
        ("one", "adaptive-one", &[][..], Column::Attempts, "Attempts at a throttled table"),
        ("two", "adaptive-two", &[("others", "10")], Column::Attempts, "Attempts at the table that has room"),
    ] {
        let comparison = run("adaptive", options);
        let mut figure = comparison.figure(column);
        figure.title = title.into();
        page.picture(picture, &figure);
        page.fill(block, &console(&comparison));
    }
}

fn scenarios(page: &mut Page) {
    let mut out = String::new();
    for built_in in BUILT_INS {
        let rows: Vec<Vec<String>> = built_in
            .options
            .iter()
            .map(|(name, default, about)| {
                vec![format!("`{name}`"), format!("`{default}`"), (*about).to_owned()]
            })
            .collect();
        let _ = writeln!(
            out,
            "### `{}`\n\n{}\n\n{}",
            built_in.name,
            built_in.about,
            table(&["option", "default", ""], &rows)
        );
    }
    page.fill("list", &out);
    let mut examples = String::new();
    for (name, options) in [
        ("outage", &[][..]),
        ("throttle", &[]),
        ("cron", &[]),
        ("reconnect", &[("clients", "5000"), ("capacity", "200")]),
        ("statemachine", &[]),
        ("batch", &[("repeats", "batch")]),
        ("batch", &[("repeats", "failed")]),
    ] {
        let comparison = Simulation::new(built_in(name, options).unwrap()).line_up().run().unwrap();
        let words: Vec<String> = options.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        let _ = writeln!(
            examples,
            "### `{name}{}`\n\n```text\n{}\n{}\n```\n",
            words.concat(),
            comparison.table(false),
            comparison.sentence()
        );
    }
    page.fill("examples", &examples);
}
