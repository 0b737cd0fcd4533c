//! Tests of disruption budgets: their status follows the pods, and eviction follows the status.

use serde_json::{Value, json};

use crate::cluster::{Cluster, PODS, pod};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const APPS: &str = "/apis/apps/v1/namespaces/default";

fn budget(name: &str, demand: Value) -> Value {
    let mut spec = demand;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Waits until a budget has these numbers: expected, desired, current, allowed.
async fn until(cluster: &Cluster, name: &str, numbers: [i64; 4]) -> Value {
    let fields = ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"];
    let shows = |budget: &Value| {
        let status = &budget["status"];
        status["observedGeneration"] == budget["metadata"]["generation"]
            && fields.iter().zip(numbers).all(|(&field, number)| status[field] == number)
    };
    cluster.until(BUDGETS, name, shows).await
}

async fn running(cluster: &Cluster, name: &str, owner: Option<&Value>) {
    let mut pod = pod(name, json!({}));
    if let Some(owner) = owner {
        pod["metadata"]["ownerReferences"] = json!([reference(owner)]);
    }
    cluster.create(PODS, pod).await;
    cluster.bind(name).await;
    cluster.until(PODS, name, |pod| pod["status"]["phase"] == "Running").await;
}

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": true,
    })
}

fn workload(name: &str, replicas: u32) -> Value {
    let labels = json!({"app": "web"});
    let spec = json!({"containers": [{"name": "c", "image": "i:1"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    json!({
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    })
}

#[tokio::test]
async fn evictions_stop_at_the_budget() {
    let cluster = Cluster::start().await;
    cluster.create(BUDGETS, budget("web", json!({"minAvailable": 2}))).await;
    let empty = until(&cluster, "web", [0, 2, 0, 0]).await;
    assert_eq!(empty["status"]["conditions"][0]["reason"], "InsufficientPods");
    for name in ["a", "b", "c"] {
        running(&cluster, name, None).await;
    }
    let full = until(&cluster, "web", [3, 2, 3, 1]).await;
    let condition = &full["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("DisruptionAllowed"), &json!("True")));
    assert_eq!((&condition["reason"], &condition["observedGeneration"]), (&json!("SufficientPods"), &json!(1)));
    assert_eq!(cluster.evict("a").await.status, 201);
    let after = until(&cluster, "web", [2, 2, 2, 0]).await;
    assert_eq!(after["status"]["disruptedPods"], Value::Null);
    let refused = cluster.evict("b").await;
    assert_eq!(refused.status, 429);
    let cause = &refused.json()["details"]["causes"][0]["message"];
    assert_eq!(cause, "The disruption budget web needs 2 healthy pods and has 2 currently");
    cluster.merge(&format!("{BUDGETS}/web"), json!({"spec": {"minAvailable": 1}})).await;
    until(&cluster, "web", [2, 1, 2, 1]).await;
    assert_eq!(cluster.evict("b").await.status, 201);
    cluster.0.stop().await;
}

#[tokio::test]
async fn shares_are_of_what_the_pods_controllers_want() {
    let cluster = Cluster::without_workloads().await;
    let deployment = cluster.create(&format!("{APPS}/deployments"), workload("web", 5)).await;
    let mut set = workload("web-1", 3);
    set["metadata"]["ownerReferences"] = json!([reference(&deployment)]);
    let set = cluster.create(&format!("{APPS}/replicasets"), set).await;
    let stateful = cluster.create(&format!("{APPS}/statefulsets"), workload("db", 2)).await;
    running(&cluster, "a", Some(&set)).await;
    running(&cluster, "b", Some(&set)).await;
    running(&cluster, "c", Some(&stateful)).await;
    cluster.create(BUDGETS, budget("half", json!({"minAvailable": "50%"}))).await;
    until(&cluster, "half", [7, 4, 3, 0]).await;
    cluster.create(BUDGETS, budget("most", json!({"maxUnavailable": "90%"}))).await;
    until(&cluster, "most", [7, 0, 3, 3]).await;
    cluster.create(BUDGETS, budget("few", json!({"maxUnavailable": 5}))).await;
    until(&cluster, "few", [7, 2, 3, 1]).await;
    cluster.merge(&format!("{APPS}/deployments/web"), json!({"spec": {"replicas": 1}})).await;
    until(&cluster, "half", [3, 2, 3, 1]).await;
    cluster.0.stop().await;
}

#[tokio::test]
async fn pods_of_unknown_controllers_allow_no_disruption() {
    let cluster = Cluster::start().await;
    let nobody = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "none", "uid": "none"}});
    running(&cluster, "a", Some(&nobody)).await;
    cluster.create(BUDGETS, budget("web", json!({"maxUnavailable": 1}))).await;
    let is_failed = |budget: &Value| budget["status"]["conditions"][0]["reason"] == "SyncFailed";
    let failed = cluster.until(BUDGETS, "web", is_failed).await;
    assert_eq!(failed["status"]["disruptionsAllowed"], 0);
    assert_eq!(failed["status"]["conditions"][0]["message"], "found no controllers for pod \"a\"");
    cluster.0.stop().await;
}

#[tokio::test]
async fn a_pod_that_is_not_ready_may_go_while_enough_others_are() {
    let cluster = Cluster::start().await;
    running(&cluster, "well", None).await;
    for name in ["ill", "sick"] {
        running(&cluster, name, None).await;
        cluster.merge(&format!("{PODS}/{name}/status"), json!({"status": {"conditions": null}})).await;
    }
    cluster.create(BUDGETS, budget("web", json!({"minAvailable": 1}))).await;
    until(&cluster, "web", [3, 1, 1, 0]).await;
    assert_eq!(cluster.evict("well").await.status, 429);
    assert_eq!(cluster.evict("ill").await.status, 201);
    cluster.merge(&format!("{BUDGETS}/web"), json!({"spec": {"minAvailable": 2}})).await;
    until(&cluster, "web", [2, 2, 1, 0]).await;
    assert_eq!(cluster.evict("sick").await.status, 429);
    let always = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    cluster.merge(&format!("{BUDGETS}/web"), always).await;
    assert_eq!(cluster.evict("sick").await.status, 201);
    cluster.0.stop().await;
}
