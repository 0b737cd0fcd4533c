//! The current kinds: the built-in kinds, and the kinds that definitions have added.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::built_in::built_in_kinds;
use super::kind::Kind;
use crate::release::KubernetesRelease;

/// Resources that are computed, not stored.
pub(crate) const VIRTUAL: [VirtualResource; 7] = [
    VirtualResource { group: "", plural: "bindings", kind: "Binding", namespaced: true },
    VirtualResource {
        group: "authentication.k8s.io",
        plural: "selfsubjectreviews",
        kind: "SelfSubjectReview",
        namespaced: false,
    },
    VirtualResource { group: "authentication.k8s.io", plural: "tokenreviews", kind: "TokenReview", namespaced: false },
    VirtualResource {
        group: "authorization.k8s.io",
        plural: "localsubjectaccessreviews",
        kind: "LocalSubjectAccessReview",
        namespaced: true,
    },
    VirtualResource {
        group: "authorization.k8s.io",
        plural: "selfsubjectaccessreviews",
        kind: "SelfSubjectAccessReview",
        namespaced: false,
    },
    VirtualResource {
        group: "authorization.k8s.io",
        plural: "selfsubjectrulesreviews",
        kind: "SelfSubjectRulesReview",
        namespaced: false,
    },
    VirtualResource {
        group: "authorization.k8s.io",
        plural: "subjectaccessreviews",
        kind: "SubjectAccessReview",
        namespaced: false,
    },
];

/// A resource that only answers a POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VirtualResource {
    /// The API group; the version is always v1.
    pub(crate) group: &'static str,
    /// The resource in paths.
    pub(crate) plural: &'static str,
    /// The kind.
    pub(crate) kind: &'static str,
    /// Whether the path names a namespace.
    pub(crate) namespaced: bool,
}

/// The target of a path.
#[derive(Debug)]
pub(crate) enum Resource {
    /// Stored objects.
    Stored(Arc<Kind>),
    /// Objects that are computed from the request and not stored.
    Virtual(VirtualResource),
}

/// Group, version and resource.
type Address = (String, String, String);

/// All kinds, by group, version and resource.
#[derive(Debug)]
pub(crate) struct Registry {
    built_in: Vec<Arc<Kind>>,
    by_address: HashMap<Address, Arc<Kind>>,
    custom: RwLock<Vec<Arc<Kind>>>,
}

impl Registry {
    /// The registry of the built-in kinds of a release.
    pub(crate) fn new(release: KubernetesRelease) -> Self {
        let built_in: Vec<Arc<Kind>> = built_in_kinds(release).into_iter().map(Arc::new).collect();
        let by_address =
            built_in.iter().map(|kind| (address(&kind.group, &kind.version, &kind.plural), Arc::clone(kind)));
        Self { by_address: by_address.collect(), built_in, custom: RwLock::default() }
    }

    /// The resource of a group, version and plural name.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Resource> {
        if let Some(kind) = self.by_address.get(&address(group, version, plural)) {
            return Some(Resource::Stored(Arc::clone(kind)));
        }
        let is_wanted = |resource: &&VirtualResource| resource.group == group && resource.plural == plural;
        if let Some(resource) = VIRTUAL.iter().find(is_wanted).filter(|_| version == "v1") {
            return Some(Resource::Virtual(*resource));
        }
        let custom = self.custom.read().unwrap_or_else(PoisonError::into_inner);
        let kind = custom.iter().find(|kind| kind.is(group, plural) && kind.version == version);
        kind.map(|kind| Resource::Stored(Arc::clone(kind)))
    }

    /// A built-in kind, which must exist.
    pub(crate) fn built_in(&self, group: &str, plural: &str) -> Option<Arc<Kind>> {
        self.by_address.get(&address(group, "v1", plural)).cloned()
    }

    /// All stored kinds.
    pub(crate) fn kinds(&self) -> Vec<Arc<Kind>> {
        let custom = self.custom.read().unwrap_or_else(PoisonError::into_inner);
        self.built_in.iter().chain(custom.iter()).cloned().collect()
    }

    /// Whether any kind belongs to the group.
    pub(crate) fn has_group(&self, group: &str) -> bool {
        VIRTUAL.iter().any(|resource| resource.group == group) || self.kinds().iter().any(|kind| kind.group == group)
    }

    /// Replaces the kinds that come from the definition of `group` and `plural`.
    pub(crate) fn define(&self, group: &str, plural: &str, kinds: Vec<Kind>) {
        let mut custom = self.custom.write().unwrap_or_else(PoisonError::into_inner);
        custom.retain(|kind| !kind.is(group, plural));
        custom.extend(kinds.into_iter().map(Arc::new));
    }
}

fn address(group: &str, version: &str, plural: &str) -> Address {
    (group.to_owned(), version.to_owned(), plural.to_owned())
}
