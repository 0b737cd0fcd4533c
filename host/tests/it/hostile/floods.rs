//! Plugins and clients that make the scheduler keep or write much data: thousands of effects, and lists of all objects.
//! The scheduler still binds healthy pods, and its memory and log stay small.

use std::time::Duration;

use berth_test_guests::{At, WantedEffect, asks_for, holds};
use futures::{StreamExt as _, stream};
use kube::config::AuthInfo;
use serde_json::{Value, json};

use super::bench::{Bench, Guest};
use crate::{
    cluster::{Cluster, pod},
    https,
    process::within,
};

/// The time within which healthy pods are bound.
const HEALTHY_TIME: Duration = Duration::from_secs(5);

const RULES: &str = "
plugins:
- name: Loud
  grants: {effects: [bind, nominate, activate]}
";

/// The value of a line of `/metrics`, or 0 if there is no such line.
fn value(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.trim().parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn effects_that_come_to_nothing_are_counted_and_seldom_told() {
    const PODS: usize = 300;
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "20"]).await;
    let guests = vec![
        Guest::new("Holder", At::Permit, holds("Holder").expect("a component")),
        Guest::new("Loud", At::Permit, Vec::new()).late(),
    ];
    let bench = Bench::start(cluster, guests, RULES).await;
    bench.create("Holder", 1).await;
    let held = |text: &str| text.contains("scheduler_goroutines{operation=\"binding\"} 1\n");
    bench.scheduler.until("/metrics", held).await;
    let uid = bench.cluster.pods.get("holder-0").await.expect("the pod").metadata.uid.expect("a uid");
    let before = value(&bench.scheduler.until("/metrics", |_| true).await, "process_resident_memory_bytes");

    let nominate = WantedEffect::Nominate([uid.clone(), "no-such-node".to_owned()]);
    let effects = [WantedEffect::Bind, nominate, WantedEffect::Activate(uid)].map(|effect| vec![effect; 130]).concat();
    bench.place("Loud", &asks_for("Loud", At::Permit, &effects).expect("a component"));
    bench.create("Loud", PODS).await;
    within(HEALTHY_TIME, bench.binds_healthy(5)).await.expect("healthy pods are bound all the while");
    let refused = |effect: &str| format!("berth_plugin_effects_refused_total{{effect=\"{effect}\",plugin=\"Loud\"}}");
    for effect in ["bind", "nominate"] {
        bench.counts(&format!("{} ", refused(effect)), (PODS * 130) as u64).await;
    }

    let metrics = bench.scheduler.until("/metrics", |_| true).await;
    let kept = value(&metrics, "scheduler_inflight_events{event=\"ForceActivate\"}");
    assert!(kept <= 1.0, "{kept} activations are kept of one pod");
    let grown = value(&metrics, "process_resident_memory_bytes") - before;
    assert!(grown < 300e6, "{grown} bytes more");
    let text = bench.scheduler.process.text();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("asked for")).collect();
    assert!((2..200).contains(&lines.len()), "{} lines", lines.len());
    assert!(lines.iter().all(|line| line.contains("Loud")), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pods_request_is_shown_to_many_at_once_without_asking_the_api_server() {
    const PODS: usize = 60;
    const CLIENTS: usize = 200;
    let flags = ["--client-ca-file={dir}/ca.crt", "--leader-elect=false"];
    let bench = https::Bench::start(&flags).await;
    let pods = (0..PODS).map(|number| pod(&format!("shown-{number}"), "1m", "1Mi"));
    bench.cluster.create_all(pods).await;
    bench.cluster.all_bound(PODS).await;
    // The rule only counts the requests.
    let rule = json!({
        "name": "lists", "match": {"resources": ["pods"], "verbs": ["list"]}, "fault": {"type": "Latency", "milliseconds": 0},
    });
    let api = bench.cluster.pods.clone().into_client();
    let post = http::Request::post("/faults").body(rule.to_string().into_bytes()).expect("a request");
    api.request_text(post).await.expect("the rule is added");

    let ask = async |_| bench.get(bench.certificate(), "/metrics/resources").await.expect("ada may");
    let asking = stream::iter(0..CLIENTS).map(ask).buffer_unordered(CLIENTS).collect::<Vec<String>>();
    let healthy = async {
        bench.cluster.create(&pod("healthy", "1m", "1Mi")).await;
        within(HEALTHY_TIME, bench.cluster.node_of("healthy")).await.expect("it is bound all the while");
    };
    let (answers, _) = tokio::join!(asking, healthy);
    for answer in answers {
        let n_lines = answer.lines().filter(|line| line.contains("pod=\"shown-")).count();
        assert_eq!(n_lines, 2 * PODS, "{answer}");
    }
    let rules = api.request_text(http::Request::get("/faults").body(Vec::new()).expect("a request")).await;
    let rules: Value = serde_json::from_str(&rules.expect("the rules")).expect("JSON");
    assert_eq!(rules.pointer("/faults/0/matched"), Some(&json!(0)), "no list for an answer: {rules}");
    let refused =
        bench.get(AuthInfo::default(), "/metrics/resources").await.expect_err("no user without a name may read this");
    assert_eq!(refused.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pods_request_is_not_shown_over_plain_http() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let scheduler = cluster.scheduler(&[]).await;
    cluster.create(&pod("secret-name", "100m", "16Mi")).await;
    cluster.node_of("secret-name").await;
    let answer = scheduler.until("/metrics/resources", |_| true).await;
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("served only over HTTPS"), "{answer}");
    assert!(!answer.contains("secret-name"), "{answer}");
}
