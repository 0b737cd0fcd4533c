//! Removes what workloads leave behind: the replica sets of a deployment that is gone, and the pods of a set that is.
//! Claims of a stateful set stay, as they do by default. What a deletion says about dependents is not heeded: none is left
//! as an orphan.

use super::{Controller, DEPLOYMENTS, Observed, PODS, REPLICA_SETS, STATEFUL_SETS, kind, owners};
use crate::api::Api;
use crate::status::Answer;

/// Removes dependents; its keys are their plural and their own keys.
pub(super) struct Dependents;

impl Controller for Dependents {
    fn concerned(&self, api: &Api, observed: &Observed<'_>) -> Vec<String> {
        if !observed.gone {
            return Vec::new();
        }
        let (collection, plural) = match observed.collection {
            DEPLOYMENTS => (REPLICA_SETS, "replicasets"),
            REPLICA_SETS | STATEFUL_SETS => (PODS, "pods"),
            _ => return Vec::new(),
        };
        let (objects, _) = api.store.collection(collection).list(observed.object.namespace());
        let dependents = objects.iter().filter(|object| owners::controls(observed.object, &object.value));
        dependents.map(|object| format!("{plural} {}/{}", object.namespace(), object.name())).collect()
    }

    fn reconcile(&self, api: &Api, key: &str) -> Answer<()> {
        let (plural, key) = key.split_once(' ').unwrap_or_default();
        let kind = kind(api, if plural == "pods" { "" } else { "apps" }, plural)?;
        let dependent = api.store.collection(&kind.collection()).get(key);
        dependent.map_or(Ok(()), |dependent| owners::remove(api, &kind, &dependent))
    }
}
