//! The namespace controller: it deletes the content of a deleted namespace, and then removes the namespace.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use crate::fields::clock;
use crate::fields::json::{child_mut, is_being_deleted, text};
use crate::objects::delete::{DeleteOptions, Deletion, delete};
use crate::rules::lifecycle;
use crate::state::ClusterState;
use crate::storage::Object;

/// The time between two checks of a namespace that is not empty yet.
const RETRY: Duration = Duration::from_millis(50);

/// Empties and removes namespaces that were deleted, until the server stops.
pub(crate) async fn run(state: Arc<ClusterState>, mut stopping: watch::Receiver<bool>, delay: Duration) {
    let namespaces = state.collection("namespaces");
    let mut latest = namespaces.subscribe();
    loop {
        latest.borrow_and_update();
        let mut any_remains = false;
        for namespace in namespaces.list("").0.iter().filter(|namespace| is_being_deleted(&namespace.value)) {
            any_remains |= !remove_if_empty(&state, namespace, delay);
        }
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => return,
            changed = latest.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY), if any_remains => {}
        }
    }
}

/// Deletes the content of the namespace, and removes the namespace once it is empty. Returns whether it was removed.
fn remove_if_empty(state: &ClusterState, namespace: &Object, delay: Duration) -> bool {
    let since = clock::seconds_since(text(&namespace.value, "/metadata/deletionTimestamp")).unwrap_or(0);
    if u64::try_from(since).unwrap_or(0) < delay.as_secs() {
        return false;
    }
    let mut n_pending = 0;
    for kind in state.registry().kinds().iter().filter(|kind| kind.namespaced && !kind.is("events.k8s.io", "events")) {
        for object in state.collection_of(kind).list(namespace.name()).0 {
            let outcome = delete(state, kind, namespace.name(), object.name(), &DeleteOptions::default());
            n_pending += usize::from(matches!(outcome, Ok(Deletion::Pending(_))));
        }
    }
    if n_pending > 0 {
        return false;
    }
    let mut last: Value = namespace.value.clone();
    child_mut(&mut last, "spec").remove("finalizers");
    if !lifecycle::is_removable(&last) {
        return false;
    }
    state.collection("namespaces").remove(namespace.name(), namespace, last).is_ok()
}
