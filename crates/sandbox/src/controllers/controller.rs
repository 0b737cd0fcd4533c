//! The interface of a simulated controller.

use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::Object;

/// Reconciles objects of one sort.
pub(super) trait Controller: Sync {
    /// The keys of the objects to reconcile after an observation. Each controller decides the meaning of its keys.
    fn affected(&self, state: &ClusterState, observed: &Observed<'_>) -> Vec<String>;

    /// Writes the missing parts for one key. The object may have been deleted, or may be complete.
    fn reconcile(&self, state: &ClusterState, key: &str) -> ApiResult<()>;
}

/// An object that has changed, or that exists when the controllers start.
#[derive(Debug)]
pub(super) struct Observed<'a> {
    /// The name of the collection.
    pub(super) collection: &'static str,
    /// The state of the object, or its last state before its removal.
    pub(super) object: &'a Object,
    /// The state before the change, if there was one.
    pub(super) before: Option<&'a Object>,
    /// Whether the object was removed.
    pub(super) gone: bool,
}

impl Observed<'_> {
    /// The key of the object.
    pub(super) fn key(&self) -> String {
        self.object.key()
    }

    /// The state before the change, if the object existed, and the state after it.
    pub(super) fn versions(&self) -> impl Iterator<Item = &Object> {
        self.before.into_iter().chain([self.object])
    }
}
