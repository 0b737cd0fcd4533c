//! Hostile clients of the endpoints: connections that send nothing, send slowly, or never end, and tokens that belong
//! to no user. The scheduler still binds pods and answers probes.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use kube::config::AuthInfo;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::{
    cluster::{Cluster, pod},
    https::Bench,
    process::{DEADLINE, within},
};

/// The time within which a pod is bound, despite hostile clients.
const HEALTHY_TIME: Duration = Duration::from_secs(5);

/// The time within which surplus connections are closed: a third of the time for a header.
const CLOSING_TIME: Duration = Duration::from_secs(10);

const N_CONNECTIONS: usize = 1000;

/// The bytes that a connection sends, by its number: nothing, the beginning of a request, a request with the beginning
/// of another, a request without its body, or no HTTP at all.
fn opening(number: usize) -> &'static [u8] {
    match number % 5 {
        0 => b"",
        1 => b"GET /metrics HTTP/1.1\r\nHost: a\r\nX-Slow: ",
        2 => b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /livez",
        3 => b"PUT /debug/flags/v HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
        _ => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    }
}

/// Opens connections to the address, sends on each the bytes that `opening` returns, and keeps them open. The file
/// descriptors belong to this process.
async fn besiege(address: SocketAddr, opening: fn(usize) -> &'static [u8]) -> Vec<TcpStream> {
    // The usual limit is 1024, and several tests run at the same time.
    let _ = rlimit::increase_nofile_limit(4096);
    let open = move || {
        let connect = |number| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            // The server may have closed the connection immediately.
            let _ = stream.write_all(opening(number));
            stream
        };
        (0..N_CONNECTIONS).map(connect).collect()
    };
    spawn_blocking(open).await.expect("no panic")
}

async fn pods_are_bound(cluster: &Cluster, name: &str) {
    for number in 0..5 {
        let name = format!("{name}-{number}");
        cluster.create(&pod(&name, "100m", "16Mi")).await;
        let bound = within(HEALTHY_TIME, cluster.node_of(&name)).await;
        assert!(bound.is_some(), "{name} is not bound within {HEALTHY_TIME:?}");
    }
}

/// The answer of `/livez`.
fn probe(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a time");
    write!(stream, "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_hold_up_no_pod_and_no_probe() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let scheduler = cluster.scheduler(&[]).await;
    let address = scheduler.server().parse().expect("an address");
    let held = besiege(address, opening).await;
    // The server closes surplus connections long before the time for a header is over.
    let few = scheduler.until("/metrics", |text| open_files(text).is_some_and(|n| n < 400.0));
    within(CLOSING_TIME, few).await.expect("most connections are closed");
    let slowly = spawn_blocking(move || {
        // A byte now and then does not keep a connection open longer.
        for mut stream in held.iter() {
            let _ = stream.write_all(b"x");
        }
        held
    });
    pods_are_bound(&cluster, "besieged").await;
    let answer = within(HEALTHY_TIME, spawn_blocking(move || probe(address))).await.expect("an answer in time");
    let answer = answer.expect("no panic");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(slowly.await.expect("no panic"));
}

/// The number of open files of the process.
fn open_files(metrics: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix("process_open_fds "))?.trim().parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn https_is_not_held_up_either() {
    let bench = Bench::start(&["--client-ca-file={dir}/ca.crt", "--leader-elect=false"]).await;
    let address = SocketAddr::from(([127, 0, 0, 1], bench.port));
    // The server closes connections that send something other than TLS. Most connections send nothing and stay.
    let held = besiege(address, |number| if number % 5 == 0 { opening(number / 5) } else { b"" }).await;
    assert_eq!(bench.get(AuthInfo::default(), "/livez").await.as_deref(), Ok("ok"));
    pods_are_bound(&bench.cluster, "besieged").await;
    assert_eq!(bench.get(AuthInfo::default(), "/livez").await.as_deref(), Ok("ok"));
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_nobody_cost_the_api_server_few_questions() {
    const N_TOKENS: usize = 150;
    let flags = ["--authentication-kubeconfig={kubeconfig}", "--authorization-kubeconfig={kubeconfig}"];
    let bench = Bench::start(&[&flags[..], &["--leader-elect=false"]].concat()).await;
    // The API server is slow to review tokens.
    let rule = json!({
        "name": "slow", "match": {"resources": ["tokenreviews"]}, "fault": {"type": "Latency", "milliseconds": 300},
    });
    let api = bench.cluster.pods.clone().into_client();
    let post = http::Request::post("/faults").body(rule.to_string().into_bytes()).expect("a request");
    api.request_text(post).await.expect("the rule is added");
    let client = bench.client(AuthInfo::default());
    let ask = async |number: usize| {
        let request = http::Request::get("/metrics").header("Authorization", format!("Bearer nobody-{number}"));
        match client.request_text(request.body(Vec::new()).expect("a request")).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        }
    };
    let started = Instant::now();
    let asking = async {
        let numbered = async |number| (number, ask(number).await);
        let answers = stream::iter(0..N_TOKENS).map(numbered).buffer_unordered(30).collect::<Vec<(usize, u16)>>().await;
        let is_known = |(_, code): &&(usize, u16)| *code == 200;
        let n_known = answers.iter().filter(is_known).count();
        assert!(n_known >= 20 && answers.iter().all(|(_, code)| [200, 429].contains(code)), "{answers:?}");
        // The answer for a token is cached for ten seconds, so the same caller costs no further review.
        let (newest, _) = answers.iter().rfind(is_known).expect("a token that was reviewed");
        for _ in 0..50 {
            assert_eq!(ask(*newest).await, 200);
        }
    };
    tokio::join!(asking, pods_are_bound(&bench.cluster, "asked"));
    let rules = api.request_text(http::Request::get("/faults").body(Vec::new()).expect("a request")).await;
    let rules: Value = serde_json::from_str(&rules.expect("the rules")).expect("JSON");
    let n_questions = rules.pointer("/faults/0/matched").and_then(Value::as_u64).unwrap_or_else(|| panic!("{rules}"));
    let most = 21 + 5 * started.elapsed().as_secs() + 5;
    assert!(n_questions <= most, "{n_questions} questions, where {most} are many");
}
