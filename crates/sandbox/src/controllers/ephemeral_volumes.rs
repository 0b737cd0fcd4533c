//! Generic ephemeral volumes: a pod's volume with a claim template gets the claim `POD-VOLUME`, which goes with the pod.

use serde_json::{Value, json};

use super::owners::{self, is_for, owning_pod};
use super::{Controller, Observed, PODS, VOLUME_CLAIMS, is_leaving, kind};
use crate::api::Api;
use crate::object::{Object, carry, items, metadata_mut, text};
use crate::status::Answer;
use crate::store::key;
use crate::write::create_object;

/// Creates and removes the claims of pods; its keys are pods.
pub(super) struct EphemeralVolumes;

impl Controller for EphemeralVolumes {
    fn concerned(&self, _api: &Api, observed: &Observed<'_>) -> Vec<String> {
        match observed.collection {
            PODS if templates(&observed.object.value).next().is_some() => vec![observed.key()],
            VOLUME_CLAIMS => {
                let owner = owning_pod(&observed.object.value);
                owner.map(|owner| key(observed.object.namespace(), owner.name)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, api: &Api, pod_key: &str) -> Answer<()> {
        let Some(pod) = api.store.collection(PODS).get(pod_key) else { return remove_orphans(api, pod_key) };
        for (volume, template) in templates(&pod.value).filter(|_| !is_leaving(&pod.value)) {
            claim(api, &pod, &format!("{}-{volume}", pod.name()), template)?;
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

/// Creates the claim unless it is there. One that an earlier pod of this name left behind goes first.
fn claim(api: &Api, pod: &Object, name: &str, template: &Value) -> Answer<()> {
    let claims = kind(api, "", "persistentvolumeclaims")?;
    if let Some(existing) = api.store.collection(VOLUME_CLAIMS).get(&key(pod.namespace(), name)) {
        let is_left_behind = owning_pod(&existing.value).is_some_and(|owner| owner.name == pod.name());
        if is_left_behind && !is_for(&existing.value, pod) {
            owners::remove(api, &claims, &existing)?;
        }
        return Ok(());
    }
    let mut value = json!({"spec": template.get("spec")});
    let given = template.get("metadata").unwrap_or(&Value::Null);
    let metadata = metadata_mut(&mut value);
    carry(given, metadata, "labels");
    carry(given, metadata, "annotations");
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("ownerReferences".to_owned(), owners::reference(pod));
    create_object(api, &claims, pod.namespace(), value, false)?;
    Ok(())
}

/// Deletes the claims of a pod that is gone.
fn remove_orphans(api: &Api, pod_key: &str) -> Answer<()> {
    let claims = kind(api, "", "persistentvolumeclaims")?;
    let (namespace, pod) = pod_key.split_once('/').unwrap_or_default();
    for claim in api.store.collection(VOLUME_CLAIMS).list(namespace).0 {
        if owning_pod(&claim.value).is_some_and(|owner| owner.name == pod) {
            owners::remove(api, &claims, &claim)?;
        }
    }
    Ok(())
}
