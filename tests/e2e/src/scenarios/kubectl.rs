//! Users see the scheduler's decisions in the output of kubectl.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{
    bench::{Bench, has_kubectl},
    objects::{node, pod},
};

/// If there is no kubectl, the scenario says `skipped` and succeeds.
pub(super) async fn kubectl(bench: &Bench) -> Result<()> {
    if !has_kubectl() {
        println!("kubectl: not on the path, skipped");
        return Ok(());
    }
    let run = |arguments: &[&str]| bench.kubectl(arguments);
    bench.nodes(&[node("a", json!({})), node("b", json!({}))]).await?;
    let _scheduler = bench.scheduler().await?;
    let file = bench.dir().join("pods.json");
    let file = file.display().to_string();
    let pods = json!({"apiVersion": "v1", "kind": "List", "items": [
        pod("web", "100m", json!({})), pod("fast", "100m", json!({"nodeSelector": {"disk": "ssd"}}))
    ]});
    std::fs::write(&file, pods.to_string())?;
    run(&["apply", "-f", &file])?;
    run(&["wait", "--for=condition=PodScheduled", "pod/web", "--timeout=60s"])?;
    run(&["wait", "--for=condition=PodScheduled=False", "pod/fast", "--timeout=60s"])?;
    bench.event("web", "Scheduled").await?;
    bench.event("fast", "FailedScheduling").await?;
    let described = run(&["describe", "pod", "web"])?;
    ensure!(described.contains("Successfully assigned default/web to "), "{described}");
    let described = run(&["describe", "pod", "fast"])?;
    let text = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.";
    ensure!(described.contains("FailedScheduling") && described.contains(text), "{described}");
    run(&["label", "node", "b", "disk=ssd"])?;
    run(&["wait", "--for=condition=PodScheduled", "pod/fast", "--timeout=60s"])?;
    let node = run(&["get", "pod", "fast", "-o", "jsonpath={.spec.nodeName}"])?;
    ensure!(node == "b", "{node}");
    run(&["cordon", "a"])?;
    run(&["taint", "node", "b", "reserved=yes:NoSchedule"])?;
    run(&["run", "late", "--image=registry.example/main:1"])?;
    let expected = "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable.";
    let message = bench.message_of("late").await?;
    ensure!(message.starts_with(expected), "{message}");
    run(&["uncordon", "a"])?;
    ensure!(bench.node_of("late").await? == "a", "the uncordoned node");
    let events = run(&["get", "events", "--field-selector=involvedObject.name=late"])?;
    ensure!(events.contains("FailedScheduling") && events.contains("Scheduled"), "{events}");
    Ok(())
}
