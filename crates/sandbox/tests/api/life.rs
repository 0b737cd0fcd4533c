//! Tests of the controllers and of contention: pods start and stop, namespaces are emptied, and only one binding
//! succeeds.

use std::time::Duration;

use berth_sandbox::{Options, Sandbox, nodes};
use serde_json::{Value, json};

use crate::http::{Answer, send, wait_for};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn start() -> Sandbox {
    let short = Duration::from_millis(1);
    let options = Options { pod_start_delay: short, pod_stop_delay: short, ..Options::default() };
    Sandbox::start(options).await.expect("the sandbox starts")
}

async fn post(sandbox: &Sandbox, target: &str, body: &Value) -> Answer {
    send(sandbox.address(), "POST", target, &[], &body.to_string()).await
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

fn binding(node: &str) -> Value {
    json!({"target": {"kind": "Node", "name": node}})
}

#[tokio::test]
async fn bound_pods_start_and_deleted_ones_go() {
    let sandbox = start().await;
    assert_eq!(post(&sandbox, PODS, &pod("a")).await.status, 201);
    assert_eq!(post(&sandbox, &format!("{PODS}/a/binding"), &binding("n")).await.status, 201);
    let target = format!("{PODS}?watch=true&fieldSelector=status.phase=Running");
    wait_for(sandbox.address(), &target, "\"ADDED\"").await;
    let running = send(sandbox.address(), "GET", &format!("{PODS}/a"), &[], "").await.json();
    assert!(running["status"]["podIP"].is_string());
    let version = running["metadata"]["resourceVersion"].as_str().expect("a version");
    assert_eq!(send(sandbox.address(), "DELETE", &format!("{PODS}/a"), &[], "").await.status, 200);
    wait_for(sandbox.address(), &format!("{PODS}?watch=true&resourceVersion={version}"), "\"DELETED\"").await;
    assert_eq!(send(sandbox.address(), "GET", &format!("{PODS}/a"), &[], "").await.status, 404);
    sandbox.stop().await;
}

/// If the kind were built-in, `min` would be a map of quantities.
#[tokio::test]
async fn a_definition_names_its_properties_as_it_likes() {
    let sandbox = start().await;
    let amounts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let spec = json!({"type": "object", "properties": {"min": amounts, "limits": amounts}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let definition = json!({
        "metadata": {"name": "quotas.lab.example.com"},
        "spec": {
            "group": "lab.example.com", "scope": "Namespaced",
            "names": {"plural": "quotas", "singular": "quota", "kind": "Quota"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = post(&sandbox, definitions, &definition).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    let stored = answer.json()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    assert_eq!(stored["properties"]["spec"]["properties"]["min"]["type"], "object");
    sandbox.stop().await;
}

#[tokio::test]
async fn a_deleted_namespace_takes_its_objects_along() {
    let sandbox = start().await;
    let team = json!({"metadata": {"name": "team"}});
    assert_eq!(post(&sandbox, "/api/v1/namespaces", &team).await.status, 201);
    assert_eq!(post(&sandbox, "/api/v1/namespaces/team/pods", &pod("a")).await.status, 201);
    let state = send(sandbox.address(), "GET", "/api/v1/namespaces", &[], "").await.json();
    let version = state["metadata"]["resourceVersion"].as_str().expect("a version");
    send(sandbox.address(), "DELETE", "/api/v1/namespaces/team", &[], "").await;
    let target = format!("/api/v1/namespaces?watch=true&resourceVersion={version}");
    wait_for(sandbox.address(), &target, "\"DELETED\"").await;
    let pods = send(sandbox.address(), "GET", "/api/v1/pods", &[], "").await.json();
    assert_eq!(pods["items"], json!([]));
    sandbox.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_deleted_at_once_is_removed_while_others_write_it() {
    let options = Options { pod_stop_delay: Duration::ZERO, ..Options::default() };
    let sandbox = Sandbox::start(options).await.expect("the sandbox starts");
    let address = sandbox.address();
    for position in 0..200 {
        let target = format!("{PODS}/p{position}");
        assert_eq!(post(&sandbox, PODS, &pod(&format!("p{position}"))).await.status, 201);
        if position % 2 == 0 {
            assert_eq!(post(&sandbox, &format!("{target}/binding"), &binding("n")).await.status, 201);
        }
        let status = format!("{target}/status");
        let writer = tokio::spawn(async move {
            let patch = [("Content-Type", "application/merge-patch+json")];
            let mut written: u64 = 0;
            loop {
                let body = json!({"status": {"message": written.to_string()}}).to_string();
                if send(address, "PATCH", &status, &patch, &body).await.status == 404 {
                    return;
                }
                written += 1;
            }
        });
        let deleted = send(address, "DELETE", &format!("{target}?gracePeriodSeconds=0"), &[], "").await;
        assert_eq!(deleted.status, 200, "{}", deleted.body);
        assert_eq!(send(address, "GET", &target, &[], "").await.status, 404, "it is gone");
        writer.await.expect("the writer ends with the pod");
    }
    sandbox.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_of_two_binders_wins() {
    let sandbox = start().await;
    for node in nodes(2, 1) {
        assert_eq!(post(&sandbox, "/api/v1/nodes", &node).await.status, 201);
    }
    let address = sandbox.address();
    for position in 0..50 {
        assert_eq!(post(&sandbox, PODS, &pod(&format!("p{position}"))).await.status, 201);
    }
    let binder = |node: &'static str| {
        tokio::spawn(async move {
            let mut won = 0;
            for position in 0..50 {
                let target = format!("{PODS}/p{position}/binding");
                let answer = send(address, "POST", &target, &[], &binding(node).to_string()).await;
                assert!(matches!(answer.status, 201 | 409), "{}", answer.body);
                won += usize::from(answer.status == 201);
            }
            won
        })
    };
    let (first, second) = (binder("node-00000"), binder("node-00001"));
    let won = first.await.expect("the first binder ends") + second.await.expect("the second binder ends");
    assert_eq!(won, 50);
    sandbox.stop().await;
}

#[tokio::test]
async fn a_lagging_watch_is_told_to_list_again() {
    let sandbox = start().await;
    let answer = send(sandbox.address(), "GET", &format!("{PODS}?watch=true&resourceVersion=1"), &[], "").await;
    let event: Value = serde_json::from_str(answer.body.trim()).expect("one event");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    sandbox.stop().await;
}
