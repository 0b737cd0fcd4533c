//! QOSSort: among pods of equal priority, Guaranteed pods come first, then Burstable pods, then all other pods
//! (Kubernetes documentation: Pod Quality of Service Classes).
//!
//! The class is in the pod's status, which the contract's pod record does not contain, so this plugin asks for the
//! whole object. All profiles of a scheduler share one QueueSort plugin.

use berth_sdk::{
    framework::{Configure, ConfigureError, Manifest, Needs, QueueSort},
    model::Pod,
};
use serde::Deserialize;

berth_sdk::plugin!(QosSort: QueueSort);
berth_sdk::export!(QosSort);

/// The plugin. It takes no arguments.
#[derive(Debug)]
pub struct QosSort;

/// The part of a pod that this plugin reads.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    status: ObjectStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectStatus {
    qos_class: String,
}

impl Configure for QosSort {
    fn describe() -> Manifest {
        Manifest {
            name: "QOSSort".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            needs: Needs { pod_json: true, ..Needs::default() },
            events_to_register: Some(Vec::new()),
            ..Manifest::default()
        }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        match args.trim() {
            "" | "null" | "{}" => Ok(Self),
            _ => Err("QOSSort takes no arguments".into()),
        }
    }
}

impl QueueSort for QosSort {
    fn sort_key(&mut self, pod: &Pod, queued_at: i64) -> (i64, i64) {
        (-4 * i64::from(pod.priority) + rank(pod.json.as_deref()), queued_at)
    }
}

/// The rank of a pod; lower ranks come first. A pod whose status has no class yet counts as a pod without a class.
fn rank(json: Option<&[u8]>) -> i64 {
    let object: Object = json.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
    match object.status.qos_class.as_str() {
        "Guaranteed" => 0,
        "Burstable" => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use berth_sdk::testing::{TestCluster, pod};

    use super::*;

    fn key(priority: i32, class: &str, queued_at: i64) -> (i64, i64) {
        let pod = pod("p").priority(priority).status("qosClass", class.into()).build_with_json();
        let pod = TestCluster::default().intern(&pod);
        QosSort::configure("null").unwrap().sort_key(&pod, queued_at)
    }

    #[test]
    fn priority_then_class_then_time() {
        let order = [
            key(10, "BestEffort", 9),
            key(0, "Guaranteed", 8),
            key(0, "Burstable", 1),
            key(0, "BestEffort", 0),
            key(0, "BestEffort", 5),
            key(-1, "Guaranteed", 0),
        ];
        assert!(order.is_sorted(), "{order:?}");
    }
}
