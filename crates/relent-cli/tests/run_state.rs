//! `relent run --state`: runs that know of each other, whatever happens to them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may panic")]

mod run_support;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use run_support::{Done, PATIENCE, finish, run, until};
use serde_json::Value;

/// An empty directory of this test's own.
fn fresh(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{name}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory.join("state.json")
}

fn with_state(file: &Path, options: &[&str], script: &str) -> Done {
    let state = ["--state", file.to_str().unwrap()];
    finish(&mut run(&[&state, options].concat(), &["sh", "-c", script]))
}

fn json(file: &Path) -> Value {
    let text = fs::read(file).unwrap();
    serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&text)))
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// Changes one number of the only breaker.
fn set(file: &Path, key: &str, value: u64) {
    let mut record = json(file);
    let parts = record["parts"].as_object_mut().unwrap();
    let breaker = parts.values_mut().find_map(|part| part["state"].get_mut("breaker")).unwrap();
    breaker[key] = value.into();
    fs::write(file, record.to_string()).unwrap();
}

fn breaker(file: &Path) -> Value {
    let record = json(file);
    let parts = record["parts"].as_object().unwrap();
    parts.values().find_map(|part| part["state"].get("breaker")).unwrap().clone()
}

const THREE: &str = "{ window = { kind = \"consecutive\" }, failures = 3 }";

#[test]
fn a_job_that_keeps_failing_is_left_alone_and_comes_back() {
    let file = fresh("cron");
    let count = file.with_file_name("count");
    let script =
        format!("echo x >> '{}'; test -e '{}'", count.display(), file.with_file_name("up").display());
    let attempts = || fs::read_to_string(&count).unwrap_or_default().lines().count();
    let once = || with_state(&file, &["--max-attempts", "2", "--breaker", THREE], &script);
    assert_eq!(once().code(), 1);
    assert_eq!(attempts(), 2);
    // The third failure in a row opens it; the run ends with it, and with the command's code.
    let opens = once();
    assert_eq!((opens.code(), attempts()), (1, 3));
    assert!(opens.stderr.contains("the circuit is open: the next attempt in "), "{opens:?}");
    for _ in 0..3 {
        let refused = once();
        assert_eq!((refused.code(), attempts()), (75, 3), "{refused:?}");
        assert!(
            refused.stderr.contains("not attempted; the circuit is open: the next attempt in "),
            "{refused:?}"
        );
    }
    assert_eq!(breaker(&file)["state"], "open");
    // Its time is over: one probe, which fails, so that it is open again, for longer.
    let opened_for = breaker(&file)["at"].as_u64().unwrap() - breaker(&file)["latest"].as_u64().unwrap();
    assert!(opened_for > 3_000_000_000, "{opened_for}");
    set(&file, "at", now() - 1);
    assert_eq!((once().code(), attempts()), (1, 4));
    assert_eq!(breaker(&file)["opens"], 2);
    set(&file, "at", now() - 1);
    File::create(file.with_file_name("up")).unwrap();
    assert_eq!((once().code(), attempts()), (0, 5));
    assert_eq!(breaker(&file)["state"], "closed");
}

#[test]
fn a_budget_lasts_from_run_to_run() {
    let file = fresh("budget");
    let budget = ["--max-attempts", "3", "--budget", "{ kind = \"quota\", capacity = 3, cost = 1 }"];
    let failing = || with_state(&file, &budget, "exit 7");
    let attempts = |done: &Done| done.stderr.matches("exit code 7").count();
    assert_eq!(attempts(&failing()), 3);
    let spent = failing();
    assert_eq!(spent.code(), 7);
    assert!(spent.stderr.contains("the retry budget is spent"), "{spent:?}");
    let left = |file: &Path| {
        json(file)["parts"].as_object().unwrap().values().next().unwrap()["state"]["quota"]["balance"].clone()
    };
    assert_eq!(left(&file), 0);
    // A success at the first try earns one.
    assert_eq!(with_state(&file, &[&budget[..], &["--state-key", "other"]].concat(), "true").code(), 0);
    assert_eq!(left(&file), 3, "a key of its own has a budget of its own, and comes first");
}

#[test]
fn what_the_file_does_not_name_begins_with_a_breaker_for_jobs() {
    let file = fresh("default");
    assert_eq!(with_state(&file, &["--max-attempts", "5", "--state-key", "job"], "exit 3").code(), 3);
    let done = with_state(&file, &["--max-attempts", "9", "--state-key", "job"], "exit 3");
    assert_eq!(done.code(), 3, "{done:?}");
    assert_eq!(breaker(&file)["state"], "open");
    assert_eq!(with_state(&file, &["--state-key", "job"], "true").code(), 75);
    // Another job has nothing to do with it, and its words do not stand in the file.
    assert_eq!(with_state(&file, &[], "true secret-word").code(), 0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"job breaker\"") && text.contains("\"sh-") && !text.contains("secret"), "{text}");
}

#[test]
fn a_named_part_of_the_whole_process_is_there_for_all_policies() {
    let file = fresh("named");
    let config = file.with_file_name("relent.toml");
    fs::write(
        &config,
        "version = 1\n[breakers.db]\nscope = \"process\"\nwindow = { kind = \"consecutive\" }\nfailures = 2\n\
         [policies.a]\nbreaker = \"db\"\nmax_attempts = 2\n[policies.b]\nbreaker = \"db\"\n",
    )
    .unwrap();
    let of = |policy: &str, script: &str| {
        with_state(&file, &["--config", config.to_str().unwrap(), "--policy", policy], script).code()
    };
    assert_eq!(of("a", "exit 4"), 4);
    assert_eq!(of("b", "true"), 75);
    assert!(fs::read_to_string(&file).unwrap().contains("\"[breakers.db]\""));
}

#[test]
fn a_file_that_cannot_be_gone_on_from_is_refused_and_left_alone() {
    let file = fresh("bad");
    for (text, says) in [
        ("", "it is empty"),
        ("{", "it is damaged, or no state file"),
        ("[1, 2]", "it is no state file"),
        ("{\"relent_state\": 2, \"parts\": []}", "its version is 2, and this relent knows 1"),
        ("{\"relent_state\": 1}", "it is damaged: missing field `parts`"),
        ("{\"relent_state\": 1, \"parts\": {\"a\": {\"policy\": \"\", \"used\": -1}}}", "it is damaged"),
    ] {
        fs::write(&file, text).unwrap();
        let done = with_state(&file, &[], "echo ran");
        assert_eq!((done.code(), done.stdout.as_str()), (125, ""), "{text}: {done:?}");
        assert!(done.stderr.contains(says) && done.stderr.contains("move the file away"), "{done:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(with_state(&file, &[], "true").code(), 125);
    let nowhere = file.with_file_name("no").join("state.json");
    assert_eq!(with_state(&nowhere, &[], "true").code(), 125);
    assert_eq!(finish(&mut run(&["--state-key", "x"], &["true"])).code(), 125);
}

#[test]
fn another_policy_begins_anew() {
    let file = fresh("changed");
    let one = ["--state-key", "x", "--max-attempts", "3", "--breaker", THREE];
    assert_eq!(with_state(&file, &one, "exit 1").code(), 1);
    assert_eq!(with_state(&file, &one, "true").code(), 75);
    let other = ["--state-key", "x", "--breaker", "{ window = { kind = \"consecutive\" }, failures = 4 }"];
    let done = with_state(&file, &other, "true");
    assert_eq!(done.code(), 0);
    assert!(done.stderr.contains("the policy of \"x breaker\" has changed: it begins anew"), "{done:?}");
    assert_eq!(with_state(&file, &other, "true").stderr, "");
}

#[test]
fn a_clock_that_was_set_back_keeps_nobody_out_for_longer() {
    let file = fresh("clock");
    let options = ["--max-attempts", "3", "--breaker", THREE];
    assert_eq!(with_state(&file, &options, "exit 1").code(), 1);
    // As if it had been written in a year's time, when it was open for another hour.
    let year = now() + 365 * 24 * 3600 * 1_000_000_000;
    set(&file, "latest", year);
    set(&file, "at", year + 3600 * 1_000_000_000);
    assert_eq!(with_state(&file, &options, "exit 1").code(), 75);
    let left = breaker(&file)["at"].as_u64().unwrap() - now();
    assert!((3500..=3600).contains(&(left / 1_000_000_000)), "{left}");
}

#[test]
fn what_nobody_has_used_for_long_is_forgotten() {
    let file = fresh("pruned");
    with_state(&file, &["--state-key", "old"], "true");
    let mut record = json(&file);
    record["parts"]["old breaker"]["used"] = (now() - 31 * 24 * 3600 * 1_000_000_000).into();
    fs::write(&file, record.to_string()).unwrap();
    with_state(&file, &["--state-key", "new"], "true");
    let record = json(&file);
    assert_eq!(record["parts"].as_object().unwrap().keys().collect::<Vec<_>>(), ["new breaker"]);
}

/// Jobs whose arguments differ each time have a part each: the file must not outgrow what is read of it.
#[test]
fn a_file_that_would_be_too_large_forgets_the_oldest() {
    const LARGEST: usize = 1 << 22;
    let file = fresh("large");
    let once = || with_state(&file, &["--max-attempts", "1", "--state-key", "mine"], "exit 3");
    assert_eq!(once().code(), 3);
    let mut record = json(&file);
    let parts = record["parts"].as_object_mut().unwrap();
    let part = parts.values().next().unwrap().clone();
    let each = part.to_string().len() + 20;
    for n in 0..(LARGEST - 100_000) / each {
        let mut older = part.clone();
        older["used"] = (part["used"].as_u64().unwrap() - 1_000_000 - n as u64).into();
        parts.insert(format!("job {n:06}"), older);
    }
    fs::write(&file, record.to_string()).unwrap();
    for failures in 2..4 {
        let done = once();
        assert_eq!(done.code(), 3, "{done:?}");
        assert!(!done.stderr.contains("large"), "{done:?}");
        assert!(fs::metadata(&file).unwrap().len() <= LARGEST as u64);
        let record = json(&file);
        let mine = record["parts"].as_object().unwrap().iter().find(|(name, _)| name.starts_with("mine"));
        assert_eq!(mine.unwrap().1["state"]["breaker"]["statistics"]["failures"], failures);
    }
}

#[test]
fn processes_share_exactly_so_many_probes() {
    let file = fresh("probes");
    let three_probes = "{ window = { kind = \"consecutive\" }, failures = 1, max_probes = 3, open_for = { initial = \"1h\" } }";
    let options = ["--max-attempts", "1", "--state-key", "x", "--breaker", three_probes];
    assert_eq!(with_state(&file, &options, "exit 1").code(), 1);
    set(&file, "at", now() - 1);
    let ran = file.with_file_name("ran");
    let go = file.with_file_name("go");
    let script =
        format!("echo x >> '{}'; until test -e '{}'; do sleep 0.01; done", ran.display(), go.display());
    let state = ["--state", file.to_str().unwrap()];
    let mut children: Vec<_> = (0..12)
        .map(|_| {
            let mut command = run(&[&state, &options[..]].concat(), &["sh", "-c", &script]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let mut refused = 0;
    until("nine are refused", || {
        children.retain_mut(|child| match child.try_wait().unwrap() {
            Some(status) => {
                assert_eq!(status.code(), Some(75));
                refused += 1;
                false
            }
            None => true,
        });
        (refused == 9).then_some(())
    });
    assert_eq!(children.len(), 3);
    File::create(&go).unwrap();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(fs::read_to_string(&ran).unwrap().lines().count(), 3);
    assert_eq!(breaker(&file)["state"], "closed");
}

#[test]
fn whoever_is_killed_leaves_a_file_that_can_be_read() {
    let file = fresh("killed");
    let options =
        ["--state", file.to_str().unwrap(), "--state-key", "x", "--max-attempts", "50", "--breaker"];
    let options = [&options[..], &["{ window = { size = 100 } }"]].concat();
    // Attempts that are over at once: nearly all of the time is spent with the file.
    for round in 0..60u64 {
        let mut command = run(&[&options[..], &["--initial", "0s"]].concat()[..], &["false"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(500 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        if file.exists() {
            json(&file);
        }
    }
    let done = with_state(&file, &["--state-key", "x", "--breaker", "{ window = { size = 100 } }"], "true");
    assert!(matches!(done.code(), 0 | 75), "{done:?}");
    assert!(!done.stderr.contains("state file"), "{done:?}");
}

#[test]
fn a_lock_that_nobody_gives_back_keeps_no_command_from_running() {
    let file = fresh("locked");
    assert_eq!(with_state(&file, &[], "true").code(), 0);
    let held = File::options().write(true).open(file.with_file_name(".state.json.lock")).unwrap();
    held.lock().unwrap();
    let done = with_state(&file, &["--max-attempts", "1"], "echo ran");
    assert_eq!((done.code(), done.stdout.as_str()), (0, "ran\n"));
    assert!(done.stderr.contains("another process holds its lock and does nothing"), "{done:?}");
    assert_eq!(done.stderr.lines().count(), 1, "it is said once");
    assert!(done.took < PATIENCE);
}

#[test]
fn a_file_that_cannot_be_written_is_told_about() {
    let file = fresh("forbidden");
    let directory = file.parent().unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o555)).unwrap();
    let done = with_state(&file, &[], "true");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    // Root may write everywhere.
    if !nix::unistd::Uid::effective().is_root() {
        assert_eq!(done.code(), 125, "{done:?}");
        assert!(done.stderr.contains("state.json"), "{done:?}");
    }
}

#[test]
fn what_lies_beside_the_file_is_neither_written_to_nor_waited_for() {
    let file = fresh("beside");
    let (new, lock) = (file.with_file_name(".state.json.new"), file.with_file_name(".state.json.lock"));
    let other = file.with_file_name("other");
    let pipe =
        |path: &Path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    fs::write(&other, "another's").unwrap();
    std::os::unix::fs::symlink(&other, &new).unwrap();
    assert_eq!(with_state(&file, &[], "true").code(), 0);
    assert_eq!(fs::read_to_string(&other).unwrap(), "another's");
    assert!(fs::symlink_metadata(&file).unwrap().is_file());

    pipe(&new);
    assert_eq!(with_state(&file, &["--state-key", "second"], "true").code(), 0);
    assert_eq!(json(&file)["parts"].as_object().unwrap().len(), 2);

    fs::remove_file(&lock).unwrap();
    pipe(&lock);
    let refused = with_state(&file, &[], "true");
    assert_eq!(refused.code(), 125, "{refused:?}");
    assert!(refused.stderr.contains(".state.json.lock) is no file"), "{refused:?}");
}

#[test]
fn without_a_file_a_breaker_lasts_for_one_run() {
    let done = finish(&mut run(&["--breaker", THREE, "--max-attempts", "9"], &["false"]));
    assert_eq!(done.code(), 1);
    assert!(
        done.stderr.contains("gave up after 3 attempts") && done.stderr.contains("the circuit is open"),
        "{done:?}"
    );
    assert_eq!(finish(&mut run(&["--breaker", THREE], &["true"])).code(), 0);
}
