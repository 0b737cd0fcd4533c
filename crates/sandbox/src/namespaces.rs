//! The end of namespaces: what they hold is deleted, then they go. Also the namespaces that exist from the start.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Api;
use crate::delete::{DeleteOptions, delete};
use crate::object::{Object, child_mut, metadata_mut, text};
use crate::status::Answer;
use crate::write::create_object;
use crate::{clock, lifecycle};

const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// How long to wait before looking again at a namespace that isn't empty yet.
const RETRY: Duration = Duration::from_millis(50);

/// Creates what every cluster has.
pub(crate) fn create_initial(api: &Api) -> Answer<()> {
    if let Some(kind) = api.registry.built_in("", "namespaces") {
        for name in INITIAL {
            create_object(api, &kind, "", json!({"metadata": {"name": name}}), false)?;
        }
    }
    let classes = api.store.collection("priorityclasses.scheduling.k8s.io");
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

/// Empties and removes namespaces that were deleted, until the server stops.
pub(crate) async fn run(api: Arc<Api>, delay: Duration) {
    let namespaces = api.store.collection("namespaces");
    let mut latest = namespaces.subscribe();
    let mut stopping = api.stopping.clone();
    loop {
        latest.borrow_and_update();
        let leaving = |object: &&Arc<Object>| object.value.pointer("/metadata/deletionTimestamp").is_some();
        let any_left =
            namespaces.list("").0.iter().filter(leaving).filter(|namespace| !finish(&api, namespace, delay)).count()
                > 0;
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => return,
            changed = latest.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY), if any_left => {}
        }
    }
}

/// Deletes what the namespace holds; removes it once it is empty and says whether it is gone.
fn finish(api: &Api, namespace: &Object, delay: Duration) -> bool {
    let since = clock::seconds_since(text(&namespace.value, "/metadata/deletionTimestamp")).unwrap_or(0);
    if u64::try_from(since).unwrap_or(0) < delay.as_secs() {
        return false;
    }
    let mut left = 0;
    for kind in api.registry.kinds().iter().filter(|kind| kind.namespaced && !kind.is("events.k8s.io", "events")) {
        for object in api.store.collection(&kind.collection()).list(namespace.name()).0 {
            let outcome = delete(api, kind, namespace.name(), object.name(), &DeleteOptions::default());
            left += usize::from(matches!(outcome, Ok(crate::delete::Deletion::Pending(_))));
        }
    }
    if left > 0 {
        return false;
    }
    let mut last: Value = namespace.value.clone();
    child_mut(&mut last, "spec").remove("finalizers");
    if !lifecycle::may_go(&last) {
        return false;
    }
    api.store.collection("namespaces").remove(namespace.name(), namespace, last).is_ok()
}
