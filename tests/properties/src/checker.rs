//! Checks placements. The rules come from Kubernetes' documentation, applied to the objects' JSON.
//!
//! The checker shares no code with the plugins, and is not fast: each question examines all objects. If the
//! documentation leaves a gap, the comment says how kube-scheduler fills it.

mod others;
mod quantity;
mod selection;
mod usage;
mod volumes;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::volumes::{device_violations, volume_violations};
use crate::generate::objects::Kind;

/// The state at the time of a placement.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The nodes by name.
    pub nodes: &'a BTreeMap<String, Value>,
    /// The other pods and their nodes, including pods that are being bound.
    pub placed: &'a [(&'a Value, &'a str)],
    /// The objects by kind, namespace and name.
    pub objects: &'a BTreeMap<(Kind, String, String), Value>,
}

/// The entries of a list; empty if the list is absent.
fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Each rule that `pod` on `node` breaks, in words.
#[must_use]
pub fn violations(facts: &Facts<'_>, pod: &Value, node: &str) -> Vec<String> {
    let Some(home) = facts.nodes.get(node) else { return vec![format!("there is no node {node}")] };
    let on_node: Vec<&Value> = facts.placed.iter().filter(|(_, place)| *place == node).map(|(pod, _)| *pod).collect();
    let mut broken = Vec::new();
    broken.extend(usage::exceeded(facts, pod, home, &on_node));
    broken.extend(usage::taken_ports(pod, &on_node));
    if !selection::is_wanted(pod, home) {
        broken.push("the node is not among those that the pod asks for".to_owned());
    }
    broken.extend(selection::repellent_taints(pod, home));
    broken.extend(others::affinity(facts, pod, home));
    broken.extend(others::anti_affinity(facts, pod, home));
    broken.extend(others::anti_affinity_of_others(facts, pod, home));
    broken.extend(others::skew(facts, pod, home));
    broken.extend(volumes::exclusive_claims(facts, pod));
    broken
}

#[cfg(test)]
mod tests;
