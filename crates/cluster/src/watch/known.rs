//! Which objects of a kind the reader has been told of, so that a relist can tell what is new, what changed and what
//! is gone.

use std::collections::HashMap;

use super::kind::Identity;

/// The objects that exist as far as the reader knows.
#[derive(Debug, Default)]
pub(super) struct Known {
    objects: HashMap<Key, Entry>,
    /// Counts relists.
    generation: u64,
}

type Key = (String, String);

#[derive(Debug)]
struct Entry {
    uid: String,
    resource_version: String,
    /// The relist that this object was last seen in or after.
    generation: u64,
}

/// What an object that exists means to the reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It is new or has changed.
    Changed,
    /// The reader has seen this very version.
    Nothing,
    /// The object that went by this name is gone, and this is another one.
    Replaced { old: Identity },
}

impl Known {
    pub(super) fn begin_relist(&mut self) {
        self.generation += 1;
    }

    pub(super) fn observe(&mut self, identity: &Identity) -> News {
        let entry = Entry {
            uid: identity.uid.clone(),
            resource_version: identity.resource_version.clone(),
            generation: self.generation,
        };
        let old = self.objects.insert(key(identity), entry);
        match old {
            None => News::Changed,
            Some(old) if old.uid != identity.uid => {
                News::Replaced { old: Identity { uid: old.uid, ..identity.clone() } }
            }
            Some(old) if !old.resource_version.is_empty() && old.resource_version == identity.resource_version => {
                News::Nothing
            }
            Some(_) => News::Changed,
        }
    }

    /// True if the reader knew the object.
    pub(super) fn forget(&mut self, identity: &Identity) -> bool {
        self.objects.remove(&key(identity)).is_some()
    }

    /// Forgets, and returns in order of their names, the objects that the relist did not show.
    pub(super) fn end_relist(&mut self) -> Vec<Identity> {
        let generation = self.generation;
        let mut gone: Vec<Identity> = self
            .objects
            .extract_if(|_, entry| entry.generation != generation)
            .map(|((namespace, name), entry)| Identity {
                namespace,
                name,
                uid: entry.uid,
                resource_version: entry.resource_version,
            })
            .collect();
        gone.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        gone
    }
}

fn key(identity: &Identity) -> Key {
    (identity.namespace.clone(), identity.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, uid: &str, resource_version: &str) -> Identity {
        Identity {
            namespace: "default".into(),
            name: name.into(),
            uid: uid.into(),
            resource_version: resource_version.into(),
        }
    }

    #[test]
    fn a_relist_shows_what_changed_and_what_is_gone() {
        let mut known = Known::default();
        for name in ["a", "b", "c"] {
            assert_eq!(known.observe(&pod(name, name, "1")), News::Changed);
        }
        known.begin_relist();
        assert_eq!(known.observe(&pod("a", "a", "1")), News::Nothing);
        assert_eq!(known.observe(&pod("b", "b2", "9")), News::Replaced { old: pod("b", "b", "9") });
        assert_eq!(known.end_relist(), [pod("c", "c", "1")]);
        assert!(!known.forget(&pod("c", "c", "1")));
    }

    #[test]
    fn a_relist_that_broke_off_deletes_nothing() {
        let mut known = Known::default();
        known.observe(&pod("a", "a", "1"));
        known.begin_relist();
        known.begin_relist();
        known.observe(&pod("a", "a", "1"));
        assert_eq!(known.end_relist(), []);
    }
}
