//! Whose the parts are that calls share.

use std::fmt;

/// Who has one part of the shared state in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The calls of one target: each target has a part of its own.
    #[default]
    Target,
    /// All calls of the process, to whatever target, and of every policy that names the part.
    Process,
}

impl Scope {
    /// The scope's word in a policy file: `"target"`, `"process"`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Process => "process",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where a budget or a breaker of a policy stands in the file, and who shares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Home {
    /// Its name, if it is one of `[budgets.NAME]` or `[breakers.NAME]`; none if the policy itself says what it is.
    pub name: Option<String>,
    /// Who shares it.
    pub scope: Scope,
}
