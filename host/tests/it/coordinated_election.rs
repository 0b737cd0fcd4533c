//! A coordinated election (KEP-4355). The test plays the API server's coordinator, which gives the Lease to one of the
//! replicas.

use std::time::Duration;

use k8s_openapi::api::coordination::{v1::Lease, v1beta1::LeaseCandidate};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    cluster::{Cluster, pod},
    process::{DEADLINE, Process},
};

const LEASE: &str = "kube-scheduler";

struct Bench {
    cluster: Cluster,
}

impl Bench {
    async fn start(release: &str) -> Self {
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2", "--kubernetes-version", release]).await;
        Self { cluster }
    }

    /// Starts a replica, and waits until the replica competes.
    async fn replica(&self) -> Process {
        let kubeconfig = self.cluster.kubeconfig().display().to_string();
        let gate = "--feature-gates=CoordinatedLeaderElection=true";
        let mut process = Process::berth(["kube-scheduler", "--kubeconfig", &kubeconfig, "--secure-port=0", gate]);
        process.line("waiting to lead").await;
        process
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.cluster.pods.clone().into_client(), "kube-system")
    }

    fn candidates(&self) -> Api<LeaseCandidate> {
        Api::namespaced(self.cluster.pods.clone().into_client(), "kube-system")
    }

    /// Waits until the LeaseCandidates are right, and returns them by their names.
    async fn until(&self, is_right: impl Fn(&[(String, Value)]) -> bool) -> Vec<(String, Value)> {
        let looking = async {
            loop {
                let listed = self.candidates().list(&ListParams::default()).await.expect("a list").items;
                let specs = listed.into_iter().map(|candidate| {
                    let spec = serde_json::to_value(candidate.spec).expect("a spec");
                    (candidate.metadata.name.unwrap_or_default(), spec)
                });
                let candidates: Vec<_> = specs.collect();
                if is_right(&candidates) {
                    return candidates;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(DEADLINE, looking).await.expect("the LeaseCandidates are as awaited")
    }

    /// Gives the Lease to this candidate.
    async fn give(&self, holder: &str) {
        let now = "2026-11-21T03:11:59.000000Z";
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now,
            "leaseTransitions": 1, "strategy": "OldestEmulationVersion", "preferredHolder": null});
        if self.leases().get_opt(LEASE).await.expect("an answer").is_some() {
            self.patch(&spec).await;
        } else {
            let lease = serde_json::from_value(json!({"metadata": {"name": LEASE}, "spec": spec})).expect("a lease");
            self.leases().create(&PostParams::default(), &lease).await.expect("a write");
        }
    }

    async fn patch(&self, spec: &Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.leases().patch(LEASE, &PatchParams::default(), &patch).await.expect("a write");
    }

    async fn lease(&self) -> Value {
        serde_json::to_value(self.leases().get(LEASE).await.expect("a lease").spec).expect("a spec")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_coordinator_says_which_replica_leads() {
    let bench = Bench::start("1.37").await;
    let mut first = bench.replica().await;
    let candidates = bench.until(|candidates| candidates.len() == 1).await;
    let [(first_name, spec)] = &candidates[..] else { panic!("{candidates:?}") };
    assert_eq!((&spec["leaseName"], &spec["strategy"]), (&json!(LEASE), &json!("OldestEmulationVersion")));
    assert_eq!((&spec["binaryVersion"], &spec["emulationVersion"]), (&json!("1.37.0"), &json!("1.37.0")));
    let mut second = bench.replica().await;
    let candidates = bench.until(|candidates| candidates.len() == 2).await;
    let (second_name, _) = candidates.iter().find(|(name, _)| name != first_name).expect("another");
    assert!(bench.leases().get_opt(LEASE).await.expect("an answer").is_none(), "no replica takes the Lease by itself");

    let pinged = Patch::Merge(json!({"spec": {"pingTime": "2999-01-01T00:00:00.000000Z"}}));
    let before = candidates.iter().find(|(name, _)| name == second_name).expect("the second").1.clone();
    bench.candidates().patch(second_name, &PatchParams::default(), &pinged).await.expect("a write");
    bench
        .until(|candidates| {
            let renewed =
                |(name, spec): &(String, Value)| name == second_name && spec["renewTime"] != before["renewTime"];
            candidates.iter().any(renewed)
        })
        .await;

    bench.give(second_name).await;
    second.line("] \"leading\"").await;
    bench.cluster.create(&pod("a", "100m", "128Mi")).await;
    bench.cluster.node_of("a").await;
    assert_eq!(bench.lease().await["leaseTransitions"], 1, "the coordinator counts the changes");

    bench.patch(&json!({ "preferredHolder": first_name })).await;
    let ended = second.ended(DEADLINE).await;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.err);
    assert!(ended.err.contains(&format!("the coordinator prefers {first_name}")), "{}", ended.err);
    let released = bench.lease().await;
    assert_eq!((&released["holderIdentity"], released.get("preferredHolder")), (&json!(""), None));
    bench.give(first_name).await;
    first.line("] \"leading\"").await;
    bench.cluster.create(&pod("b", "100m", "128Mi")).await;
    bench.cluster.node_of("b").await;
}

/// kube-scheduler waits in the same way, and does not become ready.
#[tokio::test(flavor = "multi_thread")]
async fn without_lease_candidates_no_replica_leads() {
    let bench = Bench::start("1.36").await;
    let mut replica = bench.replica().await;
    replica.line("the LeaseCandidate was not written").await;
    assert!(bench.leases().get_opt(LEASE).await.expect("an answer").is_none());
}
