//! The README does what it says: its transcripts are executed, its policy file is read.

#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The blocks of a language in the README.
fn blocks(language: &str) -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut blocks = Vec::new();
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        if line == format!("```{language}") {
            blocks.push(lines.by_ref().take_while(|line| *line != "```").collect::<Vec<_>>().join("\n"));
        }
    }
    blocks
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a line as a reader would type it, with this build's `relent` first in the path.
fn typed(line: &str, directory: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_relent"));
    let others = env::var_os("PATH").unwrap();
    let path = [program.parent().unwrap().to_owned()].into_iter().chain(env::split_paths(&others));
    let output = Command::new("sh")
        .args(["-c", &format!("{{ {line}\n}} 2>&1")])
        .env("PATH", env::join_paths(path).unwrap())
        .env_remove("RELENT_CONFIG")
        .env_remove("RELENT_POLICY")
        .current_dir(directory)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn its_transcripts_are_what_the_program_prints() {
    let directory = scratch("readme-transcripts");
    let transcripts = blocks("console");
    assert!(transcripts.len() >= 2, "the README has lost its transcripts");
    for transcript in transcripts {
        let (command, expected) = transcript.split_once('\n').unwrap_or((&transcript, ""));
        let line = command.strip_prefix("$ ").expect("a transcript begins with what is typed");
        assert_eq!(typed(line, &directory).trim_end(), expected, "what `{line}` prints");
    }
}

#[test]
fn its_policy_file_is_valid() {
    let directory = scratch("readme-policy");
    let files = blocks("toml");
    assert_eq!(files.len(), 1);
    fs::write(directory.join("relent.toml"), &files[0]).unwrap();
    let printed = typed("relent explain --policy default", &directory);
    assert!(printed.contains("4 attempts"), "{printed}");
}

#[test]
fn its_links_lead_somewhere() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let targets: Vec<&str> = readme
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://"))
        .collect();
    assert!(targets.len() > 5);
    for target in targets {
        assert!(root().join(target).exists(), "the README leads to {target}, which is not there");
    }
}
