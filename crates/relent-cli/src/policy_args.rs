//! The policy options, by the names that the policy file has; `relent explain` and `relent run` share them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use relent_core::{Backoff, Policy, Schedule};

use crate::exit::Error;

mod layers;

/// Which policy is meant: a name in a policy file, single values, or both (the values win).
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyArgs {
    /// Policy file; without it `relent.toml` is looked for in this directory and those above
    #[arg(long, value_name = "FILE", env = "RELENT_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    /// Policy of that file [default: the one named "default", if there is one]
    #[arg(long = "policy", value_name = "NAME", env = "RELENT_POLICY", hide_env_values = true)]
    pub(crate) policy: Option<String>,
    /// Attempts at most, the first included; 1 switches retries off
    #[arg(long, value_name = "N|unlimited")]
    max_attempts: Option<String>,
    /// End of the whole call, waits included
    #[arg(long, value_name = "DURATION")]
    deadline: Option<String>,
    /// Part of the deadline kept back for the caller's own work
    #[arg(long, value_name = "DURATION", requires = "deadline")]
    reserve: Option<String>,
    /// What happens with a wait that would reach past the deadline: the call ends, or the wait is cut
    #[arg(long, value_name = "stop|fit")]
    on_deadline: Option<String>,
    /// End of each attempt
    #[arg(long, value_name = "DURATION")]
    attempt_timeout: Option<String>,
    /// Schedule: constant, linear, exponential, fibonacci, list or csma
    #[arg(long, value_name = "KIND")]
    backoff: Option<String>,
    /// First wait
    #[arg(long, value_name = "DURATION")]
    initial: Option<String>,
    /// Growth of an exponential schedule
    #[arg(long, value_name = "NUMBER")]
    multiplier: Option<String>,
    /// What each wait of a linear schedule adds
    #[arg(long, value_name = "DURATION")]
    step: Option<String>,
    /// Waits of a list; the last one repeats
    #[arg(long, value_name = "DURATION,…")]
    waits: Option<String>,
    /// Slot time of csma
    #[arg(long, value_name = "DURATION")]
    slot: Option<String>,
    /// Longest scheduled wait, jitter included
    #[arg(long, value_name = "DURATION|none")]
    cap: Option<String>,
    /// Shortest scheduled wait, jitter included
    #[arg(long, value_name = "DURATION")]
    floor: Option<String>,
    /// Whether the first retry waits or comes at once
    #[arg(long, value_name = "initial|immediate")]
    first: Option<String>,
    /// Random wait of up to this before the first attempt
    #[arg(long, value_name = "DURATION")]
    initial_spread: Option<String>,
    /// none, full, equal, decorrelated, decorrelated_v2, proportional=FACTOR or additive=DURATION
    #[arg(long, value_name = "KIND")]
    jitter: Option<String>,
    /// What is made of a wait that the server asks for
    #[arg(long, value_name = "minimum|exact|ignore")]
    hint: Option<String>,
    /// Longest such wait that is obeyed
    #[arg(long, value_name = "DURATION")]
    hint_max: Option<String>,
    /// What happens with longer ones
    #[arg(long, value_name = "abort|clamp|ignore")]
    hint_over_max: Option<String>,
    /// Classes that are retried, separated by commas
    #[arg(long, value_name = "CLASS,…")]
    retry_on: Option<String>,
    /// Repeat only calls that are known to be idempotent
    #[arg(long)]
    require_idempotency: bool,
    /// Draw the same waits each time (for tests)
    #[arg(long, value_name = "NUMBER")]
    seed: Option<String>,
}

/// A policy, and where each of its values came from.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) policy: Policy,
    /// Its name and file, if it has them.
    pub(crate) name: Option<String>,
    pub(crate) file: Option<PathBuf>,
    /// Every value in use, in the order of a policy file.
    pub(crate) values: Vec<Value>,
}

/// One value of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// The key as the policy file has it: `backoff.initial`.
    pub(crate) key: String,
    /// The value as a policy file would have it.
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody said anything else.
    Default,
    /// A place in a policy file, `relent.toml:5:16`.
    File(String),
    /// An option.
    Option(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(place) => f.write_str(place),
            Self::Option(option) => f.write_str(option),
        }
    }
}

impl Resolved {
    /// Whether any value is not a default.
    pub(crate) fn has_own_values(&self) -> bool {
        self.values.iter().any(|value| value.origin != Origin::Default)
    }

    /// Whether somebody asked for this key's value, rather than leaving it to the defaults.
    pub(crate) fn was_set(&self, key: &str) -> bool {
        self.values.iter().any(|value| value.key == key && value.origin != Origin::Default)
    }
}

impl PolicyArgs {
    /// The policy that is meant, on top of `defaults`.
    ///
    /// # Errors
    ///
    /// A usage error that begins with the option, or with file, line and column.
    pub(crate) fn resolve(&self, defaults: Policy) -> Result<Resolved, Error> {
        layers::resolve(self, defaults)
    }

    /// What was given: option, key, text.
    fn given(&self) -> impl Iterator<Item = (&'static str, &'static str, &str)> {
        let texts = [
            ("--max-attempts", "max_attempts", &self.max_attempts),
            ("--deadline", "deadline", &self.deadline),
            ("--reserve", "deadline.reserve", &self.reserve),
            ("--on-deadline", "on_deadline", &self.on_deadline),
            ("--attempt-timeout", "attempt_timeout", &self.attempt_timeout),
            ("--backoff", "backoff.kind", &self.backoff),
            ("--initial", "backoff.initial", &self.initial),
            ("--multiplier", "backoff.multiplier", &self.multiplier),
            ("--step", "backoff.step", &self.step),
            ("--waits", "backoff.waits", &self.waits),
            ("--slot", "backoff.slot", &self.slot),
            ("--cap", "backoff.cap", &self.cap),
            ("--floor", "backoff.floor", &self.floor),
            ("--first", "backoff.first", &self.first),
            ("--initial-spread", "backoff.initial_spread", &self.initial_spread),
            ("--jitter", "jitter", &self.jitter),
            ("--hint", "hint.mode", &self.hint),
            ("--hint-max", "hint.max", &self.hint_max),
            ("--hint-over-max", "hint.over_max", &self.hint_over_max),
            ("--retry-on", "retry_on", &self.retry_on),
            ("--seed", "seed", &self.seed),
        ];
        let flag =
            self.require_idempotency.then_some(("--require-idempotency", "idempotency.require", "true"));
        texts.into_iter().filter_map(|(option, key, text)| Some((option, key, text.as_deref()?))).chain(flag)
    }
}

/// What a program gets that says nothing: the library's defaults.
pub(crate) fn library_defaults() -> Policy {
    Policy::default()
}

/// What a command gets: longer waits than a library's, because commands are slower than calls and nobody holds a
/// thread for them.
pub(crate) fn run_defaults() -> Policy {
    let schedule = Schedule::exponential(Duration::from_secs(1));
    let backoff = Backoff::new(schedule).cap(Duration::from_secs(60));
    let built = Policy::default().to_builder().max_attempts(5).backoff(backoff).build();
    built.unwrap_or_default()
}
