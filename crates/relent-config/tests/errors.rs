//! What is told about bad files: each `errors/NAME.toml` against `errors/NAME.txt`.
//!
//! `UPDATE_EXPECTED=1 cargo test -p relent-config --test errors` writes the expected texts anew; look at the
//! difference before it is committed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::fs;
use std::path::Path;

use relent_config::File;

#[test]
fn bad_files_are_told_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors");
    let update = std::env::var_os("UPDATE_EXPECTED").is_some();
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 20, "the cases are missing");
    let mut failed = Vec::new();
    for name in names {
        let text = fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
        let told = match File::parse(&text, "relent.toml") {
            Ok(_) => panic!("{name}.toml is valid"),
            Err(errors) => errors.to_string(),
        };
        let expected = folder.join(format!("{name}.txt"));
        if update {
            fs::write(&expected, &told).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != told {
            failed.push(format!("── {name} ──\n{told}"));
        }
    }
    assert!(failed.is_empty(), "not as expected:\n{}", failed.join("\n"));
}
