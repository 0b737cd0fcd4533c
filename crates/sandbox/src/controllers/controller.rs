//! The interface of a simulated controller.

use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::Object;

/// Reconciles objects of one sort.
pub(super) trait Controller: Sync {
    /// The keys of the objects to reconcile after an observation. What a key stands for is the controller's choice.
    fn affected(&self, state: &ClusterState, observed: &Observed<'_>) -> Vec<String>;

    /// Writes what is missing for one key. The object may be gone, and nothing may be missing.
    fn reconcile(&self, state: &ClusterState, key: &str) -> ApiResult<()>;
}

/// An object that has changed, or that is there when the controllers start.
#[derive(Debug)]
pub(super) struct Observed<'a> {
    /// The name of the collection.
    pub(super) collection: &'static str,
    /// Its state, for one that is gone the last.
    pub(super) object: &'a Object,
    /// Its state before the change, if there was one.
    pub(super) before: Option<&'a Object>,
    /// Whether it was removed.
    pub(super) gone: bool,
}

impl Observed<'_> {
    /// The key of the object.
    pub(super) fn key(&self) -> String {
        self.object.key()
    }

    /// The state before, where there is one, and the state after.
    pub(super) fn versions(&self) -> impl Iterator<Item = &Object> {
        self.before.into_iter().chain([self.object])
    }
}
