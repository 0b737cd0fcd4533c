//! Kinds of objects that the scheduler may not list, and which plugins decide nothing without them.
//!
//! A plugin that does not see a kind must not judge a pod that this kind concerns: a pod with a claim would be placed without
//! its volumes. Such a pod waits, and its condition says why; all others are scheduled.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{manifest::Manifest, object_kind::ObjectKind};

/// The kinds whose objects are unknown, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnlistedKinds(BTreeMap<ObjectKind, UnlistedKind>);

/// Why a kind is not listed, and which plugins work without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnlistedKind {
    /// What is missing, for the conditions of pods.
    pub reason: String,
    /// Plugins by name that read the kind and decide no less rightly without.
    pub dispensable_for: Vec<String>,
}

impl UnlistedKinds {
    /// The objects of the kind are unknown from here on.
    pub fn insert(&mut self, kind: ObjectKind, unlisted: UnlistedKind) {
        self.0.insert(kind, unlisted);
    }

    /// Notes that the kind is listed. Tells whether it was not before.
    pub fn remove(&mut self, kind: &ObjectKind) -> bool {
        self.0.remove(kind).is_some()
    }

    /// Whether all kinds are known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Why this plugin must not judge the pods that it has to do with; `None` if it may.
    #[must_use]
    pub fn needed_by(&self, manifest: &Manifest) -> Option<&str> {
        let missing = manifest.needs.objects.iter().filter_map(|kind| self.0.get(kind));
        let mut needed = missing.filter(|unlisted| !unlisted.dispensable_for.contains(&manifest.name));
        needed.next().map(|unlisted| unlisted.reason.as_str())
    }
}
