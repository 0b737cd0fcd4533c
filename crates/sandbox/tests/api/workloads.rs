//! Tests of deployments, replica sets and stateful sets: they create pods, replace pods, and delete their pods when
//! they are deleted.

use serde_json::{Value, json};

use crate::cluster::{Cluster, PODS};

const APPS: &str = "/apis/apps/v1/namespaces/default";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// A workload. Its pods are bound as soon as they are created, so that they start to run.
fn workload(name: &str, replicas: u32, image: &str) -> Value {
    let labels = json!({"app": name});
    let spec = json!({"nodeName": "node", "containers": [{"name": "main", "image": image}]});
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}

fn has_ready(replicas: u64) -> impl Fn(&Value) -> bool {
    move |workload| {
        let status = &workload["status"];
        let is_seen = status["observedGeneration"] == workload["metadata"]["generation"];
        let count = |field: &str| status[field].as_u64().unwrap_or(0);
        is_seen && count("replicas") == replicas && count("readyReplicas") == replicas
    }
}

async fn images(cluster: &Cluster) -> Vec<Value> {
    let pods = cluster.get(PODS).await;
    let pods = pods["items"].as_array().expect("a list").iter();
    pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        .map(|pod| pod["spec"]["containers"][0]["image"].clone())
        .collect()
}

#[tokio::test]
async fn a_deployment_scales_rolls_and_takes_its_pods_along() {
    let cluster = Cluster::start().await;
    let deployments = format!("{APPS}/deployments");
    cluster.create(&deployments, workload("web", 3, "web:1")).await;
    let deployment = cluster.until(&deployments, "web", has_ready(3)).await;
    assert_eq!(deployment["status"]["conditions"][0]["reason"], "MinimumReplicasAvailable");
    let pods = cluster.get(PODS).await;
    let pod = &pods["items"][0];
    let [set] = &cluster.names(&format!("{APPS}/replicasets")).await[..] else { panic!("one replica set") };
    assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], set.as_str());
    assert!(pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(&format!("{set}-"))));
    assert_eq!(pod["metadata"]["labels"]["pod-template-hash"], set.strip_prefix("web-").expect("its name"));

    cluster.merge(&format!("{deployments}/web"), json!({"spec": {"replicas": 5}})).await;
    cluster.until(&deployments, "web", has_ready(5)).await;
    cluster.merge(&format!("{deployments}/web"), json!({"spec": {"replicas": 2}})).await;
    cluster.until(&deployments, "web", has_ready(2)).await;

    let template = workload("web", 2, "web:2")["spec"]["template"].clone();
    cluster.merge(&format!("{deployments}/web"), json!({"spec": {"template": template}})).await;
    let is_rolled = |it: &Value| has_ready(2)(it) && it["status"]["updatedReplicas"] == 2;
    let rolled = cluster.until(&deployments, "web", is_rolled).await;
    assert_eq!(rolled["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    assert_eq!(images(&cluster).await, ["web:2", "web:2"]);
    assert_eq!(cluster.names(&format!("{APPS}/replicasets")).await.len(), 2, "the old one stays, without pods");

    let version = cluster.version(PODS).await;
    let last = cluster.names(PODS).await;
    cluster.delete(&format!("{deployments}/web")).await;
    for pod in last {
        cluster.until_gone(PODS, &pod, &version).await;
    }
    assert!(cluster.names(&format!("{APPS}/replicasets")).await.is_empty());
    cluster.0.stop().await;
}

/// The API does not forbid a circle of owners.
#[tokio::test]
async fn owners_in_a_circle_do_no_harm() {
    let cluster = Cluster::start().await;
    let sets = format!("{APPS}/replicasets");
    let first = cluster.create(&sets, workload("first", 1, "i:1")).await;
    let second = cluster.create(&sets, workload("second", 1, "i:1")).await;
    for (set, owner) in [(&first, &second), (&second, &first)] {
        let [name, owner_name] = [set, owner].map(|set| set["metadata"]["name"].as_str().expect("a name"));
        let reference = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner_name, "uid": owner["metadata"]["uid"], "controller": true,
        });
        cluster.merge(&format!("{sets}/{name}"), json!({"metadata": {"ownerReferences": [reference]}})).await;
    }
    cluster.until(&sets, "first", has_ready(1)).await;
    cluster.until(&sets, "second", has_ready(1)).await;
    let (version, pods) = (cluster.version(PODS).await, cluster.names(PODS).await);
    let of_first = pods.iter().find(|pod| pod.starts_with("first-")).expect("a pod");
    cluster.delete(&format!("{sets}/first")).await;
    cluster.until_gone(PODS, of_first, &version).await;
    cluster.merge(&format!("{sets}/second"), json!({"spec": {"replicas": 2}})).await;
    cluster.until(&sets, "second", has_ready(2)).await;
    cluster.0.stop().await;
}

#[tokio::test]
async fn a_replica_set_replaces_what_is_deleted() {
    let cluster = Cluster::start().await;
    let sets = format!("{APPS}/replicasets");
    cluster.create(&sets, workload("set", 2, "set:1")).await;
    cluster.until(&sets, "set", has_ready(2)).await;
    let before = cluster.names(PODS).await;
    let version = cluster.version(PODS).await;
    cluster.delete(&format!("{PODS}/{}", before[0])).await;
    cluster.until_gone(PODS, &before[0], &version).await;
    cluster.until(&sets, "set", has_ready(2)).await;
    let after = cluster.names(PODS).await;
    assert!(after.len() == 2 && after.contains(&before[1]) && !after.contains(&before[0]), "{after:?}");
    cluster.0.stop().await;
}

#[tokio::test]
async fn a_stateful_set_makes_one_pod_after_the_other() {
    let cluster = Cluster::start().await;
    let sets = format!("{APPS}/statefulsets");
    let mut set = workload("db", 3, "db:1");
    set["spec"]["serviceName"] = json!("db");
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": claim}]);
    cluster.create(&sets, set).await;
    cluster.until(&sets, "db", has_ready(3)).await;
    assert_eq!(cluster.names(PODS).await, ["db-0", "db-1", "db-2"]);
    assert_eq!(cluster.names(CLAIMS).await, ["data-db-0", "data-db-1", "data-db-2"]);
    let pod = cluster.get(&format!("{PODS}/db-1")).await;
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-db-1");
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("db-1"), &json!("db")));
    let started = |ordinal: u32| format!("{PODS}/db-{ordinal}");
    let revision = |pod: &Value| pod["metadata"]["creationTimestamp"].as_str().expect("a time").to_owned();
    assert!(revision(&cluster.get(&started(0)).await) <= revision(&cluster.get(&started(2)).await));

    let version = cluster.version(PODS).await;
    cluster.merge(&format!("{sets}/db"), json!({"spec": {"replicas": 1}})).await;
    cluster.until_gone(PODS, "db-1", &version).await;
    assert_eq!(cluster.names(PODS).await, ["db-0"]);
    assert_eq!(cluster.names(CLAIMS).await.len(), 3, "claims stay");
    cluster.0.stop().await;
}

#[tokio::test]
async fn a_stateful_set_may_take_its_claims_along() {
    let cluster = Cluster::start().await;
    let sets = format!("{APPS}/statefulsets");
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    for (name, when_deleted) in [("kept", "Retain"), ("taken", "Delete")] {
        let mut set = workload(name, 1, "db:1");
        set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": claim}]);
        set["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": when_deleted});
        cluster.create(&sets, set).await;
        cluster.until(&sets, name, has_ready(1)).await;
    }
    assert_eq!(cluster.names(CLAIMS).await, ["data-kept-0", "data-taken-0"]);
    let version = cluster.version(CLAIMS).await;
    cluster.delete(&format!("{sets}/kept")).await;
    cluster.delete(&format!("{sets}/taken")).await;
    cluster.until_gone(CLAIMS, "data-taken-0", &version).await;
    assert_eq!(cluster.names(CLAIMS).await, ["data-kept-0"]);
    cluster.0.stop().await;
}
