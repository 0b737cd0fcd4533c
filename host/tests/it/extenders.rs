//! HTTP extenders filter, score, choose victims and bind beside the plugins.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, OnceLock},
};

use axum::{Json, Router, body::Body, extract::State, http::StatusCode, routing::post};
use futures::stream;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    scheduling::v1::PriorityClass,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Scheduler, pod},
    explain::json_of,
    plugin_life::place,
    process::{DEADLINE, Process},
};

/// The state of the test's extender.
#[derive(Default)]
struct Memory {
    /// The verbs that were called, with the arguments.
    calls: Mutex<Vec<(&'static str, Value)>>,
    /// The API through which the extender binds.
    pods: OnceLock<Api<Pod>>,
    /// The node on which the extender allows preemption.
    preempts_on: OnceLock<String>,
}

type Calls = Arc<Memory>;

struct Fixture {
    cluster: Cluster,
    calls: Calls,
    scheduler: Scheduler,
}

/// Names of the nodes in the arguments, which hold whole nodes or names.
fn names(arguments: &Value) -> Vec<String> {
    let whole = arguments["Nodes"]["items"].as_array().into_iter().flatten().map(|node| &node["metadata"]["name"]);
    let named = arguments["NodeNames"].as_array().into_iter().flatten();
    whole.chain(named).map(|name| name.as_str().expect("a name").to_owned()).collect()
}

fn last_of(names: &[String]) -> String {
    names.iter().max().expect("a node").clone()
}

fn note(calls: &Calls, verb: &'static str, arguments: &Value) {
    calls.calls.lock().expect("no panic").push((verb, arguments.clone()));
}

async fn only_last(State(calls): State<Calls>, Json(arguments): Json<Value>) -> Json<Value> {
    note(&calls, "filter", &arguments);
    let names = names(&arguments);
    let last = last_of(&names);
    let failed: serde_json::Map<_, _> =
        names.iter().filter(|name| **name != last).map(|name| (name.clone(), json!("not the last"))).collect();
    let whole = arguments["Nodes"]["items"].as_array().into_iter().flatten();
    let whole: Vec<&Value> = whole.filter(|node| node["metadata"]["name"] == last).collect();
    Json(json!({"Nodes": {"items": whole}, "NodeNames": [last], "FailedNodes": failed, "Error": ""}))
}

async fn none(Json(arguments): Json<Value>) -> Json<Value> {
    let failed: serde_json::Map<_, _> =
        names(&arguments).into_iter().map(|name| (name, json!("out of licences"))).collect();
    Json(json!({"NodeNames": [], "FailedAndUnresolvableNodes": failed}))
}

async fn prefer_last(State(calls): State<Calls>, Json(arguments): Json<Value>) -> Json<Value> {
    note(&calls, "prioritize", &arguments);
    let names = names(&arguments);
    let last = last_of(&names);
    Json(names.iter().map(|name| json!({"Host": name, "Score": if *name == last { 10 } else { 0 }})).collect())
}

async fn bind(State(calls): State<Calls>, Json(arguments): Json<Value>) -> Json<Value> {
    note(&calls, "bind", &arguments);
    let name = arguments["PodName"].as_str().expect("a name");
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": arguments["Node"]});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
    let pods = calls.pods.get().expect("a cluster");
    let bound = pods.create_subresource::<Value, Value>("binding", name, &PostParams::default(), &binding).await;
    Json(json!({"Error": bound.err().map(|error| error.to_string()).unwrap_or_default()}))
}

/// Answers with the victims on one node. The arguments hold whole pods or uids.
async fn preempt(State(calls): State<Calls>, Json(arguments): Json<Value>) -> Json<Value> {
    note(&calls, "preempt", &arguments);
    let node = calls.preempts_on.get().expect("a node");
    let whole = arguments["NodeNameToVictims"][node]["Pods"].as_array().into_iter().flatten();
    let whole = whole.map(|pod| json!({"UID": pod["metadata"]["uid"]}));
    let uids = arguments["NodeNameToMetaVictims"][node]["Pods"].as_array().into_iter().flatten().cloned();
    let pods: Vec<Value> = whole.chain(uids).collect();
    Json(json!({"nodeNameToMetaVictims": {node: {"pods": pods, "numPDBViolations": 0}}}))
}

async fn preempt_nobody() -> Json<Value> {
    Json(json!({"NodeNameToMetaVictims": {}}))
}

async fn preempt_a_stranger(State(calls): State<Calls>) -> Json<Value> {
    let node = calls.preempts_on.get().expect("a node");
    Json(json!({"NodeNameToMetaVictims": {node: {"Pods": [{"UID": "stranger"}]}}}))
}

/// An endless body of spaces.
async fn endless() -> Body {
    Body::from_stream(stream::repeat(Ok::<_, Infallible>(vec![b' '; 1 << 20])))
}

async fn serve(calls: Calls) -> String {
    let routes = Router::new()
        .route("/x/only-last", post(only_last))
        .route("/x/none", post(none))
        .route("/x/prefer-last", post(prefer_last))
        .route("/x/bind", post(bind))
        .route("/x/refuse", post(async || Json(json!({"Error": "the extender keeps the pod"}))))
        .route("/x/hang", post(std::future::pending::<()>))
        .route("/x/garbage", post(async || "garbage"))
        .route("/x/endless", post(endless))
        .route("/x/preempt", post(preempt))
        .route("/x/preempt-nobody", post(preempt_nobody))
        .route("/x/preempt-a-stranger", post(preempt_a_stranger))
        .route("/x/broken", post(async || StatusCode::INTERNAL_SERVER_ERROR))
        .with_state(calls);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    format!("http://{address}/x/")
}

/// Starts a cluster of three nodes, and a scheduler with these extenders. The addresses are filled in.
async fn start(extenders: Value) -> Fixture {
    start_with(extenders, &[]).await
}

/// Runs these built-in plugins as components.
async fn start_with(extenders: Value, components: &[&str]) -> Fixture {
    let calls = Calls::default();
    let url = serve(Arc::clone(&calls)).await;
    let mut extenders = extenders;
    for extender in extenders.as_array_mut().expect("a list") {
        extender["urlPrefix"] = json!(url);
    }
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": extenders,
    });
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "3"]).await;
    calls.pods.set(cluster.pods.clone()).expect("set once");
    let file = cluster.dir.path().join("config.yaml");
    std::fs::write(&file, config.to_string()).expect("a file");
    let plugins = cluster.dir.path().join("plugins");
    std::fs::create_dir(&plugins).expect("a folder");
    for component in berth_components::COMPONENTS.iter().filter(|component| components.contains(&component.name)) {
        std::fs::write(plugins.join(format!("{}.wasm", component.name)), component.bytes()).expect("a file");
    }
    let scheduler = cluster
        .scheduler(&["--config", &file.display().to_string(), "--plugins-dir", &plugins.display().to_string()])
        .await;
    Fixture { cluster, calls, scheduler }
}

impl Fixture {
    fn calls(&self, verb: &str) -> Vec<Value> {
        let calls = self.calls.calls.lock().expect("no panic");
        calls.iter().filter(|(called, _)| *called == verb).map(|(_, arguments)| arguments.clone()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_filters_whole_nodes_and_another_names() {
    for is_node_cache_capable in [false, true] {
        let fixture = start(json!([{"filterVerb": "only-last", "nodeCacheCapable": is_node_cache_capable}])).await;
        fixture.cluster.create(&pod("a", "100m", "64Mi")).await;
        let node = fixture.cluster.node_of("a").await;
        let sent = fixture.calls("filter").remove(0);
        assert_eq!(node, last_of(&names(&sent)));
        assert_eq!(sent["Pod"]["metadata"]["name"], "a");
        assert_eq!(sent["Nodes"].is_null(), is_node_cache_capable);
        assert_eq!(sent["NodeNames"].is_null(), !is_node_cache_capable);
    }
}

/// The scheduler has not kept whole pods before. A pod that waits since then is sent whole.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_extender_takes_effect_without_a_restart() {
    let mut fixture = start(json!([])).await;
    let mut waiting = pod("waiting", "100m", "64Mi");
    waiting["spec"]["nodeSelector"] = json!({"zone": "new"});
    fixture.cluster.create(&waiting).await;
    fixture.cluster.until("the condition of waiting", |seen| seen.messages.contains_key("waiting")).await;
    let url = serve(Arc::clone(&fixture.calls)).await;
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": url, "filterVerb": "only-last", "nodeCacheCapable": true}],
    });
    place(&fixture.cluster.dir.path().join("config.yaml"), config.to_string().as_bytes());
    fixture.scheduler.process.line("configuration applied").await;
    let nodes: Api<Node> = Api::all(fixture.cluster.pods.clone().into_client());
    let label = Patch::Merge(json!({"metadata": {"labels": {"zone": "new"}}}));
    nodes.patch("node-00001", &PatchParams::default(), &label).await.expect("the sandbox takes it");
    assert_eq!(fixture.cluster.node_of("waiting").await, "node-00001");
    let sent = fixture.calls("filter").remove(0);
    assert_eq!((&sent["Pod"]["metadata"]["name"], names(&sent)), (&json!("waiting"), vec!["node-00001".to_owned()]));
}

/// The new extender waits for whole pods, and this wait keeps no later configuration back.
#[tokio::test(flavor = "multi_thread")]
async fn an_extender_can_be_taken_back_while_pods_cannot_be_listed() {
    let mut fixture = start(json!([])).await;
    let rule = json!({
        "match": {"verbs": ["list", "watch"], "resources": ["pods"], "userAgent": "berth/"},
        "fault": {"type": "Status", "code": 503},
    });
    let post = http::Request::post("/faults").body(rule.to_string().into_bytes()).expect("a request");
    fixture.cluster.pods.clone().into_client().request_text(post).await.expect("the rule is added");
    let file = fixture.cluster.dir.path().join("config.yaml");
    let configure = |extenders: Value, percentage: u32| {
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": percentage,
            "extenders": extenders,
        });
        place(&file, config.to_string().as_bytes());
    };
    let url = serve(Arc::clone(&fixture.calls)).await;
    configure(json!([{"urlPrefix": url, "filterVerb": "only-last"}]), 100);
    fixture.scheduler.process.line("listing all pods again").await;
    configure(json!([]), 50);
    fixture.scheduler.process.line("a later change came before the extenders could be asked").await;
    fixture.scheduler.process.line("configuration applied").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extenders_scores_outweigh_the_plugins() {
    let fixture = start(json!([{"prioritizeVerb": "prefer-last", "weight": 100, "nodeCacheCapable": true}])).await;
    for name in ["a", "b"] {
        fixture.cluster.create(&pod(name, "1", "1Gi")).await;
        let node = fixture.cluster.node_of(name).await;
        assert_eq!(node, last_of(&names(&fixture.calls("prioritize").remove(0))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ignorable_extender_that_fails_is_passed_over() {
    let verbs = ["hang", "garbage", "broken"];
    let failing =
        |verb| json!({"filterVerb": verb, "ignorable": true, "httpTimeout": "100ms", "nodeCacheCapable": true});
    let mut extenders: Vec<Value> = verbs.into_iter().map(failing).collect();
    extenders.push(json!({"filterVerb": "only-last", "nodeCacheCapable": true}));
    let fixture = start(Value::from(extenders)).await;
    fixture.cluster.create(&pod("a", "100m", "64Mi")).await;
    let node = fixture.cluster.node_of("a").await;
    let calls = fixture.calls("filter");
    assert_eq!(node, last_of(&names(&calls[0])));
    assert_eq!(names(&calls[0]).len(), 3, "the extender that may not fail is asked first");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_is_asked_only_about_pods_with_its_resources() {
    let managed = json!([{"name": "example.com/licence", "ignoredByScheduler": true}]);
    let fixture =
        start(json!([{"filterVerb": "only-last", "nodeCacheCapable": true, "managedResources": managed}])).await;
    fixture.cluster.create(&pod("other", "100m", "64Mi")).await;
    fixture.cluster.node_of("other").await;
    assert_eq!(fixture.calls("filter"), [Value::Null; 0]);
    let mut licensed = pod("licensed", "100m", "64Mi");
    let amounts = json!({"example.com/licence": "1"});
    licensed["spec"]["containers"][0]["resources"] = json!({"requests": amounts, "limits": amounts});
    fixture.cluster.create(&licensed).await;
    let node = fixture.cluster.node_of("licensed").await;
    assert_eq!(node, last_of(&names(&fixture.calls("filter")[0])), "no node has the resource: Fit passes over it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_binds_in_the_place_of_the_plugin() {
    let fixture = start(json!([{"bindVerb": "bind"}])).await;
    fixture.cluster.create(&pod("a", "100m", "64Mi")).await;
    let node = fixture.cluster.node_of("a").await;
    let call = fixture.calls("bind").remove(0);
    assert_eq!((&call["PodNamespace"], &call["Node"]), (&json!("default"), &json!(node)));
    assert!(call["PodUID"].as_str().is_some_and(|uid| !uid.is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_binds_if_an_ignorable_extender_does_not() {
    let fixture = start(json!([{"bindVerb": "refuse", "ignorable": true}])).await;
    fixture.cluster.create(&pod("a", "100m", "64Mi")).await;
    fixture.cluster.node_of("a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_read_why_an_extender_holds_a_pod() {
    let address = "http://127.0.0.1:";
    let cases = [
        (json!({"filterVerb": "none"}), "0/3 nodes are available: 3 out of licences."),
        (json!({"filterVerb": "broken"}), "failed broken with extender at URL "),
        (json!({"filterVerb": "hang", "httpTimeout": "100ms"}), "context deadline exceeded"),
        (json!({"filterVerb": "garbage"}), "invalid character 'g' looking for beginning of value"),
        (json!({"filterVerb": "endless"}), "the answer is longer than "),
        (json!({"bindVerb": "refuse"}), "the extender keeps the pod"),
    ];
    for (mut extender, expected) in cases {
        extender["nodeCacheCapable"] = json!(true);
        let fixture = start(json!([extender])).await;
        fixture.cluster.create(&pod("a", "100m", "64Mi")).await;
        let seen = fixture.cluster.until("held", |seen| seen.messages.contains_key("a")).await;
        let message = &seen.messages["a"];
        assert!(message.contains(expected), "{message}");
        let names_address = ["broken", "hang", "endless"].iter().any(|verb| extender["filterVerb"] == *verb);
        assert!(!names_address || message.contains(address), "{message}");
        let arguments = ["explain", "pod", "a", "-o", "json", "--socket", &fixture.scheduler.socket()];
        let explained = json_of(&Process::berth(arguments).ended(DEADLINE).await);
        assert!(explained["notes"].to_string().contains("extenders are not called for this answer"), "{explained}");
    }
}

/// A pod of this priority class that takes most of a node.
fn large(name: &str, class: &str) -> Value {
    let mut pod = pod(name, "12", "1Gi");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
    pod["spec"]["priorityClassName"] = json!(class);
    pod
}

/// Starts three nodes, each with a large pod of another priority: `low`, `middle` and `upper`. The extender allows
/// preemption on the node of `upper`.
async fn full(extender: Value, components: &[&str]) -> Fixture {
    let fixture = start_with(json!([extender]), components).await;
    let classes: Api<PriorityClass> = Api::all(fixture.cluster.pods.clone().into_client());
    for (name, value) in [("low", 1), ("middle", 10), ("upper", 100), ("high", 1000)] {
        let class = serde_json::from_value(json!({"metadata": {"name": name}, "value": value})).expect("a class");
        classes.create(&PostParams::default(), &class).await.expect("the sandbox takes it");
    }
    for name in ["low", "middle", "upper"] {
        fixture.cluster.create(&large(name, name)).await;
        fixture.cluster.node_of(name).await;
    }
    fixture.calls.preempts_on.set(fixture.cluster.node_of("upper").await).expect("set once");
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_decides_where_pods_are_preempted() {
    let as_component: &[&str] = &["DefaultPreemption"];
    for (is_node_cache_capable, components) in [(false, &[][..]), (true, &[][..]), (true, as_component)] {
        let extender = json!({"preemptVerb": "preempt", "nodeCacheCapable": is_node_cache_capable});
        let fixture = full(extender, components).await;
        let node = fixture.calls.preempts_on.get().expect("a node");
        let victim = fixture.cluster.pods.get("upper").await.expect("the pod");
        fixture.cluster.create(&large("high", "high")).await;
        assert_eq!(fixture.cluster.node_of("high").await, *node);
        let seen = fixture.cluster.until("upper deleted", |seen| seen.deleted.contains("upper")).await;
        assert_eq!(seen.deleted.len(), 1, "{:?}", seen.deleted);
        let sent = fixture.calls("preempt").remove(0);
        assert_eq!(sent["Pod"]["metadata"]["name"], "high");
        let (whole, uids) = (&sent["NodeNameToVictims"], &sent["NodeNameToMetaVictims"]);
        let (given, absent) = if is_node_cache_capable { (uids, whole) } else { (whole, uids) };
        assert!(absent.is_null(), "{sent}");
        assert_eq!(given.as_object().map(serde_json::Map::len), Some(3));
        assert_eq!(given[node]["NumPDBViolations"], 0);
        let named = &given[node]["Pods"][0];
        let uid = if is_node_cache_capable { &named["UID"] } else { &named["metadata"]["uid"] };
        assert_eq!(uid.as_str(), victim.metadata.uid.as_deref());
        assert_eq!(named["spec"]["nodeName"].is_null(), is_node_cache_capable);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_no_extender_makes_room_for_says_so() {
    let stranger = "claims to preempt pod (UID: &{stranger}) on node: ";
    let cases = [
        ("preempt-nobody", "no new claims to deallocate, preemption: no candidate node for preemption"),
        ("preempt-a-stranger", stranger),
        ("broken", "failed broken with extender at URL "),
    ];
    for (verb, expected) in cases {
        let fixture = full(json!({"preemptVerb": verb, "nodeCacheCapable": true}), &[]).await;
        fixture.cluster.create(&large("high", "high")).await;
        let seen = fixture.cluster.until("held", |seen| seen.messages.contains_key("high")).await;
        let message = &seen.messages["high"];
        assert!(message.contains(expected), "{message}");
        assert!(seen.deleted.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ignorable_extender_that_fails_stops_no_preemption() {
    let fixture = full(json!({"preemptVerb": "hang", "ignorable": true, "httpTimeout": "100ms"}), &[]).await;
    fixture.cluster.create(&large("high", "high")).await;
    fixture.cluster.node_of("high").await;
    let seen = fixture.cluster.until("low deleted", |seen| seen.deleted.contains("low")).await;
    assert_eq!(seen.deleted.len(), 1, "{:?}", seen.deleted);
}
