//! Conditions and events, word for word, and pods that wait until something changes.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{
    bench::Bench,
    objects::{condition, node, pod},
};

pub(super) async fn conditions_and_events(bench: &Bench) -> Result<()> {
    let mut tainted = node("tainted", json!({}));
    tainted["spec"]["taints"] = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
    bench.nodes(&[node("a", json!({"disk": "ssd"})), node("b", json!({})), tainted]).await?;
    let polite = json!({"metadata": {"name": "polite"}, "value": 1000, "preemptionPolicy": "Never"});
    bench.objects.create("/apis/scheduling.k8s.io/v1/priorityclasses", &polite).await?;
    let _scheduler = bench.scheduler().await?;
    for node in ["a", "b"] {
        bench.create(&pod(node, "3", json!({"nodeSelector": {"kubernetes.io/hostname": node}}))).await?;
        bench.node_of(node).await?;
    }
    let cases: [(&str, Value, &str, &str); 4] = [
        (
            "nowhere",
            json!({"nodeSelector": {"disk": "tape"}}),
            "1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector.",
            "0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        ),
        (
            "large",
            json!({}),
            "1 node(s) had untolerated taint(s), 2 Insufficient cpu.",
            "0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.",
        ),
        (
            "polite",
            json!({"priorityClassName": "polite"}),
            "1 node(s) had untolerated taint(s), 2 Insufficient cpu.",
            "not eligible due to preemptionPolicy=Never.",
        ),
        (
            "mixed",
            json!({"nodeSelector": {"disk": "ssd"}}),
            "1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s).",
            "0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
        ),
    ];
    for (name, spec, filters, preemption) in cases {
        let expected =
            format!("0/3 nodes are available: {filters} no new claims to deallocate, preemption: {preemption}");
        let cpu = if name == "nowhere" { "100m" } else { "3" };
        bench.create(&pod(name, cpu, spec)).await?;
        let message = bench.message_of(name).await?;
        ensure!(message == expected, "{name}: condition\n{message}\ninstead of\n{expected}");
        let event = bench.event(name, "FailedScheduling").await?;
        ensure!(event["note"] == expected, "{name}: event {event}");
        ensure!(event["type"] == "Warning" && event["action"] == "Scheduling", "{event}");
        ensure!(event["reportingController"] == "default-scheduler", "{event}");
    }
    bench.create(&pod("fine", "100m", json!({}))).await?;
    let node = bench.node_of("fine").await?;
    let event = bench.event("fine", "Scheduled").await?;
    ensure!(event["note"] == format!("Successfully assigned default/fine to {node}"), "{event}");
    ensure!(event["type"] == "Normal" && event["action"] == "Binding", "{event}");
    let bound = bench.pod("fine").await?.unwrap_or_default();
    let told = condition(&bound, "PodScheduled");
    ensure!(told["status"] == "True" && told["reason"].is_null() && told["message"].is_null(), "{told}");
    Ok(())
}

pub(super) async fn gates(bench: &Bench) -> Result<()> {
    bench.nodes(&[node("a", json!({}))]).await?;
    let scheduler = bench.scheduler().await?;
    let gates = json!({"schedulingGates": [{"name": "example.com/first"}, {"name": "example.com/second"}]});
    bench.create(&pod("gated", "100m", gates)).await?;
    scheduler.endpoints.until("/metrics", |page| page.contains("scheduler_pending_pods{queue=\"gated\"} 1")).await?;
    let path = format!("{}/gated", crate::bench::PODS);
    let one = json!({"spec": {"schedulingGates": [{"name": "example.com/second"}]}});
    bench.objects.merge(&path, &one).await?;
    // A later pod is bound, and the gated pod is not.
    bench.create(&pod("later", "100m", json!({}))).await?;
    bench.node_of("later").await?;
    let gated = bench.pod("gated").await?.unwrap_or_default();
    ensure!(condition(&gated, "PodScheduled")["reason"] == "SchedulingGated", "{gated}");
    ensure!(gated["spec"]["nodeName"].is_null(), "{gated}");
    bench.objects.merge(&path, &json!({"spec": {"schedulingGates": []}})).await?;
    bench.node_of("gated").await?;
    Ok(())
}

/// The event that a pod waits for happens: a label, the end of a taint, room, a node.
pub(super) async fn pending_pods_come_back(bench: &Bench) -> Result<()> {
    let mut tainted = node("b", json!({"zone": "b"}));
    tainted["spec"]["taints"] = json!([{"key": "busy", "effect": "NoSchedule"}]);
    bench.nodes(&[node("a", json!({"zone": "a"})), tainted]).await?;
    let _scheduler = bench.scheduler().await?;
    bench.create(&pod("filler", "3", json!({"nodeSelector": {"zone": "a"}}))).await?;
    bench.node_of("filler").await?;
    let waiting = [
        pod("for-label", "100m", json!({"nodeSelector": {"disk": "ssd"}})),
        pod("for-taint", "100m", json!({"nodeSelector": {"zone": "b"}})),
        pod("for-room", "3", json!({"nodeSelector": {"zone": "a"}})),
        pod("for-node", "100m", json!({"nodeSelector": {"zone": "c"}})),
    ];
    for pod in &waiting {
        bench.create(pod).await?;
        bench.message_of(pod["metadata"]["name"].as_str().unwrap_or_default()).await?;
    }
    bench.change_node("a", json!({"metadata": {"labels": {"disk": "ssd"}}})).await?;
    ensure!(bench.node_of("for-label").await? == "a", "the node with the label");
    bench.change_node("b", json!({"spec": {"taints": null}})).await?;
    ensure!(bench.node_of("for-taint").await? == "b", "the node without its taint");
    bench.delete("filler").await?;
    ensure!(bench.node_of("for-room").await? == "a", "where there is room");
    bench.nodes(&[node("c", json!({"zone": "c"}))]).await?;
    ensure!(bench.node_of("for-node").await? == "c", "the new node");
    Ok(())
}
