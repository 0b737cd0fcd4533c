//! The objects of a kind that were reported to the reader, so that a relist can find new, changed and vanished objects.

use std::collections::HashMap;

use super::kind::Identity;

/// The objects that exist, as far as the reader knows.
#[derive(Debug, Default)]
pub(super) struct KnownObjects {
    objects: HashMap<Key, KnownObject>,
    /// The number of relists.
    generation: u64,
}

/// Namespace and name with a slash between them. Neither of the two contains a slash. This needs only one allocation
/// for each of perhaps a million objects.
type Key = Box<str>;

#[derive(Debug)]
struct KnownObject {
    uid: Box<str>,
    resource_version: Box<str>,
    /// The last relist in or after which this object was seen.
    generation: u64,
}

/// The reader's knowledge about the state of an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ObjectChange {
    /// The object is new or has changed.
    Changed,
    /// The reader has seen exactly this version.
    Unchanged,
    /// The object that had this name has been deleted, and the known object is another object.
    Replaced { old: Identity },
}

impl KnownObjects {
    pub(super) fn begin_relist(&mut self) {
        self.generation += 1;
    }

    pub(super) fn observe(&mut self, identity: &Identity) -> ObjectChange {
        let known = KnownObject {
            uid: identity.uid.as_str().into(),
            resource_version: identity.resource_version.as_str().into(),
            generation: self.generation,
        };
        let old = self.objects.insert(key(identity), known);
        match old {
            None => ObjectChange::Changed,
            Some(old) if *old.uid != identity.uid => {
                ObjectChange::Replaced { old: Identity { uid: old.uid.into(), ..identity.clone() } }
            }
            Some(old) if old.is_version(&identity.resource_version) => ObjectChange::Unchanged,
            Some(_) => ObjectChange::Changed,
        }
    }

    /// Makes the next list report every object as changed.
    pub(super) fn forget_versions(&mut self) {
        self.objects.values_mut().for_each(|known| known.resource_version = Box::default());
    }

    pub(super) fn n_objects(&self) -> usize {
        self.objects.len()
    }

    /// Whether the reader has seen exactly this version. After `true`, the object also counts as seen in the current
    /// relist.
    pub(super) fn refresh(&mut self, identity: &Identity) -> bool {
        let generation = self.generation;
        self.objects.get_mut(&key(identity)).is_some_and(|known| {
            let is_same = *known.uid == identity.uid && known.is_version(&identity.resource_version);
            if is_same {
                known.generation = generation;
            }
            is_same
        })
    }

    /// Forgets the object. Returns whether the reader knew it.
    pub(super) fn forget(&mut self, identity: &Identity) -> bool {
        self.objects.remove(&key(identity)).is_some()
    }

    /// Forgets, and returns in order of their names, the objects that the relist did not show.
    pub(super) fn end_relist(&mut self) -> Vec<Identity> {
        let generation = self.generation;
        let mut gone: Vec<Identity> = self
            .objects
            .extract_if(|_, known| known.generation != generation)
            .map(|(key, known)| {
                let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
                Identity {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    uid: known.uid.into(),
                    resource_version: known.resource_version.into(),
                }
            })
            .collect();
        gone.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        gone
    }
}

impl KnownObject {
    /// Whether the object has this version. The answer is false if the object's version is not known.
    fn is_version(&self, resource_version: &str) -> bool {
        !self.resource_version.is_empty() && *self.resource_version == *resource_version
    }
}

fn key(identity: &Identity) -> Key {
    format!("{}/{}", identity.namespace, identity.name).into()
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
        let mut known = KnownObjects::default();
        for name in ["a", "b", "c"] {
            assert_eq!(known.observe(&pod(name, name, "1")), ObjectChange::Changed);
        }
        known.begin_relist();
        assert_eq!(known.observe(&pod("a", "a", "1")), ObjectChange::Unchanged);
        assert_eq!(known.observe(&pod("b", "b2", "9")), ObjectChange::Replaced { old: pod("b", "b", "9") });
        assert_eq!(known.end_relist(), [pod("c", "c", "1")]);
        assert!(!known.forget(&pod("c", "c", "1")));
    }

    #[test]
    fn a_relist_that_broke_off_deletes_nothing() {
        let mut known = KnownObjects::default();
        known.observe(&pod("a", "a", "1"));
        known.begin_relist();
        known.begin_relist();
        known.observe(&pod("a", "a", "1"));
        assert_eq!(known.end_relist(), []);
    }
}
