//! Volumes that wait for their first consumer; the scenario does the work of the volume controllers.

use anyhow::{Result, ensure};
use berth_test_processes::until;
use serde_json::{Value, json};

use crate::{
    bench::Bench,
    objects::{node, pod},
};

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

async fn make_class(bench: &Bench, name: &str, provisioner: &str) -> Result<()> {
    let class =
        json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
    bench.objects.create(CLASSES, &class).await.map(drop)
}

async fn make_claim(bench: &Bench, name: &str, class: &str) -> Result<()> {
    let resources = json!({"requests": {"storage": "5Gi"}});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": resources});
    bench.objects.create(CLAIMS, &json!({"metadata": {"name": name}, "spec": spec})).await.map(drop)
}

fn volume(name: &str, class: &str, node: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "local": {"path": "/mnt/disk"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }})
}

fn consumer(name: &str, claim: &str) -> Value {
    pod(name, "100m", json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}))
}

/// The last step of the volume controller: the claim and the volume name each other.
async fn bind(bench: &Bench, claim: &str, volume: &str) -> Result<()> {
    let path = format!("{CLAIMS}/{claim}");
    let uid = bench.objects.get(&path).await?.unwrap_or_default()["metadata"]["uid"].clone();
    let reference =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": claim, "uid": uid});
    bench.objects.merge(&format!("{VOLUMES}/{volume}"), &json!({"spec": {"claimRef": reference}})).await?;
    bench.objects.merge(&format!("{VOLUMES}/{volume}/status"), &json!({"status": {"phase": "Bound"}})).await?;
    let complete = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume}});
    bench.objects.merge(&path, &complete).await?;
    bench.objects.merge(&format!("{path}/status"), &json!({"status": {"phase": "Bound"}})).await.map(drop)
}

/// The scheduler names the node, the provisioner creates a volume for the node, and then the pod is bound.
pub(super) async fn volume_for_first_consumer(bench: &Bench) -> Result<()> {
    bench.nodes(&[node("a", json!({"disk": "ssd"})), node("b", json!({}))]).await?;
    let _scheduler = bench.scheduler().await?;
    make_class(bench, "e2e-dynamic", "csi.example.com").await?;
    make_claim(bench, "dynamic", "e2e-dynamic").await?;
    let mut pod = consumer("writer", "dynamic");
    pod["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    bench.create(&pod).await?;
    let selected = until("a selected node", async || {
        let claim = bench.objects.get(&format!("{CLAIMS}/dynamic")).await?.unwrap_or_default();
        let annotation = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
        Ok(annotation.as_str().map(str::to_owned))
    });
    let selected = selected.await?;
    ensure!(selected == "a", "{selected}");
    let waiting = bench.pod("writer").await?.unwrap_or_default();
    ensure!(waiting["spec"]["nodeName"].is_null(), "the pod waits for its volume");
    bench.objects.create(VOLUMES, &volume("e2e-provisioned", "e2e-dynamic", &selected)).await?;
    bind(bench, "dynamic", "e2e-provisioned").await?;
    ensure!(bench.node_of("writer").await? == "a", "where its volume is");
    Ok(())
}

/// The scheduler finds the existing volume, and reserves it for the claim.
pub(super) async fn local_volume(bench: &Bench) -> Result<()> {
    bench.nodes(&[node("a", json!({})), node("b", json!({})), node("c", json!({}))]).await?;
    let _scheduler = bench.scheduler().await?;
    make_class(bench, "e2e-local", "kubernetes.io/no-provisioner").await?;
    make_claim(bench, "local", "e2e-local").await?;
    bench.create(&consumer("reader", "local")).await?;
    let message = bench.message_of("reader").await?;
    let expected = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.";
    ensure!(message.starts_with(expected), "{message}");
    bench.objects.create(VOLUMES, &volume("e2e-disk", "e2e-local", "b")).await?;
    bench.objects.merge(&format!("{VOLUMES}/e2e-disk/status"), &json!({"status": {"phase": "Available"}})).await?;
    let reserved = until("a reserved volume", async || {
        let volume = bench.objects.get(&format!("{VOLUMES}/e2e-disk")).await?.unwrap_or_default();
        Ok((volume["spec"]["claimRef"]["name"] == "local").then_some(volume))
    });
    let volume = reserved.await?;
    ensure!(volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes", "{volume}");
    bind(bench, "local", "e2e-disk").await?;
    ensure!(bench.node_of("reader").await? == "b", "where the volume is");
    Ok(())
}
