//! `relent demo`.
use crate::exit::{Error, ExitCode};
use crate::terminal::Terminal;
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}
pub(crate) fn run(_: &Args, _: &Terminal) -> Result<ExitCode, Error> {
    Ok(ExitCode::Success)
}
