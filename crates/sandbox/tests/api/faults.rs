//! Tests of faults on demand: rules that are set at `/faults`, and their effects on clients.

use std::net::SocketAddr;
use std::time::Duration;

use berth_sandbox::{Options, Sandbox};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::{Answer, send, wait_for};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The time is long enough for any answer.
const PATIENCE: Duration = Duration::from_secs(120);

async fn start() -> Sandbox {
    Sandbox::start(Options::default()).await.expect("the sandbox starts")
}

async fn add(sandbox: &Sandbox, rules: &Value) {
    let answer = send(sandbox.address(), "POST", "/faults", &[], &rules.to_string()).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
}

async fn get(sandbox: &Sandbox, target: &str) -> Answer {
    send(sandbox.address(), "GET", target, &[], "").await
}

async fn create(sandbox: &Sandbox, name: &str) -> Answer {
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    send(sandbox.address(), "POST", PODS, &[], &pod.to_string()).await
}

/// Opens a watch in the older protocol. Its answer has no chunks, and each line is an event.
async fn watch(address: SocketAddr, query: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    let request = format!("GET {PODS}?watch=true&timeoutSeconds=300{query} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
    let mut watch = BufReader::new(stream);
    line_with(&mut watch, "200 OK").await;
    watch
}

/// Waits until the first rule has reached an open watch, which gets the rule a moment after it was accepted.
async fn until_hit(sandbox: &Sandbox) {
    let has_hit = async {
        while get(sandbox, "/faults").await.json()["faults"][0]["hits"] != 1 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, has_hit).await.expect("in time");
}

async fn line_with(watch: &mut BufReader<TcpStream>, part: &str) -> String {
    loop {
        let mut line = String::new();
        let read = timeout(PATIENCE, watch.read_line(&mut line)).await.expect("in time").expect("an answer");
        assert!(read > 0, "the watch ended without {part}");
        if line.contains(part) {
            return line;
        }
    }
}

#[tokio::test]
async fn refusals_are_worded_as_an_api_server_words_them() {
    let sandbox = start().await;
    for (code, reason) in [(409, "Conflict"), (500, "InternalError"), (503, "ServiceUnavailable")] {
        add(&sandbox, &json!({"fault": {"type": "Status", "code": code}, "match": {"verbs": ["create"]}, "count": 1}))
            .await;
        let answer = create(&sandbox, "a").await;
        assert_eq!((answer.status, &answer.json()["reason"]), (code, &json!(reason)), "{}", answer.body);
        assert_eq!(get(&sandbox, &format!("{PODS}/a")).await.status, 404, "it was not carried out");
    }
    add(&sandbox, &json!({"fault": {"type": "Status", "code": 429, "retryAfterSeconds": 7}, "count": 1})).await;
    let busy = get(&sandbox, PODS).await;
    assert_eq!((busy.status, busy.all("retry-after")), (429, vec!["7"]));
    assert_eq!(busy.body, "Too many requests, please try again later.\n");
    assert_eq!(create(&sandbox, "a").await.status, 201, "all rules are over");
    sandbox.stop().await;
}

#[tokio::test]
async fn a_rule_is_about_what_it_names_and_says_how_often_it_hit() {
    let sandbox = start().await;
    let matches = json!({"verbs": ["list"], "resources": ["pods"], "namespaces": ["default"], "userAgent": "mine/"});
    add(&sandbox, &json!({"name": "busy", "match": matches, "fault": {"type": "Status", "code": 500}})).await;
    let list = async |target: &str, agent: &str| {
        send(sandbox.address(), "GET", target, &[("User-Agent", agent)], "").await.status
    };
    assert_eq!(list(PODS, "mine/1").await, 500);
    assert_eq!(list(PODS, "kubectl/1").await, 200);
    assert_eq!(list("/api/v1/namespaces/other/pods", "mine/1").await, 200);
    assert_eq!(list("/api/v1/nodes", "mine/1").await, 200);
    let rules = get(&sandbox, "/faults").await.json();
    let rule = &rules["faults"][0];
    assert_eq!((&rule["name"], &rule["active"], &rule["hits"]), (&json!("busy"), &json!(true), &json!(1)), "{rules}");
    assert_eq!(send(sandbox.address(), "DELETE", "/faults/busy", &[], "").await.status, 200);
    assert_eq!(list(PODS, "mine/1").await, 200);
    assert_eq!(send(sandbox.address(), "DELETE", "/faults/busy", &[], "").await.status, 404);
    sandbox.stop().await;
}

#[tokio::test]
async fn a_wrong_rule_is_refused_and_nothing_of_it_holds() {
    let sandbox = start().await;
    let rules = r#"[{"fault": {"type": "Outage"}}, {"fault": {"type": "Latency", "seconds": 1}}]"#;
    let answer = send(sandbox.address(), "POST", "/faults", &[], rules).await;
    assert_eq!(answer.status, 422);
    let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.starts_with("faults[1].fault: unknown field `seconds`, expected `milliseconds`"), "{message}");
    assert_eq!(get(&sandbox, "/faults").await.json(), json!({"faults": []}));
    let named = json!({"name": "n", "fault": {"type": "Status", "code": 500}, "count": 1});
    add(&sandbox, &named).await;
    assert_eq!(send(sandbox.address(), "POST", "/faults", &[], &named.to_string()).await.status, 409);
    sandbox.stop().await;
}

#[tokio::test]
async fn versions_expire_where_a_request_names_one() {
    let sandbox = start().await;
    add(&sandbox, &json!({"fault": {"type": "Status", "code": 410}})).await;
    assert_eq!(get(&sandbox, PODS).await.status, 200);
    assert_eq!(get(&sandbox, &format!("{PODS}?resourceVersion=1")).await.status, 410);
    let watch = get(&sandbox, &format!("{PODS}?watch=true&resourceVersion=1")).await;
    let event: Value = serde_json::from_str(watch.body.trim()).expect("one event");
    assert_eq!((watch.status, &event["type"], &event["object"]["code"]), (200, &json!("ERROR"), &json!(410)));
    assert_eq!(event["object"]["reason"], "Expired");
    sandbox.stop().await;
}

#[tokio::test]
async fn a_lost_answer_is_lost_after_the_deed() {
    let sandbox = start().await;
    add(&sandbox, &json!({"fault": {"type": "LostAnswer"}, "match": {"verbs": ["create"]}, "count": 1})).await;
    let mut stream = TcpStream::connect(sandbox.address()).await.expect("the server listens");
    let pod = r#"{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}"#;
    let request = format!("POST {PODS} HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n{pod}", pod.len());
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("in time");
    assert!(read.is_err() || answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(get(&sandbox, &format!("{PODS}/a")).await.status, 200);
    sandbox.stop().await;
}

#[tokio::test]
async fn latency_delays_the_deed() {
    let sandbox = start().await;
    add(&sandbox, &json!({"fault": {"type": "Latency", "milliseconds": 300}, "match": {"verbs": ["create"]}})).await;
    let began = tokio::time::Instant::now();
    assert_eq!(create(&sandbox, "a").await.status, 201);
    assert!(began.elapsed() >= Duration::from_millis(300));
    sandbox.stop().await;
}

#[tokio::test]
async fn events_come_twice_also_to_a_watch_that_was_open() {
    let sandbox = start().await;
    let mut watch = watch(sandbox.address(), "").await;
    let rule =
        json!({"name": "twice", "fault": {"type": "DuplicateEvents"}, "match": {"resources": ["pods"]}, "count": 1});
    add(&sandbox, &rule).await;
    create(&sandbox, "a").await;
    create(&sandbox, "b").await;
    let first = line_with(&mut watch, "\"ADDED\"").await;
    let again = line_with(&mut watch, "\"ADDED\"").await;
    let third = line_with(&mut watch, "\"ADDED\"").await;
    assert!(first == again && third.contains("\"name\":\"b\""), "{third}");
    let rules = get(&sandbox, "/faults").await.json();
    assert_eq!((&rules["faults"][0]["hits"], &rules["faults"][0]["active"]), (&json!(1), &json!(false)));
    sandbox.stop().await;
}

#[tokio::test]
async fn a_cut_watch_breaks_off_without_an_end() {
    let sandbox = start().await;
    let mut open = watch(sandbox.address(), "").await;
    add(&sandbox, &json!({"fault": {"type": "CutWatch"}, "match": {"verbs": ["watch"], "resources": ["pods"]}})).await;
    let mut rest = Vec::new();
    // The connection ends, with or without a reset, and without a last chunk.
    let _ = timeout(PATIENCE, open.read_to_end(&mut rest)).await.expect("in time");
    assert!(!String::from_utf8_lossy(&rest).contains("\r\n0\r\n"), "{}", String::from_utf8_lossy(&rest));
    sandbox.stop().await;
}

#[tokio::test]
async fn a_silent_watch_stays_open_and_says_nothing() {
    let sandbox = start().await;
    let mut silent = watch(sandbox.address(), "&fieldSelector=metadata.name%3Da").await;
    add(&sandbox, &json!({"name": "hush", "fault": {"type": "SilentWatch"}, "match": {"resources": ["pods"]}})).await;
    until_hit(&sandbox).await;
    assert_eq!(send(sandbox.address(), "DELETE", "/faults/hush", &[], "").await.status, 200);
    create(&sandbox, "a").await;
    // Another watch, which is opened after the rule was removed, gets the event.
    wait_for(sandbox.address(), &format!("{PODS}?watch=true"), "\"ADDED\"").await;
    let mut line = String::new();
    let said = async {
        while !line.contains("ADDED") {
            let read = silent.read_line(&mut line).await.expect("the connection stays open");
            assert!(read > 0, "the connection stays open");
        }
    };
    assert!(timeout(Duration::from_millis(200), said).await.is_err(), "{line}");
    timeout(PATIENCE, sandbox.stop()).await.expect("a silent watch does not hold up the end");
}

#[tokio::test]
async fn nobody_is_there_during_an_outage() {
    let sandbox = start().await;
    let mut open = watch(sandbox.address(), "").await;
    add(&sandbox, &json!({"name": "down", "fault": {"type": "Outage"}, "durationSeconds": 3600})).await;
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, open.read_to_end(&mut rest)).await.expect("open watches are cut");
    let mut stream = TcpStream::connect(sandbox.address()).await.expect("the server listens");
    stream.write_all(b"GET /version HTTP/1.1\r\nhost: h\r\n\r\n").await.expect("the request is sent");
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("in time");
    assert!(read.is_err() || answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(send(sandbox.address(), "DELETE", "/faults", &[], "").await.status, 200, "the endpoint itself is there");
    assert_eq!(get(&sandbox, "/version").await.status, 200);
    sandbox.stop().await;
}
