//! The event queue: a monotone radix heap.

/// Events in order of time; those of one instant in the order in which they were scheduled.
///
/// A simulation never schedules into its past, so that a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, JACM 1990) will
/// do: an event lies in the bucket of the highest bit in which its time differs from a reference that never lies
/// after the present. The earliest bucket is sorted as soon as it is small and spread over finer ones while it is
/// large. Per event it costs about the same from a hundred to ten million pending events, where a binary heap's misses
/// of the cache grow (`cargo bench -p relent-bench --bench engines -- --only hold` shows it).
///
/// Events of one instant always lie in one bucket, and buckets are only ever read from front to back and sorted
/// stably, so that they keep the order in which they came.
#[derive(Debug)]
pub struct Queue<T> {
    /// What comes next, the earliest last; of one instant what was scheduled first last.
    near: Vec<(u64, T)>,
    /// What is scheduled up to this time while something is near is near too.
    near_until: u64,
    /// Bucket 0: the events of the reference's own instant; bucket `b`: those that differ from it first in bit `b − 1`.
    buckets: Vec<Vec<(u64, T)>>,
    /// Which of the buckets 0 to 63 have something in them, one bit each; times beyond 2⁶³ (292 years) share the last.
    occupied: u64,
    /// What times are compared to: never later than the present.
    reference: u64,
    /// The time of the last event taken.
    now: u64,
    len: usize,
}

/// A bucket of up to this many events is sorted, a larger one spread.
const SORTED: usize = 32;

/// What a bucket of up to this many events will need fits into the nearer caches.
const FORESEEN: usize = 512;

/// What is near goes back to buckets when it grows beyond this: each new event shifts those before it.
const NEAR: usize = 96;

/// An emptied bucket keeps its memory up to this many events; more of it goes back, so that a herd that once filled
/// a coarse bucket does not hold its memory twenty times over.
const KEPT: usize = 1 << 16;

impl<T: Copy> Queue<T> {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        let buckets = (0..64).map(|_| Vec::new()).collect();
        Self { near: Vec::new(), near_until: 0, buckets, occupied: 0, reference: 0, now: 0, len: 0 }
    }

    /// Forgets all events and goes back to time zero.
    pub fn clear(&mut self) {
        self.near.clear();
        self.buckets.iter_mut().for_each(Vec::clear);
        (self.near_until, self.occupied, self.reference, self.now, self.len) = (0, 0, 0, 0, 0);
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
        let time = time.max(self.now);
        self.len += 1;
        if time > self.near_until || self.near.is_empty() {
            return self.place(time, event);
        }
        // Before those of its own instant, which is after them in time.
        let at = self.near.partition_point(|(other, _)| *other > time);
        self.near.insert(at, (time, event));
        if self.near.len() > NEAR {
            self.put_back();
        }
    }

    /// Takes the earliest event and its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, T)> {
        self.pop_foreseeing(|_| {})
    }

    /// The same; now and then `foresee` is shown some events that will probably come next. Reading at once what they
    /// will need lets the memory fetch it side by side: worth half of the time of a herd of a million. It may be shown an
    /// event several times.
    #[inline]
    pub fn pop_foreseeing(&mut self, foresee: impl Fn(&[(u64, T)])) -> Option<(u64, T)> {
        if self.near.is_empty() {
            self.approach(&foresee);
            foresee(&self.near);
        }
        let (time, event) = self.near.pop()?;
        self.len -= 1;
        self.now = time;
        Some((time, event))
    }

    /// Brings the earliest events near.
    fn approach(&mut self, foresee: &impl Fn(&[(u64, T)])) {
        // What was near is gone, and with it all that lay before the other buckets.
        self.reference = self.now;
        while self.occupied != 0 {
            let lowest = self.occupied.trailing_zeros();
            let Some(bucket) = self.buckets.get_mut(lowest as usize) else { return };
            // Events of one instant cannot be told apart any further.
            if bucket.len() > SORTED && lowest > 0 {
                if bucket.len() <= FORESEEN {
                    foresee(bucket);
                }
                self.spread(lowest);
                continue;
            }
            std::mem::swap(&mut self.near, bucket);
            self.occupied &= !(1 << lowest);
            self.near.reverse();
            if lowest > 0 {
                self.near.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
            }
            // The latest time that differs from the reference in no bit from `lowest` on.
            self.near_until = if lowest == 63 { u64::MAX } else { self.reference | ((1 << lowest) - 1) };
            return;
        }
    }

    /// Moves the reference up to a bucket's earliest event and spreads the bucket over finer ones.
    fn spread(&mut self, lowest: u32) {
        let Some(slot) = self.buckets.get_mut(lowest as usize) else { return };
        let mut bucket = std::mem::take(slot);
        self.occupied &= !(1 << lowest);
        self.reference = bucket.iter().map(|(time, _)| *time).min().unwrap_or(self.reference);
        for &(time, event) in &bucket {
            self.place(time, event);
        }
        if bucket.capacity() <= KEPT
            && let Some(slot) = self.buckets.get_mut(lowest as usize)
            && slot.is_empty()
        {
            bucket.clear();
            *slot = bucket;
        }
    }

    #[cold]
    fn put_back(&mut self) {
        self.reference = self.now;
        while let Some((time, event)) = self.near.pop() {
            self.place(time, event);
        }
    }

    #[inline]
    fn place(&mut self, time: u64, event: T) {
        let differs = (64 - (time ^ self.reference).leading_zeros()).min(63);
        self.occupied |= 1 << differs;
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
