//! Presets as whole processes: explained by name, side by side, and made of the user's own AWS settings.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

mod support;

use std::fs;
use std::path::Path;

use relent_config::Preset;
use serde_json::Value;
use support::{Place, stderr, stdout};

#[test]
fn every_preset_is_explained_by_its_name() {
    let place = Place::new("preset-by-name");
    for preset in Preset::all() {
        let name = preset.name();
        let text = stdout(&mut place.relent(&["explain", "--preset", name]), 0);
        assert!(text.starts_with(&format!("preset {name}\n")), "{text}");
        assert!(text.contains(&format!("Preset {name}")) && text.contains(preset.checked()), "{text}");
        assert!(preset.example().is_none_or(|example| text.contains(example)), "{text}");
        assert_eq!(preset.example().is_some(), !preset.parameters().is_empty(), "{name}");
        assert!(preset.sources().iter().all(|source| text.contains(source)), "{text}");
        let json = stdout(&mut place.relent(&["explain", "--preset", name, "--json"]), 0);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["policy"]["preset"]["name"], name);
        let page = stdout(&mut place.relent(&["explain", "--preset", name, "--format", "markdown"]), 0);
        assert!(page.contains(&format!("Preset `{name}`")), "{page}");
    }
    let resolved = stdout(
        &mut place.relent(&["explain", "--preset", "aws-standard-dynamodb", "--resolved", "--cap", "2s"]),
        0,
    );
    assert!(
        resolved.contains("preset aws-standard-dynamodb") && resolved.contains("preset aws-standard"),
        "{resolved}"
    );
    assert!(resolved.contains("--cap"), "{resolved}");
    let told = stderr(&mut place.relent(&["explain", "--preset", "aws-standart"]), 2);
    assert!(
        told.contains("did you mean \"aws-standard\"?") && told.contains("aws-legacy-dynamodb"),
        "{told}"
    );
}

/// `relent explain --presets --format markdown` makes the table of `docs/presets/README.md`.
#[test]
fn the_table_in_the_documentation_is_in_step() {
    let place = Place::new("preset-table");
    let table = stdout(&mut place.relent(&["explain", "--presets", "--format", "markdown"]), 0);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/presets/README.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- table -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- /table -->").unwrap();
    let anew = format!("{before}<!-- table -->\n{table}<!-- /table -->{after}");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &anew).unwrap();
    } else {
        assert!(page == anew, "docs/presets/README.md is out of step (UPDATE_SNAPSHOTS=1 writes it)");
    }
    for preset in Preset::all() {
        assert!(table.contains(&format!("| `{}` |", preset.name())), "{table}");
    }
}

const FILE: &str = "version = 1\n[policies.tables]\npreset = \"aws-env\"\nbackoff = { initial = \"1ms\", cap = \"2ms\" }\non.throttled = \"none\"\n";

/// A command that leaves a mark for each time it was run, and fails.
const FAIL: [&str; 3] = ["sh", "-c", "echo . >> runs; exit 1"];

fn runs(place: &Place) -> usize {
    fs::read_to_string(place.path().join("runs")).unwrap_or_default().lines().count()
}

#[test]
fn run_takes_the_users_real_settings() {
    let place = Place::new("aws-env");
    place.write("relent.toml", FILE);
    place.write(
        "home/.aws/config",
        "[default]\nmax_attempts = 2\n\n[profile dev]\nmax_attempts = 4\nretry_mode = standard\n",
    );
    let home = place.path().join("home");
    let run = [&["run", "--policy", "tables", "--"], &FAIL[..]].concat();
    for (variables, expected) in [
        (&[][..], 2),
        (&[("AWS_PROFILE", "dev")], 4),
        (&[("AWS_PROFILE", "dev"), ("AWS_MAX_ATTEMPTS", "1")], 1),
        (&[("AWS_CONFIG_FILE", "/nonexistent")], 3),
    ] {
        let _ = fs::remove_file(place.path().join("runs"));
        let mut command = place.relent(&run);
        command.env("HOME", &home).env("PATH", "/usr/bin:/bin").envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(runs(&place), expected, "{variables:?}");
    }

    let mut command = place.relent(&["explain", "tables", "--resolved"]);
    let resolved = stdout(command.env("HOME", &home).env("AWS_PROFILE", "dev"), 0);
    assert!(resolved.contains("home/.aws/config:5"), "{resolved}");
    assert!(resolved.contains("home/.aws/config:6"), "{resolved}");
}

#[test]
fn a_wrong_setting_is_told_with_file_and_line_and_nothing_is_run() {
    let place = Place::new("aws-env-wrong");
    place.write("relent.toml", FILE);
    place.write("home/.aws/config", "[default]\nregion = eu-west-1\nmax_attempts = 0\nretry_mode = sturdy\n");
    let home = place.path().join("home");
    let run = [&["run", "--policy", "tables", "--"], &FAIL[..]].concat();
    let mut command = place.relent(&run);
    let told = stderr(command.env("HOME", &home).env("PATH", "/usr/bin:/bin"), 125);
    assert!(told.contains("home/.aws/config:3:16") && told.contains("0 attempts are refused"), "{told}");
    assert!(told.contains("home/.aws/config:4:14") && told.contains("\"sturdy\" is no retry mode"), "{told}");
    assert_eq!(runs(&place), 0);
    let mut command = place.relent(&["explain", "tables"]);
    let told =
        stderr(command.env("HOME", &home).env("AWS_RETRY_MODE", "standard").env("AWS_MAX_ATTEMPTS", "x"), 2);
    assert!(told.contains("AWS_MAX_ATTEMPTS=x") && told.contains("\"x\" is no number of attempts"), "{told}");
}
