//! `/metrics/resources`: what each pod requests and is limited to (`pkg/scheduler/metrics/resources/resources.go`).
//!
//! The scheduler keeps no limits of pods, so they are listed for each answer, one pod in memory at a time. A replica that does
//! not lead shows none, as kube-scheduler.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::get,
};
use berth_cluster::{Client, WatchEvent, Watches, spawn_watches};
use berth_model::{
    api::{Pod, ResourceList},
    quantity::Quantity,
    requests::{Options, pod_limits, pod_requests},
};
use tokio::sync::mpsc;

use super::prometheus_text;
use crate::health::Health;

/// The longest that the list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// What a resource's amount is counted in, beside CPU.
const BYTES: [&str; 3] = ["memory", "storage", "ephemeral-storage"];

pub(super) fn routes(health: &Health, client: &Client) -> Router {
    Router::new().route("/metrics/resources", get(answer)).with_state((health.clone(), client.clone()))
}

async fn answer(State((health, client)): State<(Health, Client)>) -> Response {
    if !health.is_leading() {
        return prometheus_text(String::new());
    }
    match listed(&client).await {
        Some(tables) => prometheus_text(tables.text()),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the API server lists no pods\n").into_response(),
    }
}

/// `None` if there is no whole list in time.
async fn listed(client: &Client) -> Option<Tables> {
    let (sink, mut events) = mpsc::channel(256);
    let watches = spawn_watches(client, Watches { pods: true, ..Watches::default() }, &sink);
    let mut tables = Tables::default();
    let until = Instant::now() + LIST_TIMEOUT;
    let complete = loop {
        match tokio::time::timeout_at(until.into(), events.recv()).await.ok().flatten() {
            Some(WatchEvent::PodApplied(pod)) => tables.add(&pod),
            Some(WatchEvent::PodsSynced) => break Some(tables),
            // Changes after the list.
            Some(
                WatchEvent::PodDeleted(_)
                | WatchEvent::NodeApplied(_)
                | WatchEvent::NodeDeleted(_)
                | WatchEvent::NodesSynced
                | WatchEvent::ObjectApplied { .. }
                | WatchEvent::ObjectDeleted { .. }
                | WatchEvent::Synced { .. }
                | WatchEvent::Forbidden { .. },
            ) => {}
            None => break None,
        }
    };
    watches.shutdown().await;
    complete
}

/// The lines of both metrics.
#[derive(Debug, Default)]
struct Tables {
    limits: Vec<String>,
    requests: Vec<String>,
}

impl Tables {
    fn add(&mut self, pod: &Pod) {
        lines(pod, "kube_pod_resource_limit", &pod_limits(pod), &mut self.limits);
        lines(pod, "kube_pod_resource_request", &pod_requests(pod, &Options::default()), &mut self.requests);
    }

    fn text(mut self) -> String {
        let mut text = String::new();
        for (name, what, lines) in [
            ("kube_pod_resource_limit", "Resources limit for", &mut self.limits),
            ("kube_pod_resource_request", "Resources requested by", &mut self.requests),
        ] {
            lines.sort_unstable();
            if lines.is_empty() {
                continue;
            }
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "# HELP {name} [STABLE] {what} workloads on the cluster, broken down by pod. This shows the resource usage \
                 the scheduler and kubelet expect per pod for resources along with the unit for the resource if any.\n\
                 # TYPE {name} gauge"
            );
            for line in lines.iter() {
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }
}

fn lines(pod: &Pod, metric: &str, amounts: &ResourceList, lines: &mut Vec<String>) {
    let (metadata, spec) = (&pod.metadata, &pod.spec);
    let priority = spec.priority.map(|priority| priority.to_string()).unwrap_or_default();
    for (resource, amount) in amounts.iter().filter(|(_, amount)| !amount.is_zero()) {
        lines.push(format!(
            "{metric}{{namespace={:?},node={:?},pod={:?},priority={priority:?},resource={resource:?},scheduler={:?},unit={:?}}} {}",
            metadata.namespace,
            spec.node_name,
            metadata.name,
            spec.scheduler_name,
            unit(resource),
            value(resource, amount),
        ));
    }
}

fn unit(resource: &str) -> &'static str {
    match resource {
        "cpu" => "cores",
        _ if BYTES.contains(&resource) || resource.starts_with("hugepages-") => "bytes",
        _ if resource.starts_with("attachable-volumes-") => "integer",
        _ => "",
    }
}

fn value(resource: &str, amount: &Quantity) -> String {
    if resource != "cpu" {
        return amount.value().to_string();
    }
    let milli = amount.milli_value();
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_shown_as_kube_scheduler_shows_it() {
        let pod = json!({
            "metadata": {"name": "ok", "namespace": "default"},
            "spec": {
                "nodeName": "n1", "schedulerName": "default-scheduler", "priority": 0,
                "containers": [{"name": "c", "resources": {
                    "requests": {"cpu": "1500m", "memory": "1Gi", "example.com/gpu": "0"}, "limits": {"cpu": "2"},
                }}],
            },
        });
        let mut tables = Tables::default();
        tables.add(&serde_json::from_value(pod).expect("a pod"));
        let labels = |resource: &str, unit: &str| {
            format!(
                "{{namespace=\"default\",node=\"n1\",pod=\"ok\",priority=\"0\",resource=\"{resource}\",scheduler=\"default-scheduler\",unit=\"{unit}\"}}"
            )
        };
        let text = tables.text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            format!("kube_pod_resource_limit{} 2", labels("cpu", "cores")),
            format!("kube_pod_resource_request{} 1.5", labels("cpu", "cores")),
            format!("kube_pod_resource_request{} 1073741824", labels("memory", "bytes")),
        ];
        assert_eq!(lines, expected);
        assert!(text.starts_with("# HELP kube_pod_resource_limit [STABLE] Resources limit for workloads"), "{text}");
    }

    #[test]
    fn resources_have_their_units() {
        for (resource, expected) in [
            ("ephemeral-storage", "bytes"),
            ("hugepages-2Mi", "bytes"),
            ("attachable-volumes-csi-x", "integer"),
            ("example.com/gpu", ""),
        ] {
            assert_eq!(unit(resource), expected, "{resource}");
        }
    }
}
