//! From an error to its class: a question for the compiler.

mod failure;
mod io;
mod mark;
mod portable;
mod walk;

pub use failure::{Classify, Failure, via};
pub use io::outcome_of_kind;
pub use mark::{Barrier, Joined, Marked};
pub use portable::{Portable, UnreadablePortable};
pub(crate) use walk::answer;
pub use walk::outcome_of;
