//! Tests of every view over HTTP, with a scheduler in which every text is hostile.

mod forms;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, Response, StatusCode, header},
};
use berth_explain::{
    Analysis, Combination, DecisionRecord, EarlierAttempt, Explanation, NearNode, NodeReason, Outcome, PluginAnalysis,
    PluginScore, PluginWords, PodIdentity, PodState, PreemptionReport, RankedNode, ReasonCount, Refusals, Rejected,
    Sampled, Subject, Suggestion, ViolatedBudget,
};
use berth_lifecycle::PluginState;
use berth_model::Time;
use berth_plugin_host::{HostSettings, Order, PluginReport};
use berth_scheduler::{ClusterView, Event, Scheduler, Settings, Totals};
use berth_serving::{Health, ReadModel, secure_serving::RequestUser};
use berth_telemetry::notices::{PastEvent, PointLatency};
use serde_json::json;
use tower::ServiceExt as _;

use crate::{History, Page, Source, SourceError, loopback_routes};

/// The text that must never appear unescaped on a page.
const EVIL: &str = "<script>alert('x')</script>";

/// A scheduler with a number of nodes and pods, all of which have hostile names.
#[derive(Clone, Debug, Default)]
struct Hostile {
    nodes: usize,
    pods: usize,
    /// The orders that were carried out.
    orders: Arc<Mutex<Vec<(String, Order)>>>,
    /// The number of times that the copy was read.
    n_reads: Arc<AtomicUsize>,
}

impl Hostile {
    fn is_disabled(&self) -> bool {
        self.orders.lock().expect("no panic").iter().any(|(_, order)| *order == Order::Disable)
    }

    fn scheduler(&self) -> Scheduler {
        let mut scheduler = Scheduler::new(Settings::default(), Vec::new());
        for number in 0..self.nodes {
            let node = json!({
                "metadata": {"name": format!("{EVIL}{number}"), "labels": {"topology.kubernetes.io/zone": EVIL}},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": "1"}},
            });
            scheduler.handle(Event::NodeApplied(Box::new(serde_json::from_value(node).expect("a node"))), Time(1));
        }
        for number in 0..self.pods {
            let pod = json!({
                "metadata": {"name": format!("{EVIL}{number}"), "namespace": EVIL, "uid": number.to_string()},
                "spec": {
                    "nodeName": format!("{EVIL}0"),
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                },
            });
            scheduler.handle(Event::PodApplied(Box::new(serde_json::from_value(pod).expect("a pod"))), Time(1));
        }
        scheduler
    }

    fn view(&self) -> ClusterView {
        let (mut scheduler, mut view) = (self.scheduler(), ClusterView::default());
        while !view.is_complete() {
            view.apply(scheduler.changes(Time(1)));
        }
        view
    }
}

impl ReadModel for Hostile {
    async fn read<R: Send + 'static>(&self, read: impl FnOnce(&ClusterView) -> R + Send + 'static) -> Option<R> {
        self.n_reads.fetch_add(1, Ordering::Relaxed);
        Some(read(&self.view()))
    }
}

impl Source for Hostile {
    async fn totals(&self) -> Option<Totals> {
        Some(self.scheduler().totals(Time(1)))
    }

    async fn explain(
        &self,
        namespace: &str,
        name: &str,
        _: Option<String>,
        _: Option<&RequestUser>,
    ) -> Result<Explanation, SourceError> {
        if name == "gone" {
            return Err(SourceError::NotFound(format!("pod {EVIL} not found")));
        }
        Ok(explanation(namespace, name))
    }

    async fn refusals(&self, _: &str, _: &str) -> Result<Refusals, SourceError> {
        let nodes = (1..self.nodes).map(|number| (format!("{EVIL}{number}"), vec![0])).collect();
        Ok(Refusals { plugins: vec![EVIL.to_owned()], nodes, pod_rejected: None })
    }

    async fn plugins(&self) -> Result<Vec<PluginReport>, SourceError> {
        Ok(vec![PluginReport {
            name: EVIL.to_owned(),
            version: EVIL.to_owned(),
            digest: EVIL.to_owned(),
            state: if self.is_disabled() { PluginState::Disabled } else { PluginState::Quarantined },
            profiles: [(EVIL.to_owned(), EVIL.to_owned())].into(),
            reason: Some(EVIL.to_owned()),
            last_reason: Some(EVIL.to_owned()),
            faults: [(EVIL.to_owned(), 7)].into(),
            history: vec![PastEvent { time: EVIL.to_owned(), text: EVIL.to_owned() }],
            fault_stack: vec![EVIL.to_owned()],
            latencies: vec![PointLatency { extension_point: EVIL.to_owned(), ..PointLatency::default() }],
            ..PluginReport::default()
        }])
    }

    async fn plugin_settings(&self) -> Result<HostSettings, SourceError> {
        Ok(HostSettings { file: None, error: Some(EVIL.to_owned()) })
    }

    async fn order(&self, plugin: &str, order: Order, _: Option<&RequestUser>) -> Result<PluginReport, SourceError> {
        if order == Order::Rollback {
            return Err(SourceError::Refused(format!("{EVIL} has no earlier binary")));
        }
        self.orders.lock().expect("no panic").push((plugin.to_owned(), order));
        Ok(PluginReport::default())
    }
}

fn explanation(namespace: &str, name: &str) -> Explanation {
    let own = || EVIL.to_owned();
    let shared = || Arc::<str>::from(EVIL);
    let subject = Subject {
        pod: PodIdentity { namespace: namespace.to_owned(), name: name.to_owned(), uid: own() },
        scheduler_name: own(),
        priority: 0,
        state: PodState::Queued {
            queue: own(),
            since_milliseconds: 1,
            backoff_ends_in_milliseconds: Some(1),
            behind: Some(2),
        },
        attempts: 1,
        rejected_by: vec![own()],
        nominated_node: Some(own()),
        holders: Vec::new(),
        retries: Vec::new(),
    };
    let score = PluginScore { plugin: shared(), raw: 11, normalized: 22, weighted: 44 };
    let best = vec![RankedNode { node: shared(), total: Some(44), scores: vec![score] }];
    let decision = DecisionRecord {
        not_bound: None,
        cycle: Default::default(),
        trace: Some(own().into()),
        uid: own().into(),
        at: Time(1),
        attempt: 1,
        brought_by: shared(),
        outcome: Outcome::Placed { node: shared() },
        sampled: Sampled::default(),
        best: best.clone(),
        rejected: vec![Rejected { plugin: shared(), nodes: 3, message: own(), examples: vec![own()] }],
    };
    let earlier = EarlierAttempt::of(&decision, Time(2));
    let mut explanation = Explanation::new(subject, Some((decision, 1)), Some(analysis(best)));
    explanation.earlier_attempts.push(earlier);
    explanation.notes.push(own());
    explanation
}

fn analysis(best: Vec<RankedNode>) -> Analysis {
    let own = || EVIL.to_owned();
    let reason = NodeReason { plugin: own(), code: own(), message: own() };
    Analysis {
        nodes: 3,
        error: Some(own()),
        plugins: vec![PluginAnalysis {
            plugin: own(),
            rejected: 3,
            alone: 1,
            reasons: vec![ReasonCount { reason: own(), nodes: 3, examples: vec![own()] }],
        }],
        combinations: vec![Combination { plugins: vec![own(), own()], nodes: 2, examples: vec![own()] }],
        nearest: vec![NearNode { node: own(), reasons: vec![reason], lacks: Vec::new() }],
        best,
        preemption: Some(PreemptionReport {
            node: Some(own()),
            victims: 3,
            examples: vec![own()],
            unnamed: 2,
            violated_budgets: vec![ViolatedBudget { namespace: own(), name: own(), allowed: 0, victims: 1 }],
            message: own(),
        }),
        suggestions: vec![Suggestion { change: own(), nodes: 1, examples: vec![own()] }],
        words: [None, Some(own())].map(|node| PluginWords { plugin: own(), node, text: own() }).to_vec(),
        ..Analysis::default()
    }
}

fn page(nodes: usize, pods: usize) -> Router {
    let scheduler = Hostile { nodes, pods, ..Hostile::default() };
    loopback_routes(Page::new(scheduler, Health::default(), Arc::default(), History::default(), None))
}

async fn send(page: &Router, request: axum::http::request::Builder) -> Response<Body> {
    let Ok(response) = page.clone().oneshot(request.body(Body::empty()).expect("a request")).await;
    response
}

async fn get(page: &Router, path: &str) -> (StatusCode, String) {
    let response = send(page, Request::get(path).header(header::HOST, "127.0.0.1:8080")).await;
    let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("text").to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"), "{policy}");
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

const VIEWS: [&str; 9] = [
    "/page",
    "/page/pods",
    "/page/pods?namespace=<script>&name=<script>&reason=<script>&owner=<script>",
    "/page/nodes",
    "/page/nodes?resource=<script>&by=<script>&label=<script>%3D<script>&name=<script>",
    "/page/nodes?pod=a/b",
    "/page/pod?pod=<script>alert(1)<script>&node=<script>",
    "/page/plugins",
    "/page/plugins?name=<script>alert('x')</script>",
];

#[tokio::test]
async fn no_text_becomes_markup_in_any_view() {
    let page = page(3, 2);
    for view in VIEWS {
        let path = view.replace('<', "%3C").replace('>', "%3E").replace('\'', "%27");
        let (status, text) = get(&page, &path).await;
        assert_eq!(status, StatusCode::OK, "{view}: {text}");
        // The page's own script is a file. Nothing else is a script, and no attribute runs anything.
        assert_eq!(text.matches("<script").count(), 1, "{view}: {text}");
        assert!(text.contains("<script src=\"/page/script.js\" defer></script>"), "{view}");
        for inline in [" style=", " onclick=", " onload=", " onerror=", "javascript:"] {
            assert!(!text.contains(inline), "{view}: {inline}");
        }
        assert!(text.contains("As of <time datetime=\""), "{view} says how old it is");
    }
    let (status, text) = get(&page, "/page/pod?pod=default/gone").await;
    assert_eq!((status, text.matches("<script").count()), (StatusCode::NOT_FOUND, 1), "{text}");
}

#[tokio::test]
async fn hostile_texts_are_shown_as_they_are() {
    let page = page(3, 2);
    let escaped = "&lt;script&gt;alert('x')&lt;/script&gt;";
    for view in ["/page", "/page/nodes", "/page/pod?pod=a/b", "/page/plugins"] {
        let (_, text) = get(&page, view).await;
        assert!(text.contains(escaped), "{view}: {text}");
    }
    let (_, text) = get(&page, "/page/pod?pod=a/b").await;
    let words = format!("<dt>{escaped}</dt><dd>{escaped}</dd>");
    let about_node = format!("<p>{escaped} says about {escaped}: <q>{escaped}</q></p>");
    for part in ["44<small> of 22 normalized, 11 raw</small>", "and 2 that you may not see", &words, &about_node] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn every_node_has_a_cell_and_every_row_can_be_reached() {
    let page = page(5_000, 0);
    let (_, text) = get(&page, "/page/nodes").await;
    assert_eq!(text.matches("<rect class=\"u0\" x=").count(), 5_000);
    assert!(text.contains("1–200 of 5,000 <a href=\"/page/nodes?resource=cpu"), "{}", &text[text.len() - 1_000..]);
    let (_, text) = get(&page, "/page/nodes?from=4900").await;
    assert!(text.contains("4,901–5,000 of 5,000"), "{}", &text[text.len() - 1_000..]);
    let (_, text) = get(&page, "/page/nodes?pod=a/b").await;
    assert!(
        text.contains("fits: <strong>1</strong>") && text.contains(": <strong>4,999</strong>"),
        "{}",
        &text[..3_000]
    );
    assert_eq!(get(&page, "/page/nodes?from=x").await.0, StatusCode::BAD_REQUEST);
}

/// A copy must follow each change of a pod. The view that users leave open all day needs no copy.
#[tokio::test]
async fn the_first_view_needs_no_copy_of_the_scheduler() {
    let scheduler = Hostile { nodes: 3, pods: 2, ..Hostile::default() };
    let n_reads = Arc::clone(&scheduler.n_reads);
    let page = loopback_routes(Page::new(scheduler, Health::default(), Arc::default(), History::default(), None));
    let (_, text) = get(&page, "/page").await;
    assert!(text.contains("<dt>Nodes</dt><dd>3"), "{text}");
    assert_eq!(n_reads.load(Ordering::Relaxed), 0);
    get(&page, "/page/pods").await;
    assert_eq!(n_reads.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_empty_scheduler_says_so() {
    let page = page(0, 0);
    for (view, part) in [
        ("/page/nodes", "The scheduler knows no nodes."),
        ("/page/pods", "No pod is pending."),
        ("/page", "<dt>Nodes</dt>"),
    ] {
        let (_, text) = get(&page, view).await;
        assert!(text.contains(part), "{view}: {text}");
    }
}

#[tokio::test]
async fn a_view_follows_the_scheduler_as_events() {
    let page = page(1, 0);
    let request = Request::get("/page/nodes").header(header::HOST, "localhost:1");
    let response = send(&page, request.header(header::ACCEPT, "text/event-stream")).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
    let mut body = response.into_body().into_data_stream();
    let first = futures::StreamExt::next(&mut body).await.expect("an event").expect("no break");
    let first = String::from_utf8(first.to_vec()).expect("text");
    assert!(first.starts_with("event: view\nretry: 500\ndata: <div id=\"view\""), "{first}");
}

#[tokio::test]
async fn only_this_machine_is_answered_by_its_own_names() {
    let page = page(1, 0);
    let asked = async |host: &str, site: Option<&str>| {
        let request = Request::get("/page").header(header::HOST, host);
        let request = site.into_iter().fold(request, |request, site| request.header("sec-fetch-site", site));
        send(&page, request).await.status()
    };
    for fine in ["127.0.0.1:8080", "localhost:8080", "[::1]:8080"] {
        assert_eq!(asked(fine, Some("none")).await, StatusCode::OK, "{fine}");
    }
    assert_eq!(
        asked("evil.example:8080", None).await,
        StatusCode::FORBIDDEN,
        "a name of another site for this address"
    );
    assert_eq!(asked("127.0.0.1:8080", Some("cross-site")).await, StatusCode::FORBIDDEN);
}
