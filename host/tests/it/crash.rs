//! A scheduler ends in the middle of its work, and the next scheduler continues. Every pod is bound, and only to one
//! node.

use std::time::Duration;

use serde_json::Value;

use crate::{
    cluster::{Cluster, pod},
    process::{DEADLINE, Process, within},
};

/// Pods that are created while the first scheduler runs.
const BEFORE: usize = 200;
/// The number of bound pods at which the first scheduler is in the middle of its work.
const AT_WORK: usize = 100;
/// Pods that are created while no scheduler runs.
const AFTER: usize = 100;
const ALL: usize = BEFORE + AFTER;

/// The maximum time from SIGTERM to the end of the process: half of what Kubernetes gives a pod by default.
const GRACE: Duration = Duration::from_secs(15);

fn pods(numbers: std::ops::Range<usize>) -> impl Iterator<Item = Value> {
    numbers.map(|number| pod(&format!("pod-{number:04}"), "100m", "128Mi"))
}

/// Lets `stop` end the scheduler while pods are created. A new scheduler binds the remaining pods.
async fn check(stop: impl AsyncFnOnce(crate::process::Process)) {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "30"]).await;
    let first = cluster.scheduler(&[]).await.process;
    let creating = cluster.create_all(pods(0..BEFORE));
    let stopping = async {
        cluster.until("at work", |seen| seen.bound.len() >= AT_WORK).await;
        stop(first).await;
    };
    tokio::join!(creating, stopping);
    cluster.create_all(pods(BEFORE..ALL)).await;
    let left = cluster.until("all created", |seen| seen.nodes.len() == ALL).await;
    assert!(left.bound.len() <= BEFORE, "no scheduler ran when the last pods were created");
    let _second = cluster.scheduler(&[]).await;
    cluster.all_bound(ALL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle() {
    check(async |scheduler| scheduler.kill()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_in_the_middle() {
    check(async |scheduler| {
        scheduler.terminate();
        let ended = within(GRACE, scheduler.ended(DEADLINE)).await.expect("it ends in time");
        assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
        assert!(ended.err.contains("all bindings finished"), "{}", ended.err);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_scheduler_ends_when_told_to() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let scheduler = cluster.scheduler(&[]).await.process;
    scheduler.terminate();
    let ended = within(GRACE, scheduler.ended(DEADLINE)).await.expect("it ends in time");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
}

/// Each part of the scheduler that panics ends the process with a message and exit code 1. The program reads
/// `BERTH_PANIC_IN` only in builds with debug assertions.
#[cfg(debug_assertions)]
#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_panics_ends_the_process() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let parts = [
        "the scheduling thread",
        "the executor",
        "the watch of the cluster",
        "the plugin supervisor",
        "the reader of the configuration",
        "the server of the endpoints",
    ];
    for part in parts {
        let fixed = ["run", "--kubeconfig", &kubeconfig, "--leader-elect=false", "--metrics-address", "127.0.0.1:0"];
        let process = Process::berth_with(fixed, &[("BERTH_PANIC_IN", part)]);
        let ended = process.ended(DEADLINE).await;
        assert_eq!(ended.status.code(), Some(1), "{part}: {}", ended.err);
        let last = ended.err.lines().last().unwrap_or_default();
        let expected = format!("error: {part} panicked: BERTH_PANIC_IN asks for it");
        assert!(last.starts_with(&expected), "{part}: {}", ended.err);
    }
}
