//! For tests of programs that retry: a clock that jumps, outcomes by script, a recorder of decisions.
//!
//! ```
//! use relent::testing::{Clock, Recorder, Script};
//! use relent::{Class, Policy};
//! use std::time::Duration;
//!
//! let policy = Policy::exponential(Duration::from_secs(1)).jitter(relent::Jitter::None).build()?;
//! let (clock, recorder) = (Clock::new(), Recorder::new());
//! let script = Script::new([Err("busy"), Err("busy"), Ok(7)]);
//!
//! let answer = relent::blocking::with(&policy)
//!     .when(|_: &&str| Class::Transient)
//!     .timer(clock.clone())
//!     .notify(recorder.hook())
//!     .retry(|_attempt| script.next());
//!
//! assert_eq!(answer.unwrap(), 7);
//! assert_eq!(clock.elapsed(), Duration::from_secs(3)); // 1 s + 2 s, without waiting for them
//! assert_eq!(recorder.waits(), [Duration::from_secs(1), Duration::from_secs(2)]);
//! # Ok::<(), relent::PolicyError>(())
//! ```

mod clock;
mod recorder;
mod script;

pub use clock::{Clock, Sleep, Stuck};
pub use recorder::Recorder;
pub use script::Script;
