//! How the program ends: one enum of exit codes, one error that says what, where and what to do about it.

use std::fmt;
use std::io;
use std::process;

use crate::terminal::style;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitCode {
    /// 0
    Success,
    /// 1: it was done and the answer is bad, or it could not be done.
    Failure,
    /// 2: what was asked for makes no sense: an unknown option, a value or a policy that is refused.
    Usage,
    /// 130, as a shell has it: Ctrl-C ended it early; what there was by then was shown.
    Interrupted,
    /// That of the command that was run.
    Command(u8),
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(match code {
            ExitCode::Success => 0,
            ExitCode::Failure => 1,
            ExitCode::Usage => 2,
            ExitCode::Interrupted => 130,
            ExitCode::Command(code) => code,
        })
    }
}

/// Why a command could not do what was asked.
#[derive(Debug)]
pub(crate) enum Error {
    /// What was asked for makes no sense.
    Usage {
        /// What is wrong, and where: begins with the option, or with file, line and column.
        what: String,
        /// The way out, if one is known.
        help: Option<String>,
    },
    /// A policy is refused. Its message names each place by itself.
    Policy(relent_config::Errors),
    /// The outside world did not play along.
    Failure {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// The output could not be written.
    Output(io::Error),
}

impl Error {
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), help: None }
    }

    /// The same with a way out.
    pub(crate) fn help(self, way_out: impl Into<String>) -> Self {
        match self {
            Self::Usage { what, .. } => Self::Usage { what, help: Some(way_out.into()) },
            other => other,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage { .. } | Self::Policy(_) => ExitCode::Usage,
            Self::Failure { .. } | Self::Output(_) => ExitCode::Failure,
        }
    }
}

impl From<relent_config::Errors> for Error {
    fn from(errors: relent_config::Errors) -> Self {
        Self::Policy(errors)
    }
}

impl From<io::Error> for Error {
    /// Only writing our own output uses `?` on an I/O error; everything else says what was tried.
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (red, green) = (style::ERROR, style::GOOD);
        match self {
            Self::Usage { what, help } => {
                writeln!(f, "{red}error:{red:#} {what}")?;
                match help {
                    Some(help) => writeln!(f, "{green} help:{green:#} {help}"),
                    None => Ok(()),
                }
            }
            Self::Policy(errors) => errors.fmt(f),
            Self::Failure { what, source } => writeln!(f, "{red}error:{red:#} {what}: {source}"),
            Self::Output(source) => writeln!(f, "{red}error:{red:#} writing the output: {source}"),
        }
    }
}
