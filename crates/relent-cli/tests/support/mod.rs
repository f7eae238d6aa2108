//! The program as a whole process, in a directory of its own and with nothing of the caller's environment.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// A directory that is gone after the test.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        fs::create_dir_all(self.0.join(name).parent().unwrap()).unwrap();
        fs::write(self.0.join(name), text).unwrap();
        self
    }

    /// `relent` with these arguments, here.
    pub(crate) fn relent(&self, args: &[&str]) -> Command {
        self.relent_in("", args)
    }

    pub(crate) fn relent_in(&self, directory: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relent"));
        command.args(args).current_dir(self.0.join(directory)).env_clear().env("LANG", "C.UTF-8");
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What it printed, of a run that ended with `code`.
pub(crate) fn stdout(command: &mut Command, code: i32) -> String {
    let output = run(command, code);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What it complained about, of a run that ended with `code`.
pub(crate) fn stderr(command: &mut Command, code: i32) -> String {
    let output = run(command, code);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "{command:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn run(command: &mut Command, code: i32) -> Output {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{command:?}\n{text}");
    output
}

/// Compares with `tests/snapshots/NAME`; with `UPDATE_SNAPSHOTS` set, writes it instead.
pub(crate) fn snapshot(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == actual,
        "{name} differs (UPDATE_SNAPSHOTS=1 accepts it)\n--- expected\n{expected}\n--- actual\n{actual}"
    );
}
