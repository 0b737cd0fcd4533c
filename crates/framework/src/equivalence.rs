//! The equivalence cache. It keeps the results that were computed for one pod, so that other pods of the same
//! equivalence class can use them.
//!
//! Pods of one class ([`EquivalenceClass`]) differ only in their names, as the pods of one controller do. The owner of
//! the cache chooses the type of the results. [`run`](crate::run) keeps answers about nodes. The host of components
//! keeps the data on which a component's answers depend, and the cycle that the pods of a class share in the component.
//!
//! # Policy
//! - A class gets an entry when its second pod comes. A pod without equivalent pods, for example a pod of a
//!   StatefulSet, costs only a hash lookup.
//! - [`CAPACITY`] classes have an entry. A new entry replaces the entry whose last use is the longest ago.
//! - The owner decides when an entry no longer holds.

use std::sync::Arc;

use berth_model::{EquivalenceClass, Pod};

/// The number of classes that have an entry at a time.
pub const CAPACITY: usize = 64;

/// The number of classes that are remembered after their first pod. If pods of more classes alternate, each entry would
/// be replaced before its next use anyway.
const N_REMEMBERED: usize = 512;

/// A value for each of the most recently used equivalence classes.
#[derive(Debug)]
pub struct EquivalenceCache<T> {
    /// The hash of each entry's class. The hashes are stored side by side, so that a search is fast.
    hashes: Vec<u64>,
    entries: Vec<Entry<T>>,
    /// The position of the entry that was used last. Pods of one class often come one after the other.
    last: usize,
    /// One half of the hash of each class that had a pod. The other half determines the position.
    seen: Vec<u32>,
    /// The number of lookups that found an entry. It serves as the clock for the age of entries.
    n_hits: u64,
}

#[derive(Debug)]
struct Entry<T> {
    class: EquivalenceClass,
    last_used: u64,
    value: T,
}

impl<T> Default for EquivalenceCache<T> {
    fn default() -> Self {
        Self { hashes: Vec::new(), entries: Vec::new(), last: 0, seen: Vec::new(), n_hits: 0 }
    }
}

impl<T> EquivalenceCache<T> {
    /// The entry of this pod's class.
    pub fn get(&mut self, pod: &Pod) -> Option<&mut T> {
        let at = self.find(pod)?;
        self.hit(at)
    }

    /// The entry of this pod's class. The entry is made for the second pod of the class. For the first pod of the
    /// class, the result is `None`.
    pub fn of_second(&mut self, pod: &Pod, make: impl FnOnce() -> T) -> Option<&mut T> {
        if self.find(pod).is_none() {
            if !self.was_seen(pod) {
                return None;
            }
            self.insert(pod, make());
        }
        self.hit(self.last)
    }

    /// Notes that a pod of this class came. Returns whether a pod of the class came before. The cache may have
    /// forgotten earlier pods.
    pub fn was_seen(&mut self, pod: &Pod) -> bool {
        self.seen.resize(N_REMEMBERED, 0);
        let hash = pod.equivalence_hash();
        let [high, low] = [hash >> 32, hash & u64::from(u32::MAX)].map(|half| u32::try_from(half).unwrap_or_default());
        let place = usize::try_from(low).unwrap_or_default() % N_REMEMBERED;
        // The value 0 marks an empty place.
        let mark = high | 1;
        self.seen.get_mut(place).is_some_and(|seen| std::mem::replace(seen, mark) == mark)
    }

    /// Adds an entry for this pod's class, which must have no entry yet. Returns the entry that was replaced.
    pub fn insert(&mut self, pod: &Pod, value: T) -> Option<T> {
        let oldest = if self.entries.len() < CAPACITY { None } else { self.oldest(|_| true) };
        let evicted = oldest.map(|at| {
            self.hashes.swap_remove(at);
            self.entries.swap_remove(at).value
        });
        self.last = self.entries.len();
        let class = EquivalenceClass::of(&Arc::new(Pod { json: None, ..pod.clone() }));
        self.hashes.push(class.pod_hash());
        self.entries.push(Entry { class, last_used: self.n_hits, value });
        evicted
    }

    /// The entry whose last use is the longest ago, among the entries for which `is_meant` holds.
    pub fn oldest_mut(&mut self, is_meant: impl Fn(&T) -> bool) -> Option<&mut T> {
        let at = self.oldest(is_meant)?;
        self.entries.get_mut(at).map(|entry| &mut entry.value)
    }

    /// All entries.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.value)
    }

    /// All entries; the most recently used entry comes first.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let last = self.last.min(self.entries.len());
        let (before, from_last) = self.entries.split_at_mut(last);
        from_last.iter_mut().chain(before).map(|entry| &mut entry.value)
    }

    /// Whether the class of a pod on a node has an entry for which `is_meant` holds. The nodes that the pods name are
    /// not compared.
    pub fn any_elsewhere(&self, placed: &Pod, is_meant: impl Fn(&T) -> bool) -> bool {
        let mut meant = self.hashes.iter().zip(&self.entries).filter(|(_, entry)| is_meant(&entry.value)).peekable();
        if meant.peek().is_none() {
            return false;
        }
        let hash = placed.equivalence_hash();
        meant.any(|(other, entry)| *other == hash && entry.class.contains_elsewhere(placed))
    }

    /// Removes the entries for which `is_kept` does not hold.
    pub fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        let mut kept = self.entries.iter().map(|entry| is_kept(&entry.value));
        self.hashes.retain(|_| kept.next().unwrap_or(false));
        self.entries.retain(|entry| is_kept(&entry.value));
        self.last = 0;
    }

    /// Removes and returns every entry.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.hashes.clear();
        self.last = 0;
        self.entries.drain(..).map(|entry| entry.value)
    }

    /// Removes every entry.
    pub fn clear(&mut self) {
        drop(self.drain());
    }

    /// The number of lookups so far that found an entry.
    #[must_use]
    pub fn n_hits(&self) -> u64 {
        self.n_hits
    }

    fn find(&mut self, pod: &Pod) -> Option<usize> {
        if self.entries.get(self.last).is_some_and(|entry| entry.class.contains(pod)) {
            return Some(self.last);
        }
        if self.entries.len() < 2 {
            return None;
        }
        let hash = pod.equivalence_hash();
        let mut places = self.hashes.iter().zip(&self.entries);
        self.last = places.position(|(other, entry)| *other == hash && entry.class.contains(pod))?;
        Some(self.last)
    }

    fn hit(&mut self, at: usize) -> Option<&mut T> {
        self.n_hits += 1;
        let entry = self.entries.get_mut(at)?;
        entry.last_used = self.n_hits;
        Some(&mut entry.value)
    }

    fn oldest(&self, is_meant: impl Fn(&T) -> bool) -> Option<usize> {
        let places = self.entries.iter().enumerate().filter(|(_, entry)| is_meant(&entry.value));
        places.min_by_key(|(_, entry)| entry.last_used).map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use berth_model::Sym;

    use super::*;

    fn pod(uid: &str, priority: i32) -> Pod {
        Pod { uid: uid.into(), priority, ..Pod::default() }
    }

    #[test]
    fn the_second_pod_of_a_class_gets_an_entry() {
        let mut cache = EquivalenceCache::default();
        for priority in 1..=2 {
            assert_eq!(cache.of_second(&pod("first", priority), || priority), None);
        }
        for priority in 1..=2 {
            assert_eq!(cache.of_second(&pod("second", priority), || priority), Some(&mut priority.clone()));
        }
        for priority in [2, 1, 2, 1] {
            assert_eq!(cache.get(&pod("third", priority)), Some(&mut priority.clone()));
        }
        assert_eq!(cache.get(&pod("first", 3)), None);
        assert_eq!(cache.n_hits(), 6);
        cache.clear();
        assert_eq!(cache.get(&pod("third", 1)), None);
        assert!(cache.was_seen(&pod("fourth", 1)), "that a pod of the class came is not forgotten");
    }

    #[test]
    fn the_class_that_was_not_used_for_longest_gives_way() {
        let mut cache = EquivalenceCache::default();
        let capacity = i32::try_from(CAPACITY).unwrap();
        for priority in 0..capacity {
            assert_eq!(cache.insert(&pod("a", priority), priority), None);
            cache.get(&pod("b", priority));
        }
        cache.get(&pod("c", 0));
        assert_eq!(cache.oldest_mut(|priority| priority % 5 == 0), Some(&mut 5));
        assert_eq!(cache.insert(&pod("a", capacity), capacity), Some(1));
        assert_eq!(cache.get(&pod("d", 1)), None);
        assert_eq!(cache.get(&pod("d", 0)), Some(&mut 0));
        assert_eq!(cache.values().count(), CAPACITY);
        assert_eq!(cache.values_mut().next(), Some(&mut 0), "the last one comes first");
    }

    #[test]
    fn what_is_left_after_some_are_forgotten_is_found() {
        let mut cache = EquivalenceCache::default();
        for priority in 0..4 {
            cache.insert(&pod("a", priority), priority);
        }
        cache.retain(|priority| priority % 2 == 1);
        let found = [0, 1, 2, 3].map(|priority| cache.get(&pod("b", priority)).copied());
        assert_eq!(found, [None, Some(1), None, Some(3)]);
    }

    #[test]
    fn pods_on_nodes_are_compared_but_for_their_nodes() {
        let mut cache = EquivalenceCache::default();
        cache.insert(&pod("a", 1), "one");
        cache.insert(&pod("a", 2), "two");
        let placed = |priority| Pod { node_name: Sym(40), ..pod("b", priority) };
        assert_eq!(
            [1, 2, 3].map(|priority| cache.any_elsewhere(&placed(priority), |it| *it == "two")),
            [false, true, false]
        );
    }
}
