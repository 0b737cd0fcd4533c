//! The life of one pod, watched through many selectors at once, as recorded: creation, a label that is added and
//! removed, binding, running, finishing, two deletions. The recorded watches contain the events that each selector must
//! produce.

use std::time::Duration;

use berth_sandbox::{Options, Sandbox};
use serde_json::{Value, json};

use crate::http::send;
use crate::replay::exchanges;

const POD: &str = "/api/v1/namespaces/default/pods/s1";
const MERGE: &str = "application/merge-patch+json";
/// The positions of the watches of this story's pods in the recording `3-watch`.
const WATCHES: [usize; 8] = [30, 31, 32, 33, 34, 35, 36, 39];

#[tokio::test]
async fn selectors_translate_changes_into_coming_and_going() {
    let day = Duration::from_secs(86_400);
    let options = Options { pod_start_delay: day, pod_stop_delay: day, ..Options::default() };
    let sandbox = Sandbox::start(options).await.expect("the sandbox starts");
    let start = send(sandbox.address(), "GET", "/api/v1/pods", &[], "").await.json();
    let version = start["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();

    play(&sandbox).await;

    let recorded = exchanges("3-watch");
    for position in WATCHES {
        let exchange = &recorded[position];
        let name = exchange["name"].as_str().expect("a name");
        let query: Vec<String> = exchange["request"]["query"]
            .as_str()
            .expect("a query")
            .split('&')
            .map(|part| match part.split_once('=') {
                Some(("resourceVersion", _)) => format!("resourceVersion={version}"),
                Some(("timeoutSeconds", _)) => "timeoutSeconds=1".to_owned(),
                _ => part.to_owned(),
            })
            .collect();
        let accept = exchange["request"]["headers"]["accept"].as_str().unwrap_or("application/json");
        let target = format!("/api/v1/namespaces/default/pods?{}", query.join("&"));
        let answer = send(sandbox.address(), "GET", &target, &[("accept", accept)], "").await;
        let seen: Vec<Value> = answer.body.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
        let stream = exchange["response"]["stream"].as_array().expect("a stream");
        let expected: Vec<Value> = stream.iter().map(|event| event["line"].clone()).collect();
        assert_eq!(summary(&seen), summary(&expected), "{name}");
    }
    sandbox.stop().await;
}

async fn play(sandbox: &Sandbox) {
    let steps = [
        (
            "POST",
            "/api/v1/namespaces/default/pods",
            "application/json",
            json!({"metadata": {"name": "s1"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}),
        ),
        ("PATCH", POD, MERGE, json!({"metadata": {"labels": {"tier": "front"}}})),
        ("POST", &format!("{POD}/binding"), "application/json", json!({"target": {"kind": "Node", "name": "w1"}})),
        ("PATCH", POD, MERGE, json!({"metadata": {"labels": {"tier": null}}})),
        ("PATCH", &format!("{POD}/status"), MERGE, json!({"status": {"phase": "Running"}})),
        ("PATCH", &format!("{POD}/status"), MERGE, json!({"status": {"phase": "Succeeded"}})),
        ("PATCH", &format!("{POD}/status"), MERGE, json!({"status": {"phase": "Running"}})),
        ("DELETE", &format!("{POD}?gracePeriodSeconds=30"), "application/json", Value::Null),
        ("DELETE", &format!("{POD}?gracePeriodSeconds=0"), "application/json", Value::Null),
    ];
    for (method, target, content_type, body) in steps {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = send(sandbox.address(), method, target, &[("content-type", content_type)], &body).await;
        assert!(answer.status < 300, "{method} {target}: {}", answer.body);
    }
}

/// The relevant parts of events about the pod: the type, the node, the phase, and whether it is being deleted.
fn summary(events: &[Value]) -> Vec<String> {
    let relevant =
        events.iter().filter(|event| event["type"] != "BOOKMARK" && event["object"]["metadata"]["name"] == "s1");
    relevant
        .map(|event| {
            let object = &event["object"];
            let leaving = object["metadata"]["deletionTimestamp"].is_string();
            format!("{} {} {} {leaving}", event["type"], object["spec"]["nodeName"], object["status"]["phase"])
        })
        .collect()
}
