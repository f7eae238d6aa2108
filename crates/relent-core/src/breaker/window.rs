//! What a breaker looks at: the last calls, the calls of the last seconds, or the failures in a row.

use alloc::vec::Vec;
use core::time::Duration;

use crate::policy::refuse;
use crate::slots::{Slots, Tally};
use crate::{PolicyError, Timestamp};

/// Over what a breaker looks. All of them really slide: ten thousand old successes do not need ten thousand failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BreakerWindow {
    /// Failures in a row.
    Consecutive,
    /// The last calls, from 1 to 1 000 000; each takes two bits.
    Count(u32),
    /// The calls of the last time, in steps of a tenth of it.
    Time(Duration),
}

impl BreakerWindow {
    /// The kind's word in a policy file.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Consecutive => "consecutive",
            Self::Count(_) => "count",
            Self::Time(_) => "time",
        }
    }

    pub(super) fn check(&self, min_calls: u32, failures: Option<u32>) -> Result<(), PolicyError> {
        match *self {
            Self::Count(size) if !(1..=1_000_000).contains(&size) => {
                Err(refuse("window.size", "must be from 1 to 1000000 calls"))
            }
            Self::Count(size) if min_calls > size => {
                Err(refuse("min_calls", "is more than the window holds, so that it never opens"))
            }
            Self::Count(size) if failures.is_some_and(|failures| failures > size) => {
                Err(refuse("failures", "is more than the window holds, so that it never opens"))
            }
            Self::Time(size) if size.is_zero() => Err(refuse("window.size", "holds no call")),
            _ => Ok(()),
        }
    }
}

/// How a call ended, for a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) failed: bool,
    pub(super) slow: bool,
}

/// How many calls ended, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) calls: u64,
    pub(super) failures: u64,
    pub(super) slow: u64,
}

impl From<Seen> for Counts {
    fn from(seen: Seen) -> Self {
        Self { calls: 1, failures: seen.failed.into(), slow: seen.slow.into() }
    }
}

impl Tally for Counts {
    fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.failures = self.failures.saturating_add(other.failures);
        self.slow = self.slow.saturating_add(other.slow);
    }

    fn subtract(&mut self, other: &Self) {
        self.calls = self.calls.saturating_sub(other.calls);
        self.failures = self.failures.saturating_sub(other.failures);
        self.slow = self.slow.saturating_sub(other.slow);
    }
}

#[derive(Clone, Debug)]
pub(super) enum Window {
    Consecutive(Counts),
    Count(Ring),
    Time(Slots<Counts, 10>),
}

impl Window {
    pub(super) fn new(window: BreakerWindow) -> Self {
        match window {
            BreakerWindow::Consecutive => Self::Consecutive(Counts::default()),
            BreakerWindow::Count(size) => Self::Count(Ring::new(size as usize)),
            BreakerWindow::Time(size) => Self::Time(Slots::new(size)),
        }
    }

    #[inline]
    pub(super) fn advance(&mut self, now: u64) {
        if let Self::Time(slots) = self {
            slots.advance(now);
        }
    }

    #[inline]
    pub(super) fn add(&mut self, seen: Seen) {
        match self {
            Self::Consecutive(row) if seen.failed => row.add(&seen.into()),
            Self::Consecutive(row) => *row = Counts::default(),
            Self::Count(ring) => ring.push(seen),
            Self::Time(slots) => slots.add(&seen.into()),
        }
    }

    #[inline]
    pub(super) fn counts(&self) -> Counts {
        match self {
            Self::Consecutive(row) => *row,
            Self::Count(ring) => ring.counts,
            Self::Time(slots) => *slots.total(),
        }
    }

    /// Takes in a success, if its time does not matter and it is not the call that makes `least` of them.
    #[inline]
    pub(super) fn take_success(&mut self, least: u32) -> bool {
        match self {
            Self::Consecutive(row) => *row = Counts::default(),
            Self::Count(ring) if ring.counts.calls + 1 != u64::from(least) => {
                ring.push(Seen { failed: false, slow: false });
            }
            Self::Count(_) | Self::Time(_) => return false,
        }
        true
    }

    /// How many successes can be taken in like that, before it is worth a look again.
    #[inline]
    pub(super) fn room(&self, least: u32) -> u64 {
        match self {
            Self::Count(ring) => {
                let calls = ring.counts.calls;
                if calls < u64::from(least) { u64::from(least) - calls - 1 } else { ring.size as u64 }
            }
            Self::Consecutive(_) | Self::Time(_) => 0,
        }
    }

    /// Takes them in, of no more than there was [room](Self::room) for.
    #[inline]
    pub(super) fn take_successes(&mut self, successes: u64) {
        if let Self::Count(ring) = self {
            ring.push_successes(successes);
        }
    }

    /// Whether one more success, in time, would leave it as it is.
    #[inline]
    pub(super) fn is_full_of_successes(&self) -> bool {
        match self {
            Self::Consecutive(row) => row.failures == 0,
            Self::Count(ring) => ring.counts == Counts { calls: ring.size as u64, failures: 0, slow: 0 },
            // Each success counts for as long as the window is.
            Self::Time(_) => false,
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Consecutive(row) => *row = Counts::default(),
            Self::Count(ring) => ring.clear(),
            Self::Time(slots) => slots.clear(),
        }
    }

    pub(super) fn snapshot(&self) -> WindowSnapshot {
        match self {
            Self::Consecutive(row) => WindowSnapshot::Consecutive { failures: row.failures },
            Self::Count(ring) => WindowSnapshot::Count {
                calls: ring.iter().map(|seen| u8::from(seen.failed) | u8::from(seen.slow) << 1).collect(),
            },
            Self::Time(slots) => WindowSnapshot::Time {
                slots: slots
                    .iter()
                    .filter(|(_, counts)| counts.calls > 0)
                    .map(|(since, counts)| {
                        (Timestamp::from_nanos(since), [counts.calls, counts.failures, counts.slow])
                    })
                    .collect(),
            },
        }
    }

    /// Takes in what a window of the same kind held, with its times set back; of another kind there is nothing to go on
    /// from.
    pub(super) fn restore(&mut self, from: &WindowSnapshot, back: u64, latest: u64) {
        match (self, from) {
            (Self::Consecutive(row), WindowSnapshot::Consecutive { failures }) => {
                *row = Counts { calls: *failures, failures: *failures, slow: 0 };
            }
            (Self::Count(ring), WindowSnapshot::Count { calls }) => {
                let seen = |bits: &u8| Seen { failed: bits & 1 != 0, slow: bits & 2 != 0 };
                calls.iter().map(seen).for_each(|seen| ring.push(seen));
            }
            (Self::Time(into), WindowSnapshot::Time { slots }) => {
                for (since, [calls, failures, slow]) in slots {
                    into.advance(since.as_nanos().saturating_sub(back).min(latest));
                    let failures = *failures.min(calls);
                    into.add(&Counts { calls: *calls, failures, slow: *slow.min(calls) });
                }
                into.advance(latest);
            }
            _ => {}
        }
    }
}

/// What a breaker's window holds, as plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowSnapshot {
    /// Failures in a row.
    Consecutive {
        /// How many.
        failures: u64,
    },
    /// The last calls.
    Count {
        /// From the oldest: 1 failed, 2 slow, 3 both, 0 neither.
        calls: Vec<u8>,
    },
    /// The calls of the last time.
    Time {
        /// From the oldest: since when, and how many calls, failures and slow ones.
        slots: Vec<(Timestamp, [u64; 3])>,
    },
}

/// The last calls, in a ring.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// Which calls failed, and which were slow, 64 to a word each.
    failed: Vec<u64>,
    slow: Vec<u64>,
    size: usize,
    /// Where the next call goes.
    next: usize,
    counts: Counts,
}

impl Ring {
    fn new(size: usize) -> Self {
        let words = || (0..size.div_ceil(64)).map(|_| 0).collect();
        Self { failed: words(), slow: words(), size, next: 0, counts: Counts::default() }
    }

    #[inline]
    fn push(&mut self, seen: Seen) {
        let (word, bit) = (self.next / 64, 1u64 << (self.next % 64));
        let (Some(failed), Some(slow)) = (self.failed.get_mut(word), self.slow.get_mut(word)) else { return };
        let is_full = self.counts.calls == self.size as u64;
        // The oldest call leaves, and was counted when it came.
        let (failed_then, slow_then) = (is_full && *failed & bit != 0, is_full && *slow & bit != 0);
        let Counts { calls, failures, slow: slow_ones } = &mut self.counts;
        *calls += u64::from(!is_full);
        *failures = *failures + u64::from(seen.failed) - u64::from(failed_then);
        *slow_ones = *slow_ones + u64::from(seen.slow) - u64::from(slow_then);
        *failed = if seen.failed { *failed | bit } else { *failed & !bit };
        *slow = if seen.slow { *slow | bit } else { *slow & !bit };
        self.next = if self.next + 1 == self.size { 0 } else { self.next + 1 };
    }

    /// The same for several at once, a word of them at a time.
    fn push_successes(&mut self, successes: u64) {
        let mut left = successes as usize;
        while left > 0 {
            let (word, bit) = (self.next / 64, self.next % 64);
            // It is full from where the ring comes round on: the calls of a part all leave an older one, or none does.
            let part = left.min(64 - bit).min(self.size - self.next);
            let mask = (u64::MAX >> (64 - part)) << bit;
            let (Some(failed), Some(slow)) = (self.failed.get_mut(word), self.slow.get_mut(word)) else {
                return;
            };
            if self.counts.calls == self.size as u64 {
                self.counts.failures -= u64::from((*failed & mask).count_ones());
                self.counts.slow -= u64::from((*slow & mask).count_ones());
            } else {
                self.counts.calls += part as u64;
            }
            (*failed, *slow) = (*failed & !mask, *slow & !mask);
            self.next = if self.next + part == self.size { 0 } else { self.next + part };
            left -= part;
        }
    }

    fn clear(&mut self) {
        self.next = 0;
        self.counts = Counts::default();
    }

    /// The calls, from the oldest.
    fn iter(&self) -> impl Iterator<Item = Seen> {
        let held = self.counts.calls as usize;
        let oldest = (self.next + self.size - held) % self.size.max(1);
        (0..held).filter_map(move |offset| {
            let index = (oldest + offset) % self.size.max(1);
            let bit = 1u64 << (index % 64);
            let has = |words: &[u64]| words.get(index / 64).map(|word| word & bit != 0);
            Some(Seen { failed: has(&self.failed)?, slow: has(&self.slow)? })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successes_at_once_are_successes_one_by_one() {
        let succeeded = Seen { failed: false, slow: false };
        for size in [1, 2, 5, 63, 64, 65, 130, 200] {
            let (mut one_by_one, mut at_once) = (Ring::new(size), Ring::new(size));
            for (step, successes) in (0..300).map(|step| (step, step * 37 % (size as u64 + 1))) {
                let other = Seen { failed: step % 3 > 0, slow: step % 2 > 0 };
                one_by_one.push(other);
                at_once.push(other);
                (0..successes).for_each(|_| one_by_one.push(succeeded));
                at_once.push_successes(successes);
                assert_eq!(at_once.counts, one_by_one.counts, "{size}, {step}");
                assert!(at_once.iter().eq(one_by_one.iter()), "{size}, {step}");
            }
        }
    }
}
