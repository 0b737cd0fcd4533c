//! Creates volumes for claims, as the storage drivers of a cluster do. This controller acts for provisioners of every
//! name except `kubernetes.io/no-provisioner`.

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

/// The nodes that can use a volume.
#[derive(Debug)]
enum ReachableFrom {
    AllNodes,
    /// The nodes with these labels.
    NodesWith(Vec<(String, String)>),
    /// The selected node no longer exists, or the class doesn't allow this node.
    NoNode,
}

/// Creates a volume that is reserved for the claim. The claim is bound when its controller observes the volume.
pub(super) fn provision(state: &ClusterState, claim: &Object, class: &Object) -> ApiResult<()> {
    let provisioner = text(&class.value, "/provisioner");
    if matches!(provisioner, "" | NO_PROVISIONER) {
        return Ok(());
    }
    let claims = state.collection(VOLUME_CLAIMS);
    let claim_key = claim.key();
    let labels = match reachable_from(state, claim, class) {
        ReachableFrom::AllNodes => Vec::new(),
        ReachableFrom::NodesWith(labels) => labels,
        ReachableFrom::NoNode => {
            // The scheduler selects another node once the annotation is removed.
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

fn reachable_from(state: &ClusterState, claim: &Object, class: &Object) -> ReachableFrom {
    let node = annotation(&claim.value, SELECTED_NODE);
    if node.is_empty() {
        return ReachableFrom::AllNodes;
    }
    let Some(node) = state.collection("nodes").get(node) else { return ReachableFrom::NoNode };
    let label = |name: &str| node.value.pointer("/metadata/labels").and_then(|labels| labels.get(name));
    let with_value = |name: &str| Some((name.to_owned(), label(name)?.as_str()?.to_owned()));
    let allowed = items(&class.value, "/allowedTopologies");
    if allowed.is_empty() {
        return ReachableFrom::NodesWith(with_value(ZONE).or_else(|| with_value(HOST_NAME)).into_iter().collect());
    }
    let is_met = |requirement: &Value| {
        label(text(requirement, "/key")).is_some_and(|value| items(requirement, "/values").contains(value))
    };
    let requirements = |term| items(term, "/matchLabelExpressions");
    let Some(term) = allowed.iter().find(|term| requirements(term).iter().all(is_met)) else {
        return ReachableFrom::NoNode;
    };
    ReachableFrom::NodesWith(
        requirements(term).iter().filter_map(|requirement| with_value(text(requirement, "/key"))).collect(),
    )
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
