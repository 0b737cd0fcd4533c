//! A claim that waits for its first consumer. The scheduler finds and reserves the volume, and waits until the claim is
//! bound before it binds the pod.

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::cluster::{Cluster, pod};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_follows_its_volume() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "3"]).await;
    let client = cluster.pods.clone().into_client();
    let _scheduler = cluster.scheduler(&[]).await;
    let class = json!({
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"
    });
    let volume = json!({
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/mnt/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-00002"]}
            ]}]}}
        }
    });
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "5Gi"}}
        }
    });
    let (classes, volumes): (Api<StorageClass>, Api<PersistentVolume>) =
        (Api::all(client.clone()), Api::all(client.clone()));
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client);
    let how = PostParams::default();
    classes.create(&how, &serde_json::from_value(class).expect("a class")).await.expect("the sandbox takes it");
    volumes.create(&how, &serde_json::from_value(volume).expect("a volume")).await.expect("the sandbox takes it");
    claims.create(&how, &serde_json::from_value(claim).expect("a claim")).await.expect("the sandbox takes it");

    let mut consumer = pod("consumer", "1", "1Gi");
    consumer["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    cluster.create(&consumer).await;
    assert_eq!(cluster.node_of("consumer").await, "node-00002");
    let claim = claims.get("data").await.expect("the claim");
    assert_eq!(claim.spec.and_then(|spec| spec.volume_name).as_deref(), Some("disk"), "bound before the pod was");
}
