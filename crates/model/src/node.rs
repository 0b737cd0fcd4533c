//! A node's own facts, interned; what pods use of it is kept by the node table.

use std::sync::Arc;

use thin_vec::ThinVec;

use crate::{
    api,
    pod::{Resources, Taint},
    symbols::{Sym, Uses},
};

/// What `spec`, `status` and `metadata` of a node say that a plugin may look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// `metadata.name`.
    pub name: Sym,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Sorted by key symbol.
    pub labels: ThinVec<(Sym, Sym)>,
    /// Taints in the order of `spec.taints`.
    pub taints: Vec<Taint>,
    /// `status.allocatable`, without pods.
    pub allocatable: Resources,
    /// `status.allocatable.pods`.
    pub allowed_pods: i64,
    /// Name and size in bytes of each image name.
    pub images: Vec<(Sym, i64)>,
    /// `status.declaredFeatures`.
    pub declared_features: Vec<Sym>,
    /// `metadata.annotations`.
    pub annotations: Arc<api::StringMap>,
    /// Keeps its symbols from being freed.
    pub uses: Uses,
}

impl Node {
    /// The value of a label; `None` where the node does not have it.
    #[must_use]
    pub fn label(&self, key: Sym) -> Option<Sym> {
        let at = self.labels.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        self.labels.get(at).map(|(_, value)| *value)
    }
}
