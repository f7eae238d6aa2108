//! The command line, defined once: parsing, `--help`, completions and manual pages come from here.

use clap::{Parser, Subcommand, ValueEnum};

use crate::{demo, explain, flaky, run, simulate};

/// Retries that know when to relent: one policy, decided in one place, obeyed everywhere.
#[derive(Debug, Parser)]
#[command(name = "relent", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// When to use colours
    #[arg(
        long,
        value_enum,
        default_value_t,
        global = true,
        value_name = "WHEN",
        help_heading = "Global options"
    )]
    pub(crate) color: Color,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  relent demo                          see what this is for, in five seconds
  relent explain                       what the default policy does, attempt by attempt
  relent explain payments --resolved   a policy of relent.toml, and where each value comes from
  relent run -- curl -fsS URL          a command, again until it succeeds
  relent flaky --script '503*2,200'    a server that fails on command
  relent simulate outage               what policies do to a fleet";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what this is for: a flaky service called for real, then a fleet in an outage
    Demo(demo::Args),
    /// Show what a policy does: waits, worst case, what each attempt gains, and what is wrong with it
    #[command(after_help = explain::EXAMPLES, args_override_self = true)]
    Explain(Box<explain::Args>),
    /// Serve HTTP that fails on command, for tests, demos and CI
    #[command(after_help = flaky::EXAMPLES, args_override_self = true)]
    Flaky(Box<flaky::Args>),
    /// Run a command, and again until it succeeds or the policy says stop
    #[command(after_help = run::EXAMPLES, args_override_self = true)]
    Run(Box<run::Args>),
    /// Show what policies do to a fleet, in virtual time: load, success, latency, recovery
    #[command(after_help = simulate::EXAMPLES, args_override_self = true)]
    Simulate(Box<simulate::Args>),
    /// Print a shell's completions
    #[command(
        after_help = "Example:\n  relent completions bash > ~/.local/share/bash-completion/completions/relent"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print a manual page (roff)
    #[command(after_help = "Examples:\n  relent man | man -l -\n  relent man explain | man -l -")]
    Man {
        /// The command to describe; `relent` itself if left out
        command: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    /// Makes the choice that of every stream written to from now on.
    pub(crate) fn apply(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::AlwaysAnsi,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
