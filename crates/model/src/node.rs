//! The interned form of a node's own object. The node table holds the usage of the node by its pods.

use std::sync::Arc;

use thin_vec::ThinVec;

use crate::{
    api,
    pod::{Resources, Taint},
    symbols::{Sym, Uses},
};

/// The parts of a node's `spec`, `status` and `metadata` that a plugin may read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// `metadata.name`.
    pub name: Sym,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Labels, sorted by key symbol.
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
    /// A value that keeps the node's symbols from being freed.
    pub uses: Uses,
}

impl Node {
    /// The value of a label; `None` if the node does not have it.
    #[must_use]
    pub fn label(&self, key: Sym) -> Option<Sym> {
        let at = self.labels.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        self.labels.get(at).map(|(_, value)| *value)
    }
}
