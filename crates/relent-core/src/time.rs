//! Points in time and the one conversion between durations and nanoseconds.

use core::fmt;
use core::time::Duration;

/// A point in time: nanoseconds since an epoch that the driver chooses.
///
/// `std::time::Instant` can be neither made up nor stored, so the core has its own. A driver may count from the
/// start of the process, a simulator from zero, a durable queue from 1970; only differences matter. It covers
/// 584 years and saturates at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The epoch.
    pub const ZERO: Self = Self(0);
    /// The end of time, 584 years after the epoch.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The point `since_epoch` after the epoch.
    pub const fn from_duration(since_epoch: Duration) -> Self {
        Self(nanos(since_epoch))
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since the epoch.
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// This point `after` later, at most [`Timestamp::MAX`].
    #[must_use]
    pub const fn plus(self, after: Duration) -> Self {
        Self(self.0.saturating_add(nanos(after)))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_duration(), f)
    }
}

/// A duration in whole nanoseconds; what does not fit saturates at 584 years.
#[inline]
pub(crate) const fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos() as u64)
}
