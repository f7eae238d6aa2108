//! A policy with all that is known about where it comes from.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use relent_core::{CommonPolicy, Policy, RuleId};

use crate::extension::{Checks, Entry};
use crate::preset::Preset;
use crate::read::{Read, ReadShared};
use crate::shared::Home;
use crate::source::Sources;
use crate::tree::Node;

/// A policy, and where each of its values comes from.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub(crate) name: Option<String>,
    pub(crate) policy: Policy,
    shared: ReadShared,
    pub(crate) description: Option<String>,
    pub(crate) bases: Vec<String>,
    pub(crate) rules: Vec<String>,
    pub(crate) settings: Vec<Setting>,
    preset: Option<&'static Preset>,
    extensions: BTreeMap<String, Node>,
    sources: Sources,
}

/// One effective value of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The path of its key from the policy: `"backoff.cap"`, `"on.throttled.max_attempts"`.
    pub path: String,
    /// The value as a policy file has it.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The line in the file, from 1.
    pub line: Option<usize>,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The policy of this name: the policy itself or one of its bases.
    Policy(String),
    /// The preset of this name.
    Preset(&'static str),
    /// Something beside the policy file that a preset looked at: a variable, or a file with its line.
    Outside(String),
    /// The budget or breaker of this name, with the table that it stands in: `"budgets.outbound"`.
    Shared(String),
    /// The command-line option of this name.
    Flag(String),
    /// Built in, for this reason.
    BuiltIn(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(name) => write!(f, "[policies.{name}]"),
            Self::Preset(name) => write!(f, "preset {name}"),
            Self::Outside(what) => f.write_str(what),
            Self::Shared(name) => write!(f, "[{name}]"),
            Self::Flag(flag) => f.write_str(flag),
            Self::BuiltIn(why) => write!(f, "built in: {why}"),
        }
    }
}

impl Resolved {
    pub(crate) fn new(name: Option<String>, bases: Vec<String>, read: Read, sources: &Sources) -> Self {
        let Read { policy, shared, description, rules, settings, extensions } = read;
        let sources = sources.clone();
        Self { name, policy, shared, description, bases, rules, settings, preset: None, extensions, sources }
    }

    pub(crate) fn over(self, preset: Option<&'static Preset>) -> Self {
        Self { preset, ..self }
    }

    /// The policy's name in its file.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What calls of the policy share.
    pub fn common(&self) -> &CommonPolicy {
        &self.shared.common
    }

    /// Where the breaker stands and who shares it, if there is one.
    pub fn breaker_home(&self) -> Option<&Home> {
        self.shared.breaker.as_ref()
    }

    /// Where each of the budgets stands and who shares it, in the order of the budgets.
    pub fn budget_homes(&self) -> &[Home] {
        &self.shared.budgets
    }

    /// The policy, to keep.
    pub fn into_policy(self) -> Policy {
        self.policy
    }

    /// Its own description; a base's is not inherited.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The policies that it is based on, the nearest first.
    pub fn bases(&self) -> &[String] {
        &self.bases
    }

    /// The preset that lies under it, if it has one.
    pub fn preset(&self) -> Option<&'static Preset> {
        self.preset
    }

    /// Every effective value and where it comes from, in the order of the documentation. Of a rule only what the rule
    /// itself says is listed.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The names of the entries of `rules`, in order: rule number 0, 1 … (those of `on` have no name and follow).
    pub fn rules(&self) -> &[String] {
        &self.rules
    }

    /// The rule of this name, for a classifier that names it.
    pub fn rule(&self, name: &str) -> Option<RuleId> {
        let index = self.rules.iter().position(|known| known == name)?;
        u8::try_from(index).ok().map(RuleId)
    }

    /// The table of this name, if another crate owns it and the [`Reader`](crate::Reader) was told so.
    pub fn extension(&self, name: &str) -> Option<Entry<'_>> {
        self.extensions.get(name).map(|node| Entry::new(name, node))
    }

    /// For telling what is wrong in such a table.
    pub fn checks(&self) -> Checks {
        Checks::new(&self.sources)
    }

    /// The policy as TOML, with what its calls share; see [`to_toml`](crate::to_toml()). Rules keep their names; budgets
    /// and breakers do not, but say themselves what they are.
    pub fn to_toml(&self) -> String {
        let ReadShared { common, breaker, budgets } = &self.shared;
        crate::print::policy(&self.policy, &self.rules)
            + crate::print::on_budget(&self.policy, common)
            + &crate::print::common(common, breaker.as_ref(), budgets)
    }
}

/// The defaults of what a policy leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BuiltIn {
    /// Those of a program that calls a service, and of every policy in a file: 4 attempts, from 100 ms doubling up to
    /// 20 s, full jitter, no deadline.
    #[default]
    Library,
    /// Those of `relent run` when no policy is named: 5 attempts, from 1 s doubling up to 60 s. A command takes longer
    /// than a call, and somebody watches it.
    Run,
}

impl BuiltIn {
    pub(crate) fn attempts(self) -> (u32, &'static str) {
        match self {
            Self::Library => (4, "three retries ride out a blip; each further one mostly adds load"),
            Self::Run => (5, "a command is worth one more try than a call"),
        }
    }

    pub(crate) fn initial(self) -> (Duration, &'static str) {
        match self {
            Self::Library => {
                (Duration::from_millis(100), "short enough for a blip, long enough not to be one")
            }
            Self::Run => {
                (Duration::from_secs(1), "starting a command is dear, and what it needs recovers slowly")
            }
        }
    }

    pub(crate) fn cap(self) -> (Duration, &'static str) {
        match self {
            Self::Library => (Duration::from_secs(20), "a longer wait finds no caller"),
            Self::Run => (Duration::from_secs(60), "nobody watches a screen for longer"),
        }
    }
}
