//! Volumes that only some nodes or pods can use, and devices.
//!
//! <https://kubernetes.io/docs/concepts/storage/persistent-volumes/>,
//! <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Facts, items, selection::selects_node, text};
use crate::generate::objects::Kind;

/// The claims of a pod's volumes.
fn claims<'a>(facts: &Facts<'a>, pod: &Value) -> Vec<&'a Value> {
    let namespace = text(pod, "/metadata/namespace");
    let name = |volume: &Value| {
        if volume["ephemeral"].is_null() {
            text(volume, "/persistentVolumeClaim/claimName").to_owned()
        } else {
            format!("{}-{}", text(pod, "/metadata/name"), text(volume, "/name"))
        }
    };
    let key = |volume| (Kind::Claim, namespace.to_owned(), name(volume));
    items(pod, "/spec/volumes").iter().filter_map(|volume| facts.objects.get(&key(volume))).collect()
}

/// Claims with `ReadWriteOncePod`, which only a single pod in the cluster may use.
pub(super) fn exclusive_claims(facts: &Facts<'_>, pod: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    for claim in claims(facts, pod) {
        let is_exclusive = items(claim, "/spec/accessModes").iter().any(|mode| mode == "ReadWriteOncePod");
        let others = facts.placed.iter().filter(|(other, _)| claims(facts, other).contains(&claim)).count();
        if is_exclusive && others > 0 {
            broken.push(format!("{} is in use by another pod", claim["metadata"]));
        }
    }
    broken
}

/// Checks the time when the pod is bound: every claim has a volume, and the node can use the volume.
#[must_use]
pub fn volume_violations(facts: &Facts<'_>, pod: &Value, node: &str) -> Vec<String> {
    let Some(home) = facts.nodes.get(node) else { return Vec::new() };
    let mut broken = Vec::new();
    for claim in claims(facts, pod) {
        let name = text(claim, "/spec/volumeName");
        let Some(volume) = facts.objects.get(&(Kind::Volume, String::new(), name.to_owned())) else {
            broken.push(format!("{} has no volume", claim["metadata"]));
            continue;
        };
        let affinity = &volume["spec"]["nodeAffinity"]["required"];
        if !affinity.is_null() && !selects_node(affinity, home) {
            broken.push(format!("{} cannot be used from the node", volume["metadata"]));
        }
    }
    broken
}

/// Checks the time when the pod is bound: its claims have devices, and the node can use them. At any time, no device
/// belongs to two claims.
#[must_use]
pub fn device_violations(facts: &Facts<'_>, pod: &Value, node: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let of_pod = items(pod, "/spec/resourceClaims").iter().filter_map(|claim| {
        let made = items(pod, "/status/resourceClaimStatuses").iter().find(|it| it["name"] == claim["name"]);
        claim["resourceClaimName"].as_str().or(made.and_then(|made| made["resourceClaimName"].as_str()))
    });
    for name in of_pod {
        let key = (Kind::DeviceClaim, text(pod, "/metadata/namespace").to_owned(), name.to_owned());
        let allocation = facts.objects.get(&key).map_or(&Value::Null, |claim| &claim["status"]["allocation"]);
        let selector = &allocation["nodeSelector"];
        let is_here = facts.nodes.get(node).is_some_and(|home| selector.is_null() || selects_node(selector, home));
        if allocation.is_null() || !is_here {
            broken.push(format!("the devices of {name} are not at hand: {allocation}"));
        }
    }
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((kind, namespace, name), claim) in facts.objects {
        let results = items(claim, "/status/allocation/devices/results").iter();
        for result in results.filter(|result| *kind == Kind::DeviceClaim && result["adminAccess"] != true) {
            let device = format!("{}/{}/{}", text(result, "/driver"), text(result, "/pool"), text(result, "/device"));
            owners.entry(device).or_default().push(format!("{namespace}/{name}"));
        }
    }
    broken.extend(
        owners.iter().filter(|(_, owners)| owners.len() > 1).map(|(device, owners)| format!("{device} of {owners:?}")),
    );
    broken
}
