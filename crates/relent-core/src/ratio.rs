//! Ratios and rates: what budgets, breakers and limiters are told in.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::time::nanos;

/// A ratio such as 0.2, held in millionths so that ten thousand times 0.3 are three thousand.
///
/// Where a ratio is a share of something it is at most 1; retry budgets take larger ones too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(u64);

/// Millionths in a whole.
pub(crate) const WHOLE: u64 = 1_000_000;

impl Ratio {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// All.
    pub const ONE: Self = Self(WHOLE);

    /// The ratio nearest to `value`; none if it is negative, not a number, or above one million.
    pub fn new(value: f64) -> Option<Self> {
        let millionths = value * WHOLE as f64;
        // A comparison with what is no number is false.
        if millionths >= 0.0 && millionths <= (WHOLE * WHOLE) as f64 {
            Some(Self(libm::round(millionths) as u64))
        } else {
            None
        }
    }

    /// So many of a hundred.
    pub const fn percent(percent: u32) -> Self {
        Self(percent as u64 * (WHOLE / 100))
    }

    /// So many of a million.
    pub const fn per_million(millionths: u32) -> Self {
        Self(millionths as u64)
    }

    /// The ratio as a number.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }

    /// Whether it is the ratio of a part to its whole, and not nothing.
    pub(crate) const fn is_share(self) -> bool {
        self.0 > 0 && self.0 <= WHOLE
    }

    /// This ratio of `count`, in millionths.
    pub(crate) const fn millionths_of(self, count: u64) -> u64 {
        self.0.saturating_mul(count)
    }

    /// This ratio of `amount`, rounded down.
    pub(crate) const fn of(self, amount: u64) -> u64 {
        let product = self.0 as u128 * amount as u128 / WHOLE as u128;
        if product > u64::MAX as u128 { u64::MAX } else { product as u64 }
    }

    /// Whether `part` of `whole` is at least this ratio; nothing of nothing is no ratio.
    pub(crate) const fn is_met_by(self, part: u64, whole: u64) -> bool {
        whole > 0 && part as u128 * WHOLE as u128 >= self.0 as u128 * whole as u128
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_f64(), f)
    }
}

/// So many in a time: ten per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    count: NonZeroU32,
    /// Nanoseconds, at least 1.
    per: u64,
}

impl Rate {
    /// `count` in each `per`; none if either is nothing. Say nothing at all where nothing is meant.
    pub const fn new(count: u32, per: Duration) -> Option<Self> {
        match (NonZeroU32::new(count), nanos(per)) {
            (Some(count), per @ 1..) => Some(Self { count, per }),
            _ => None,
        }
    }

    /// `count` per second.
    pub const fn per_second(count: NonZeroU32) -> Self {
        Self { count, per: 1_000_000_000 }
    }

    /// How many.
    pub const fn count(self) -> u32 {
        self.count.get()
    }

    /// In which time.
    pub const fn per(self) -> Duration {
        Duration::from_nanos(self.per)
    }

    pub(crate) const fn per_nanos(self) -> u64 {
        self.per
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_what_was_written() {
        for (value, of_ten_thousand) in [(0.3, 3_000), (0.6, 6_000), (0.7, 7_000), (0.0, 0), (2.0, 20_000)] {
            assert_eq!(Ratio::new(value).unwrap().of(10_000), of_ten_thousand, "{value}");
        }
        assert_eq!(Ratio::new(1.0), Some(Ratio::ONE));
        assert_eq!(Ratio::percent(20), Ratio::new(0.2).unwrap());
    }

    #[test]
    fn what_is_no_ratio_is_refused() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1, -f64::MIN_POSITIVE, 1e7] {
            assert_eq!(Ratio::new(value), None, "{value}");
        }
    }

    #[test]
    fn a_threshold_is_met_where_it_is_reached() {
        let half = Ratio::percent(50);
        assert!(half.is_met_by(5, 10) && half.is_met_by(1, 1));
        assert!(!half.is_met_by(4, 9) && !half.is_met_by(0, 0));
    }
}
