//! Deletes the dependents of deleted workloads: the replica sets of a deployment, and the pods of a set. The claims of
//! a stateful set stay, which is Kubernetes' default. The `propagationPolicy` of a deletion is ignored, so that no
//! object is orphaned.

use crate::controllers::collections::{DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS};
use crate::controllers::controller::{Controller, Observed};
use crate::controllers::owners;
use crate::state::ClusterState;
use crate::status::ApiResult;

/// Deletes dependents. Its keys are `PLURAL NAMESPACE/NAME`.
pub(in crate::controllers) struct DependentController;

impl Controller for DependentController {
    fn affected(&self, state: &ClusterState, observed: &Observed<'_>) -> Vec<String> {
        if !observed.gone {
            return Vec::new();
        }
        let (collection, plural) = match observed.collection {
            DEPLOYMENTS => (REPLICA_SETS, "replicasets"),
            REPLICA_SETS | STATEFUL_SETS => (PODS, "pods"),
            _ => return Vec::new(),
        };
        let (objects, _) = state.collection(collection).list(observed.object.namespace());
        let dependents = objects.iter().filter(|object| owners::controls(observed.object, &object.value));
        dependents.map(|object| format!("{plural} {}/{}", object.namespace(), object.name())).collect()
    }

    fn reconcile(&self, state: &ClusterState, key: &str) -> ApiResult<()> {
        let (plural, key) = key.split_once(' ').unwrap_or_default();
        let kind = state.built_in_kind(if plural == "pods" { "" } else { "apps" }, plural)?;
        let dependent = state.collection_of(&kind).get(key);
        dependent.map_or(Ok(()), |dependent| owners::remove(state, &kind, &dependent))
    }
}
