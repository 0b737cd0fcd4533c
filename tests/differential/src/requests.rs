//! The writes of a scheduler for each pod, from the API server's audit log, and its other requests.

use std::collections::BTreeMap;

use berth_test_control_plane::AuditEntry;
use serde_json::Value;

use crate::outcomes::without_uids;

/// Fields that contain a time, or a value that the recorder of events derives from one.
const TIMES: [&str; 3] = ["lastTransitionTime", "lastProbeTime", "creationTimestamp"];

/// The writes for each pod, one after the other. The key `*` has each other kind of request once. Events are compared
/// as objects.
pub(crate) fn requests(audit: &[AuditEntry]) -> BTreeMap<String, String> {
    let mut by_pod: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in audit {
        let is_write = ["create", "update", "patch", "delete"].contains(&entry.verb.as_str());
        if is_write && entry.resource.starts_with("pods") {
            let mut body = entry.body.clone();
            leave_out_times(&mut body);
            let body = without_uids(&body.to_string());
            let request = format!("{} {} {}: {body}", entry.verb, entry.resource, entry.code);
            by_pod.entry(entry.name.clone()).or_default().push(request);
        } else {
            by_pod.entry(format!("* {} {} {}", entry.verb, entry.resource, entry.code)).or_default();
        }
    }
    let joined = by_pod.into_iter().map(|(pod, requests)| (pod, requests.join(" | ")));
    joined.map(|(pod, requests)| (pod, if requests.is_empty() { "asked".to_owned() } else { requests })).collect()
}

fn leave_out_times(body: &mut Value) {
    match body {
        Value::Object(fields) => {
            fields.retain(|field, _| !TIMES.contains(&field.as_str()));
            fields.values_mut().for_each(leave_out_times);
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_times),
        _ => {}
    }
}
