//! Preemption: the victims, the nomination, and the messages of both pods.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{
    bench::Bench,
    objects::{condition, node, pod},
};

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

/// A priority class that remains for other scenarios.
async fn class(bench: &Bench, name: &str, value: u32) -> Result<()> {
    if bench.objects.get(&format!("{CLASSES}/{name}")).await?.is_none() {
        bench.objects.create(CLASSES, &json!({"metadata": {"name": name}, "value": value})).await?;
    }
    Ok(())
}

/// A pod that takes most of a node. Deleting the pod removes it immediately.
fn large(name: &str, class: &str) -> Value {
    pod(name, "3", json!({"priorityClassName": class, "terminationGracePeriodSeconds": 0}))
}

/// The pod with the lowest priority that no budget protects is evicted.
pub(super) async fn preemption(bench: &Bench) -> Result<()> {
    for (name, value) in [("low", 10), ("middle", 20), ("high", 1000)] {
        class(bench, name, value).await?;
    }
    bench.nodes(&[node("a", json!({})), node("b", json!({})), node("c", json!({}))]).await?;
    let _scheduler = bench.scheduler().await?;
    for (name, class) in [("guarded", "low"), ("victim", "low"), ("other", "middle")] {
        bench.create(&large(name, class)).await?;
        bench.node_of(name).await?;
    }
    let budget = json!({"metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}});
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    bench.objects.create(budgets, &budget).await?;
    let status = json!({"status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
        "observedGeneration": 1}});
    bench.objects.merge(&format!("{budgets}/guard/status"), &status).await?;
    let node = bench.node_of("victim").await?;
    bench.create(&large("preemptor", "high")).await?;
    let found = bench.node_of("preemptor").await?;
    bench.objects.delete(&format!("{budgets}/guard")).await?;
    ensure!(found == node, "preemptor is on {found}, the victim was on {node}");
    ensure!(bench.pod("victim").await?.is_none(), "the victim is gone");
    for kept in ["guarded", "other"] {
        ensure!(bench.pod(kept).await?.is_some(), "{kept} stays");
    }
    let uid = bench.pod("preemptor").await?.unwrap_or_default()["metadata"]["uid"].clone();
    let event = bench.event("victim", "Preempted").await?;
    let note = format!("Preempted by pod {} on node {node}", uid.as_str().unwrap_or_default());
    ensure!(event["note"] == note && event["action"] == "Preempting" && event["type"] == "Normal", "{event}");
    let failed = bench.event("preemptor", "FailedScheduling").await?;
    ensure!(failed["note"] == "0/3 nodes are available: 3 Insufficient cpu.", "{failed}");
    Ok(())
}

/// A victim that ends slowly delays the preemptor. The preemptor is nominated until the victim has ended.
pub(super) async fn nomination_waits_for_the_victim(bench: &Bench) -> Result<()> {
    class(bench, "high", 1000).await?;
    bench.nodes(&[node("a", json!({}))]).await?;
    let _scheduler = bench.scheduler().await?;
    bench.create(&pod("slow", "3", json!({"terminationGracePeriodSeconds": 300}))).await?;
    bench.node_of("slow").await?;
    bench.create(&large("preemptor", "high")).await?;
    let is_leaving = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
    let victim = bench.until_pod("slow", "leaving", is_leaving).await?;
    let told = condition(&victim, "DisruptionTarget");
    ensure!(told["status"] == "True" && told["reason"] == "PreemptionByScheduler", "{told}");
    ensure!(told["message"] == "default-scheduler: preempting to accommodate a higher priority pod", "{told}");
    let is_nominated = |pod: &Value| pod["status"]["nominatedNodeName"] == "a";
    let preemptor = bench.until_pod("preemptor", "nominated", is_nominated).await?;
    ensure!(preemptor["spec"]["nodeName"].is_null(), "{preemptor}");
    ensure!(bench.message_of("preemptor").await?.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "text");
    // This is the kubelet's work.
    bench.delete("slow").await?;
    ensure!(bench.node_of("preemptor").await? == "a", "the preemptor's node");
    let bound = bench.pod("preemptor").await?.unwrap_or_default();
    ensure!(bound["status"]["nominatedNodeName"].is_null(), "the API server takes the nomination away: {bound}");
    Ok(())
}
