use std::io::Write; use relent_core::{Policy,PolicyError};
pub(super) fn policy() -> Result<Policy, PolicyError> { Policy::exponential(std::time::Duration::from_millis(100)).build() }
pub(super) fn call(_out: &mut impl Write) -> Result<(), crate::exit::Error> { Ok(()) }
