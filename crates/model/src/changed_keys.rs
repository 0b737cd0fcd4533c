//! The keys of changed objects, for a reader that follows the changes.

/// The keys of the objects that changed since the last [`Self::drain`], in order. One step of a pod may note the same
/// key several times, so a key may be listed several times, but never twice in a row. While no reader follows, no key
/// is kept, and a note costs one branch.
#[derive(Clone, Debug)]
pub struct ChangedKeys<K>(Option<Vec<K>>);

impl<K> Default for ChangedKeys<K> {
    /// A list that no reader follows.
    fn default() -> Self {
        Self(None)
    }
}

impl<K: Clone + PartialEq> ChangedKeys<K> {
    /// Starts to keep keys. With `false`, stops and forgets the kept keys.
    pub fn follow(&mut self, is_followed: bool) {
        self.0 = is_followed.then(Vec::new);
    }

    /// Notes that the object with this key changed.
    pub fn note(&mut self, key: &K) {
        if let Some(keys) = &mut self.0
            && keys.last() != Some(key)
        {
            keys.push(key.clone());
        }
    }

    /// The keys since the last call.
    pub fn drain(&mut self) -> impl Iterator<Item = K> + '_ {
        self.0.iter_mut().flat_map(|keys| keys.drain(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_while_they_are_followed() {
        let mut keys = ChangedKeys::default();
        keys.note(&1);
        keys.follow(true);
        for key in [2, 2, 3, 2] {
            keys.note(&key);
        }
        assert_eq!(keys.drain().collect::<Vec<_>>(), [2, 3, 2]);
        keys.note(&3);
        keys.follow(false);
        assert_eq!(keys.drain().count(), 0);
    }
}
