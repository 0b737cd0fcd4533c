//! Generic ephemeral volumes: a pod's volume with a claim template gets the claim `POD-VOLUME`, which is deleted with
//! the pod.

use serde_json::Value;

use crate::controllers::collections::{PODS, VOLUME_CLAIMS};
use crate::controllers::controller::{Controller, Observed};
use crate::controllers::owners;
use crate::controllers::owners::{is_owned_by_pod, owning_pod};
use crate::controllers::templates::from_template;
use crate::fields::json::{is_being_deleted, items, metadata_mut, text};
use crate::objects::create::create_object;
use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::{Object, key, split_key};

/// Creates and removes the claims of pods. Its keys are the keys of pods.
pub(in crate::controllers) struct EphemeralVolumeController;

impl Controller for EphemeralVolumeController {
    fn affected(&self, _state: &ClusterState, observed: &Observed<'_>) -> Vec<String> {
        match observed.collection {
            PODS if templates(&observed.object.value).next().is_some() => vec![observed.key()],
            VOLUME_CLAIMS => {
                let owner = owning_pod(&observed.object.value);
                owner.map(|owner| key(observed.object.namespace(), owner.name)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, state: &ClusterState, pod_key: &str) -> ApiResult<()> {
        let Some(pod) = state.collection(PODS).get(pod_key) else { return remove_orphans(state, pod_key) };
        for (volume, template) in templates(&pod.value).filter(|_| !is_being_deleted(&pod.value)) {
            claim(state, &pod, &format!("{}-{volume}", pod.name()), template)?;
        }
        Ok(())
    }
}

/// The names and claim templates of a pod's ephemeral volumes.
fn templates(pod: &Value) -> impl Iterator<Item = (&str, &Value)> {
    items(pod, "/spec/volumes").iter().filter_map(|volume| {
        let template = volume.pointer("/ephemeral/volumeClaimTemplate")?;
        Some((text(volume, "/name"), template))
    })
}

/// Creates the claim unless it exists. A claim of an earlier pod of the same name is deleted first.
fn claim(state: &ClusterState, pod: &Object, name: &str, template: &Value) -> ApiResult<()> {
    let claims = state.built_in_kind("", "persistentvolumeclaims")?;
    if let Some(existing) = state.collection(VOLUME_CLAIMS).get(&key(pod.namespace(), name)) {
        let is_left_behind = owning_pod(&existing.value).is_some_and(|owner| owner.name == pod.name());
        if is_left_behind && !is_owned_by_pod(&existing.value, pod) {
            owners::remove(state, &claims, &existing)?;
        }
        return Ok(());
    }
    let mut value = from_template(template, &["labels", "annotations"]);
    let metadata = metadata_mut(&mut value);
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("ownerReferences".to_owned(), owners::reference(pod));
    create_object(state, &claims, pod.namespace(), value, false)?;
    Ok(())
}

/// Deletes the claims of a pod that no longer exists.
fn remove_orphans(state: &ClusterState, pod_key: &str) -> ApiResult<()> {
    let claims = state.built_in_kind("", "persistentvolumeclaims")?;
    let (namespace, pod) = split_key(pod_key);
    for claim in state.collection(VOLUME_CLAIMS).list(namespace).0 {
        if owning_pod(&claim.value).is_some_and(|owner| owner.name == pod) {
            owners::remove(state, &claims, &claim)?;
        }
    }
    Ok(())
}
