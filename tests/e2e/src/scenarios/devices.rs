//! Dynamic Resource Allocation (KEP-4381): the scheduler allocates devices to claims and reserves them for pods. The
//! scenario does the work of the driver and of the claims' controller.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{
    bench::Bench,
    objects::{node, pod},
};

const GROUP: &str = "/apis/resource.k8s.io/v1";
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
    // The pod goes, and the controller gives its devices back.
    bench.delete("first").await?;
    let free = json!({"status": {"allocation": null, "reservedFor": null}});
    bench.objects.merge(&format!("{CLAIMS}/first/status"), &free).await?;
    ensure!(bench.node_of("second").await? == "b", "the device is free");
    Ok(())
}
