//! The operation under retry, for two kinds of result: its type moves the figures by more than the code around it.

use std::hint::black_box;
use std::io;

use relent::{Class, Classify, Failure, Outcome, via};

/// A kind of result.
pub(crate) trait Kind: 'static {
    type Value: 'static;
    type Error: Failure<Self::Via> + 'static;
    /// How relent knows the error.
    type Via: 'static;

    /// Succeeds at once; never inlined, so that it stays a call, and the caller cannot know that it succeeds.
    fn succeed() -> Result<Self::Value, Self::Error>;

    /// Fails at once.
    fn fail() -> Result<Self::Value, Self::Error>;
}

/// `Result<u32, Refused>`: comes back in two registers and needs no dropping.
pub(crate) enum Small {}

/// `io::Result<u64>`: sixteen bytes, and an error that owns memory.
pub(crate) enum Io {}

/// An error without anything in it.
#[derive(Debug)]
pub(crate) struct Refused;

impl Classify for Refused {
    fn outcome(&self) -> Outcome {
        Class::Transient.into()
    }
}

impl Kind for Small {
    type Value = u32;
    type Error = Refused;
    type Via = via::Own;

    #[inline(never)]
    fn succeed() -> Result<u32, Refused> {
        black_box(Ok(7))
    }

    #[inline(never)]
    fn fail() -> Result<u32, Refused> {
        black_box(Err(Refused))
    }
}

impl Kind for Io {
    type Value = u64;
    type Error = io::Error;
    type Via = via::Io;

    #[inline(never)]
    fn succeed() -> io::Result<u64> {
        black_box(Ok(7))
    }

    #[inline(never)]
    fn fail() -> io::Result<u64> {
        // A kind alone takes no memory: what is counted is the retry crate's.
        black_box(Err(io::ErrorKind::ConnectionRefused.into()))
    }
}
