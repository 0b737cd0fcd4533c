//! `/metrics/resources`: the requests and limits of each pod (`pkg/scheduler/metrics/resources/resources.go`).
//!
//! The metrics name every pod and node, so they are served only over HTTPS, to callers that the API server authorizes.
//! The text is made from the copy that follows the scheduler, and answers every request for five seconds. The API
//! server is not asked for the pods. A replica that does not lead shows no pods, as in kube-scheduler.

use std::fmt::Write as _;

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{any, get},
};
use berth_scheduler::{PodList, PodView};

use super::{kept_answer::KeptAnswer, prometheus_text};
use crate::{Health, ReadModel};

/// The path of the endpoint.
const PATH: &str = "/metrics/resources";

/// The resources that are counted in bytes.
const BYTES: [&str; 3] = ["memory", "storage", "ephemeral-storage"];

/// Makes the answers. Cheap to clone.
#[derive(Clone, Debug)]
struct Resources<Model> {
    health: Health,
    scheduler: Model,
    kept: KeptAnswer,
}

/// The routes for callers that may see every pod.
pub fn routes(health: &Health, scheduler: impl ReadModel) -> Router {
    let resources = Resources { health: health.clone(), scheduler, kept: KeptAnswer::default() };
    Router::new().route(PATH, get(answer)).with_state(resources)
}

/// The routes for a server that cannot identify callers.
pub fn refusing_routes() -> Router {
    Router::new().route(PATH, any(elsewhere))
}

async fn elsewhere() -> Response {
    let text = "/metrics/resources names every pod: it is served only over HTTPS, by `berth kube-scheduler \
                --secure-port`, to callers who may `get` this path\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

async fn answer<Model: ReadModel>(State(resources): State<Resources<Model>>) -> Response {
    if !resources.health.is_leading() {
        return prometheus_text(String::new());
    }
    match resources.text().await {
        Some(text) => prometheus_text(text),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the scheduler did not answer in time\n").into_response(),
    }
}

impl<Model: ReadModel> Resources<Model> {
    async fn text(&self) -> Option<Bytes> {
        let make = async {
            self.scheduler.read_pods(|pods| pods.is_complete().then(|| Bytes::from(text_of(pods)))).await.flatten()
        };
        self.kept.get(make).await
    }
}

/// The amounts of a pod that a metric shows.
#[derive(Clone, Copy, Debug)]
enum Amounts {
    Limits,
    Requests,
}

impl Amounts {
    fn of<'a>(self, pod: &PodView<'a>) -> Vec<(&'a str, i64)> {
        match self {
            Self::Limits => pod.limits(),
            Self::Requests => pod.requests(),
        }
    }
}

/// The lines of both metrics.
fn text_of(pods: PodList<'_>) -> String {
    let mut pods: Vec<PodView<'_>> = pods.pods().collect();
    pods.sort_unstable_by_key(|pod| (pod.namespace(), pod.name()));
    let mut text = String::new();
    for (name, what, amounts) in [
        ("kube_pod_resource_limit", "Resources limit for", Amounts::Limits),
        ("kube_pod_resource_request", "Resources requested by", Amounts::Requests),
    ] {
        let before = text.len();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "# HELP {name} [STABLE] {what} workloads on the cluster, broken down by pod. This shows the resource usage \
             the scheduler and kubelet expect per pod for resources along with the unit for the resource if any.\n\
             # TYPE {name} gauge"
        );
        let without_lines = text.len();
        for pod in &pods {
            write_lines(&mut text, name, pod, amounts.of(pod));
        }
        if text.len() == without_lines {
            text.truncate(before);
        }
    }
    text
}

fn write_lines(text: &mut String, metric: &str, pod: &PodView<'_>, amounts: Vec<(&str, i64)>) {
    for (resource, amount) in amounts {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{metric}{{namespace={:?},node={:?},pod={:?},priority=\"{}\",resource={resource:?},scheduler={:?},unit={:?}}} {}",
            pod.namespace(),
            pod.node(),
            pod.name(),
            pod.priority(),
            pod.scheduler_name(),
            unit(resource),
            value(resource, amount),
        );
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

/// The value of an amount. CPU is given in thousandths.
fn value(resource: &str, amount: i64) -> String {
    if resource != "cpu" {
        return amount.to_string();
    }
    let text = format!("{}.{:03}", amount / 1000, amount % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use berth_model::Time;
    use berth_scheduler::{ClusterView, Event, Scheduler, Settings};
    use serde_json::json;

    use super::*;
    use crate::endpoints::kept_answer::KEPT_FOR;

    /// A scheduler with one pod. It counts how often the pod is read.
    #[derive(Clone, Debug, Default)]
    struct OnePod(Arc<AtomicUsize>);

    impl ReadModel for OnePod {
        async fn read<R: Send + 'static>(&self, read: impl FnOnce(&ClusterView) -> R + Send + 'static) -> Option<R> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Some(read(&view([pod("ok")])))
        }
    }

    /// The copy of a scheduler with these pods.
    fn view(pods: impl IntoIterator<Item = serde_json::Value>) -> ClusterView {
        let mut scheduler = Scheduler::new(Settings::default(), Vec::new());
        for pod in pods {
            let pod = serde_json::from_value(pod).expect("a pod");
            scheduler.handle(Event::PodApplied(Box::new(pod)), Time(0));
        }
        let mut view = ClusterView::default();
        while !view.is_complete() {
            view.apply(scheduler.changes(Time(0)));
        }
        view
    }

    fn pod(name: &str) -> serde_json::Value {
        json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {
                "nodeName": "n1", "schedulerName": "default-scheduler", "priority": 0,
                "containers": [{"name": "c", "resources": {
                    "requests": {"cpu": "1500m", "memory": "1Gi", "example.com/gpu": "0"}, "limits": {"cpu": "2"},
                }}],
            },
        })
    }

    #[test]
    fn a_pod_is_shown_as_kube_scheduler_shows_it() {
        let labels = |resource: &str, unit: &str| {
            format!(
                "{{namespace=\"default\",node=\"n1\",pod=\"ok\",priority=\"0\",resource=\"{resource}\",scheduler=\"default-scheduler\",unit=\"{unit}\"}}"
            )
        };
        let text = text_of(view([pod("ok")]).pod_list());
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            format!("kube_pod_resource_limit{} 2", labels("cpu", "cores")),
            format!("kube_pod_resource_request{} 1.5", labels("cpu", "cores")),
            format!("kube_pod_resource_request{} 1073741824", labels("memory", "bytes")),
        ];
        assert_eq!(lines, expected);
        assert!(text.starts_with("# HELP kube_pod_resource_limit [STABLE] Resources limit for workloads"), "{text}");
        assert_eq!(text_of(view([]).pod_list()), "");
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

    #[tokio::test(start_paused = true)]
    async fn any_number_of_requests_are_answered_by_one_look_at_the_scheduler() {
        let scheduler = OnePod::default();
        let resources =
            Resources { health: Health::default(), scheduler: scheduler.clone(), kept: KeptAnswer::default() };
        let requests: Vec<_> = (0..200).map(|_| tokio::spawn(answer(State(resources.clone())))).collect();
        for request in requests {
            assert_eq!(request.await.expect("no panic").status(), StatusCode::OK);
        }
        assert_eq!(scheduler.0.load(Ordering::Relaxed), 1, "one look serves them all");
        tokio::time::sleep(2 * KEPT_FOR).await;
        assert!(resources.kept.is_empty().await, "the answer is not kept for long");
    }

    #[tokio::test]
    async fn a_server_that_cannot_tell_who_asks_says_where_it_is() {
        let response = elsewhere().await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        let body = axum::body::to_bytes(response.into_body(), 1024).await.expect("a body");
        assert!(String::from_utf8_lossy(&body).contains("only over HTTPS"));
    }
}
