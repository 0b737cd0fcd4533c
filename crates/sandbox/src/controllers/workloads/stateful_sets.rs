//! The stateful set controller: it creates the pods one after the other, each with its own volume claims. A changed
//! template is used only for pods that are created later.

use std::sync::Arc;

use serde_json::{Value, json};

use super::pods::{count, label, pod_from, pods_of, replicas};
use crate::controllers::collections::{PODS, STATEFUL_SETS, VOLUME_CLAIMS};
use crate::controllers::controller::{Controller, Observed};
use crate::controllers::owners;
use crate::fields::json::{child_mut, is_being_deleted, items, metadata_mut, text};
use crate::fields::pods::is_ready;
use crate::objects::create::create_object;
use crate::objects::update::edit;
use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::{Object, key};

/// Reconciles stateful sets. Its keys are the keys of stateful sets.
pub(in crate::controllers) struct StatefulSetController;

impl Controller for StatefulSetController {
    fn affected(&self, _state: &ClusterState, observed: &Observed<'_>) -> Vec<String> {
        owners::affected(observed, STATEFUL_SETS, PODS, "StatefulSet")
    }

    fn reconcile(&self, state: &ClusterState, set_key: &str) -> ApiResult<()> {
        let sets = state.collection(STATEFUL_SETS);
        let Some(set) = sets.get(set_key).filter(|set| !is_being_deleted(&set.value)) else { return Ok(()) };
        scale(state, &set)?;
        let pods = pods_of(state, &set);
        edit(&sets, set_key, |value| {
            count(value, &pods);
            let status = child_mut(value, "status");
            status
                .insert("availableReplicas".to_owned(), pods.iter().filter(|pod| is_ready(&pod.value)).count().into());
            for field in ["currentReplicas", "updatedReplicas"] {
                status.insert(field.to_owned(), pods.len().into());
            }
        });
        Ok(())
    }
}

/// Creates missing pods from the lowest ordinal up, then removes surplus pods from the highest down. Each step waits
/// until all earlier pods are ready, unless the `podManagementPolicy` is `Parallel`.
fn scale(state: &ClusterState, set: &Object) -> ApiResult<()> {
    let in_parallel = text(&set.value, "/spec/podManagementPolicy") == "Parallel";
    let wanted = replicas(&set.value);
    let pods = state.collection(PODS);
    for ordinal in 0..wanted {
        let name = format!("{}-{ordinal}", set.name());
        let is_ready = match pods.get(&key(set.namespace(), &name)) {
            Some(pod) => is_ready(&pod.value) && !is_being_deleted(&pod.value),
            None => {
                create(state, set, &name, ordinal)?;
                false
            }
        };
        if !is_ready && !in_parallel {
            return Ok(());
        }
    }
    let ordinal = |pod: &Arc<Object>| pod.name().rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse::<i64>().ok());
    let surplus = pods_of(state, set).into_iter().filter(|pod| ordinal(pod).is_some_and(|ordinal| ordinal >= wanted));
    let pod_kind = state.built_in_kind("", "pods")?;
    if in_parallel {
        return surplus.into_iter().try_for_each(|pod| owners::remove(state, &pod_kind, &pod));
    }
    surplus.max_by_key(ordinal).map_or(Ok(()), |pod| owners::remove(state, &pod_kind, &pod))
}

fn create(state: &ClusterState, set: &Object, name: &str, ordinal: i64) -> ApiResult<()> {
    let mut pod = pod_from(&set.value["spec"]["template"]);
    let mut volumes: Vec<Value> = items(&pod, "/spec/volumes").to_vec();
    for template in items(&set.value, "/spec/volumeClaimTemplates") {
        let volume = text(template, "/metadata/name");
        let claim = format!("{volume}-{name}");
        volumes.retain(|other| text(other, "/name") != volume);
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}));
        if state.collection(VOLUME_CLAIMS).get(&key(set.namespace(), &claim)).is_none() {
            let mut value = json!({"metadata": {"name": claim}, "spec": template.get("spec")});
            let labels =
                template.pointer("/metadata/labels").or_else(|| set.value.pointer("/spec/selector/matchLabels"));
            let metadata = metadata_mut(&mut value);
            metadata.insert("labels".to_owned(), labels.cloned().unwrap_or_default());
            if text(&set.value, "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted") == "Delete" {
                metadata.insert("ownerReferences".to_owned(), owners::reference_to(set, "apps/v1", "StatefulSet"));
            }
            let kind = state.built_in_kind("", "persistentvolumeclaims")?;
            create_object(state, &kind, set.namespace(), value, false)?;
        }
    }
    let spec = child_mut(&mut pod, "spec");
    spec.insert("volumes".to_owned(), volumes.into());
    spec.insert("hostname".to_owned(), name.into());
    if let Some(service) = set.value.pointer("/spec/serviceName").filter(|service| service.as_str() != Some("")) {
        spec.insert("subdomain".to_owned(), service.clone());
    }
    label(&mut pod["metadata"]["labels"], "statefulset.kubernetes.io/pod-name", name);
    label(&mut pod["metadata"]["labels"], "apps.kubernetes.io/pod-index", &ordinal.to_string());
    let metadata = metadata_mut(&mut pod);
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("ownerReferences".to_owned(), owners::reference_to(set, "apps/v1", "StatefulSet"));
    let kind = state.built_in_kind("", "pods")?;
    create_object(state, &kind, set.namespace(), pod, false)?;
    Ok(())
}
