//! `relent simulate` as a whole process.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

mod run_support;
mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use run_support::OnTerminal;
use serde_json::Value;
use support::{Place, snapshot, stderr, stdout};

const FILE: &str = r#"version = 1

[policies.default]
max_attempts = 3

[policies.payments]
max_attempts = 8

[scenarios.shop]
horizon = "20s"
replications = 2
policies = ["payments", "strategy:none"]

[scenarios.shop.clients.shoppers]
count = 20
to = "shop"
arrivals = { kind = "poisson", rate = 50 }

[scenarios.shop.services.shop]
workers = 1
queue = { capacity = 5 }
time = "18ms"
"#;

/// `occ`, small.
const OCC: [&str; 6] = ["simulate", "occ", "--set", "clients=10", "--replications", "20"];

fn place(name: &str) -> Place {
    let place = Place::new(&format!("simulate-{name}"));
    place.write("relent.toml", FILE);
    place
}

fn printed(place: &Place, args: &[&str]) -> String {
    stdout(&mut place.relent(args), 0)
}

fn refused(place: &Place, args: &[&str]) -> String {
    stderr(&mut place.relent(&[&["simulate"], args].concat()), 2)
}

/// Who meets.
fn names(place: &Place, args: &[&str]) -> Vec<String> {
    let text = printed(place, &[&["simulate"], args, &["--replications", "1", "--json"]].concat());
    let answer: Value = serde_json::from_str(&text).unwrap();
    let policies = answer["policies"].as_array().unwrap();
    policies.iter().map(|policy| policy["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_table_a_chart_and_a_sentence() {
    let place = Place::new("simulate-table");
    let text =
        printed(&place, &[&OCC[..], &["--vs", "strategy:exponential", "--vs", "strategy:none"]].concat());
    snapshot("simulate.txt", &text);
    let without = printed(&place, &[&OCC[..], &["--no-chart"]].concat());
    assert!(!without.contains('┤') && without.contains("strategy:decorrelated"), "{without}");
    let with_again = printed(&place, &[&OCC[..], &["--no-chart", "--chart"]].concat());
    assert!(with_again.contains('┤'), "{with_again}");
}

#[test]
fn it_is_readable_without_unicode_and_coloured_only_where_asked_for() {
    let place = Place::new("simulate-charset");
    let text = stdout(place.relent(&OCC).env("LANG", "C").env("COLUMNS", "60"), 0);
    assert!(text.is_ascii() && text.contains("  |#"), "{text}");
    for columns in [60, 80, 120] {
        let text = stdout(place.relent(&OCC).env("COLUMNS", columns.to_string()), 0);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns, "{widest}: {text}");
        // Each policy has its column in one of the blocks, and its panel; each block has its names.
        assert_eq!(text.matches("strategy:equal").count(), 2, "{text}");
        assert_eq!(text.matches("amplification").count() > 1, columns < 120, "{text}");
    }
    let coloured = printed(&place, &[&OCC[..], &["--color", "always"]].concat());
    assert!(coloured.contains("\x1b[1m") && coloured.contains("\x1b[36m"), "{coloured}");
}

#[test]
fn what_there_is_can_be_listed() {
    let place = place("list");
    let text = printed(&place, &["simulate", "--list"]);
    for part in
        ["scenarios: shop", "policies: default, payments", "occ\n", "clients=100 delay=10ms", "full\n"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let options = printed(&place, &["simulate", "occ", "--list"]);
    assert!(options.contains("clients=100") && options.contains("replications"), "{options}");
    let text = refused(&place, &["shop", "--list"]);
    assert!(text.contains("\"shop\" is not built in") && text.contains("one of: herd, occ"), "{text}");
}

#[test]
fn a_scenario_is_a_file_then_a_table_then_a_built_in_one() {
    let place = place("lookup");
    let scenario = |name: &str| {
        let text = printed(&place, &["simulate", name, "--json", "--replications", "1"]);
        serde_json::from_str::<Value>(&text).unwrap()
    };
    assert_eq!(scenario("shop")["policies"][0]["name"], "payments");
    assert_eq!(
        scenario("occ")["description"],
        "Clients contend for one row with optimistic locking (AWS Architecture Blog, 2015)."
    );
    // The table hides the built-in one, and the file both.
    let table = "[scenarios.occ]\nscenario = \"herd\"\nclients = 10\ndescription = \"of the table\"\n";
    place.write("relent.toml", &format!("{FILE}\n{table}"));
    assert_eq!(scenario("occ")["description"], "of the table");
    place.write(
        "occ",
        "scenario = \"herd\"\nclients = 10\ndescription = \"of the file\"\npolicies = [\"payments\"]\n",
    );
    let found = scenario("occ");
    // A directory hides nothing.
    fs::create_dir(place.path().join("shop")).unwrap();
    assert_eq!(scenario("shop")["policies"][0]["name"], "payments");
    assert_eq!(
        (&found["description"], &found["scenario"], &found["policies"][0]["name"]),
        (&Value::from("of the file"), &Value::from("occ"), &Value::from("payments"))
    );
}

#[test]
fn scenarios_in_a_policy_file_disturb_no_other_command() {
    let place = place("others");
    assert!(printed(&place, &["explain", "payments"]).starts_with("payments (relent.toml)"));
}

#[test]
fn who_meets() {
    let place = place("contenders");
    let small = ["occ", "--set", "clients=4"];
    let with = |args: &[&str]| names(&place, &[&small[..], args].concat());
    let line_up = with(&[]);
    assert!(line_up.len() > 2 && line_up.iter().all(|name| name.starts_with("strategy:")), "{line_up:?}");
    assert_eq!(with(&["--initial", "5ms"]), [&["default with options".to_owned()][..], &line_up].concat());
    assert_eq!(with(&["--policy", "payments"]), [&["payments".to_owned()][..], &line_up].concat());
    place.write("other.toml", "version = 1\n[policies.other]\n");
    assert_eq!(with(&["--config", "other.toml", "--cap", "1s", "--vs", "other"]), ["yours", "other"]);
    // Without an option it is the policy that the other commands would take.
    assert_eq!(
        with(&["--vs", "payments", "--vs", "strategy:full"]),
        ["default", "payments", "strategy:full"]
    );
    assert_eq!(
        with(&["--cap", "1s", "--policy", "payments", "--vs", "strategy:none"]),
        ["payments with options", "strategy:none"]
    );
    assert_eq!(
        with(&["--policy", "strategy:full", "--vs", "strategy:none"]),
        ["strategy:full", "strategy:none"]
    );
}

/// What a policy shares is simulated with it where there are fleets, and left out, with a note, where calls are alone.
#[test]
fn what_a_policy_shares_is_simulated_with_it_or_left_out_with_a_note() {
    let place = Place::new("simulate-shared");
    let shared = "version = 1\n\n[policies.plain]\nmax_attempts = 4\nbackoff = { initial = \"10ms\" }\n\n\
        [policies.careful]\nbase = \"plain\"\nbreaker = { window = { kind = \"time\", size = \"10s\" } }\n\
        memory = { half_life = \"30s\" }\nbudget = [\"tenth\"]\n\n[budgets.tenth]\nkind = \"window\"\n\
        ratio = 0.1\nfloor = 0\n";
    place.write("relent.toml", shared);
    let simulated = |scenario: &str| {
        let args =
            ["simulate", scenario, "--policy", "careful", "--vs", "plain", "--replications", "1", "--json"];
        let output = place.relent(&args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{scenario}: {said}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        (answer["policies"][0].clone(), answer["policies"][1].clone(), said)
    };
    for scenario in ["outage", "budget"] {
        let (careful, plain, said) = simulated(scenario);
        assert!(!said.contains("left out"), "{scenario}: {said}");
        assert!(careful["measures"].is_object() && careful["measures"] != plain["measures"], "{scenario}");
    }
    for scenario in ["herd", "occ", "ethernet", "batch"] {
        let (careful, plain, said) = simulated(scenario);
        let note =
            format!("note: in {scenario} each call is alone: the budgets, breakers and the like of careful");
        assert!(said.contains(&note) && !said.contains("of plain"), "{scenario}: {said}");
        assert_eq!(careful["measures"], plain["measures"], "{scenario}: left out, it makes no difference");
    }
}

#[test]
fn the_seed_alone_makes_the_difference() {
    let place = Place::new("simulate-seed");
    let with = |args: &[&str]| printed(&place, &[&OCC[..], &["--json"], args].concat());
    let one = with(&["--threads", "1"]);
    assert_eq!(one, with(&["--threads", "2"]));
    assert_ne!(one, with(&["--seed", "2"]));
    let answer: Value = serde_json::from_str(&one).unwrap();
    assert_eq!((&answer["v"], &answer["seed"]), (&Value::from(1), &Value::from(1)));
    let calls = &answer["policies"][0]["measures"]["calls"];
    assert_eq!((&calls["mean"], &calls["samples"]), (&Value::from(10), &Value::from(20)));
    // A seed is luck, not an option of the policy: it brings no policy under test.
    assert_eq!(answer["policies"].as_array().unwrap().len(), 5);
}

#[test]
fn figures_series_and_picture_go_to_files() {
    let place = Place::new("simulate-files");
    let files = ["--csv", "figures.csv", "--series", "series.csv", "--svg", "load.svg"];
    printed(&place, &[&OCC[..], &files].concat());
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    assert!(
        read("figures.csv")
            .starts_with("policy,measure,mean,error,samples,never\nstrategy:none,calls,10,0,20,0\n")
    );
    assert!(read("series.csv").starts_with("policy,time_s,calls,attempts,"));
    let picture = read("load.svg");
    for part in ["<svg ", "time in s", "attempts per second", "strategy:full", "</svg>\n"] {
        assert!(picture.contains(part), "{part}");
    }
    let nowhere = stderr(&mut place.relent(&[&OCC[..], &["--svg", "no/such/place.svg"]].concat()), 1);
    assert!(nowhere.starts_with("error: writing no/such/place.svg: "), "{nowhere}");
}

#[test]
fn the_load_above_which_a_service_stays_down() {
    let place = place("boundary");
    let metastable = ["simulate", "metastable", "--set", "capacity=100", "--replications", "1"];
    let others = ["--policy", "strategy:none", "--vs", "strategy:no-retry"];
    let with = |args: &[&str]| printed(&place, &[&metastable[..], &others, args].concat());
    // One retry halves what is safe; without one nearly all of the capacity is.
    let text = with(&["--boundary", "30..70"]);
    assert!(text.contains("strategy:no-retry recovers from every load tried"), "{text}");
    let answer: Value = serde_json::from_str(&with(&["--boundary", "30..70", "--json"])).unwrap();
    let found = |key: &str| answer["policies"][0][key].as_f64().unwrap();
    let (recovers, stuck) = (found("recovers_at_per_s"), found("stuck_at_per_s"));
    assert!(40.0 < recovers && recovers < stuck && stuck < 55.0, "{recovers} {stuck}");
    assert!(text.contains("strategy:none stays down for ever above"), "{text}");
    for args in [
        &["occ", "--boundary", "1..2"][..],
        &["shop", "--boundary", "1..2"],
        &["layers", "--boundary", "1..2"],
    ] {
        assert!(refused(&place, args).contains("built in with both: outage, metastable"), "{args:?}");
    }
    refused(&place, &["metastable", "--boundary", "2..1"]);
    refused(&place, &["metastable", "--boundary", "1..2", "--set", "rate=1"]);
}

/// The picture of the README is what the command beside it makes: whoever changes pictures or figures runs it again.
#[test]
fn the_picture_of_the_readme_is_up_to_date() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = fs::read_to_string(docs.join("herd.toml")).unwrap();
    let command = text.lines().find_map(|line| line.strip_prefix("#     relent ")).unwrap();
    let place = Place::new("simulate-picture");
    place.write("docs/herd.toml", &text);
    printed(&place, &command.split(' ').collect::<Vec<_>>());
    let [made, kept] = [place.path().join("docs/herd.svg"), docs.join("herd.svg")]
        .map(|path| fs::read_to_string(path).unwrap());
    assert!(made == kept, "docs/herd.svg is not what `relent {command}` makes");
}

/// So are those pictures of the pages that have a command of ours under them.
#[test]
fn the_pictures_of_the_pages_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = Place::new("simulate-pages");
    place.write(
        "docs/simulation/jitter.toml",
        &fs::read_to_string(root.join("docs/simulation/jitter.toml")).unwrap(),
    );
    let mut compared = 0;
    for page in fs::read_dir(root.join("docs/simulation")).unwrap() {
        let path = page.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        for command in text.lines().filter_map(|line| line.strip_prefix("relent ")) {
            let Some((_, picture)) = command.split_once(" --svg ") else { continue };
            printed(&place, &command.split(' ').collect::<Vec<_>>());
            let [made, kept] = [place.path().join(picture), root.join(picture)]
                .map(|path| fs::read_to_string(path).unwrap());
            assert!(made == kept, "{picture} is not what `relent {command}` makes");
            compared += 1;
        }
    }
    assert!(compared >= 3, "the pages have lost their commands");
}

#[test]
fn bad_scenarios_are_refused_with_their_places() {
    let place = Place::new("simulate-refused");
    let bad = FILE
        .replace("horizon", "hoizon")
        .replace("strategy:none", "strategy:non")
        .replace("count = 20", "count = -4")
        .replace("18ms", "18");
    place.write("relent.toml", &bad);
    snapshot("refused-scenario.txt", &refused(&place, &["shop"]));
    // A cycle of services, in a file of its own.
    let cycle = "horizon = \"1s\"\n[clients.a]\ncount = 1\nto = \"x\"\narrivals = { kind = \"burst\" }\n\
                 [services.x]\ntime = \"1ms\"\ncalls = [{ to = \"x\" }]\n";
    place.write("cycle.toml", cycle);
    let text = refused(&place, &["cycle.toml"]);
    assert!(text.contains(" --> cycle.toml:"), "{text}");
    // One that is too large, and one that is too deep.
    place.write("large.toml", &"# much\n".repeat(100_000));
    let text = stderr(&mut place.relent(&["simulate", "large.toml"]), 1);
    assert!(text.contains("reading the scenario large.toml: more than"), "{text}");
    place.write("deep.toml", &format!("a = {}", "[".repeat(100_000)));
    assert!(refused(&place, &["deep.toml"]).contains("--> deep.toml:1:"));
    // No TOML at all, with something in it that no terminal should get.
    place.write("no.toml", "a = \u{1b}[31m\n");
    let text = refused(&place, &["no.toml"]);
    assert!(text.contains("--> no.toml:1:") && !text.contains('\x1b'), "{text:?}");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_way_out() {
    let place = place("nonsense");
    let cases: [(&[&str], &[&str]); 15] = [
        (&["shp"], &["unknown scenario \"shp\"", "relent.toml (shop)", "did you mean \"shop\"?"]),
        (&["heard"], &["did you mean \"herd\"?"]),
        (&["relent.toml"], &["a policy file with the scenarios shop", "--config relent.toml shop"]),
        (&["shop", "--set", "horizon=1s"], &["--set horizon: [scenarios.shop] of relent.toml"]),
        (&["occ", "--set", "clients"], &["expected KEY=VALUE"]),
        (
            &["occ", "--set", "client=4"],
            &["--set client", "did you mean \"clients\"?", "relent simulate occ --list"],
        ),
        (&["occ", "--set", "clients=1000000000000"], &["--set clients", "too large"]),
        (&["herd", "--set", "capacity=0"], &["--set capacity", "at least 1"]),
        (&["outage", "--set", "rate=-1"], &["--set rate"]),
        (&["occ", "--vs", "full"], &["no policy of this name", "--vs strategy:full"]),
        (&["occ", "--vs", "paiments"], &["did you mean \"payments\"?"]),
        (&["occ", "--vs", "strategy:ful"], &["there is no such strategy", "one of: no-retry, none"]),
        (&["occ", "--vs", "payments", "--vs", "payments"], &["among them already"]),
        (&["occ", "--policy", "strategy:full", "--cap", "1s"], &["takes no policy options"]),
        (&["occ", "--seed", "x"], &["--seed", "whole number"]),
    ];
    for (args, parts) in cases {
        let text = refused(&place, args);
        for part in parts {
            assert!(text.contains(part), "{args:?}: {part} is not in\n{text}");
        }
    }
    for args in [&["occ", "--replications", "0"][..], &["occ", "--threads", "0"], &[]] {
        refused(&place, args);
    }
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let place = Place::new("simulate-pipe");
    for args in [&["simulate", "outage", "--json"][..], &["simulate", "--list"]] {
        let mut child = place.relent(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8(output.stderr).unwrap()),
            (Some(0), String::new())
        );
    }
}

/// A simulation that takes hours, at the moment when it has said so.
fn endless(command: &mut Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut errors = BufReader::with_capacity(1, child.stderr.take().unwrap());
    errors.read_line(&mut said).unwrap();
    child.stderr = Some(errors.into_inner());
    (child, said)
}

/// Waits for the end of a child that must not go on.
fn ended(mut child: Child) -> Output {
    let end = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("it goes on");
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_large_simulation_says_so_and_ctrl_c_gives_what_there_is() {
    let place = Place::new("simulate-interrupted");
    let many = ["--replications", "1000000", "--no-chart", "--csv", "figures.csv"];
    let (child, said) = endless(&mut place.relent(&[&["simulate", "occ"], &many[..]].concat()));
    assert!(
        said.starts_with("simulating about ") && said.contains("events") && said.contains("MB"),
        "{said}"
    );
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = ended(child);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "interrupted: the figures are of what there was by then\n"
    );
    assert!(text.contains("strategy:full") && text.contains("seed 1"), "{text}");
    assert!(fs::read_to_string(place.path().join("figures.csv")).unwrap().starts_with("policy,measure"));
}

#[test]
fn on_a_terminal_it_shows_how_far_it_is_until_ctrl_c() {
    let place = Place::new("simulate-terminal");
    let command = place.relent(&["simulate", "occ", "--replications", "1000000", "--no-chart"]);
    let mut terminal = OnTerminal::start(&command);
    terminal.expect(" of 5000000 runs, ");
    terminal.type_in("\x03");
    let (status, screen) = terminal.end();
    assert_eq!(status.code(), Some(130), "{screen}");
    // The line is gone before the table begins.
    let shown = screen.rfind("(Ctrl-C shows what there is)").unwrap();
    let table = screen.find("amplification").unwrap();
    assert!(shown < table && screen[shown..table].contains("\x1b[K"), "{screen:?}");
    assert!(screen.contains("interrupted"), "{screen:?}");
}
