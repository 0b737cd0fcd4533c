//! A cache that is bounded in bytes, and that forgets unused entries.
//!
//! The entries form two generations. A use makes an entry young. When the young entries have half of the bytes, they
//! become the old entries, and the previous old entries that were not used since are freed.

use std::{borrow::Borrow, hash::Hash};

use rustc_hash::FxHashMap;

#[derive(Debug)]
pub(super) struct RecentlyUsed<K, V> {
    /// The maximum bytes of one generation.
    max_bytes: usize,
    young: Generation<K, V>,
    old: Generation<K, V>,
}

#[derive(Debug)]
struct Generation<K, V> {
    entries: FxHashMap<K, Entry<V>>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: usize,
}

impl<K, V> Default for Generation<K, V> {
    fn default() -> Self {
        Self { entries: FxHashMap::default(), bytes: 0 }
    }
}

impl<K: Eq + Hash, V> RecentlyUsed<K, V> {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes: max_bytes / 2, young: Generation::default(), old: Generation::default() }
    }

    pub(super) fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        if let Some((key, Entry { value, bytes })) = self.old.entries.remove_entry(key) {
            self.old.bytes -= bytes;
            self.insert(key, value, bytes);
        }
        self.young.entries.get(key).map(|entry| &entry.value)
    }

    /// Inserts an entry. `bytes` is the size of key and value. An entry that takes more than half of the cache is not
    /// kept.
    pub(super) fn insert(&mut self, key: K, value: V, bytes: usize) {
        if bytes > self.max_bytes {
            return;
        }
        if self.young.bytes + bytes > self.max_bytes {
            self.age();
        }
        self.young.bytes += bytes;
        let replaced = self.young.entries.insert(key, Entry { value, bytes });
        self.young.bytes -= replaced.map_or(0, |replaced| replaced.bytes);
    }

    /// Frees the entries that were not used since the last call.
    pub(super) fn age(&mut self) {
        self.old = std::mem::take(&mut self.young);
    }

    pub(super) fn len(&self) -> usize {
        self.young.entries.len() + self.old.entries.len()
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.young.bytes + self.old.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut cache = RecentlyUsed::new(100);
        for n in 0..1_000 {
            cache.insert(n, n, 10);
            assert_eq!(cache.get(&0), Some(&0), "used all the time");
            assert!(cache.bytes() <= 100 && cache.len() <= 10);
        }
        assert_eq!(cache.get(&1), None);
        assert_eq!(cache.get(&999), Some(&999));
        cache.age();
        assert_eq!(cache.get(&999), Some(&999));
        cache.age();
        cache.age();
        assert_eq!((cache.len(), cache.bytes()), (0, 0));
    }

    #[test]
    fn an_entry_counts_once_and_one_that_is_too_large_is_not_kept() {
        let mut cache = RecentlyUsed::new(100);
        cache.insert("a", 1, 10);
        cache.insert("a", 2, 20);
        cache.insert("b", 3, 51);
        assert_eq!(cache.get("a"), Some(&2));
        assert_eq!(cache.get("b"), None);
        assert_eq!(cache.bytes(), 20);
    }
}
