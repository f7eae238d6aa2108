//! A map that forgets: clients make its keys up, so that it must not grow with them.

use std::collections::HashMap;

/// At most `most` values; when one more comes, the half that was used least recently is forgotten.
#[derive(Debug)]
pub(crate) struct Bounded<V> {
    most: usize,
    tick: u64,
    map: HashMap<String, (u64, V)>,
}

impl<V> Bounded<V> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, tick: 0, map: HashMap::new() }
    }

    /// The value of `key`, made where there is none.
    pub(crate) fn entry(&mut self, key: &str, make: impl FnOnce() -> V) -> &mut V {
        if !self.map.contains_key(key) && self.map.len() >= self.most {
            let mut ticks: Vec<u64> = self.map.values().map(|(tick, _)| *tick).collect();
            let middle = ticks.len() / 2;
            let border = *ticks.select_nth_unstable(middle).1;
            self.map.retain(|_, (tick, _)| *tick > border);
        }
        self.tick += 1;
        let entry = self.map.entry(key.to_owned()).or_insert_with(|| (0, make()));
        entry.0 = self.tick;
        &mut entry.1
    }

    pub(crate) fn get(&self, key: &str) -> Option<&V> {
        self.map.get(key).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_forgets_what_was_used_least_recently() {
        let mut map = Bounded::new(4);
        for name in ["a", "b", "c", "d", "a", "e"] {
            *map.entry(name, || 0) += 1;
        }
        assert_eq!(map.get("a"), Some(&2));
        assert_eq!(map.get("e"), Some(&1));
        assert_eq!(map.get("b"), None);
        for number in 0..100_000 {
            map.entry(&number.to_string(), || 0);
            assert!(map.map.len() <= 4);
        }
    }
}
