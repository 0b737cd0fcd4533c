//! The replica set controller: it creates, removes and counts pods.

use std::cmp::Reverse;
use std::sync::Arc;

use super::pods::{count, pod_from, pods_of, replicas, set_count};
use crate::controllers::collections::{PODS, REPLICA_SETS};
use crate::controllers::controller::{Controller, Observed};
use crate::controllers::owners;
use crate::fields::json::{child_mut, is_being_deleted, metadata_mut, text};
use crate::fields::pods::is_ready;
use crate::objects::create::create_object;
use crate::objects::update::edit;
use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::Object;

/// Reconciles replica sets. Its keys are the keys of replica sets.
pub(in crate::controllers) struct ReplicaSetController;

impl Controller for ReplicaSetController {
    fn affected(&self, _state: &ClusterState, observed: &Observed<'_>) -> Vec<String> {
        owners::affected(observed, REPLICA_SETS, PODS, "ReplicaSet")
    }

    fn reconcile(&self, state: &ClusterState, set_key: &str) -> ApiResult<()> {
        let sets = state.collection(REPLICA_SETS);
        let Some(set) = sets.get(set_key).filter(|set| !is_being_deleted(&set.value)) else { return Ok(()) };
        let pods = pods_of(state, &set);
        let wanted = usize::try_from(replicas(&set.value)).unwrap_or(0);
        let pod_kind = state.built_in_kind("", "pods")?;
        for _ in pods.len()..wanted {
            let mut pod = pod_from(&set.value["spec"]["template"]);
            let metadata = metadata_mut(&mut pod);
            metadata.insert("generateName".to_owned(), format!("{}-", set.name()).into());
            metadata.insert("ownerReferences".to_owned(), owners::reference_to(&set, "apps/v1", "ReplicaSet"));
            create_object(state, &pod_kind, set.namespace(), pod, false)?;
        }
        for pod in in_order_to_keep(pods).iter().skip(wanted) {
            owners::remove(state, &pod_kind, pod)?;
        }
        let pods = pods_of(state, &set);
        edit(&sets, set_key, |value| {
            count(value, &pods);
            set_count(child_mut(value, "status"), "fullyLabeledReplicas", pods.len());
        });
        Ok(())
    }
}

/// Sorts pods by how long they should be kept. Bound pods come before pending pods, ready pods before others, and old
/// pods before new pods.
fn in_order_to_keep(mut pods: Vec<Arc<Object>>) -> Vec<Arc<Object>> {
    pods.sort_by_cached_key(|pod| {
        let is_bound = !text(&pod.value, "/spec/nodeName").is_empty();
        let created = text(&pod.value, "/metadata/creationTimestamp").to_owned();
        (Reverse(is_bound), Reverse(is_ready(&pod.value)), created, pod.name().to_owned())
    });
    pods
}
