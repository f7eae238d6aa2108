//! Retriers from a policy file (feature `config`).
//!
//! The file says what each policy does and what its calls share; this makes it so. Nothing is opened: the text is the
//! caller's to read.
//!
//! ```
//! use relent::config::Retriers;
//!
//! let text = r#"
//!     version = 1
//!
//!     [policies.payments]
//!     max_attempts = 3
//!     budget = "outbound"
//!     breaker = { window = { kind = "time", size = "30s" } }
//!
//!     [policies.search]
//!     budget = ["outbound", { kind = "window", ratio = 0.1 }]
//!
//!     [budgets.outbound]
//!     scope = "process"
//!     kind = "token_bucket"
//!     capacity = 100
//!     refill = "10/s"
//! "#;
//! let retriers = Retriers::parse(text, "relent.toml")?;
//! let host = retriers.get("payments")?.at("payments.example:443");
//! # let mut asked = 0;
//! let answer = host.blocking().when(|_: &String| true).retry(|_attempt| {
//! #   asked += 1;
//!     Ok::<_, String>("paid")
//! });
//! # assert_eq!((answer.unwrap(), asked), ("paid", 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A budget or breaker with `scope = "process"` is there once: all targets of all policies that name it have it in common.
//! With `scope = "target"`, which is the default, each target of each policy has one of its own.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use relent_core::{Breaker, Budget, CommonPolicy, PolicyError};

pub use relent_config::{Errors, File, Home, Reader, Resolved, Scope, UnknownPolicy};

use crate::{Locked, Part, Retrier, chance};

/// The retriers of a policy file, by the names of its policies. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Retriers {
    file: Arc<File>,
    /// In the order of the file.
    retriers: Arc<[Retrier]>,
}

impl Retriers {
    /// Those of a text that has policies, budgets and breakers in it and nothing else. `name` is the file's name, for
    /// messages. For a file with tables of other crates see [`Retriers::of`].
    ///
    /// # Errors
    ///
    /// All that is wrong with the text, with its lines; or what this crate cannot do yet.
    pub fn parse(text: &str, name: &str) -> Result<Self, Error> {
        Self::of(File::parse(text, name)?)
    }

    /// Those of a file that has been read.
    ///
    /// # Errors
    ///
    /// What a file can say and this crate cannot do yet.
    pub fn of(file: File) -> Result<Self, Error> {
        let mut shared = Shared::default();
        let retriers = file.policies().map(|resolved| {
            let of_policy =
                |error| Error(What::Policy(resolved.name().unwrap_or_default().to_owned(), error));
            shared.retrier(resolved).map_err(of_policy)
        });
        Ok(Self { retriers: retriers.collect::<Result<_, _>>()?, file: Arc::new(file) })
    }

    /// The retrier of the policy of this name.
    ///
    /// # Errors
    ///
    /// [`UnknownPolicy`] with the nearest name.
    pub fn get(&self, name: &str) -> Result<&Retrier, UnknownPolicy> {
        let mut named = self.file.names().zip(self.retriers.iter());
        match named.find(|(known, _)| *known == name) {
            Some((_, retrier)) => Ok(retrier),
            None => Err(self.file.unknown(name)),
        }
    }

    /// The file, for what else is in it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The names, in the order of the file.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.file.names()
    }
}

/// What the whole process has in common, by its name in the file.
#[derive(Default)]
struct Shared {
    budgets: HashMap<String, Locked<Budget>>,
    breakers: HashMap<String, Locked<Breaker>>,
}

impl Shared {
    fn retrier(&mut self, resolved: &Resolved) -> Result<Retrier, PolicyError> {
        let CommonPolicy { breaker, budgets, .. } = resolved.common().clone();
        let seed = chance::draw(resolved.policy(), 0);
        let of_target = CommonPolicy { breaker: None, budgets: Vec::new(), ..resolved.common().clone() };
        let mut builder = Retrier::new(resolved.policy().clone()).common(of_target);
        builder = match (breaker, resolved.breaker_home()) {
            (None, _) => builder,
            (Some(policy), Some(Home { name, scope: Scope::Process })) => {
                let breaker = once(&mut self.breakers, name.as_deref(), || Breaker::new(policy, seed))?;
                builder.breaker_of(&breaker)
            }
            (Some(policy), _) => builder.breaker(policy),
        };
        // In the order in which they are taken from.
        for (index, (policy, reserve)) in budgets.into_iter().enumerate() {
            builder = match resolved.budget_homes().get(index) {
                Some(Home { name, scope: Scope::Process }) => {
                    let make = || Budget::new(policy)?.reserve(reserve);
                    builder.budget_of(&once(&mut self.budgets, name.as_deref(), make)?)
                }
                _ => builder.budget_with_reserve(policy, reserve),
            };
        }
        builder.build()
    }
}

/// The part of this name, made when it is asked for the first time; one without a name is nobody else's.
fn once<T: Part>(
    known: &mut HashMap<String, Locked<T>>,
    name: Option<&str>,
    make: impl FnOnce() -> Result<T, PolicyError>,
) -> Result<Locked<T>, PolicyError> {
    if let Some(part) = name.and_then(|name| known.get(name)) {
        return Ok(part.clone());
    }
    let part = Locked::new(make()?);
    if let Some(name) = name {
        known.insert(name.to_owned(), part.clone());
    }
    Ok(part)
}

/// Why a policy file has no retriers.
#[derive(Debug)]
pub struct Error(What);

#[derive(Debug)]
enum What {
    File(Errors),
    Policy(String, PolicyError),
}

impl From<Errors> for Error {
    fn from(errors: Errors) -> Self {
        Self(What::File(errors))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            What::File(errors) => errors.fmt(f),
            What::Policy(name, error) => write!(f, "[policies.{name}] {error}"),
        }
    }
}

impl std::error::Error for Error {}
