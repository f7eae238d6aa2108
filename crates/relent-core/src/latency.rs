//! How long attempts take: quantiles over a window, in which those that were cut short count for what they showed.

use alloc::vec::Vec;
use core::time::Duration;

use crate::time::nanos;
use crate::{Class, Ratio, Timestamp};

/// Latencies of the last while, and their quantiles.
///
/// An attempt that was cancelled since another one won has shown that it would have taken *at least* so long. Leaving
/// it out would make the slowest target look fast; counting it as if it had ended would too. It is counted as what it is
/// (censored), and the quantile is that of Kaplan and Meier's estimate of the distribution.
///
/// Each value is known to an eighth of itself. What is held is between one and two windows old at most.
#[derive(Clone, Debug)]
pub struct Latencies {
    window: u64,
    /// The current window's counts, and those of the one before it.
    current: Histogram,
    previous: Histogram,
    current_ends: u64,
    latest: u64,
}

/// Buckets per doubling: 8, so that a bucket is an eighth of its value wide.
const STEPS: u32 = 8;
/// The shortest latency that is told from others: 2^10 ns, about a microsecond.
const LOWEST_EXPONENT: u32 = 10;
/// Everything from 2^37 ns (137 s) on is one.
const HIGHEST_EXPONENT: u32 = 37;
const BUCKETS: usize = ((HIGHEST_EXPONENT - LOWEST_EXPONENT) * STEPS + 1) as usize;

#[derive(Clone, Debug)]
struct Histogram {
    /// For each bucket how many attempts ended in it, and how many were cut short in it.
    buckets: Vec<[u32; 2]>,
    /// Those that ended.
    samples: u64,
}

/// Of each is known that it was within the last half a minute to a minute: long enough for some samples of a target that is
/// asked once a second, short enough to follow one that has become slow.
impl Default for Latencies {
    fn default() -> Self {
        Self::new(Duration::from_secs(30))
    }
}

impl Latencies {
    /// None yet; of each is known that it was within the last `window` to two.
    pub fn new(window: Duration) -> Self {
        let window = nanos(window).max(1);
        Self {
            window,
            current: Histogram::new(),
            previous: Histogram::new(),
            current_ends: window,
            latest: 0,
        }
    }

    /// An attempt ended so. An answer is one, whatever it says; a failure that came fast says nothing of how long an
    /// answer takes, and a timeout or a cancellation that it takes longer.
    #[inline]
    pub fn settle(&mut self, class: Class, took: Duration, now: Timestamp) {
        match class {
            Class::Success | Class::Permanent | Class::Ignored => self.record(took, now),
            Class::Timeout | Class::Cancelled => self.record_cut_short(took, now),
            Class::Transient | Class::Throttled | Class::NotSent => {}
        }
    }

    /// An attempt that ended took so long.
    #[inline]
    pub fn record(&mut self, took: Duration, now: Timestamp) {
        self.advance(now);
        self.current.count(took, 0);
        self.current.samples += 1;
    }

    /// An attempt that was cut short would have taken at least so long.
    #[inline]
    pub fn record_cut_short(&mut self, after: Duration, now: Timestamp) {
        self.advance(now);
        self.current.count(after, 1);
    }

    /// How many attempts that ended are held.
    pub fn samples(&mut self, now: Timestamp) -> u64 {
        self.advance(now);
        self.current.samples + self.previous.samples
    }

    /// The latency within which this share of the attempts ends, rounded up by an eighth at most; none before any ended.
    /// Where so many were cut short that the share lies beyond what is known, it is the longest time that one showed:
    /// the share's is not less.
    pub fn quantile(&mut self, share: Ratio, now: Timestamp) -> Option<Duration> {
        self.advance(now);
        let buckets = || self.current.buckets.iter().zip(&self.previous.buckets);
        let both = buckets().map(|([ended, cut], [ended_before, cut_before])| {
            [u64::from(*ended) + u64::from(*ended_before), u64::from(*cut) + u64::from(*cut_before)]
        });
        let mut at_risk: u64 = both.clone().map(|[ended, cut]| ended + cut).sum();
        // The share that takes longer than what has been looked at.
        let mut longer = 1.0;
        let mut longest = 0;
        for (index, [ended, cut]) in both.enumerate() {
            if ended > 0 {
                longer *= 1.0 - ended as f64 / at_risk as f64;
                // A hair of tolerance: 19 of 20 are 95 %.
                if 1.0 - longer >= share.as_f64() - 1e-9 {
                    return Some(Duration::from_nanos(upper_bound(index)));
                }
            }
            if ended + cut > 0 {
                longest = upper_bound(index);
            }
            at_risk -= ended + cut;
        }
        (longer < 1.0).then_some(Duration::from_nanos(longest))
    }

    #[inline]
    fn advance(&mut self, now: Timestamp) {
        self.latest = self.latest.max(now.as_nanos());
        if self.latest >= self.current_ends {
            self.turn();
        }
    }

    #[cold]
    fn turn(&mut self) {
        let windows = (self.latest - self.current_ends) / self.window + 1;
        self.current_ends = self.current_ends.saturating_add(windows.saturating_mul(self.window));
        core::mem::swap(&mut self.current, &mut self.previous);
        self.current.clear();
        if windows > 1 {
            self.previous.clear();
        }
    }
}

impl Histogram {
    fn new() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| [0; 2]).collect(), samples: 0 }
    }

    #[inline]
    fn count(&mut self, latency: Duration, kind: usize) {
        let count = self.buckets.get_mut(bucket(nanos(latency))).and_then(|bucket| bucket.get_mut(kind));
        if let Some(count) = count {
            *count = count.saturating_add(1);
        }
    }

    fn clear(&mut self) {
        self.buckets.fill([0; 2]);
        self.samples = 0;
    }
}

/// The bucket that holds latencies up to its upper bound, that included.
fn bucket(nanos: u64) -> usize {
    let below = nanos.saturating_sub(1);
    let exponent = u64::BITS - 1 - (below | 1).leading_zeros();
    if exponent < LOWEST_EXPONENT {
        return 0;
    }
    let step = (below >> (exponent - STEPS.ilog2())) as u32 % STEPS;
    let index = (exponent - LOWEST_EXPONENT) * STEPS + step + 1;
    (index as usize).min(BUCKETS - 1)
}

fn upper_bound(bucket: usize) -> u64 {
    let (exponent, step) = (bucket as u32 / STEPS + LOWEST_EXPONENT, bucket as u32 % STEPS);
    (u64::from(STEPS + step)) << (exponent - STEPS.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_lies_below_its_bound() {
        for nanos in (0..37).flat_map(|exponent| [(1u64 << exponent) - 1, 1 << exponent, (1 << exponent) + 1])
        {
            let upper = upper_bound(bucket(nanos));
            assert!(upper >= nanos, "{nanos}: {upper}");
            assert!(upper <= (nanos + nanos / 8 + 1).max(1 << LOWEST_EXPONENT), "{nanos}: {upper}");
        }
        for index in 0..BUCKETS {
            assert_eq!(bucket(upper_bound(index)), index);
            assert_eq!(bucket(upper_bound(index) + 1), (index + 1).min(BUCKETS - 1));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
