//! Events about pods: the reason, the note and other fields, without times and counts.

use std::collections::BTreeMap;

use anyhow::Result;
use berth_test_control_plane::Objects;
use serde_json::Value;

use crate::outcomes::without_uids;

/// All events about each pod, each once.
pub(crate) async fn events(objects: &Objects) -> Result<BTreeMap<String, String>> {
    let mut by_pod: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in objects.list("/apis/events.k8s.io/v1/events").await? {
        if event["regarding"]["kind"] == "Pod" {
            let name = event["regarding"]["name"].as_str().unwrap_or_default();
            by_pod.entry(name.to_owned()).or_default().push(said(&event));
        }
    }
    let joined = by_pod.into_iter().map(|(pod, mut said)| {
        said.sort();
        said.dedup();
        (pod, said.join(" | "))
    });
    Ok(joined.collect())
}

fn said(event: &Value) -> String {
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let note = without_uids(text("note"));
    let related = event["related"]["kind"].as_str().unwrap_or("nothing");
    let (reason, action, controller) = (text("reason"), text("action"), text("reportingController"));
    format!("{} {reason} ({action}) by {controller}, related to {related}: {note}", text("type"))
}
