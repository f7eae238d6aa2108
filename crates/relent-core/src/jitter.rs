//! Jitter: what keeps a thousand clients from trying again at the same instant.

use core::time::Duration;

/// How a wait is drawn at random around the scheduled one.
///
/// Jitter cuts the *range*, not the sample: the range that a kind gives is cut at the cap first and one draw is made
/// from what is left. Clamping the drawn value instead is the commonest defect of existing systems: in a long outage
/// the whole fleet then waits exactly the cap.
///
/// Below, `c` is the scheduled wait, already at most the cap.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Jitter {
    /// None: always `c`. A herd stays a herd.
    None,
    /// `[0, c)`. The least load on a server that is recovering (AWS Architecture Blog 2015, "Exponential Backoff And
    /// Jitter"); some waits are near zero.
    Full,
    /// `[c/2, c)`: never less than half of the wait.
    Equal,
    /// `[c·(1 − factor), c·(1 + factor))`; `factor` from 0 to 1 (gRPC since 2024: 0.2).
    Proportional {
        /// From 0 to 1.
        factor: f64,
    },
    /// `[c, c + max)`; at the cap it slides down to `[cap − max, cap)`.
    Additive {
        /// How much may be added.
        max: Duration,
    },
    /// `[initial, 3 × the previous wait)`, starting from `initial` (AWS, same source). Takes `initial` and the cap
    /// from the schedule and no multiplier.
    Decorrelated,
    /// Polly's smooth version of decorrelated jitter, whose waits have a median near the doubling schedule and no
    /// spikes: with t = n − 1 + u, g(t) = 2ᵗ·tanh(√(4t)), the wait is (g(tₙ) − g(tₙ₋₁))·initial/1.4 (Polly v8,
    /// `RetryHelper.DecorrelatedJitterBackoffV2`). At the cap the whole range is scaled down to it.
    DecorrelatedV2,
}

impl Jitter {
    /// The kind's word in a policy file.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Full => "full",
            Self::Equal => "equal",
            Self::Proportional { .. } => "proportional",
            Self::Additive { .. } => "additive",
            Self::Decorrelated => "decorrelated",
            Self::DecorrelatedV2 => "decorrelated_v2",
        }
    }

    /// Whether the wait depends on the one before it.
    pub(crate) const fn remembers(&self) -> bool {
        matches!(self, Self::Decorrelated | Self::DecorrelatedV2)
    }
}

/// `range × entropy / 2⁶⁴`, in whole nanoseconds: no float, no overflow, the same everywhere. Below `range` (or 0).
#[inline]
pub(crate) const fn scale(range: u64, entropy: u64) -> u64 {
    ((range as u128 * entropy as u128) >> 64) as u64
}

/// `entropy` as a float in [0, 1).
pub(crate) fn unit(entropy: u64) -> f64 {
    // 53 bits: what a float holds exactly.
    (entropy >> 11) as f64 / (1u64 << 53) as f64
}
