//! The policy file of relent: TOML in, [`Policy`](relent_core::Policy) out, and errors that point at the place.
//!
//! Settings that nobody checks are obeyed by nobody: `max_retries` where `max_attempts` was meant, `5` where `"5s"`
//! was meant, a multiplier beside a constant backoff. This crate reads a text without any I/O, refuses what is not
//! known or can have no effect, and tells **all** that is wrong at once, in order of place, with the line and what
//! should stand there.
//!
//! ```
//! use relent_config::File;
//!
//! let errors = File::parse("version = 1\n[policies.default]\nmax_retries = 3\n", "relent.toml").unwrap_err();
//! assert_eq!(
//!     errors.to_string(),
//!     "error[foreign-key]: unknown key `max_retries`: relent calls it `max_attempts`
//!  --> relent.toml:3:1
//!   |
//! 3 | max_retries = 3
//!   | ^^^^^^^^^^^
//!   = help: write `max_attempts = 4` (the first attempt counts)
//! "
//! );
//! ```
//!
//! # The file
//!
//! ```toml
//! version = 1                      # by which rules the file is written; required
//!
//! [policies.default]               # what a driver takes when no policy is named
//! description = "calls to our own services"
//! max_attempts = 4                 # the first one included
//! deadline = "30s"                 # the whole call, waits included; or { total = "30s", reserve = "500ms" }
//! attempt_timeout = "5s"
//! backoff = { kind = "exponential", initial = "100ms", multiplier = 2, cap = "20s" }
//! jitter = "full"
//! hint = { mode = "minimum", max = "20s", over_max = "abort" }
//! retry_on = ["transient", "throttled", "timeout", "not_sent"]
//! on.throttled = { backoff = { initial = "1s" } }
//!
//! [policies.payments]
//! base = "default"                 # what is not said here is said there
//! idempotency = { require = true }
//! ```
//!
//! | key | values | default |
//! |---|---|---|
//! | `description` | a string; not inherited | |
//! | `preset` | the name of a [`Preset`], or `{ name, … }` with its parameters, or `"none"` | |
//! | `base` | the name of another policy | |
//! | `max_attempts` | at least 1, or `"unlimited"` | 4 |
//! | `deadline` | a duration, `{ total, reserve }` or `"none"` | `"none"` |
//! | `on_deadline` | `"stop"`, `"fit"`; only with a deadline | `"stop"` |
//! | `attempt_timeout` | a duration or `"none"` | `"none"` |
//! | `backoff.kind` | `constant`, `linear`, `exponential`, `fibonacci`, `list`, `stages`, `csma` | `exponential` |
//! | `backoff.initial` | a duration (not for `list`, `stages`, `csma`) | 100 ms |
//! | `backoff.multiplier` | at least 1 (`exponential` without decorrelated jitter) | 2 |
//! | `backoff.step` | a duration (`linear`) | required |
//! | `backoff.waits` | durations; the last one repeats (`list`) | required |
//! | `backoff.stages` | `{ until, initial, multiplier }`; only the last without `until` (`stages`) | required |
//! | `backoff.slot`, `backoff.max_exponent` | a duration; 1 to 63 (`csma`) | required; 10 |
//! | `backoff.cap` | a duration or `"none"` | 20 s for what grows, else `"none"` |
//! | `backoff.floor` | a duration | 0 |
//! | `backoff.first` | `"initial"`, `"immediate"` | `"initial"` |
//! | `backoff.bound` | `"range"`, `"sample"`, `"loose"` | `"range"` |
//! | `backoff.initial_spread` | a duration | 0 |
//! | `backoff.reset_after` | a duration or `"none"` | `"none"` |
//! | `jitter` | `none`, `full`, `equal`, `decorrelated`, `decorrelated_v2`, `{ kind = "proportional", factor }`, `{ kind = "additive", max }` | `full`; `csma`: `none` |
//! | `hint.mode` | `"minimum"`, `"exact"`, `"ignore"`, `{ clamp = "5s" }` | `"minimum"` |
//! | `hint.max` | a duration or `"none"` | 60 s |
//! | `hint.over_max` | `"abort"`, `"clamp"`, `"ignore"` | `"abort"` |
//! | `hint.spread` | 0 to 1 | 0.1 |
//! | `retry_on` | classes; never `success` or `cancelled` | `transient`, `throttled`, `timeout`, `not_sent` |
//! | `on.CLASS` | `{ max_attempts, backoff, jitter, count }` or `"none"` | |
//! | `rules` | a list of `{ name, classes, max_attempts, backoff, jitter, count }` | |
//! | `idempotency.require` | `true`, `false` | `false` |
//! | `seed` | a whole number or `"none"` | `"none"` |
//!
//! Durations are what [`parse_duration`] reads. What each key means is told at the types of `relent-core`.
//!
//! **Merging.** A policy lies over its `base`, that over its own base and so on, and all of them over the `preset` that
//! the nearest of them names. Tables merge key by key where the
//! `kind` is equal or the upper one gives none, and are replaced otherwise; arrays are replaced; a `deadline` written
//! as a plain duration replaces all of it. `"none"` and `"unlimited"` undo what was inherited. Command-line options
//! ([`Flag`]) are one more layer with the same rules.
//!
//! **Rules.** Those of `rules` come first, in their order; those of `on`, each for its class, follow. The backoff and
//! jitter of a rule lie over those of its policy as a policy's do over its base.
//!
//! **No effect, no silence.** A key that can have no effect is an error where it is written. What is inherited may
//! lose its effect (a multiplier, once the kind is another one) and is left out then.
//!
//! **Bounds.** A text has at most 256 KiB, 1000 policies, 16 bases one upon another, 16 levels of nesting and 1000
//! entries in a list.
//!
//! **Tables of other crates** (`http`, `run`, `scenarios` …) are refused unless the reader declares them: [`Reader`].

mod diagnostic;
mod duration;
mod extension;
mod file;
mod flags;
pub mod foreign;
mod names;
mod preset;
mod print;
mod read;
mod resolved;
mod shared;
mod source;
mod syntax;
mod text;
mod tree;

pub use diagnostic::{Code, Diagnostic, Errors, Severity};
pub use duration::{DurationError, MAX_DURATION, format_duration, parse_duration};
pub use extension::{Checks, Entry};
pub use file::{File, Reader, UnknownPolicy};
pub use flags::Flag;
pub use names::{OurName, our_name};
pub use preset::{Preset, Surroundings};
pub use print::{common_to_toml, to_toml};
pub use resolved::{BuiltIn, Origin, Resolved, Setting};
pub use shared::{Home, Scope};
pub use syntax::MAX_TEXT;
