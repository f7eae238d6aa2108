//! What presets may look at beside the policy file.

use std::env;
use std::io;
use std::path::Path;

use relent_config::Surroundings;

use crate::policy_args::text_of;

/// The environment of this process, and its files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine;

impl Surroundings for Machine {
    fn variable(&self, name: &str) -> Option<String> {
        // What is not UTF-8 is no word that anybody knows, and is refused as such.
        env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn file(&self, path: &str) -> Result<Option<String>, String> {
        match text_of(Path::new(path)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}
