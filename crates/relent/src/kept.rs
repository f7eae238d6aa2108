//! Values that are kept for a while, and not more of them than is said.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use relent_core::Timestamp;

/// Values by key. They are handed out, and what makes room is handed back, so that a value's own `clone` and `drop` run
/// where nothing is locked.
pub(crate) struct Kept<K, V> {
    values: HashMap<K, Value<V>>,
    asks: u64,
    /// How many at most.
    pub(crate) capacity: usize,
    /// For how long.
    pub(crate) max_age: Duration,
}

struct Value<V> {
    value: Arc<V>,
    since: Timestamp,
    /// When it was asked for last, in asks.
    asked: u64,
}

impl<K: Eq + Hash, V> Kept<K, V> {
    pub(crate) fn new(max_age: Duration) -> Self {
        Self { values: HashMap::new(), asks: 0, capacity: 1_000, max_age }
    }

    /// The value, unless it is too old. It is as old as its limit in the moment in which it is no longer there.
    pub(crate) fn get(&mut self, key: &K, now: Timestamp) -> Option<Arc<V>> {
        self.asks += 1;
        let value = self.values.get_mut(key)?;
        value.asked = self.asks;
        (now.since(value.since) < self.max_age).then(|| Arc::clone(&value.value))
    }

    /// Keeps a value, and gives back those that had to go for it.
    pub(crate) fn put(&mut self, key: K, value: Arc<V>, now: Timestamp) -> Vec<Arc<V>> {
        let mut gone = Vec::new();
        if self.capacity == 0 || self.max_age.is_zero() {
            return gone;
        }
        if self.values.len() >= self.capacity && !self.values.contains_key(&key) {
            gone = self.make_room(now);
        }
        self.asks += 1;
        let old = self.values.insert(key, Value { value, since: now, asked: self.asks });
        gone.extend(old.map(|old| old.value));
        gone
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<Arc<V>> {
        self.values.remove(key).map(|value| value.value)
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Lets go what is too old, or else the eighth that was not asked for the longest, so that a flood of new keys does not
    /// search for each.
    fn make_room(&mut self, now: Timestamp) -> Vec<Arc<V>> {
        let max_age = self.max_age;
        let too_old = self.let_go(|value| now.since(value.since) >= max_age);
        if !too_old.is_empty() {
            return too_old;
        }
        let mut asked: Vec<u64> = self.values.values().map(|value| value.asked).collect();
        let last = (asked.len() / 8).max(1) - 1;
        if last >= asked.len() {
            return Vec::new();
        }
        let (_, latest, _) = asked.select_nth_unstable(last);
        let latest = *latest;
        self.let_go(|value| value.asked <= latest)
    }

    fn let_go(&mut self, whether: impl Fn(&Value<V>) -> bool) -> Vec<Arc<V>> {
        let gone = self.values.extract_if(|_, value| whether(value));
        gone.map(|(_, value)| value.value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_duration(Duration::from_secs(secs))
    }

    #[test]
    fn there_are_never_more_than_fit_and_the_idlest_go() {
        let mut kept = Kept::new(Duration::from_secs(1_000));
        kept.capacity = 16;
        kept.put(0, Arc::new(0), at(0));
        for key in 1..10_000 {
            kept.put(key, Arc::new(key), at(0));
            assert_eq!(kept.get(&0, at(0)).as_deref(), Some(&0), "{key}");
            assert_eq!(kept.get(&key, at(0)).as_deref(), Some(&key));
            assert!(kept.len() <= 16);
        }
        // What is too old goes before what is idle.
        kept.put(10_000, Arc::new(0), at(500));
        kept.put(10_001, Arc::new(0), at(1_200));
        while kept.len() < 16 {
            kept.put(kept.len(), Arc::new(0), at(1_200));
        }
        kept.put(20_000, Arc::new(0), at(1_500));
        assert!(kept.get(&10_000, at(1_500)).is_none() && kept.get(&10_001, at(1_500)).is_some());
    }

    #[test]
    fn a_value_is_gone_in_the_moment_in_which_it_is_too_old() {
        let mut kept = Kept::new(Duration::from_secs(10));
        assert!(kept.put("key", Arc::new(1), at(5)).is_empty());
        assert_eq!(kept.get(&"key", at(14)).as_deref(), Some(&1));
        assert_eq!(kept.get(&"key", at(15)), None);
        assert_eq!(kept.put("key", Arc::new(2), at(20)), [Arc::new(1)]);
        // Before it came is as good as when it came.
        assert_eq!(kept.get(&"key", at(7)).as_deref(), Some(&2));
        assert_eq!(kept.remove(&"key"), Some(Arc::new(2)));
        assert_eq!(kept.len(), 0);
    }
}
