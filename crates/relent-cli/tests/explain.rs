//! `relent explain` as a whole process.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::Value;
use support::{Place, snapshot, stderr, stdout};

const FILE: &str = r#"version = 1

[policies.default]
deadline = "30s"
attempt_timeout = "5s"

[policies.payments]
base = "default"
max_attempts = 8
backoff.cap = "4s"
on.throttled = { backoff = { initial = "1s" } }
"#;

fn explained(args: &[&str]) -> String {
    stdout(&mut Place::new(&unique()).relent(&[&["explain"], args].concat()), 0)
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&explained(&[args, &["--json"]].concat())).unwrap()
}

fn codes(args: &[&str]) -> Vec<String> {
    let answer = json(args);
    let warnings = answer["warnings"].as_array().unwrap();
    warnings.iter().map(|warning| warning["code"].as_str().unwrap().to_owned()).collect()
}

/// Tests of one process run at the same time.
fn unique() -> String {
    format!("explain-{:?}", std::thread::current().id()).replace(['(', ')'], "")
}

#[test]
fn the_default_policy() {
    snapshot("explain.txt", &explained(&[]));
    snapshot("explain.md", &explained(&["--format", "markdown", "--failure-rate", "0.1"]));
    snapshot("explain.json", &explained(&["--json", "--failure-rate", "0.1"]));
}

#[test]
fn each_shape_of_answer() {
    snapshot("gains.txt", &explained(&["--failure-rate", "0.2", "--deadline", "500ms"]));
    snapshot("decorrelated.txt", &explained(&["--jitter", "decorrelated", "--max-attempts", "8"]));
    snapshot("unlimited.txt", &explained(&["--max-attempts", "unlimited", "--rows", "6"]));
    snapshot("defaults.txt", &explained(&["--defaults"]));
    snapshot("run.txt", &explained(&["--run", "--initial-spread", "30s"]));
}

#[test]
fn a_policy_of_a_file_above_with_its_rule() {
    let place = Place::new("file");
    place.write("relent.toml", FILE).write("deep/down/x", "");
    let explain = |args: &[&str]| stdout(&mut place.relent_in("deep/down", args), 0);
    let text = explain(&["explain", "payments", "--class", "throttled", "--resolved", "--max-attempts", "3"]);
    snapshot("file.txt", &text);
    assert!(text.contains("../../relent.toml:10 [policies.payments]"), "{text}");
    // Without a name it is the one called default.
    assert!(explain(&["explain"]).starts_with("default (../../relent.toml)"));
    assert!(explain(&["explain", "--policy", "payments"]).starts_with("payments ("));
}

#[test]
fn the_environment_names_file_and_policy_and_the_command_line_wins() {
    let place = Place::new("environment");
    place.write("other/file.toml", FILE);
    let title = |args: &[&str]| {
        let mut command = place.relent(args);
        command.env("RELENT_CONFIG", "other/file.toml").env("RELENT_POLICY", "payments");
        stdout(&mut command, 0).lines().next().unwrap().to_owned()
    };
    assert_eq!(title(&["explain"]), "payments (other/file.toml)");
    assert_eq!(title(&["explain", "default"]), "default (other/file.toml)");
    assert_eq!(title(&["explain", "--policy", "default"]), "default (other/file.toml)");
}

#[test]
fn waits_are_those_of_the_core() {
    let policy = relent_core::Policy::exponential(std::time::Duration::from_millis(100)).build().unwrap();
    let answer = json(&["--max-attempts", "12", "--cap", "3s", "--jitter", "equal"]);
    let backoff =
        policy.to_builder().cap(std::time::Duration::from_secs(3)).jitter(relent_core::Jitter::Equal);
    let backoff = backoff.build().unwrap().backoff().clone();
    for (n, attempt) in (1u32..).zip(answer["attempts"].as_array().unwrap().iter().skip(1)) {
        let range = backoff.range(n, std::time::Duration::ZERO, relent_core::Memory::default());
        let wait = |key: &str| attempt["wait_ms"][key].as_f64().unwrap();
        assert_eq!(wait("lowest"), range.lowest.as_secs_f64() * 1e3);
        assert_eq!(wait("highest"), range.highest.as_secs_f64() * 1e3);
        assert_eq!(wait("mean"), (wait("lowest") + wait("highest")) / 2.0);
    }
    assert_eq!(answer["means"], "exact");
}

#[test]
fn drawn_means_are_where_theory_puts_them() {
    // The first decorrelated wait is drawn from [initial, 3 × initial): 200 ms in the mean, ± 4 standard errors.
    let answer = json(&["--jitter", "decorrelated"]);
    let mean = answer["attempts"][1]["wait_ms"]["mean"].as_f64().unwrap();
    let error = 200.0 / 12f64.sqrt() / 100.0;
    assert!((mean - 200.0).abs() < 4.0 * error, "{mean}");
    // The second from [100, 3 × the first): (100 + 3·200)/2.
    let mean = answer["attempts"][2]["wait_ms"]["mean"].as_f64().unwrap();
    assert!((mean - 350.0).abs() < 12.0, "{mean}");
}

#[test]
fn success_is_that_of_independent_attempts() {
    let answer = json(&["--failure-rate", "0.25", "--max-attempts", "3"]);
    let by_now: Vec<_> =
        answer["attempts"].as_array().unwrap().iter().map(|row| row["succeeded_by_now"].clone()).collect();
    assert_eq!(by_now, [0.75, 0.9375, 0.984375]);
    assert_eq!(answer["attempts_per_call"], 1.0 + 0.25 + 0.0625);
}

#[test]
fn a_deadline_cuts_and_says_how_many_calls_come_how_far() {
    // Waits of 1, 2, 4 s and instant failures: attempts at 0, 1, 3; the next would start at 7.
    let answer = json(&["--initial", "1s", "--jitter", "none", "--deadline", "6s"]);
    let reached: Vec<_> =
        answer["attempts"].as_array().unwrap().iter().map(|row| row["reached"].as_f64().unwrap()).collect();
    assert_eq!(reached, [1.0, 1.0, 1.0, 0.0]);
    assert_eq!(answer["when_all_fail"]["usual_reason"], "deadline_would_pass");
    assert_eq!(answer["when_all_fail"]["worst_case_ms"], 6000.0);
    assert_eq!(answer["when_all_fail"]["mean_calls"], 3.0);
}

#[test]
fn a_hint_is_never_undercut() {
    let answer = json(&["--retry-after", "10s", "--class", "throttled"]);
    let wait = &answer["attempts"][1]["wait_ms"];
    assert_eq!(wait["lowest"], 10_000.0);
    assert!(wait["highest"].as_f64().unwrap() > 10_900.0, "{wait}");
    // Without an assumption: three waits of the minute that is obeyed, each spread by a tenth.
    let asked = json(&[])["when_all_fail"]["waits_if_asked_ms"].as_f64().unwrap();
    assert!((asked - 198_000.0).abs() < 1.0, "{asked}");
    // Two minutes are more than is obeyed.
    let answer = json(&["--retry-after", "2m"]);
    assert_eq!(answer["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(answer["when_all_fail"]["usual_reason"], "hint_over_max");
}

#[test]
fn each_warning_and_its_absence() {
    const CASES: &[(&str, &[&str])] = &[
        ("no_retry", &["--max-attempts", "1"]),
        ("no_jitter", &["--jitter", "none"]),
        ("seeded", &["--seed", "7"]),
        ("immediate_first_retry", &["--first", "immediate"]),
        ("initial_too_short", &["--initial", "5ms"]),
        ("initial_too_short", &["--cap", "0s"]),
        ("no_cap", &["--cap", "none"]),
        ("cap_never_reached", &["--cap", "20s"]),
        ("unlimited_without_deadline", &["--max-attempts", "unlimited"]),
        ("last_attempt_unreachable", &["--jitter", "none", "--deadline", "500ms"]),
        ("last_attempt_rarely_reached", &["--initial", "1s", "--deadline", "900ms"]),
        ("hopeless_retried", &["--retry-on", "transient,permanent"]),
        ("caller_gives_up_first", &["--caller-timeout", "10s"]),
        ("failure_known_late", &["--initial", "1m", "--cap", "5m"]),
        ("hang_never_ends", &[]),
        ("hang_known_too_late", &["--deadline", "5s", "--attempt-timeout", "5s"]),
        ("unsafe_without_key", &["--not-idempotent"]),
    ];
    // A policy that nothing can be said against.
    let sound = ["--deadline", "20s", "--attempt-timeout", "2s"];
    assert_eq!(codes(&sound), [""; 0]);
    for (code, args) in CASES {
        assert!(codes(args).iter().any(|found| found == code), "{code}: {:?}", codes(args));
    }
    let harmless =
        [&sound[..], &["--not-idempotent", "--require-idempotency", "--caller-timeout", "20s"]].concat();
    assert_eq!(codes(&harmless), [""; 0]);
    // A floor keeps the cut waits apart, and so does a limit that ends the call before.
    let fit = [&sound[..], &["--on-deadline", "fit"]].concat();
    assert_eq!(codes(&fit), [""; 0]);
    assert_eq!(codes(&[&fit[..], &["--max-attempts", "unlimited", "--floor", "100ms"]].concat()), [""; 0]);
}

#[test]
fn what_lies_beyond_the_table_is_counted_too() {
    let endless = ["--max-attempts", "unlimited", "--failure-rate", "0.9"];
    let answer = json(&endless);
    assert!((answer["attempts_per_call"].as_f64().unwrap() - 10.0).abs() < 1e-9, "{answer}");
    assert!(answer["when_all_fail"]["mean_calls"].is_null(), "{answer}");
    assert!(answer["when_all_fail"]["usual_reason"].is_null(), "{answer}");
    let text = explained(&endless);
    assert!(text.contains("sees 10 attempts per call; in an outage without end."), "{text}");
    assert!(!text.contains("usually ends"), "{text}");

    let answer = json(&["--max-attempts", "30000", "--failure-rate", "1"]);
    assert_eq!(answer["when_all_fail"]["mean_calls"], 30_000.0);
    assert_eq!(answer["when_all_fail"]["usual_reason"], "attempts_exhausted");
    assert_eq!(answer["attempts_per_call"], 30_000.0);

    // A wait of 1 s each: a day holds 86 400 attempts, and a deadline ends them.
    let day = ["--backoff", "constant", "--initial", "1s", "--jitter", "none", "--max-attempts", "unlimited"];
    let answer = json(&[&day[..], &["--deadline", "1d"]].concat());
    assert_eq!(answer["when_all_fail"]["mean_calls"], 86_400.0);
    assert_eq!(answer["when_all_fail"]["usual_reason"], "deadline_would_pass");
    let text = explained(&[&day[..], &["--deadline", "36500d"]].concat());
    assert!(text.contains("more than 1000000 attempts") && !text.contains("usually ends"), "{text}");
}

#[test]
fn strict_fails_on_warnings_but_not_on_notes() {
    let place = Place::new("strict");
    stdout(&mut place.relent(&["explain", "--strict"]), 0);
    let text = stdout(&mut place.relent(&["explain", "--strict", "--jitter", "none"]), 1);
    assert!(text.contains("warning no_jitter"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_with_place_and_way_out() {
    let place = Place::new("refused");
    let refused = |args: &[&str]| stderr(&mut place.relent(&[&["explain"], args].concat()), 2);
    snapshot("refused-duration.txt", &refused(&["--initial", "5"]));
    snapshot("refused-word.txt", &refused(&["--jitter", "ful"]));
    snapshot("refused-policy.txt", &refused(&["payments"]));
    assert!(refused(&["--max-attempts", "0"]).contains("1 switches retries off"));
    assert!(refused(&["--jitter", "decorrelated", "--multiplier", "3"]).contains("has no effect"));
    assert!(refused(&["--failure-rate", "1.5"]).contains("from 0 to 1"));
    assert!(refused(&["--failure-rate", "-1"]).contains("from 0 to 1"));
    for option in ["--max-attempts", "--multiplier", "--seed"] {
        let complaint = refused(&[option, "-1"]);
        assert!(complaint.contains(&format!("{option} -1\n")), "{complaint}");
    }
    assert!(refused(&["--class", "bad"]).contains("transient"));
    assert!(refused(&["--class", "success"]).contains("do not fail that way"));
    assert!(refused(&["--jiter", "full"]).contains("--jitter"));
    assert!(refused(&["--latency", "3"]).contains("--latency"));
    place.write("relent.toml", "version = 1\n[policies.default]\nmax_retries = 3\nbackof.initial = 5\n");
    snapshot("refused-file.txt", &refused(&[]));
}

#[test]
fn a_file_that_cannot_be_read_is_a_failure() {
    let place = Place::new("unreadable");
    let complaint = stderr(&mut place.relent(&["explain", "--config", "nowhere.toml"]), 1);
    assert!(complaint.starts_with("error: reading the policy file nowhere.toml:"), "{complaint}");
    // A directory, a device without end, a long file, and one that is no text.
    fs::write(place.path().join("long.toml"), "#".repeat(300_000)).unwrap();
    fs::write(place.path().join("latin.toml"), b"version = 1\n# caf\xe9\n").unwrap();
    let cases = [
        (".", "irectory"),
        ("/dev/zero", "more than 262144 bytes"),
        ("long.toml", "more than 262144 bytes"),
        ("latin.toml", "line 2 is not UTF-8"),
    ];
    for (path, why) in cases {
        let complaint = stderr(&mut place.relent(&["explain", "--config", path]), 1);
        assert!(complaint.contains(why), "{path}: {complaint}");
    }
}

#[test]
fn a_name_in_the_environment_is_never_passed_over() {
    let place = Place::new("names");
    let refused = |name: &OsStr| stderr(place.relent(&["explain"]).env("RELENT_POLICY", name), 2);
    assert!(refused(OsStr::new("payments")).contains("policy \"payments\" of RELENT_POLICY"));
    assert!(refused(OsStr::from_bytes(b"pay\xff")).contains("RELENT_POLICY=\"pay\\xFF\": not UTF-8"));
    // Set to nothing is not set.
    stdout(place.relent(&["explain"]).env("RELENT_POLICY", "").env("RELENT_CONFIG", ""), 0);
}

#[test]
fn a_call_too_long_to_be_looked_at_is_not_called_endless() {
    let text = explained(&["--max-attempts", "20000"]).replace("not\nadded", "not added");
    assert!(text.contains("up to 20000 calls; the waits of 10000 and more are not added up"), "{text}");
    assert!(!text.contains("never ends") && !text.contains("without end"), "{text}");
    assert_eq!(json(&["--max-attempts", "20000"])["when_all_fail"]["calls"], 20_000);
}

#[test]
fn every_extreme_has_an_answer() {
    const EXTREMES: &[&[&str]] = &[
        &["--max-attempts", "4294967295", "--deadline", "1s"],
        &["--max-attempts", "4294967295", "--cap", "none", "--multiplier", "1000000"],
        &["--initial", "0s"],
        &["--initial", "0s", "--max-attempts", "unlimited", "--deadline", "1h"],
        &["--initial", "36500d", "--cap", "none", "--max-attempts", "1000"],
        &["--backoff", "csma", "--slot", "51.2us", "--max-attempts", "16"],
        &["--backoff", "fibonacci", "--cap", "none", "--max-attempts", "200", "--rows", "1000"],
        &["--waits", "1s,5s,1h", "--backoff", "list", "--failure-rate", "1"],
        &["--failure-rate", "0", "--max-attempts", "1"],
        &["--jitter", "decorrelated_v2", "--max-attempts", "5", "--cap", "365d"],
        &["--latency", "213503d", "--deadline", "1s", "--attempt-timeout", "1s"],
        &["--deadline", "1ns", "--on-deadline", "fit"],
        &["--retry-after", "213503d", "--hint-max", "213503d"],
        &["--retry-after", "99999h", "--hint-max", "213503d", "--hint-over-max", "clamp"],
    ];
    for extreme in EXTREMES {
        let text = explained(extreme);
        assert!(text.contains("If every attempt fails"), "{extreme:?}: {text}");
        json(extreme);
        explained(&[extreme, &["--format", "markdown"][..]].concat());
    }
}

#[test]
fn what_calls_share_is_said_in_words_with_its_warnings() {
    let text = "version = 1\n\
        [policies.p]\nattempt_timeout = \"5s\"\nbudget = \"outbound\"\nhedge = { delay = \"10s\" }\nrate_limit = \"10/s\"\n\
        breaker = { window = { kind = \"time\", size = \"10s\" }, mode = \"forced_open\" }\n\
        [policies.bare]\nhedge = \"quantile\"\n\
        [budgets.outbound]\nscope = \"process\"\nkind = \"token_bucket\"\ncapacity = 100\nrefill = \"10/s\"\n";
    let place = Place::new(&unique());
    place.write("relent.toml", text);
    let explained = |name: &str| -> Value {
        serde_json::from_str(&stdout(&mut place.relent(&["explain", name, "--json"]), 0)).unwrap()
    };
    let codes = |answer: &Value| -> Vec<String> {
        let warnings = answer["warnings"].as_array().unwrap().iter();
        warnings.map(|warning| warning["code"].as_str().unwrap().to_owned()).collect()
    };
    let p = explained("p");
    let lines: Vec<&str> = p["shared"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines[0].starts_with(
        "Budget outbound (one for the whole process): 100 tokens: in a full outage 100 retries, then"
    ));
    assert!(
        lines[1].contains("50 % of the calls of the last 10s have failed, of at least 20; for 5s"),
        "{lines:#?}"
    );
    for code in ["hedge_too_late", "endless_queue", "breaker_forced_open", "breaker_min_calls"] {
        assert!(codes(&p).iter().any(|found| found == code), "{code} is not told: {:?}", codes(&p));
    }
    let bare = codes(&explained("bare"));
    assert!(bare.iter().any(|code| code == "hedge_without_budget"), "{bare:?}");
    assert!(!bare.iter().any(|code| code == "hedge_too_late"), "{bare:?}");
}
