//! HTTP extenders that filter, score and bind.

use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use axum::{Json, Router, extract::State, routing::post};
use berth_test_control_plane::Objects;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    bench::{Bench, PODS},
    objects::{node, pod},
};

/// The requests that an extender has received, and the client with which it binds.
struct Extender {
    objects: Objects,
    verbs: Mutex<Vec<&'static str>>,
}

type Shared = Arc<Extender>;

impl Extender {
    fn note(&self, verb: &'static str) {
        if let Ok(mut verbs) = self.verbs.lock() {
            verbs.push(verb);
        }
    }
}

fn names(arguments: &Value) -> Vec<&str> {
    arguments["NodeNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Accepts all nodes except `a`.
async fn filter(State(extender): State<Shared>, Json(arguments): Json<Value>) -> Json<Value> {
    extender.note("filter");
    let passed: Vec<&str> = names(&arguments).into_iter().filter(|name| *name != "a").collect();
    Json(json!({"NodeNames": passed, "FailedNodes": {"a": "the extender keeps a free"}}))
}

async fn prioritize(State(extender): State<Shared>, Json(arguments): Json<Value>) -> Json<Value> {
    extender.note("prioritize");
    let score = |name: &str| if name == "c" { 10 } else { 0 };
    Json(names(&arguments).into_iter().map(|name| json!({"Host": name, "Score": score(name)})).collect())
}

async fn bind(State(extender): State<Shared>, Json(arguments): Json<Value>) -> Json<Value> {
    extender.note("bind");
    let name = arguments["PodName"].as_str().unwrap_or_default();
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": arguments["Node"]});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
    let bound = extender.objects.create(&format!("{PODS}/{name}/binding"), &binding).await;
    Json(json!({"Error": bound.err().map(|error| format!("{error:#}")).unwrap_or_default()}))
}

pub(super) async fn extenders(bench: &Bench) -> Result<()> {
    let extender = Arc::new(Extender { objects: bench.objects.clone(), verbs: Mutex::default() });
    let routes = Router::new().route("/filter", post(filter)).route("/prioritize", post(prioritize));
    let routes = routes.route("/bind", post(bind)).with_state(Arc::clone(&extender));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let server = tokio::spawn(async move { axum::serve(listener, routes).await });
    bench.nodes(&[node("a", json!({})), node("b", json!({})), node("c", json!({}))]).await?;
    let config = bench.configuration(json!({
        "leaderElection": {"leaderElect": false},
        "extenders": [{
            "urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind", "weight": 100,
            "nodeCacheCapable": true,
        }],
    }))?;
    let _scheduler = bench.scheduler_with(&["--config", &config]).await?;
    bench.create(&pod("fits", "100m", json!({}))).await?;
    ensure!(bench.node_of("fits").await? == "c", "the extender's choice");
    bench.event("fits", "Scheduled").await?;
    let verbs = extender.verbs.lock().map(|verbs| verbs.clone()).unwrap_or_default();
    ensure!(verbs == ["filter", "prioritize", "bind"], "{verbs:?}");
    bench.create(&pod("a-only", "100m", json!({"nodeSelector": {"kubernetes.io/hostname": "a"}}))).await?;
    let message = bench.message_of("a-only").await?;
    let expected =
        "0/3 nodes are available: 1 the extender keeps a free, 2 node(s) didn't match Pod's node affinity/selector.";
    ensure!(message.starts_with(expected), "{message}");
    server.abort();
    Ok(())
}
