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
//! budget = "outbound"
//! breaker = { window = { kind = "time", size = "30s" }, failure_ratio = 0.5 }
//!
//! [budgets.outbound]               # what calls share may have a name, and be shared by policies
//! kind = "token_bucket"
//! scope = "process"
//! capacity = 100
//! refill = "10/s"
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
//! | `on.priority.high` | `{ backoff, jitter, budget_share }` or `"none"`: for calls of high priority | |
//! | `budget` | a name, a [budget](#what-calls-share), a list of up to 4 of either, or `"none"` | `"none"` |
//! | `on_budget` | `"stop"`, `"wait"`; only with a budget | `"stop"` |
//! | `breaker` | a name, a [breaker](#what-calls-share) or `"none"` | `"none"` |
//! | `rate_limit` | a rate or `{ rate, burst, max_wait }` | `"none"` |
//! | `adaptive_rate` | `true`, `false`: the AWS SDKs' adaptive mode | `false` |
//! | `throttle` | `{ kind, … }` or `"none"` | `"none"` |
//! | `bulkhead` | `{ capacity, queue, max_wait, retry_share }` or `"none"` | `"none"` |
//! | `memory` | `{ half_life, steps }` or `"none"` | `"none"`; 30 s, 8 |
//! | `hedge` | `{ kind, … }`, a kind, or `"none"` | `"none"` |
//! | `idempotency.require` | `true`, `false` | `false` |
//! | `seed` | a whole number or `"none"` | `"none"` |
//!
//! Durations are what [`parse_duration`] reads. What each key means is told at the types of `relent-core`.
//!
//! # What calls share
//!
//! A budget or a breaker stands in the policy itself, or in a table of its own, `[budgets.NAME]` or `[breakers.NAME]`, which
//! policies name. With `scope = "target"` each target of each policy has one of its own; with `scope = "process"` there is
//! one for all targets, and for all policies that name it. Rates are `"10/s"` or `"5/100ms"`; ratios are from 0 to 1.
//!
//! | key of a budget | values | default |
//! |---|---|---|
//! | `kind` | `token_bucket`, `window`, `concurrent`, `quota` | required |
//! | `scope` | `"target"`, `"process"` | `"target"` |
//! | `reserve` | 0 to below 1: what is kept for calls of high priority | 0 |
//! | `capacity` | tokens (`token_bucket`, `quota`) | required |
//! | `refill` | a rate (`token_bucket`) | this or `per_success` |
//! | `per_success`, `per_failure`, `per_retry` | tokens, to a thousandth (`token_bucket`) | 0, 0, 1 |
//! | `half_full` | `true`, `false`: retries need more than half of it (`token_bucket`) | `false` |
//! | `ratio` | retries per call (`window`, `concurrent`) | 0.2 |
//! | `ttl` | a duration (`window`) | 10 s |
//! | `floor` | retries in any case: per second (`window`), at once (`concurrent`) | 10; 3 |
//! | `cost` | a number, or `{ transient, throttled, timeout, not_sent }` (`quota`) | required; the others as `transient` |
//! | `first_success` | what a success at the first try adds (`quota`) | 1 |
//!
//! | key of a breaker | values | default |
//! |---|---|---|
//! | `window` | `{ kind = "count", size = 100 }`, `{ kind = "time", size = "30s" }`, `{ kind = "consecutive" }` | required |
//! | `failures` | a number | required for `consecutive`, else none |
//! | `failure_ratio` | above 0 to 1, or `"none"` | 0.5 |
//! | `slow_ratio`, `slow_after` | above 0 to 1, or `"none"`; a duration | none |
//! | `min_calls` | at least 1 | 20, or the window's size if that is less |
//! | `open_for` | a backoff with its `jitter` | `{ initial = "5s", cap = "2m" }`, ± 20 % |
//! | `max_probes` | 1 to 1000 | 1 |
//! | `success_ratio` | above 0 to 1, of the probes | 1 |
//! | `max_probe_duration` | a duration | 60 s |
//! | `ramp` | a duration | 0 |
//! | `mode` | `automatic`, `forced_open`, `disabled`, `metrics_only` | `automatic` |
//! | `scope` | `"target"`, `"process"` | `"target"` |
//!
//! | key | values | default |
//! |---|---|---|
//! | `rate_limit.burst` | at least 1 | the rate's count |
//! | `rate_limit.max_wait`, `bulkhead.max_wait` | a duration or `"none"` | `"none"` |
//! | `bulkhead.capacity`, `bulkhead.queue` | attempts at once; attempts that wait | required; 0 |
//! | `bulkhead.retry_share` | above 0 to 1 | 1 |
//! | `throttle.kind` | `sre` (`k`, `aggression`), `envoy` (`threshold`, `aggression`), `finagle` (`threshold`) | `sre`, 2, 1 |
//! | `throttle.window`, `max_rejection`, `min_requests`, `rejected` | a duration; 0 to 1; a number; classes | those of the kind |
//! | `hedge.kind` | `quantile`, `fixed`, `at_once`, `on_failure` | `quantile`, or `fixed` where there is a `delay` |
//! | `hedge.delay` | a duration (`fixed`) | required |
//! | `hedge.quantile`, `floor`, `ceiling`, `initial`, `samples` | above 0 to below 1; durations; a number (`quantile`) | 0.95, 1 ms, none, 200 ms, 20 |
//! | `hedge.max_attempts` | 2 to 64, the first included | 2 |
//!
//! # Rules of the file
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
