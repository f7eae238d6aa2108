//! Retries that know when to relent.
//!
//! A failed call deserves another try; a fleet that tries again in step turns a blip into an outage. relent decides
//! *whether, when and why* to try again in one pure core ([`relent_core`]) and this crate carries the decision into
//! Rust programs, blocking or async.
//!
//! ```
//! # async fn get(_url: &str) -> std::io::Result<String> { Ok("hello".into()) }
//! # let rt = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
//! # rt.block_on(async {
//! use relent::Policy;
//! use std::time::Duration;
//!
//! let policy = Policy::exponential(Duration::from_millis(100)).deadline(Duration::from_secs(30)).build()?;
//! let page = relent::retry(&policy, || get("http://localhost/")).await?;
//! # assert_eq!(page, "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! Which errors are tried again is a question for the compiler: [`std::io::Error`] and boxed errors are known, your
//! own types implement [`Classify`], everything else says [`With::when`]. Options come first, the verb last:
//!
//! ```
//! # fn ask() -> Result<u32, String> { Ok(1) }
//! # let policy = relent::Policy::default();
//! let answer = relent::blocking::with(&policy)
//!     .when(|error: &String| error.contains("busy"))
//!     .notify(|event| eprintln!("{event}"))
//!     .retry(|_attempt| ask())?;
//! # assert_eq!(answer, 1);
//! # Ok::<(), relent::Error<String>>(())
//! ```
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `tokio` | yes | tokio's timer as the default of the async driver; any other runtime brings a [`Timer`] |
//! | `anyhow` | no | a [`Class`] put in as `anyhow` context is found |
//! | `serde` | no | serializable events and portable errors |

mod asynchronous;
mod attempt;
pub mod blocking;
mod chance;
mod classify;
mod drive;
mod error;
mod event;
mod redact;
mod target;
pub mod testing;
mod timer;
mod token;
mod with;

pub use relent_core::{
    Backoff, Bound, Class, Classes, Count, Deadline, Decision, First, Hint, HintMode, HintPolicy, Jitter,
    MAX_RULES, Multiplier, OnDeadline, Outcome, OverMax, Policy, PolicyBuilder, PolicyError, Range, Reason,
    Repeat, Rule, RuleId, Schedule, Source, Stage, Timestamp, Waits,
};

#[cfg(feature = "tokio")]
pub use asynchronous::retry;
pub use asynchronous::with;
pub use attempt::{Attempt, Key};
pub use classify::{
    Barrier, Classify, Failure, Joined, Marked, Portable, UnreadablePortable, outcome_of, outcome_of_kind,
    via,
};
pub use error::{Dynamic, Error, Report, Tried, Typed};
pub use event::{Event, Record};
pub use redact::redact;
pub use target::Targets;
#[cfg(feature = "tokio")]
pub use timer::TokioTimer;
pub use timer::{Clock, DefaultTimer, Timer};
pub use token::{AttemptToken, Cancelled, Cause, Token};
pub use with::{ByFailure, Quiet, With};

/// The README's Rust, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
