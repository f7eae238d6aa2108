//! The drivers: loops of a dozen lines around the decision, and what they share.
//!
//! A driver makes attempts, asks, and waits. Whether, when and why to try again is decided in `relent-core`; what the
//! loops have in common apart from that (events, the last error, keys, history) is the [`Course`].

mod asynchronous;
mod course;
mod guard;
mod hedged;
mod lane;
mod threaded;
mod threads;

pub(crate) use asynchronous::{drive, limited, report};
pub(crate) use course::{At, Course, Ended};
pub(crate) use guard::Guard;
pub(crate) use hedged::hedged;
pub(crate) use threaded::run;
pub(crate) use threads::run_hedged;
