//! `berth demo` places the pods of `examples/demo` where an operator would expect them, and says why the other pods
//! wait.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use crate::process::Process;

/// Compiling all built-ins as components takes half a minute of processor time in a test build.
const LIMIT: Duration = Duration::from_secs(300);

/// The outcome of each pod, by name.
async fn outcomes(arguments: &[&str]) -> BTreeMap<String, Value> {
    let ended = Process::berth(["demo", "-o", "json"].iter().chain(arguments)).ended(LIMIT).await;
    assert!(ended.status.success(), "{}", ended.err);
    let outcomes: Vec<Value> = serde_json::from_str(&ended.out).expect("JSON on standard output");
    outcomes.into_iter().map(|outcome| (outcome["name"].as_str().expect("a name").to_owned(), outcome)).collect()
}

fn node<'a>(outcomes: &'a BTreeMap<String, Value>, pod: &str) -> &'a str {
    outcomes[pod]["node"].as_str().unwrap_or_else(|| panic!("{pod} is not placed: {}", outcomes[pod]))
}

fn check(outcomes: &BTreeMap<String, Value>) {
    let placed = ["web-1", "web-2", "web-3", "database", "near-the-west", "training", "ingress-1", "ingress-2"];
    for pod in placed.into_iter().chain(["best-effort"]) {
        let node = node(outcomes, pod);
        assert_ne!(node, "west-cordoned", "{pod}");
        assert_eq!(node == "east-gpu", pod == "training", "{pod} is on {node}");
        assert_eq!(outcomes[pod]["decision"]["node"], node, "{pod} has the reason of its own placement");
    }
    let fast = ["east-1", "west-1"];
    assert!(fast.contains(&node(outcomes, "database")));
    let mut ingress = [node(outcomes, "ingress-1"), node(outcomes, "ingress-2")];
    ingress.sort_unstable();
    assert_eq!(ingress, fast, "one host port a node");
    assert!(node(outcomes, "near-the-west").starts_with("west-"));
    let pending = [
        ("ingress-3", "0/6 nodes are available: ", "2 node(s) didn't have free ports for the requested pod ports"),
        ("ingress-3", "0/6 nodes are available: ", "2 node(s) didn't match Pod's node affinity/selector"),
        ("too-large", "0/6 nodes are available: ", "4 Insufficient cpu"),
        ("too-large", "0/6 nodes are available: ", "1 node(s) were unschedulable"),
        ("held-back", "Scheduling is blocked due to non-empty scheduling gates", ""),
    ];
    for (pod, start, part) in pending {
        let outcome = &outcomes[pod];
        let why = outcome["why"].as_str().expect("a reason");
        assert!(outcome["node"].is_null(), "{outcome}");
        assert!(why.starts_with(start) && why.contains(part), "{pod}: {why}");
    }
    assert_eq!(outcomes.len(), 12);
}

#[tokio::test]
async fn every_pod_goes_where_it_should() {
    check(&outcomes(&[]).await);
}

#[tokio::test]
async fn components_place_alike() {
    let nodes = |outcomes: BTreeMap<String, Value>| -> BTreeMap<String, Value> {
        outcomes.into_iter().map(|(name, outcome)| (name, outcome["node"].clone())).collect()
    };
    let components = outcomes(&["--execution", "wasm"]).await;
    check(&components);
    assert_eq!(nodes(components), nodes(outcomes(&["--execution", "native"]).await));
}

#[tokio::test]
async fn a_pod_left_pending_is_a_failure() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let pods = dir.path().join("pods.yaml");
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: lost}, spec: {containers: [{name: a, image: b}]}}\n";
    std::fs::write(&pods, pod).expect("a file");
    let ended = Process::berth(["demo".as_ref(), pods.as_os_str()]).ended(LIMIT).await;
    assert_eq!(ended.status.code(), Some(1), "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("<pending>") && ended.out.contains("no nodes available"), "{}", ended.out);
    assert!(ended.err.contains("not every pod was placed: lost"), "{}", ended.err);
}

/// The environment is the same as in an image that has only the program.
#[tokio::test]
async fn a_system_without_certificates_of_authorities_runs_it() {
    let nothing = [("SSL_CERT_FILE", "/dev/null"), ("SSL_CERT_DIR", "/dev/null")];
    let ended = Process::berth_with(["demo"], &nothing).ended(LIMIT).await;
    assert!(ended.status.success(), "{}", ended.err);
}
