//! Marks: classes that are attached to errors and survive wrapping, joining and hiding.
//!
//! The model is `cockroachdb/errors` (Go), whose need is old: in CockroachDB itself, wrapping a retryable error
//! silently switched its retries off.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use relent_core::{Class, Hint, Outcome};

type Boxed = Box<dyn StdError + Send + Sync>;

/// An error with a class attached. Found through any wrapping that keeps the source chain, and in all branches of a
/// [`Joined`] error. Prints as the error that it marks.
///
/// The class's [`as_str`](Class::as_str) is a stable code; [`Portable`](crate::Portable) carries it across processes.
#[derive(Debug)]
pub struct Marked {
    outcome: Outcome,
    error: Boxed,
}

impl Marked {
    /// Marks `error`.
    pub fn new(outcome: impl Into<Outcome>, error: impl Into<Boxed>) -> Self {
        Self { outcome: outcome.into(), error: error.into() }
    }

    /// Another try may help.
    pub fn transient(error: impl Into<Boxed>) -> Self {
        Self::new(Class::Transient, error)
    }

    /// The other side asked for fewer calls, and perhaps for a wait.
    pub fn throttled(error: impl Into<Boxed>, after: Option<Duration>) -> Self {
        let hint = after.map(Hint::After);
        Self::new(Outcome { hint, ..Outcome::of(Class::Throttled) }, error)
    }

    /// Another try will not help.
    pub fn permanent(error: impl Into<Boxed>) -> Self {
        Self::new(Class::Permanent, error)
    }

    /// What was attached.
    pub fn mark(&self) -> Outcome {
        self.outcome
    }

    /// The error that is marked.
    pub fn into_inner(self) -> Boxed {
        self.error
    }
}

impl fmt::Display for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for Marked {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.error.as_ref())
    }
}

/// Hides an error's class: what is behind the barrier still prints, but is not looked at. A barrier without a mark in
/// front of it is permanent.
#[derive(Debug)]
pub struct Barrier(Boxed);

impl Barrier {
    /// Hides `error`.
    pub fn new(error: impl Into<Boxed>) -> Self {
        Self(error.into())
    }

    /// The error behind it.
    pub fn hidden(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self.0.as_ref()
    }
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Barrier {}

/// Several errors as one: all branches are searched for marks. Where branches disagree, `permanent` wins: a call with a
/// permanent cause fails again whatever its other causes do.
#[derive(Debug)]
pub struct Joined(Vec<Boxed>);

impl Joined {
    /// Joins `errors`.
    pub fn new(errors: impl IntoIterator<Item = Boxed>) -> Self {
        Self(errors.into_iter().collect())
    }

    /// Adds one.
    #[must_use]
    pub fn and(mut self, error: impl Into<Boxed>) -> Self {
        self.0.push(error.into());
        self
    }

    /// The errors.
    pub fn errors(&self) -> impl Iterator<Item = &(dyn StdError + Send + Sync + 'static)> {
        self.0.iter().map(AsRef::as_ref)
    }
}

impl fmt::Display for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl StdError for Joined {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.first().map(|error| error.as_ref() as &(dyn StdError + 'static))
    }
}
