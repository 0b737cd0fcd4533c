//! Makes volumes for claims, as the storage drivers of a cluster would. Every provisioner works, whatever its name,
//! save the one that says that there is none.

use http::StatusCode;
use serde_json::{Value, json};

use super::annotations::{PROVISIONED_BY, PROVISIONER, SELECTED_NODE};
use super::matching::claim_reference;
use crate::controllers::collections::VOLUME_CLAIMS;
use crate::fields::json::{annotate, annotation, drop_nulls, items, remove_annotation, text};
use crate::objects::create::create_object;
use crate::objects::update::edit;
use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::Object;

const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST_NAME: &str = "kubernetes.io/hostname";

/// From where a volume can be reached.
#[derive(Debug)]
enum Reach {
    Everywhere,
    /// From nodes with these labels.
    Labels(Vec<(String, String)>),
    /// The chosen node is gone, or the class doesn't allow it.
    Nowhere,
}

/// Makes a volume that is reserved for the claim; the binding follows when that is seen.
pub(super) fn provision(state: &ClusterState, claim: &Object, class: &Object) -> ApiResult<()> {
    let provisioner = text(&class.value, "/provisioner");
    if matches!(provisioner, "" | NO_PROVISIONER) {
        return Ok(());
    }
    let claims = state.collection(VOLUME_CLAIMS);
    let claim_key = claim.key();
    let labels = match reach(state, claim, class) {
        Reach::Everywhere => Vec::new(),
        Reach::Labels(labels) => labels,
        Reach::Nowhere => {
            // Without the annotation the scheduler chooses again.
            edit(&claims, &claim_key, |value| remove_annotation(value, SELECTED_NODE));
            return Ok(());
        }
    };
    edit(&claims, &claim_key, |value| {
        for name in PROVISIONER {
            annotate(value, name, provisioner);
        }
    });
    let kind = state.built_in_kind("", "persistentvolumes")?;
    match create_object(state, &kind, "", volume(claim, class, &labels), false) {
        Err(error) if error.code() != StatusCode::CONFLICT => Err(error),
        Err(_) | Ok(_) => Ok(()),
    }
}

fn reach(state: &ClusterState, claim: &Object, class: &Object) -> Reach {
    let node = annotation(&claim.value, SELECTED_NODE);
    if node.is_empty() {
        return Reach::Everywhere;
    }
    let Some(node) = state.collection("nodes").get(node) else { return Reach::Nowhere };
    let label = |name: &str| node.value.pointer("/metadata/labels").and_then(|labels| labels.get(name));
    let with_value = |name: &str| Some((name.to_owned(), label(name)?.as_str()?.to_owned()));
    let allowed = items(&class.value, "/allowedTopologies");
    if allowed.is_empty() {
        return Reach::Labels(with_value(ZONE).or_else(|| with_value(HOST_NAME)).into_iter().collect());
    }
    let is_met = |requirement: &Value| {
        label(text(requirement, "/key")).is_some_and(|value| items(requirement, "/values").contains(value))
    };
    let requirements = |term| items(term, "/matchLabelExpressions");
    let Some(term) = allowed.iter().find(|term| requirements(term).iter().all(is_met)) else { return Reach::Nowhere };
    Reach::Labels(requirements(term).iter().filter_map(|requirement| with_value(text(requirement, "/key"))).collect())
}

fn volume(claim: &Object, class: &Object, labels: &[(String, String)]) -> Value {
    let uid = claim.uid();
    let name = format!("pvc-{uid}");
    let provisioner = text(&class.value, "/provisioner");
    let spec = claim.value.get("spec").unwrap_or(&Value::Null);
    let mut volume = json!({
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: provisioner}},
        "spec": {
            "accessModes": spec.get("accessModes"),
            "capacity": {"storage": text(spec, "/resources/requests/storage")},
            "claimRef": claim_reference(claim),
            "csi": {"driver": provisioner, "volumeHandle": name},
            "persistentVolumeReclaimPolicy": text(&class.value, "/reclaimPolicy"),
            "storageClassName": class.name(),
            "mountOptions": class.value.get("mountOptions"),
            "volumeMode": spec.get("volumeMode"),
            "volumeAttributesClassName": spec.get("volumeAttributesClassName"),
        },
    });
    if !labels.is_empty() {
        let expressions: Vec<Value> =
            labels.iter().map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]})).collect();
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
        volume["spec"]["nodeAffinity"] = json!({"required": terms});
    }
    drop_nulls(&mut volume);
    volume
}
