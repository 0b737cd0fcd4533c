//! Pods of a scheduler that is followed. They exist only in the form of this scheduler's table.

use std::sync::Arc;

use berth_model::{Pod, PodUid, Sym, Symbols, api};
use serde_json::json;

use super::ClusterPod;

impl ClusterPod {
    /// A pod on a node of the simulated scheduler.
    pub(crate) fn of_known(known: &Arc<Pod>, symbols: &Symbols) -> Self {
        let text = |sym: Sym| symbols.text(sym).to_owned();
        let mut pod = api::Pod::default();
        pod.metadata.namespace = text(known.namespace);
        pod.metadata.name = known.name.to_string();
        pod.metadata.uid = known.uid.to_string();
        pod.metadata.owner_references.extend(known.owner.as_ref().map(|owner| api::OwnerReference {
            api_version: owner.api_version.to_string(),
            kind: owner.kind.to_string(),
            name: owner.name.to_string(),
            uid: owner.uid.to_string(),
            controller: true,
        }));
        pod.spec.scheduler_name = text(known.scheduler_name);
        pod.spec.node_name = text(known.node_name);
        pod.spec.priority = Some(known.priority);
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": pod.metadata.namespace, "name": pod.metadata.name, "uid": pod.metadata.uid,
                "ownerReferences": pod.metadata.owner_references,
            },
            "spec": {"nodeName": pod.spec.node_name, "schedulerName": pod.spec.scheduler_name},
        });
        Self { pod: Arc::new(pod), object: Arc::new(object), known: Some(Arc::clone(known)) }
    }
}

/// The pod that the controller creates when this pod no longer exists.
pub(super) fn made_again(pod: &Pod, uid: &str) -> Pod {
    Pod {
        uid: PodUid::from(uid),
        node_name: Sym::NONE,
        nominated_node_name: Sym::NONE,
        terminating: false,
        started_at: None,
        is_preempted: false,
        extended_claim: None,
        json: None,
        ..pod.clone()
    }
}
