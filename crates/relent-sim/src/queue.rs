//! The event queue: a monotone radix heap.

/// Events in order of time; those of one instant in the order in which they were scheduled.
///
/// A simulation never schedules into its past, so that a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, JACM 1990) will
/// do: an event lies in the bucket of the highest bit in which its time differs from a reference that never lies
/// after the present. Events of one instant therefore always lie in one bucket, and as buckets are only ever read
/// from front to back, they keep the order in which they came. Per event it costs about the same from a hundred to
/// ten million pending events, where a binary heap's misses of the cache grow (`cargo bench -p relent-sim` shows it).
#[derive(Debug)]
pub struct Queue<T> {
    /// Bucket 0: the events of the reference's own instant; bucket `b`: those that differ from it first in bit `b − 1`.
    buckets: Vec<Vec<(u64, T)>>,
    /// Which of the buckets 1 to 64 have something in them, one bit each.
    occupied: u64,
    /// How much of bucket 0 has been taken.
    taken: usize,
    /// What times are compared to: never later than the present.
    reference: u64,
    /// The time of the last event taken.
    now: u64,
    len: usize,
}

/// Up to here a bucket is searched for its first event rather than spread over finer buckets.
const SEARCHED: usize = 12;

/// An emptied bucket keeps its memory up to this many events; more of it goes back, so that a herd that once filled
/// a coarse bucket does not hold its memory twenty times over.
const KEPT: usize = 1 << 16;

impl<T: Copy> Queue<T> {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        let buckets = (0..=64).map(|_| Vec::new()).collect();
        Self { buckets, occupied: 0, taken: 0, reference: 0, now: 0, len: 0 }
    }

    /// Forgets all events and goes back to time zero.
    pub fn clear(&mut self) {
        self.buckets.iter_mut().for_each(Vec::clear);
        (self.occupied, self.taken, self.reference, self.now, self.len) = (0, 0, 0, 0, 0);
    }

    /// How many events are pending.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Schedules an event at `time` in nanoseconds. A time in the past means now.
    #[inline]
    pub fn push(&mut self, time: u64, event: T) {
        debug_assert!(time >= self.now, "an event in the past: {time} < {}", self.now);
        self.len += 1;
        self.place(time.max(self.now), event);
    }

    /// Takes the earliest event and its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, T)> {
        if let Some(&(time, event)) = self.buckets.first().and_then(|bucket| bucket.get(self.taken)) {
            self.taken += 1;
            self.len -= 1;
            self.now = time;
            return Some((time, event));
        }
        self.pop_from_buckets()
    }

    fn pop_from_buckets(&mut self) -> Option<(u64, T)> {
        if let Some(first) = self.buckets.first_mut() {
            first.clear();
        }
        self.taken = 0;
        let lowest = self.occupied.checked_ilog2().map(|_| self.occupied.trailing_zeros())?;
        let bucket = self.buckets.get_mut(lowest as usize + 1)?;
        if bucket.len() > SEARCHED {
            self.spread(lowest);
            return self.pop();
        }
        let earliest = earliest_of(bucket)?;
        let (time, event) = bucket.remove(earliest);
        if bucket.is_empty() {
            self.occupied &= !(1 << lowest);
            // Nothing lies before the next bucket now, so the reference may come up to the present.
            self.reference = time;
        }
        self.now = time;
        self.len -= 1;
        Some((time, event))
    }

    /// Moves the reference up to a bucket's earliest event and spreads the bucket over finer ones.
    fn spread(&mut self, lowest: u32) {
        let Some(slot) = self.buckets.get_mut(lowest as usize + 1) else { return };
        let mut bucket = core::mem::take(slot);
        self.occupied &= !(1 << lowest);
        self.reference = bucket.iter().map(|(time, _)| *time).min().unwrap_or(self.reference);
        for &(time, event) in &bucket {
            self.place(time, event);
        }
        if bucket.capacity() <= KEPT {
            bucket.clear();
            // Every event went to a finer bucket: this one is still empty.
            if let Some(slot) = self.buckets.get_mut(lowest as usize + 1) {
                *slot = bucket;
            }
        }
    }

    #[inline]
    fn place(&mut self, time: u64, event: T) {
        let differs = 64 - (time ^ self.reference).leading_zeros();
        if let Some(below) = differs.checked_sub(1) {
            self.occupied |= 1 << below;
        }
        if let Some(bucket) = self.buckets.get_mut(differs as usize) {
            bucket.push((time, event));
        }
    }
}

impl<T: Copy> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The position of the earliest event, the first of those where there are several.
#[inline]
fn earliest_of<T>(bucket: &[(u64, T)]) -> Option<usize> {
    let mut events = bucket.iter().map(|(time, _)| *time).enumerate();
    let first = events.next()?;
    let earliest = events.fold(first, |best, this| if this.1 < best.1 { this } else { best });
    Some(earliest.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use relent_core::Dice;

    proptest! {
        #[test]
        fn comes_out_by_time_then_by_order_of_scheduling(
            seed: u64, spread in 1u64..=64, steps in 1usize..400, filled in 1usize..200,
        ) {
            let mut dice = Dice::new(seed);
            let mut queue = Queue::new();
            let mut model = std::collections::BTreeSet::new();
            let mut now = 0u64;
            let mut id = 0u64;
            let mut schedule = |queue: &mut Queue<u64>, model: &mut std::collections::BTreeSet<_>, now: u64| {
                let time = now.saturating_add(dice.roll() >> (64 - spread).min(63));
                queue.push(time, id);
                model.insert((time, id));
                id += 1;
            };
            for _ in 0..filled {
                schedule(&mut queue, &mut model, now);
            }
            for step in 0..steps {
                let popped = queue.pop();
                prop_assert_eq!(popped, model.pop_first());
                let Some((time, _)) = popped else { break };
                now = time;
                for _ in 0..step % 3 {
                    schedule(&mut queue, &mut model, now);
                }
                prop_assert_eq!(queue.len(), model.len());
            }
            while let Some(event) = queue.pop() {
                prop_assert_eq!(Some(event), model.pop_first());
            }
            prop_assert!(model.is_empty() && queue.is_empty());
        }
    }

    #[test]
    fn one_instant_keeps_its_order() {
        let mut queue = Queue::new();
        for id in 0..1000 {
            queue.push(5_000_000, id);
        }
        for id in 0..1000 {
            assert_eq!(queue.pop(), Some((5_000_000, id)));
            queue.push(5_000_000, id + 1000);
        }
        for id in 0..1000 {
            assert_eq!(queue.pop(), Some((5_000_000, id + 1000)));
        }
        assert_eq!(queue.pop(), None);
    }
}
