//! The fuzzer's corpus, replayed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod checks;

use std::fs;
use std::path::Path;

fn replay(target: &str, check: fn(&str)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if let Ok(text) = String::from_utf8(fs::read(&path).unwrap()) {
            println!("{}", path.display());
            check(&text);
            count += 1;
        }
    }
    assert!(count >= 10, "{} has {count} texts", folder.display());
}

#[test]
fn responses() {
    replay("response", checks::response);
}

#[test]
fn layers() {
    replay("layers", checks::layers);
}
