//! An API server that is slow, refuses requests or fails.

use berth_test_guests::{At, WantedEffect, asks_for};
use serde_json::{Value, json};

use super::prometheus::{Moment, Scrape, alone};
use crate::{
    cluster::{Cluster, Scheduler, pod},
    hostile::bench::{Bench, Guest},
};

const PODS: usize = 3;

/// Lets the scheduler's requests about a resource fail from now on.
async fn fail(cluster: &Cluster, resource: &str, fault: Value) {
    let rule = json!({"match": {"resources": [resource], "userAgent": "berth/"}, "fault": fault});
    let post = http::Request::post("/faults").body(rule.to_string().into_bytes()).expect("a request");
    cluster.pods.clone().into_client().request_text(post).await.expect("the rule is added");
}

/// Creates pods whose bindings meet this fault. Returns the scrape before, and the scheduler.
async fn bind_with(cluster: &Cluster, fault: Value) -> (Scrape, Scheduler) {
    let scheduler = cluster.scheduler(&[]).await;
    let before = Scrape::of(&scheduler).await;
    fail(cluster, "pods/binding", fault).await;
    cluster.create_all((0..PODS).map(|number| pod(&format!("pod-{number}"), "100m", "64Mi"))).await;
    (before, scheduler)
}

async fn start() -> Cluster {
    Cluster::start(&["--no-scheduler", "--nodes", "2"]).await
}

pub(super) async fn slow_bindings() -> Vec<Moment> {
    let cluster = start().await;
    let (before, scheduler) = bind_with(&cluster, json!({"type": "Latency", "milliseconds": 6000})).await;
    cluster.all_bound(PODS).await;
    let bound = "scheduler_pod_scheduling_sli_duration_seconds_count{";
    let after = Scrape::at_least(&scheduler, bound, 3.0).await;
    vec![alone(before), alone(after)]
}

pub(super) async fn refused_bindings() -> Vec<Moment> {
    let cluster = start().await;
    let (before, scheduler) = bind_with(&cluster, json!({"type": "Status", "code": 403})).await;
    let errors = "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"error\"}";
    let after = Scrape::at_least(&scheduler, errors, 3.0).await;
    vec![alone(before), alone(after)]
}

pub(super) async fn api_server_errors() -> Vec<Moment> {
    let cluster = start().await;
    let (before, scheduler) = bind_with(&cluster, json!({"type": "Status", "code": 500})).await;
    let after = Scrape::at_least(&scheduler, "rest_client_requests_total{code=\"500\"", 5.0).await;
    vec![alone(before), alone(after)]
}

/// A plugin writes many different events about each pod, and the API server takes ten minutes for each event.
pub(super) async fn events_dropped() -> Vec<Moment> {
    const EVENTS: usize = 900;
    const PODS: usize = 80;
    let event = |number: usize| WantedEffect::Event([format!("R{number}"), "A".to_owned(), "N".to_owned()]);
    let effects: Vec<WantedEffect> = (0..EVENTS).map(event).collect();
    let loud = Guest::new("Loud", At::PreBind, asks_for("Loud", At::PreBind, &effects).expect("a component"));
    let rules = "plugins:\n- {name: Loud, grants: {effects: [event]}}\n";
    let bench = Bench::start(start().await, vec![loud], rules).await;
    let before = Scrape::of(&bench.scheduler).await;
    fail(&bench.cluster, "events", json!({"type": "Latency", "milliseconds": 600_000})).await;
    bench.create("Loud", PODS).await;
    let after = Scrape::at_least(&bench.scheduler, "berth_events_dropped_total", 1.0).await;
    vec![alone(before), alone(after)]
}
