//! The objects that every cluster has at the start.

use serde_json::json;

use super::create::create_object;
use crate::fields::clock;
use crate::fields::json::metadata_mut;
use crate::state::ClusterState;
use crate::status::ApiResult;

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Creates the usual namespaces and the system's priority classes.
pub(crate) fn create_initial(state: &ClusterState) -> ApiResult<()> {
    let kind = state.built_in_kind("", "namespaces")?;
    for name in NAMESPACES {
        create_object(state, &kind, "", json!({"metadata": {"name": name}}), false)?;
    }
    let classes = state.collection("priorityclasses.scheduling.k8s.io");
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        let mut class = json!({
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        });
        let metadata = metadata_mut(&mut class);
        metadata.insert("name".to_owned(), name.into());
        metadata.insert("uid".to_owned(), uuid::Uuid::new_v4().to_string().into());
        metadata.insert("generation".to_owned(), 1.into());
        metadata.insert("creationTimestamp".to_owned(), clock::now().into());
        classes.create(name, class);
    }
    Ok(())
}
