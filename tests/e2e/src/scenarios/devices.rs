//! Dynamic Resource Allocation (KEP-4381): the scheduler allocates devices to claims and reserves them for pods. The
//! scenario does the work of the driver and of the claims' controller.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{
    bench::Bench,
    objects::{node, pod},
};

const GROUP: &str = "/apis/resource.k8s.io/v1";
const DRIVER: &str = "fabric.example.com";
const ATTACHED: &str = "fabric.example.com/attached";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

async fn offer(bench: &Bench) -> Result<()> {
    let selector = json!({"cel": {"expression": "device.driver == 'gpu.example.com'"}});
    let class = json!({"metadata": {"name": "gpu.example.com"}, "spec": {"selectors": [selector]}});
    bench.objects.create(&format!("{GROUP}/deviceclasses"), &class).await?;
    let device = |name: &str, memory: &str| json!({"name": name, "capacity": {"memory": {"value": memory}}});
    let slice = json!({"metadata": {"name": "gpus-of-b"}, "spec": {
        "driver": "gpu.example.com", "nodeName": "b",
        "pool": {"name": "b", "generation": 1, "resourceSliceCount": 1},
        "devices": [device("small", "16Gi"), device("large", "80Gi")],
    }});
    bench.objects.create(&format!("{GROUP}/resourceslices"), &slice).await.map(drop)
}

/// A device that must be attached to the node before a pod can run with it (KEP-5007).
async fn offer_fabric(bench: &Bench) -> Result<()> {
    let class = json!({"metadata": {"name": "fabric.example.com"}});
    bench.objects.create(&format!("{GROUP}/deviceclasses"), &class).await?;
    let device = json!({"name": "remote", "bindsToNode": true, "bindingConditions": [ATTACHED],
        "bindingFailureConditions": ["fabric.example.com/broken"]});
    let slice = json!({"metadata": {"name": "fabric"}, "spec": {
        "driver": DRIVER, "allNodes": true, "devices": [device],
        "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 1},
    }});
    bench.objects.create(&format!("{GROUP}/resourceslices"), &slice).await.map(drop)
}

async fn claim(bench: &Bench, name: &str) -> Result<()> {
    let large = "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0";
    let exactly = json!({"deviceClassName": "gpu.example.com", "selectors": [{"cel": {"expression": large}}]});
    let spec = json!({"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}});
    bench.objects.create(CLAIMS, &json!({"metadata": {"name": name}, "spec": spec})).await.map(drop)
}

fn consumer(name: &str, claim: &str) -> Value {
    let mut pod = pod(name, "100m", json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}));
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
    pod
}

pub(super) async fn devices(bench: &Bench) -> Result<()> {
    bench.nodes(&[node("a", json!({})), node("b", json!({}))]).await?;
    let _scheduler = bench.scheduler().await?;
    offer(bench).await?;
    claim(bench, "first").await?;
    bench.create(&consumer("first", "first")).await?;
    ensure!(bench.node_of("first").await? == "b", "the node with the device");
    let status = bench.objects.get(&format!("{CLAIMS}/first")).await?.unwrap_or_default();
    let result = &status["status"]["allocation"]["devices"]["results"][0];
    ensure!(result["device"] == "large" && result["pool"] == "b" && result["request"] == "gpu", "{status}");
    let reserved = &status["status"]["reservedFor"][0];
    let uid = &bench.pod("first").await?.unwrap_or_default()["metadata"]["uid"];
    ensure!(reserved["name"] == "first" && reserved["resource"] == "pods" && reserved["uid"] == *uid, "{status}");

    claim(bench, "second").await?;
    bench.create(&consumer("second", "second")).await?;
    let message = bench.message_of("second").await?;
    ensure!(message.starts_with("0/2 nodes are available: 2 cannot allocate all claims."), "{message}");
    // The pod is deleted, and the controller releases its devices.
    bench.delete("first").await?;
    let free = json!({"status": {"allocation": null, "reservedFor": null}});
    bench.objects.merge(&format!("{CLAIMS}/first/status"), &free).await?;
    ensure!(bench.node_of("second").await? == "b", "the device is free");
    Ok(())
}

pub(super) async fn binding_conditions(bench: &Bench) -> Result<()> {
    bench.nodes(&[node("a", json!({}))]).await?;
    let scheduler = bench.scheduler().await?;
    offer_fabric(bench).await?;
    let requests = json!([{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]);
    let claim = json!({"metadata": {"name": "remote"}, "spec": {"devices": {"requests": requests}}});
    bench.objects.create(CLAIMS, &claim).await?;
    bench.create(&consumer("waits", "remote")).await?;
    let event = bench.event("waits", "BindingConditionsPending").await?;
    ensure!(event["note"].as_str().is_some_and(|note| note.contains("a")), "{event}");
    let waiting = bench.pod("waits").await?.unwrap_or_default();
    ensure!(waiting["spec"]["nodeName"].is_null() && waiting["status"]["nominatedNodeName"] == "a", "{waiting}");
    // The driver has attached the device.
    let condition = json!({"type": ATTACHED, "status": "True", "reason": "Attached", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let devices = json!([{"driver": DRIVER, "pool": "fabric", "device": "remote", "conditions": [condition]}]);
    bench.objects.merge(&format!("{CLAIMS}/remote/status"), &json!({"status": {"devices": devices}})).await?;
    ensure!(bench.node_of("waits").await? == "a", "the device is there");
    let labels = format!("{{driver=\"{DRIVER}\",profile=\"default-scheduler\",status=\"success\"}} 1");
    for metric in ["allocations_total", "wait_duration_seconds_count"] {
        let line = format!("scheduler_dra_bindingconditions_{metric}{labels}");
        scheduler.endpoints.until("/metrics", |page| page.contains(&line)).await?;
    }
    Ok(())
}
