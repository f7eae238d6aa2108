//! Counts over a time window that slides.

use core::time::Duration;

use crate::time::nanos;

/// What a slot counts.
pub(crate) trait Tally: Copy + Default {
    fn add(&mut self, other: &Self);
    fn subtract(&mut self, other: &Self);
}

/// Counts in `N` slots of a tenth of the window each. What is counted leaves with its slot: with `N` = 10 after nine
/// to ten tenths of the window, with `N` = 11 after ten to eleven.
#[derive(Clone, Debug)]
pub(crate) struct Slots<T, const N: usize> {
    slots: [T; N],
    /// The sum of all slots, so that reading costs nothing.
    total: T,
    /// Which slot is the newest.
    newest: usize,
    /// A slot's length.
    length: u64,
    /// Where the newest slot ends.
    ends: u64,
}

impl<T: Tally, const N: usize> Slots<T, N> {
    pub(crate) fn new(window: Duration) -> Self {
        let length = nanos(window).div_ceil(10).max(1);
        Self { slots: [T::default(); N], total: T::default(), newest: 0, length, ends: length }
    }

    /// Lets go what has become too old.
    #[inline]
    pub(crate) fn advance(&mut self, now: u64) {
        if now >= self.ends {
            self.slide(now);
        }
    }

    /// The time at which something is counted that happens `now`: a clock that steps back counts into the newest slot.
    pub(crate) fn counted_at(&self, now: u64) -> u64 {
        now.max(self.ends.saturating_sub(self.length))
    }

    /// The counts of the window.
    pub(crate) fn total(&self) -> &T {
        &self.total
    }

    pub(crate) fn add(&mut self, counts: &T) {
        if let Some(slot) = self.slots.get_mut(self.newest) {
            slot.add(counts);
            self.total.add(counts);
        }
    }

    /// Takes back what was counted at `then`, if that is still in the window.
    pub(crate) fn take_back(&mut self, counts: &T, then: u64) {
        let slots_ago = (self.ends - 1).saturating_sub(then) / self.length;
        let Some(slots_ago) = usize::try_from(slots_ago).ok().filter(|ago| *ago < N) else { return };
        if let Some(slot) = self.slots.get_mut((self.newest + N - slots_ago) % N) {
            slot.subtract(counts);
            self.total.subtract(counts);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.slots = [T::default(); N];
        self.total = T::default();
    }

    /// When each slot begins, and what it counts, from the oldest.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        (0..N).rev().filter_map(|ago| {
            let begins = self.ends.checked_sub(self.length.checked_mul(ago as u64 + 1)?)?;
            Some((begins, self.slots.get((self.newest + N - ago) % N)?))
        })
    }

    #[cold]
    fn slide(&mut self, now: u64) {
        let steps = (now - self.ends) / self.length + 1;
        self.ends = self.ends.saturating_add(steps.saturating_mul(self.length));
        if steps >= N as u64 {
            self.clear();
            return;
        }
        for _ in 0..steps {
            self.newest = (self.newest + 1) % N;
            if let Some(slot) = self.slots.get_mut(self.newest) {
                self.total.subtract(slot);
                *slot = T::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Tally for u64 {
        fn add(&mut self, other: &Self) {
            *self += other;
        }

        fn subtract(&mut self, other: &Self) {
            *self -= other;
        }
    }

    #[test]
    fn what_is_counted_leaves_after_the_window() {
        let mut slots: Slots<u64, 10> = Slots::new(Duration::from_nanos(100));
        slots.advance(5);
        slots.add(&3);
        for now in [9, 10, 50, 99] {
            slots.advance(now);
            assert_eq!(*slots.total(), 3, "{now}");
        }
        slots.add(&4);
        slots.advance(100);
        assert_eq!(*slots.total(), 4);
        slots.advance(189);
        assert_eq!(*slots.total(), 4);
        slots.advance(190);
        assert_eq!(*slots.total(), 0);
    }

    #[test]
    fn what_is_taken_back_is_gone_and_no_more_than_that() {
        let mut slots: Slots<u64, 11> = Slots::new(Duration::from_nanos(100));
        slots.advance(15);
        slots.add(&1);
        slots.advance(72);
        slots.add(&1);
        slots.take_back(&1, 15);
        assert_eq!(*slots.total(), 1);
        assert_eq!(slots.iter().map(|(begins, count)| (begins, *count)).last(), Some((70, 1)));
        // Its slot has left: taking it back again would take another's.
        slots.advance(181);
        slots.add(&1);
        slots.take_back(&1, 72);
        assert_eq!(*slots.total(), 1);
    }

    #[test]
    fn nothing_happens_at_the_ends_of_time() {
        let mut slots: Slots<u64, 10> = Slots::new(Duration::ZERO);
        for now in [0, u64::MAX, 3, u64::MAX] {
            slots.advance(now);
            slots.add(&1);
            slots.take_back(&1, now);
        }
        let mut slots: Slots<u64, 10> = Slots::new(Duration::MAX);
        slots.add(&1);
        slots.advance(u64::MAX / 2);
        assert_eq!(*slots.total(), 1);
    }
}
