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

mod diagnostic;
mod duration;
mod extension;
mod file;
mod flags;
mod names;
mod print;
mod read;
mod resolved;
mod source;
mod syntax;
mod text;
mod tree;

pub use diagnostic::{Code, Diagnostic, Errors};
pub use duration::{DurationError, MAX_DURATION, format_duration, parse_duration};
pub use extension::{Checks, Entry};
pub use file::{File, Reader, UnknownPolicy};
pub use flags::Flag;
pub use print::to_toml;
pub use resolved::{BuiltIn, Origin, Resolved, Setting};
