//! SIGUSR2 writes the cache and the queue to the log, and the scheduler continues.

use crate::cluster::{Cluster, pod};

#[tokio::test(flavor = "multi_thread")]
async fn cache_and_queue_are_shown_on_request() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let mut scheduler = cluster.scheduler(&[]).await;
    cluster.create(&pod("placed", "1500m", "1Gi")).await;
    cluster.create(&pod("huge", "1000", "1Gi")).await;
    let node = cluster.node_of("placed").await;
    cluster.until("huge is pending", |seen| seen.messages.contains_key("huge")).await;

    scheduler.process.signal("-USR2");
    let line = scheduler.process.line("cache and queue agree with the API server's lists").await;
    assert!(line.contains("INFO"), "{line}");
    let line = scheduler.process.line(&format!("cached node node=\"{node}\"")).await;
    for part in ["deleted=false", "requested=\"cpu: 1500m, ", ", pods: 1\"", "pods=\"default/placed ("] {
        assert!(line.contains(part), "{part} is missing from {line}");
    }
    let line = scheduler.process.line("queued pod name=\"huge\"").await;
    for part in ["queue=\"unschedulable\"", "attempts=1", "rejected_by=\"NodeResourcesFit\""] {
        assert!(line.contains(part), "{part} is missing from {line}");
    }
    scheduler.until("/readyz", |answer| answer.ends_with("ok")).await;
}
