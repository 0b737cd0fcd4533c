//! The parts of the simulated cluster: the stored objects and their kinds.
//!
//! Requests and controllers access the objects through this module. This module does not know HTTP.

use std::sync::Arc;

use crate::kinds::{Kind, Registry};
use crate::release::KubernetesRelease;
use crate::status::{ApiResult, StatusError};
use crate::storage::{Collection, ResourceVersion, Store};

/// The objects and the kinds of one sandbox.
#[derive(Debug)]
pub(crate) struct ClusterState {
    store: Store,
    registry: Registry,
    release: KubernetesRelease,
}

impl ClusterState {
    /// A state with all built-in kinds of a release and no objects.
    pub(crate) fn new(release: KubernetesRelease) -> Self {
        Self { store: Store::default(), registry: Registry::new(release), release }
    }

    /// The release that the API server emulates.
    pub(crate) fn release(&self) -> KubernetesRelease {
        self.release
    }

    /// The collection of this name, such as `pods` or `deployments.apps`.
    pub(crate) fn collection(&self, name: &str) -> Arc<Collection> {
        self.store.collection(name)
    }

    /// The collection that holds the objects of a kind.
    pub(crate) fn collection_of(&self, kind: &Kind) -> Arc<Collection> {
        self.store.collection(&kind.collection())
    }

    /// The kinds that are currently served.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// A built-in kind. Fails like a request for a resource that is not served.
    pub(crate) fn built_in_kind(&self, group: &str, plural: &str) -> ApiResult<Arc<Kind>> {
        self.registry.built_in(group, plural).ok_or_else(StatusError::no_such_resource)
    }

    /// The newest resource version.
    pub(crate) fn version(&self) -> ResourceVersion {
        self.store.version()
    }

    /// Forgets all changes so far. An earlier watch is then refused like a watch from before a compaction.
    pub(crate) fn compact(&self) {
        self.store.compact();
    }
}
