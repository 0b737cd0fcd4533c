//! Tests of device claims: they are generated from templates, reserved by pods, and given back.

use serde_json::{Value, json};

use crate::cluster::{Cluster, PODS, pod};

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
const PROTECTION: &str = "resource.kubernetes.io/delete-protection";

fn devices() -> Value {
    json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}})
}

fn template() -> Value {
    let metadata = json!({"labels": {"team": "vision"}, "annotations": {"note": "kept"}});
    json!({"metadata": {"name": "gpu"}, "spec": {"metadata": metadata, "spec": devices()}})
}

fn pod_with(claim: Value) -> Value {
    json!({"resourceClaims": [claim]})
}

/// Makes the same writes as the scheduler for a pod: an allocation, and reservations.
async fn allocate(cluster: &Cluster, claim: &str, pods: &[&Value]) {
    let target = format!("{CLAIMS}/{claim}");
    cluster.merge(&target, json!({"metadata": {"finalizers": [PROTECTION]}})).await;
    let reserved: Vec<Value> = pods
        .iter()
        .map(|pod| json!({"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}))
        .collect();
    let result = json!({"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d"});
    let status = json!({"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved});
    cluster.merge(&format!("{target}/status"), json!({"status": status})).await;
}

#[tokio::test]
async fn a_pod_gets_a_claim_of_its_own_from_a_template() {
    let cluster = Cluster::start().await;
    let named = json!({"name": "first", "resourceClaimTemplateName": "gpu"});
    let created = cluster.create(PODS, pod("train", pod_with(named))).await;
    // The template may be created after the pod.
    cluster.create(TEMPLATES, template()).await;
    let has_status = |pod: &Value| !pod["status"]["resourceClaimStatuses"].is_null();
    let statuses = cluster.until(PODS, "train", has_status).await["status"]["resourceClaimStatuses"].clone();
    let claim = statuses[0]["resourceClaimName"].as_str().expect("a name").to_owned();
    assert_eq!(statuses, json!([{"name": "first", "resourceClaimName": claim}]));
    assert!(claim.starts_with("train-first-"), "{claim}");
    let generated = cluster.get(&format!("{CLAIMS}/{claim}")).await;
    let metadata = &generated["metadata"];
    assert_eq!(metadata["labels"], json!({"team": "vision"}));
    assert_eq!(metadata["annotations"], json!({"note": "kept", "resource.kubernetes.io/pod-claim-name": "first"}));
    assert_eq!(metadata["ownerReferences"][0]["uid"], created["metadata"]["uid"]);
    assert_eq!(generated["spec"]["devices"]["requests"][0]["exactly"]["count"], 1);
    cluster.0.stop().await;
}

#[tokio::test]
async fn a_generated_claim_goes_with_its_pod() {
    let cluster = Cluster::start().await;
    cluster.create(TEMPLATES, template()).await;
    for (name, ends) in [("deleted", "deletion"), ("finished", "success")] {
        let named = json!({"name": "gpu", "resourceClaimTemplateName": "gpu"});
        let created = cluster.create(PODS, pod(name, pod_with(named))).await;
        let has_status = |pod: &Value| !pod["status"]["resourceClaimStatuses"].is_null();
        let pod = cluster.until(PODS, name, has_status).await;
        let claim = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str().expect("a name").to_owned();
        allocate(&cluster, &claim, &[&created]).await;
        let version = cluster.version(CLAIMS).await;
        match ends {
            "deletion" => cluster.delete(&format!("{PODS}/{name}")).await,
            _ => drop(cluster.merge(&format!("{PODS}/{name}/status"), json!({"status": {"phase": "Succeeded"}})).await),
        }
        cluster.until_gone(CLAIMS, &claim, &version).await;
    }
    assert_eq!(cluster.names(CLAIMS).await, [""; 0]);
    cluster.0.stop().await;
}

/// Creates the claim `shared`, which is reserved for the pods `a` and `b`. Returns the pods.
async fn two_pods_share_a_claim(cluster: &Cluster) -> [Value; 2] {
    cluster.create(CLAIMS, json!({"metadata": {"name": "shared"}, "spec": devices()})).await;
    let named = json!({"name": "gpu", "resourceClaimName": "shared"});
    let a = cluster.create(PODS, pod("a", pod_with(named.clone()))).await;
    let b = cluster.create(PODS, pod("b", pod_with(named))).await;
    allocate(cluster, "shared", &[&a, &b]).await;
    [a, b]
}

#[tokio::test]
async fn a_shared_claim_is_given_back_by_the_last_pod() {
    let cluster = Cluster::start().await;
    two_pods_share_a_claim(&cluster).await;
    cluster.delete(&format!("{PODS}/a")).await;
    let is_for_one = |claim: &Value| claim["status"]["reservedFor"].as_array().is_some_and(|pods| pods.len() == 1);
    let left = cluster.until(CLAIMS, "shared", is_for_one).await;
    assert_eq!(left["status"]["reservedFor"][0]["name"], "b");
    assert!(left["status"]["allocation"].is_object());
    cluster.delete(&format!("{PODS}/b")).await;
    let is_free = |claim: &Value| claim["status"]["reservedFor"].is_null();
    let free = cluster.until(CLAIMS, "shared", is_free).await;
    assert_eq!((&free["status"], &free["metadata"]["finalizers"]), (&json!({}), &Value::Null));
    cluster.0.stop().await;
}

/// kube-scheduler's Unreserve removes a pod in this way.
#[tokio::test]
async fn a_strategic_merge_patch_removes_one_reservation() {
    let cluster = Cluster::start().await;
    let [a, b] = two_pods_share_a_claim(&cluster).await;
    let gone = json!({"$patch": "delete", "uid": a["metadata"]["uid"]});
    let patch = json!({"status": {"reservedFor": [gone]}});
    let target = format!("{CLAIMS}/shared/status");
    let left = cluster.patch("application/strategic-merge-patch+json", &target, patch).await;
    let uids: Vec<&Value> =
        left["status"]["reservedFor"].as_array().expect("a list").iter().map(|it| &it["uid"]).collect();
    assert_eq!(uids, [&b["metadata"]["uid"]]);
    cluster.0.stop().await;
}

#[tokio::test]
async fn an_allocated_claim_in_use_waits_with_its_deletion() {
    let cluster = Cluster::start().await;
    cluster.create(CLAIMS, json!({"metadata": {"name": "busy"}, "spec": devices()})).await;
    let named = json!({"name": "gpu", "resourceClaimName": "busy"});
    let user = cluster.create(PODS, pod("user", pod_with(named))).await;
    allocate(&cluster, "busy", &[&user]).await;
    let version = cluster.version(CLAIMS).await;
    cluster.delete(&format!("{CLAIMS}/busy")).await;
    assert_eq!(cluster.names(CLAIMS).await, ["busy"]);
    cluster.delete(&format!("{PODS}/user")).await;
    cluster.until_gone(CLAIMS, "busy", &version).await;
    cluster.0.stop().await;
}
