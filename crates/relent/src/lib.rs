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
//! # When the compiler objects
//!
//! An operation that changes what it has (`&mut self`) cannot lend it to a future that outlives the closure's call. Lend
//! it for each attempt:
//!
//! ```
//! # use std::io;
//! # struct Client(u32);
//! # impl Client { async fn get(&mut self) -> io::Result<u32> { self.0 += 1; Ok(self.0) } }
//! # async fn example(policy: &relent::Policy) -> Result<(), relent::Error<io::Error>> {
//! let client = tokio::sync::Mutex::new(Client(0));
//! let answer = relent::retry(policy, || async { client.lock().await.get().await }).await?;
//! # Ok(()) }
//! ```
//!
//! An error that is no [`std::error::Error`], such as a `String`, makes an [`Error`] that is none either, so `?` cannot
//! put it into a box or into `anyhow`, and its text is not among ours. Say both in words:
//!
//! ```
//! # fn ask() -> Result<u32, String> { Err("busy".into()) }
//! fn answer(policy: &relent::Policy) -> Result<u32, Box<dyn std::error::Error>> {
//!     let asked = relent::blocking::with(policy).when(|_: &String| false).retry(|_attempt| ask());
//!     asked.map_err(|error| match error.last() {
//!         Some(last) => format!("{error}: {last}").into(),
//!         None => error.to_string().into(), // it was cut off, or never begun
//!     })
//! }
//! # let said = answer(&relent::Policy::default()).unwrap_err().to_string();
//! # assert_eq!(said, "failed in a way that another try does not help: busy");
//! ```
//!
//! An error of which relent knows nothing needs [`With::when`] or [`Classify`]; `&PolicyBuilder` where a `&Policy` is
//! expected lacks [`PolicyBuilder::build`].
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `tokio` | yes | tokio's timer as the default of the async driver; any other runtime brings a [`Timer`] |
//! | `anyhow` | no | a [`Class`] put in as `anyhow` context is found |
//! | `config` | no | `config::Retriers`: policies, and what their calls share, from a policy file |
//! | `serde` | no | serializable events and portable errors |

mod asynchronous;
mod attempt;
pub mod blocking;
mod cache;
mod chance;
mod chaos;
mod classify;
#[cfg(feature = "config")]
pub mod config;
mod drive;
mod error;
mod event;
mod fallback;
mod health;
mod kept;
mod redact;
mod retrier;
mod shared;
mod sync;
mod target;
pub mod testing;
mod timer;
mod token;
mod with;

pub use relent_core::{
    AdaptiveRate, BackoffMemory, Breaker, BreakerChange, BreakerMode, BreakerPolicy, BreakerSnapshot,
    BreakerState, BreakerStatistics, Budget, BudgetPolicy, BudgetRefusal, BudgetSnapshot, Bulkhead,
    BulkheadPolicy, CommonPolicy, ConcurrentBudget, Hedge, HedgeAfter, HedgePolicy, Latencies, Limiter,
    LimiterPolicy, MemoryPolicy, News, Priority, Quota, Rate, Ratio, Throttle, ThrottlePolicy, TokenBucket,
    WindowBudget,
};
pub use relent_core::{
    Backoff, Bound, Class, Classes, Count, Deadline, Decision, First, Hint, HintMode, HintPolicy, Jitter,
    MAX_RULES, Multiplier, OnBudget, OnDeadline, Outcome, OverMax, Policy, PolicyBuilder, PolicyError, Range,
    Reason, Repeat, Rule, RuleId, Schedule, Source, Stage, Timestamp, Waits,
};
pub use relent_core::{ChaosPolicy, Fault, Harm};

#[cfg(feature = "tokio")]
pub use asynchronous::retry;
pub use asynchronous::with;
pub use attempt::{Attempt, Key};
pub use cache::Cache;
pub use chaos::Chaos;
pub use classify::{
    Barrier, Classify, Failure, Joined, Marked, Portable, UnreadablePortable, outcome_of, outcome_of_kind,
    via,
};
pub use error::{Dynamic, Error, Report, Tried, Typed};
pub use event::{Event, Record};
pub use fallback::{Failed, LastGood, WithFallback};
pub use redact::redact;
pub use retrier::{Retrier, RetrierBuilder, Target};
pub use shared::{Keeper, Locked, Member, Part};
pub use target::Targets;
#[cfg(feature = "tokio")]
pub use timer::TokioTimer;
pub use timer::{Clock, DefaultTimer, Timer};
pub use token::{AttemptToken, Cancelled, Cause, Token};
pub use with::{ByFailure, Quiet, With};

#[doc = include_str!("../guide/index.md")]
pub mod guide {
    #[doc = include_str!("../guide/retries.md")]
    pub mod retries {}

    #[doc = include_str!("../guide/deadlines.md")]
    pub mod deadlines {}

    #[doc = include_str!("../guide/hints.md")]
    pub mod hints {}

    #[doc = include_str!("../guide/classification.md")]
    pub mod classification {}

    #[doc = include_str!("../guide/idempotency.md")]
    pub mod idempotency {}

    #[doc = include_str!("../guide/cancellation.md")]
    pub mod cancellation {}

    #[doc = include_str!("../guide/budgets.md")]
    pub mod budgets {}

    #[doc = include_str!("../guide/breakers.md")]
    pub mod breakers {}

    #[doc = include_str!("../guide/memory.md")]
    pub mod memory {}

    #[doc = include_str!("../guide/limits.md")]
    pub mod limits {}

    #[doc = include_str!("../guide/hedging.md")]
    pub mod hedging {}

    #[doc = include_str!("../guide/fallback.md")]
    pub mod fallback {}

    #[doc = include_str!("../guide/cache.md")]
    pub mod cache {}

    #[doc = include_str!("../guide/chaos.md")]
    pub mod chaos {}

    #[doc = include_str!("../guide/events.md")]
    pub mod events {}
}

/// The README's Rust, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
