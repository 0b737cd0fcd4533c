//! Devices and claims for them (KEP-4381), as scheduler_perf's test driver offers them: ten on each node.

use berth_testing::PodMaker;
use serde_json::{Value, json};

use super::nodes;

const DRIVER: &str = "test-driver.cdi.k8s.io";
const API: &str = "resource.k8s.io/v1";
const CLASS: &str = "test-class";
const TEMPLATE: &str = "test-claim-template";

/// The number of devices on a node.
pub(super) const PER_NODE: usize = 10;

/// The devices that claims of a workload request.
#[derive(Clone, Copy)]
pub(super) enum Ask {
    One,
    /// One device out of a list of choices (KEP-4816).
    FirstAvailable,
    /// One device, although the devices are tainted (KEP-5055).
    Tolerating,
}

pub(super) fn class() -> Value {
    let selector = json!({"cel": {"expression": format!("device.driver == '{DRIVER}'")}});
    json!({"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": {"selectors": [selector]}})
}

/// The devices of a node.
pub(super) fn slice(index: usize, per_node: usize, ask: Ask) -> Value {
    let node = nodes::name(index);
    let taints = match ask {
        Ask::Tolerating => json!([{"key": "example.com/unhealthy", "value": "true", "effect": "NoSchedule"}]),
        Ask::One | Ask::FirstAvailable => json!([]),
    };
    let devices: Vec<Value> =
        (0..per_node).map(|number| json!({"name": format!("instance-{number:02}"), "taints": taints})).collect();
    json!({"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": format!("{node}-slice")},
        "spec": {"driver": DRIVER, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}})
}

fn claim_spec(ask: Ask) -> Value {
    let exactly = json!({"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 1});
    let request = match ask {
        Ask::One => json!({"name": "req-0", "exactly": exactly}),
        Ask::FirstAvailable => {
            let choice = |name: &str, count: u64| json!({"name": name, "deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count});
            // The first choice asks for 100 devices, and no node has that many.
            json!({"name": "req-0", "firstAvailable": [choice("sub-0", 100), choice("sub-1", 1)]})
        }
        Ask::Tolerating => {
            let mut exactly = exactly;
            exactly["tolerations"] = json!([{"operator": "Exists", "effect": "NoSchedule"}]);
            json!({"name": "req-0", "exactly": exactly})
        }
    };
    json!({"devices": {"requests": [request]}})
}

/// The template from which the controller makes a claim for each pod.
pub(super) fn template(namespace: &str, ask: Ask) -> Value {
    json!({"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": {"name": TEMPLATE, "namespace": namespace},
        "spec": {"spec": claim_spec(ask)}})
}

/// The claim that the controller makes for pod `PREFIX-INDEX`.
pub(super) fn generated_claim(namespace: &str, prefix: &str, index: usize, ask: Ask) -> Value {
    let pod = format!("{prefix}-{index:05}");
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": format!("uid-{pod}"), "controller": true,
        "blockOwnerDeletion": true});
    let mut claim = claim(namespace, &generated_name(prefix, index), ask);
    claim["metadata"]["ownerReferences"] = json!([owner]);
    claim["metadata"]["annotations"] = json!({"resource.kubernetes.io/pod-claim-name": "resource"});
    claim
}

fn generated_name(prefix: &str, index: usize) -> String {
    format!("{prefix}-{index:05}-resource")
}

pub(super) fn with_template(pod: PodMaker, prefix: &str, index: usize) -> PodMaker {
    let status = json!([{"name": "resource", "resourceClaimName": generated_name(prefix, index)}]);
    with_resource(pod, json!({"name": "resource", "resourceClaimTemplateName": TEMPLATE}))
        .status("resourceClaimStatuses", status)
}

/// A claim that pods share.
pub(super) fn claim(namespace: &str, name: &str, ask: Ask) -> Value {
    json!({"apiVersion": API, "kind": "ResourceClaim",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("claim-{namespace}-{name}")},
        "spec": claim_spec(ask)})
}

pub(super) fn with_claim(pod: PodMaker, claim: &str) -> PodMaker {
    with_resource(pod, json!({"name": "resource", "resourceClaimName": claim}))
}

fn with_resource(pod: PodMaker, claim: Value) -> PodMaker {
    let container = json!({"name": "pause", "image": "registry.k8s.io/pause:3.10",
        "resources": {"claims": [{"name": "resource"}]}});
    pod.spec("containers", json!([container])).spec("resourceClaims", json!([claim]))
}
