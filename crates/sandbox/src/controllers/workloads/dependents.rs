//! Deletes the dependents of deleted workloads: the replica sets of a deployment, and the pods of a set. The claims of
//! a stateful set stay, unless its `persistentVolumeClaimRetentionPolicy` makes the set their owner. The
//! `propagationPolicy` of a deletion is ignored, so that no object is orphaned.

use crate::controllers::collections::{DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS, VOLUME_CLAIMS};
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
        let dependents: &[(&str, &str)] = match observed.collection {
            DEPLOYMENTS => &[(REPLICA_SETS, "replicasets")],
            REPLICA_SETS => &[(PODS, "pods")],
            STATEFUL_SETS => &[(PODS, "pods"), (VOLUME_CLAIMS, "persistentvolumeclaims")],
            _ => return Vec::new(),
        };
        let mut keys = Vec::new();
        for (collection, plural) in dependents {
            let (objects, _) = state.collection(collection).list(observed.object.namespace());
            let owned = objects.iter().filter(|object| owners::controls(observed.object, &object.value));
            keys.extend(owned.map(|object| format!("{plural} {}/{}", object.namespace(), object.name())));
        }
        keys
    }

    fn reconcile(&self, state: &ClusterState, key: &str) -> ApiResult<()> {
        let (plural, key) = key.split_once(' ').unwrap_or_default();
        let kind = state.built_in_kind(if plural == "replicasets" { "apps" } else { "" }, plural)?;
        let dependent = state.collection_of(&kind).get(key);
        dependent.map_or(Ok(()), |dependent| owners::remove(state, &kind, &dependent))
    }
}
