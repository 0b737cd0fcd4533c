//! A pod of high priority preempts a pod of lower priority, but none that a budget protects.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{events::v1::Event, policy::v1::PodDisruptionBudget, scheduling::v1::PriorityClass};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::{interval, timeout};

use crate::{
    cluster::{Cluster, pod},
    process::DEADLINE,
};

/// A pod of this priority class that takes most of a node.
fn large(name: &str, class: Option<&str>) -> Value {
    let mut pod = pod(name, "12", "1Gi");
    pod["metadata"]["labels"] = json!({"app": name});
    pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
    if let Some(class) = class {
        pod["spec"]["priorityClassName"] = json!(class);
    }
    pod
}

async fn make_rules(client: &Client) {
    let classes: Api<PriorityClass> = Api::all(client.clone());
    for (name, value, policy) in
        [("middle", 10, "PreemptLowerPriority"), ("high", 1000, "PreemptLowerPriority"), ("polite", 1000, "Never")]
    {
        let class = json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": policy});
        let class = serde_json::from_value(class).expect("a class");
        classes.create(&PostParams::default(), &class).await.expect("the sandbox takes it");
    }
    let budget = json!({
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    });
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client.clone());
    let budget = serde_json::from_value(budget).expect("a budget");
    budgets.create(&PostParams::default(), &budget).await.expect("the sandbox takes it");
}

/// Waits for the event about a pod, and gives its note.
async fn event_of(client: &Client, pod: &str, reason: &str) -> Event {
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let asking = async {
        let mut every = interval(Duration::from_millis(50));
        loop {
            every.tick().await;
            let listed = events.list(&ListParams::default()).await.expect("a list").items;
            let is_it = |event: &Event| {
                let regarding = event.regarding.as_ref().and_then(|it| it.name.as_deref());
                regarding == Some(pod) && event.reason.as_deref() == Some(reason)
            };
            if let Some(event) = listed.into_iter().find(is_it) {
                return event;
            }
        }
    };
    timeout(DEADLINE, asking).await.unwrap_or_else(|_| panic!("no event {reason} about {pod}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_that_no_budget_protects_makes_room() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let client = cluster.pods.clone().into_client();
    make_rules(&client).await;
    let _scheduler = cluster.scheduler(&[]).await;
    cluster.create(&large("guarded", None)).await;
    cluster.node_of("guarded").await;
    cluster.create(&large("free", Some("middle"))).await;
    let node = cluster.node_of("free").await;

    cluster.create(&large("high", Some("high"))).await;
    assert_eq!(cluster.node_of("high").await, node);
    let seen = cluster.until("free deleted", |seen| seen.deleted.contains("free")).await;
    assert_eq!(seen.deleted, BTreeSet::from(["free".to_owned()]));
    assert_eq!(seen.nominations["high"], BTreeSet::from([node.clone()]));
    assert_eq!(seen.messages["high"], "0/2 nodes are available: 2 Insufficient cpu.");
    assert_eq!(seen.disruptions["free"], "default-scheduler: preempting to accommodate a higher priority pod");
    let uid = cluster.pods.get("high").await.expect("the pod").metadata.uid.expect("a uid");
    let event = event_of(&client, "free", "Preempted").await;
    assert_eq!(event.note, Some(format!("Preempted by pod {uid} on node {node}")));
    assert_eq!(event.related.and_then(|preemptor| preemptor.uid), Some(uid));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_may_not_preempt_waits() {
    let cluster = Cluster::start(&["--nodes", "1"]).await;
    let client = cluster.pods.clone().into_client();
    make_rules(&client).await;
    cluster.create(&large("low", None)).await;
    cluster.node_of("low").await;
    cluster.create(&large("polite", Some("polite"))).await;
    let seen = cluster.until("a reason", |seen| seen.messages.contains_key("polite")).await;
    let message = &seen.messages["polite"];
    assert!(message.ends_with("preemption: not eligible due to preemptionPolicy=Never."), "{message}");
    assert!(seen.deleted.is_empty());
}
