//! The state of each pod, as far as a scheduler determines it.

use std::collections::BTreeMap;

use serde_json::Value;

/// The node of each pod, its nomination, and the conditions that schedulers write.
pub(crate) type Outcomes = BTreeMap<String, String>;

pub(crate) fn outcomes(pods: &[Value]) -> Outcomes {
    pods.iter().map(|pod| (name(pod).to_owned(), outcome(pod))).collect()
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(crate) fn node(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str()
}

/// The condition of this type; `null` if there is none.
pub(crate) fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// Whether a scheduler has tried the pod and found no node.
pub(crate) fn is_unschedulable(pod: &Value) -> bool {
    node(pod).is_none() && condition(pod, "PodScheduled")["reason"] == "Unschedulable"
}

/// Whether the pod has scheduling gates.
pub(crate) fn is_gated(pod: &Value) -> bool {
    condition(pod, "PodScheduled")["reason"] == "SchedulingGated"
}

/// Whether an attempt ended in an error. It is then repeated after a while, even without an event.
pub(crate) fn is_failing(pod: &Value) -> bool {
    node(pod).is_none() && condition(pod, "PodScheduled")["reason"] == "SchedulerError"
}

fn outcome(pod: &Value) -> String {
    let mut parts = vec![node(pod).map_or_else(|| "no node".to_owned(), |node| format!("on {node}"))];
    if let Some(node) = pod["status"]["nominatedNodeName"].as_str() {
        parts.push(format!("nominated to {node}"));
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        parts.push("terminating".to_owned());
    }
    for kind in ["PodScheduled", "DisruptionTarget"] {
        let condition = condition(pod, kind);
        if !condition.is_null() {
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            let generation = &condition["observedGeneration"];
            let message = without_uids(text("message"));
            parts.push(format!("{kind} {} {} {generation}: {message}", text("status"), text("reason")));
        }
    }
    parts.join("; ")
}

/// The text with `UID` in place of each uid.
pub(crate) fn without_uids(text: &str) -> String {
    const LENGTH: usize = 36;
    let is_uid = |part: &str| {
        part.len() == LENGTH
            && part.bytes().enumerate().all(|(place, byte)| match place {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
    };
    let parts = text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    parts
        .map(|part| {
            let word = part.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
            if is_uid(word) { part.replace(word, "UID") } else { part.to_owned() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_left_out() {
        let text = "Preempted by pod 6f1a2b3c-0000-4444-8888-0123456789ab on node n1";
        assert_eq!(without_uids(text), "Preempted by pod UID on node n1");
        assert_eq!(
            without_uids("0/3 nodes are available: 3 Insufficient cpu."),
            "0/3 nodes are available: 3 Insufficient cpu."
        );
    }
}
