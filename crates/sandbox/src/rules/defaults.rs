//! Defaults of the built-in kinds, which are filled in at every write.

mod pods;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::fields::json::{as_map, child_mut, default_to, metadata_mut, text};
use crate::kinds::{Decoding, Kind};

/// Fills in the fields that the object does not set.
pub(crate) fn fill(kind: &Kind, value: &mut Value) {
    if let Decoding::Custom(schema) = &kind.decoding {
        schema.fill_defaults(value);
        return;
    }
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => pods::fill_pod(value),
        ("", "namespaces") => fill_namespace(value),
        ("", "services") => fill_service(value),
        ("", "secrets") => fill_secret(as_map(value)),
        ("", "persistentvolumes") => {
            default_to(child_mut(value, "spec"), "persistentVolumeReclaimPolicy", "Retain");
            default_to(child_mut(value, "spec"), "volumeMode", "Filesystem");
        }
        ("", "persistentvolumeclaims") => default_to(child_mut(value, "spec"), "volumeMode", "Filesystem"),
        ("", "nodes") => fill_node(value),
        ("", "events") | ("events.k8s.io", "events") => fill_event(value),
        ("storage.k8s.io", "storageclasses") => {
            default_to(as_map(value), "reclaimPolicy", "Delete");
            default_to(as_map(value), "volumeBindingMode", "Immediate");
        }
        ("storage.k8s.io", "csidrivers") => fill_csi_driver(child_mut(value, "spec")),
        ("scheduling.k8s.io", "priorityclasses") => {
            default_to(as_map(value), "preemptionPolicy", "PreemptLowerPriority");
            default_to(as_map(value), "value", 0);
        }
        ("resource.k8s.io", "resourceclaims") => fill_device_requests(child_mut(value, "spec")),
        ("resource.k8s.io", "resourceclaimtemplates") => {
            if let Some(spec) = value.pointer_mut("/spec/spec") {
                fill_device_requests(as_map(spec));
            }
        }
        ("apiextensions.k8s.io", _) => fill_definition(value),
        ("apps" | "batch", _) | ("", "replicationcontrollers") => fill_workload(kind, value),
        _ => {}
    }
}

/// Encodes `stringData` and moves the result into `data`.
fn fill_secret(secret: &mut Map<String, Value>) {
    default_to(secret, "type", "Opaque");
    let Some(Value::Object(texts)) = secret.remove("stringData") else { return };
    let data = as_map(secret.entry("data").or_insert(Value::Null));
    data.extend(texts.into_iter().map(|(key, text)| (key, STANDARD.encode(text.as_str().unwrap_or_default()).into())));
}

fn fill_namespace(value: &mut Value) {
    let name = text(value, "/metadata/name").to_owned();
    let labels = as_map(metadata_mut(value).entry("labels").or_insert(Value::Null));
    labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    if value.pointer("/metadata/deletionTimestamp").is_none() {
        default_to(child_mut(value, "spec"), "finalizers", json!(["kubernetes"]));
    }
}

fn fill_node(value: &mut Value) {
    let _ = child_mut(value, "spec");
    let status = child_mut(value, "status");
    if let Some(capacity) = status.get("capacity").cloned() {
        default_to(status, "allocatable", capacity);
    }
    if !status.contains_key("daemonEndpoints") {
        status.insert("daemonEndpoints".to_owned(), json!({"kubeletEndpoint": {"Port": 0}}));
    }
}

fn fill_event(value: &mut Value) {
    let members = as_map(value);
    default_to(members, "source", json!({}));
    default_to(members, "reportingComponent", "");
    default_to(members, "reportingInstance", "");
}

fn fill_service(value: &mut Value) {
    let spec = child_mut(value, "spec");
    default_to(spec, "type", "ClusterIP");
    default_to(spec, "sessionAffinity", "None");
    default_to(spec, "internalTrafficPolicy", "Cluster");
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let port = as_map(port);
        default_to(port, "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            default_to(port, "targetPort", number);
        }
    }
}

fn fill_csi_driver(spec: &mut Map<String, Value>) {
    default_to(spec, "attachRequired", true);
    default_to(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    default_to(spec, "podInfoOnMount", false);
    default_to(spec, "requiresRepublish", false);
    default_to(spec, "seLinuxMount", false);
    default_to(spec, "storageCapacity", false);
    default_to(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

fn fill_device_requests(spec: &mut Map<String, Value>) {
    let requests = spec.get_mut("devices").and_then(|devices| devices.get_mut("requests"));
    for request in requests.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly") {
            fill_device_request(as_map(exactly));
        }
        for alternative in request.get_mut("firstAvailable").and_then(Value::as_array_mut).into_iter().flatten() {
            fill_device_request(as_map(alternative));
        }
    }
}

fn fill_device_request(request: &mut Map<String, Value>) {
    default_to(request, "allocationMode", "ExactCount");
    if request.get("allocationMode") == Some(&Value::from("ExactCount")) {
        default_to(request, "count", 1);
    }
}

fn fill_definition(value: &mut Value) {
    let kind = text(value, "/spec/names/kind").to_owned();
    let spec = child_mut(value, "spec");
    default_to(spec, "conversion", json!({"strategy": "None"}));
    let names = as_map(spec.entry("names").or_insert(Value::Null));
    default_to(names, "listKind", format!("{kind}List"));
    default_to(names, "singular", kind.to_lowercase());
}

fn fill_workload(kind: &Kind, value: &mut Value) {
    let labels = value.pointer("/spec/template/metadata/labels").cloned();
    if kind.plural == "cronjobs" {
        let spec = child_mut(value, "spec");
        default_to(spec, "concurrencyPolicy", "Allow");
        default_to(spec, "suspend", false);
        default_to(spec, "successfulJobsHistoryLimit", 3);
        default_to(spec, "failedJobsHistoryLimit", 1);
    }
    if let Some(template) = value.pointer_mut("/spec/template") {
        pods::fill_spec(template);
    }
    let uid = text(value, "/metadata/uid").to_owned();
    let name = text(value, "/metadata/name").to_owned();
    let spec = child_mut(value, "spec");
    match kind.plural.as_str() {
        "deployments" => {
            default_to(spec, "replicas", 1);
            default_to(spec, "progressDeadlineSeconds", 600);
            default_to(spec, "revisionHistoryLimit", 10);
            let rolling = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
            default_to(spec, "strategy", json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
        }
        "replicasets" => default_to(spec, "replicas", 1),
        "replicationcontrollers" => {
            default_to(spec, "replicas", 1);
            default_to(spec, "selector", labels.unwrap_or_else(|| json!({})));
        }
        "statefulsets" => {
            default_to(spec, "replicas", 1);
            default_to(spec, "podManagementPolicy", "OrderedReady");
            default_to(spec, "revisionHistoryLimit", 10);
            default_to(spec, "serviceName", "");
            default_to(spec, "updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
            let retention = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
            default_to(spec, "persistentVolumeClaimRetentionPolicy", retention);
        }
        "daemonsets" => {
            default_to(spec, "revisionHistoryLimit", 10);
            let rolling = json!({"maxSurge": 0, "maxUnavailable": 1});
            default_to(spec, "updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
        }
        "jobs" => fill_job(value, &uid, &name),
        _ => {}
    }
}

fn fill_job(value: &mut Value, uid: &str, name: &str) {
    let spec = child_mut(value, "spec");
    for (field, number) in [("parallelism", 1), ("completions", 1), ("backoffLimit", 6)] {
        default_to(spec, field, number);
    }
    default_to(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
    default_to(spec, "manualSelector", false);
    default_to(spec, "podReplacementPolicy", "TerminatingOrFailed");
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    default_to(spec, "selector", json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    let template = as_map(spec.entry("template").or_insert(Value::Null));
    let metadata = as_map(template.entry("metadata").or_insert(Value::Null));
    let labels = as_map(metadata.entry("labels").or_insert(Value::Null));
    for (label, owner) in [("controller-uid", uid), ("job-name", name)] {
        default_to(labels, label, owner);
        default_to(labels, &format!("batch.kubernetes.io/{label}"), owner);
    }
}
