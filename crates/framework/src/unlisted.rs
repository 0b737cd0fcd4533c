//! Kinds of objects that the scheduler may not list, or has not listed again, and the plugins that need them.
//!
//! A plugin that does not see a kind must not judge a pod that needs the kind. Otherwise, for example, a pod with a
//! claim would be placed without its volumes. Such a pod waits, and its condition says why. All other pods are
//! scheduled.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{manifest::Manifest, object_kind::ObjectKind};

/// The kinds whose objects are unknown, with their reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnlistedKinds(BTreeMap<ObjectKind, UnlistedKind>);

/// The reason why a kind is not listed, and the plugins that work without the kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnlistedKind {
    /// The reason, for the conditions of pods.
    pub reason: String,
    /// The names of plugins that read the kind but decide correctly without it.
    pub dispensable_for: Vec<String>,
}

impl UnlistedKinds {
    /// Notes that the objects of the kind are unknown from now on.
    pub fn insert(&mut self, kind: ObjectKind, unlisted: UnlistedKind) {
        self.0.insert(kind, unlisted);
    }

    /// Notes that the kind is listed. Returns whether it was unlisted before.
    pub fn remove(&mut self, kind: &ObjectKind) -> bool {
        self.0.remove(kind).is_some()
    }

    /// Whether all kinds are known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reason why the plugin of `manifest` must not judge the pods that it affects; `None` if the plugin may judge
    /// them.
    #[must_use]
    pub fn needed_by(&self, manifest: &Manifest) -> Option<&str> {
        let missing = manifest.needs.objects.iter().filter_map(|kind| self.0.get(kind));
        let mut needed = missing.filter(|unlisted| !unlisted.dispensable_for.contains(&manifest.name));
        needed.next().map(|unlisted| unlisted.reason.as_str())
    }
}
