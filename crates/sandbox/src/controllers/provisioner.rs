//! Makes volumes for claims, as the storage drivers of a cluster would. Every provisioner works, whatever its name,
//! save the one that says that there is none.

use http::StatusCode;
use serde_json::{Value, json};

use super::volume_claims::SELECTED_NODE;
use super::volumes::PROVISIONED_BY;
use super::{VOLUME_CLAIMS, annotate, annotation, change, kind, remove_annotation};
use crate::api::Api;
use crate::object::{Object, drop_nulls, items, text};
use crate::status::Answer;
use crate::store::key;
use crate::write::create_object;

const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Who is to make the volume, under the present name and the former one.
const PROVISIONER: [&str; 2] =
    ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];
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
pub(super) fn provision(api: &Api, claim: &Object, class: &Object) -> Answer<()> {
    let provisioner = text(&class.value, "/provisioner");
    if matches!(provisioner, "" | NO_PROVISIONER) {
        return Ok(());
    }
    let claims = api.store.collection(VOLUME_CLAIMS);
    let claim_key = key(claim.namespace(), claim.name());
    let labels = match reach(api, claim, class) {
        Reach::Everywhere => Vec::new(),
        Reach::Labels(labels) => labels,
        Reach::Nowhere => {
            // Without the annotation the scheduler chooses again.
            change(&claims, &claim_key, |value| remove_annotation(value, SELECTED_NODE));
            return Ok(());
        }
    };
    change(&claims, &claim_key, |value| {
        for name in PROVISIONER {
            annotate(value, name, provisioner);
        }
    });
    let kind = kind(api, "", "persistentvolumes")?;
    match create_object(api, &kind, "", volume(claim, class, &labels), false) {
        Err(error) if error.code() != StatusCode::CONFLICT => Err(error),
        Err(_) | Ok(_) => Ok(()),
    }
}

fn reach(api: &Api, claim: &Object, class: &Object) -> Reach {
    let node = annotation(&claim.value, SELECTED_NODE);
    if node.is_empty() {
        return Reach::Everywhere;
    }
    let Some(node) = api.store.collection("nodes").get(node) else { return Reach::Nowhere };
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
    let uid = text(&claim.value, "/metadata/uid");
    let name = format!("pvc-{uid}");
    let provisioner = text(&class.value, "/provisioner");
    let spec = claim.value.get("spec").unwrap_or(&Value::Null);
    let mut volume = json!({
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: provisioner}},
        "spec": {
            "accessModes": spec.get("accessModes"),
            "capacity": {"storage": text(spec, "/resources/requests/storage")},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace(),
                "name": claim.name(),
                "uid": uid,
                "resourceVersion": claim.revision.to_string(),
            },
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
