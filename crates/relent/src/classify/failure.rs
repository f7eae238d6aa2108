//! The traits by which an error says what it means.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use relent_core::{Class, Outcome};

use super::{Barrier, Joined, Marked, Portable, outcome_of};
use crate::{Dynamic, Error, Typed};

/// What an error of your own says about trying again.
///
/// ```
/// use relent::{Class, Classify, Outcome};
///
/// enum Refused { Busy, Gone }
///
/// impl Classify for Refused {
///     fn outcome(&self) -> Outcome {
///         match self {
///             Self::Busy => Class::Throttled.into(),
///             Self::Gone => Class::Permanent.into(),
///         }
///     }
/// }
/// ```
pub trait Classify {
    /// The error's class, with a hint, a rule or what is known about repeating it, where there is one.
    fn outcome(&self) -> Outcome;
}

/// Errors that `relent::retry` can judge without being told how.
///
/// Implemented for whatever implements [`Classify`], for [`std::io::Error`] (see
/// [`outcome_of_kind`](crate::outcome_of_kind)), for boxed errors and `anyhow` (their whole source chain is walked, see
/// [`outcome_of`]), and for relent's own [`Error`], which is permanent to an outer retry. The
/// parameter `Via` (see [`via`]) keeps these implementations apart; the compiler finds it. Adapter crates implement
/// the trait for foreign types with a marker of their own.
#[diagnostic::on_unimplemented(
    message = "relent cannot tell whether a `{Self}` is worth another try",
    label = "the operation fails with `{Self}`, which says nothing about trying again",
    note = "say it for this call: `relent::with(&policy).when(|error| …).retry(…)`, where the closure returns true \
            for errors that another try may help, or a `relent::Class`",
    note = "or once for the type: `impl relent::Classify for {Self}`"
)]
pub trait Failure<Via> {
    /// How relent's own error holds it: [`Typed`], or [`Dynamic`] for errors that are not `std::error::Error`
    /// themselves but lead to one.
    type Kind;

    /// The error's outcome.
    fn outcome(&self) -> Outcome;
}

/// The ways by which an error is a [`Failure`].
pub mod via {
    /// It implements [`Classify`](super::Classify).
    #[derive(Debug)]
    pub enum Own {}
    /// It is a [`std::io::Error`].
    #[derive(Debug)]
    pub enum Io {}
    /// It leads to a `dyn Error`: `anyhow::Error`, `Box<dyn Error>`.
    #[derive(Debug)]
    pub enum Dyn {}
    /// It leads to a `dyn Error + Send` or `+ Send + Sync`: `Box<dyn Error + Send + Sync>`, `Arc<…>`.
    #[derive(Debug)]
    pub enum Shared {}
    /// It is relent's own error.
    #[derive(Debug)]
    pub enum GaveUp {}
}

impl<E: Classify> Failure<via::Own> for E {
    type Kind = Typed;

    fn outcome(&self) -> Outcome {
        Classify::outcome(self)
    }
}

impl Failure<via::Io> for io::Error {
    type Kind = Typed;

    fn outcome(&self) -> Outcome {
        outcome_of(self)
    }
}

impl<E: AsRef<dyn StdError + 'static> + 'static> Failure<via::Dyn> for E {
    type Kind = Dynamic;

    fn outcome(&self) -> Outcome {
        #[cfg(feature = "anyhow")]
        if let Some(marked) = in_anyhow_context(self) {
            return marked;
        }
        outcome_of(self.as_ref())
    }
}

impl Failure<via::Shared> for Box<dyn StdError + Send + Sync> {
    type Kind = Dynamic;

    fn outcome(&self) -> Outcome {
        outcome_of(self.as_ref())
    }
}

impl Failure<via::Shared> for Box<dyn StdError + Send> {
    type Kind = Dynamic;

    fn outcome(&self) -> Outcome {
        outcome_of(self.as_ref())
    }
}

impl Failure<via::Shared> for Arc<dyn StdError + Send + Sync> {
    type Kind = Dynamic;

    fn outcome(&self) -> Outcome {
        outcome_of(self.as_ref())
    }
}

/// An inner call that gave up has had its attempts: layers must not multiply by accident.
impl<E, K> Failure<via::GaveUp> for Error<E, K> {
    type Kind = Typed;

    fn outcome(&self) -> Outcome {
        Outcome::of(Class::Permanent)
    }
}

impl Classify for Marked {
    fn outcome(&self) -> Outcome {
        self.mark()
    }
}

impl Classify for Barrier {
    fn outcome(&self) -> Outcome {
        outcome_of(self)
    }
}

impl Classify for Joined {
    fn outcome(&self) -> Outcome {
        outcome_of(self)
    }
}

impl Classify for Portable {
    fn outcome(&self) -> Outcome {
        Outcome::of(self.class())
    }
}

/// `anyhow` keeps a context's type to itself: only the error as a whole can be asked for it, not its source chain.
#[cfg(feature = "anyhow")]
fn in_anyhow_context(error: &dyn std::any::Any) -> Option<Outcome> {
    let error = error.downcast_ref::<anyhow::Error>()?;
    if let Some(class) = error.downcast_ref::<Class>() {
        return Some(Outcome::of(*class));
    }
    error.downcast_ref::<Marked>().map(Marked::mark)
}
