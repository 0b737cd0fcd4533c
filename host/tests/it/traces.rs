//! Traces of attempts, with a collector in the test.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use berth_otlp::messages::{AnyValueKind, KeyValue, STATUS_ERROR, Span};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::{
    cluster::{Cluster, Scheduler, pod},
    collector::{Collector, CollectorBehavior, Received, duration},
    process::{DEADLINE, within},
};

/// Built-ins that run as components in these tests. All other built-ins run natively.
const COMPONENTS: [&str; 2] = ["NodeResourcesFit", "TaintToleration"];

/// The name of the span of an attempt.
const ATTEMPT: &str = "Scheduling";

/// The number of seconds after which a request to a collector is given up.
const REQUEST_SECONDS: u64 = 10;

/// The time within which a scheduler ends. All tries of one request to a collector would take longer.
const END_TIME: Duration = Duration::from_secs(20);

/// `SPAN_KIND_CLIENT`, the kind of a request.
const CLIENT: i32 = 3;

struct Bench {
    cluster: Cluster,
    scheduler: Scheduler,
}

impl Bench {
    /// Starts a cluster, and a scheduler that traces `per_million` of its attempts.
    async fn start(endpoint: &str, per_million: u32) -> Self {
        Self::start_on(Cluster::start(&["--no-scheduler", "--nodes", "3"]).await, endpoint, per_million).await
    }

    async fn start_on(cluster: Cluster, endpoint: &str, per_million: u32) -> Self {
        Self::start_with(cluster, endpoint, per_million, &[]).await
    }

    async fn start_with(cluster: Cluster, endpoint: &str, per_million: u32, variables: &[(&str, &str)]) -> Self {
        let plugins = cluster.dir.path().join("plugins");
        std::fs::create_dir(&plugins).expect("a folder");
        for component in berth_components::COMPONENTS.iter().filter(|component| COMPONENTS.contains(&component.name)) {
            std::fs::write(plugins.join(format!("{}.wasm", component.name)), component.bytes()).expect("a file");
        }
        let file = cluster.dir.path().join("tracing.yaml");
        let tracing = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: '{endpoint}'\n\
             samplingRatePerMillion: {per_million}\n"
        );
        std::fs::write(&file, tracing).expect("a file");
        let [file, plugins] = [file, plugins].map(|path| path.display().to_string());
        let arguments = ["--log", "info,berth::v2=debug", "--tracing-config-file", &file, "--plugins-dir", &plugins];
        let scheduler = cluster.scheduler_with(&arguments, variables).await;
        // The components take over after the start.
        for name in COMPONENTS {
            let serves = |text: &str| text.lines().any(|line| is_component(line, name));
            scheduler.until("/metrics", serves).await;
        }
        Self { cluster, scheduler }
    }

    async fn metric(&self, line: &str, is_right: impl Fn(u64) -> bool) {
        let value = |text: &str| text.lines().find_map(|it| it.strip_prefix(line)?.trim().parse().ok());
        self.scheduler.until("/metrics", |text| value(text).is_some_and(&is_right)).await;
    }
}

fn is_component(line: &str, name: &str) -> bool {
    line.starts_with("berth_plugin_info{")
        && line.contains(&format!("plugin=\"{name}\""))
        && !line.contains("digest=\"native\"")
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        AnyValueKind::String(text) => Some(text),
        AnyValueKind::Int(_) | AnyValueKind::Array(_) => None,
    }
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The spans of one attempt.
#[derive(Debug)]
struct Trace {
    pod: String,
    attempt: Span,
    /// The other spans, without the spans of requests.
    steps: Vec<Span>,
    requests: Vec<Span>,
}

/// The attempts with this outcome.
fn attempts(received: &Received, result: &str) -> Vec<Trace> {
    let is_it = |span: &&Span| span.name == ATTEMPT && text(&span.attributes, "result") == Some(result);
    let trace = |attempt: &Span| {
        let others = received.spans.iter().filter(|span| span.trace_id == attempt.trace_id && span.name != ATTEMPT);
        let (requests, steps) = others.cloned().partition(|span| span.kind == CLIENT);
        let pod = text(&attempt.attributes, "k8s.pod.name").expect("a pod").to_owned();
        Trace { pod, attempt: attempt.clone(), steps, requests }
    };
    received.spans.iter().filter(is_it).map(trace).collect()
}

impl Trace {
    fn steps_of(&self, parent: &Span) -> impl Iterator<Item = &Span> {
        let id = parent.span_id.clone();
        self.steps.iter().filter(move |span| span.parent_span_id == id)
    }

    fn named(&self, name: &str) -> &Span {
        let mut found = self.steps.iter().chain(&self.requests).filter(|span| span.name == name);
        found.next().unwrap_or_else(|| panic!("{name} is missing from {:?}", self.names()))
    }

    fn has(&self, name: &str) -> bool {
        self.names().contains(&name)
    }

    fn names(&self) -> Vec<&str> {
        self.steps.iter().chain(&self.requests).map(|span| span.name.as_str()).collect()
    }

    /// Whether the parent of each span has also arrived. The scheduler hands over the steps of an attempt from time to
    /// time, so they may arrive after the requests.
    fn has_all_parents(&self) -> bool {
        let known: BTreeSet<&[u8]> = self.steps.iter().chain([&self.attempt]).map(|span| &*span.span_id).collect();
        self.steps.iter().chain(&self.requests).all(|span| known.contains(&*span.parent_span_id))
    }

    /// Checks that each span lies within its parent, and that no two parts of one span overlap. A request may outlast
    /// its attempt: the watch may show the bound pod before the answer arrives.
    fn check_nesting(&self) {
        let all: BTreeMap<&[u8], &Span> =
            self.steps.iter().chain([&self.attempt]).map(|span| (&*span.span_id, span)).collect();
        assert_eq!(all.len(), self.steps.len() + 1, "each span has an id of its own");
        for span in self.steps.iter().chain(&self.requests) {
            let parent = all.get(&*span.parent_span_id).unwrap_or_else(|| panic!("{} has no parent", span.name));
            assert!(span.start_time_unix_nano >= parent.start_time_unix_nano, "{} in {}", span.name, parent.name);
            let ends_within = span.end_time_unix_nano <= parent.end_time_unix_nano;
            assert!(ends_within || span.kind == CLIENT, "{} in {}", span.name, parent.name);
        }
        for parent in all.values() {
            let mut parts: Vec<&Span> = self.steps_of(parent).collect();
            parts.sort_by_key(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
            for two in parts.windows(2) {
                let [before, after] = two else { continue };
                assert!(before.end_time_unix_nano <= after.start_time_unix_nano, "{} and {}", before.name, after.name);
            }
        }
    }

    /// The share of the attempt's time that its parts add up to.
    fn covered(&self) -> f64 {
        let parts: Duration = self.steps_of(&self.attempt).map(duration).sum();
        parts.as_secs_f64() / duration(&self.attempt).as_secs_f64()
    }
}

/// The parts of an attempt with the time of each, for people.
fn shown(trace: &Trace) -> String {
    let mut parts: Vec<&Span> = trace.steps_of(&trace.attempt).collect();
    parts.sort_by_key(|span| span.start_time_unix_nano);
    let part = |span: &Span| {
        let start = span.start_time_unix_nano - trace.attempt.start_time_unix_nano;
        format!("{} at {} ns for {:?}; ", span.name, start, duration(span))
    };
    format!("{:?} = {}", duration(&trace.attempt), parts.into_iter().map(part).collect::<String>())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spans_of_a_bound_pod_nest_and_add_up_to_its_attempt() {
    for is_grpc in [false, true] {
        let collector = Collector::start(CollectorBehavior::Takes).await;
        let scheme = if is_grpc { "" } else { "http://" };
        let bench = Bench::start(&format!("{scheme}{}", collector.address), 1_000_000).await;
        let names: Vec<String> = (0..9).map(|number| format!("pod-{number}")).collect();
        for name in &names {
            bench.cluster.create(&pod(name, "100m", "64Mi")).await;
            bench.cluster.node_of(name).await;
        }
        let is_complete = |received: &Received| {
            let traces = attempts(received, "scheduled");
            let has_all = |trace: &Trace| {
                trace.has_all_parents() && ["PostBind", "POST pods/binding"].iter().all(|name| trace.has(name))
            };
            traces.len() == names.len() && traces.iter().all(has_all)
        };
        let received = collector.until("a trace of each pod", is_complete).await;
        assert_eq!(text(&received.resource, "service.name"), Some("berth"));
        let traces = attempts(&received, "scheduled");
        traces.iter().for_each(Trace::check_nesting);
        let first = traces.iter().find(|trace| trace.pod == "pod-0").expect("a trace");
        for point in
            ["Sync", "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBind", "Bind", "PostBind"]
        {
            assert_eq!(first.named(point).parent_span_id, first.attempt.span_id, "{point}");
        }
        for (call, point) in [
            ("Filter/NodeResourcesFit", "Filter"),
            ("Filter/NodeName", "Filter"),
            ("Score/TaintToleration", "Score"),
            ("Bind/DefaultBinder", "Bind"),
            ("POST pods/binding", "Bind"),
        ] {
            assert_eq!(first.named(call).parent_span_id, first.named(point).span_id, "{call}");
        }
        let filter = first.named("Filter/NodeResourcesFit");
        let attributes = ["plugin", "extension_point", "status"].map(|key| text(&filter.attributes, key));
        assert_eq!(attributes, ["NodeResourcesFit", "Filter", "Success"].map(Some));
        let node = bench.cluster.node_of("pod-0").await;
        let attributes = &first.attempt.attributes;
        assert_eq!(text(attributes, "k8s.node.name"), Some(&*node));
        assert_eq!(text(attributes, "k8s.namespace.name"), Some("default"));
        // The machine may take the processor away in the middle of one attempt, so the attempt in the middle counts.
        let mut shares: Vec<(f64, &Trace)> = traces.iter().map(|trace| (trace.covered(), trace)).collect();
        shares.sort_by(|(left, _), (right, _)| left.total_cmp(right));
        let (share, trace) = shares[shares.len() / 2];
        assert!((0.95..=1.0).contains(&share), "{share}: {}", shown(trace));
        let id = hex(&first.attempt.trace_id);
        let line = bench.scheduler.process.text();
        let line = line.lines().find(|line| line.contains("Successfully bound") && line.contains("\"pod-0\""));
        assert!(line.is_some_and(|line| line.contains(&format!("trace={id}"))), "{id}: {line:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_fits_nowhere_and_a_preemption_are_traced() {
    let collector = Collector::start(CollectorBehavior::Takes).await;
    let bench = Bench::start(&format!("http://{}", collector.address), 1_000_000).await;
    let classes: Api<PriorityClass> = Api::all(bench.cluster.pods.clone().into_client());
    let class = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "PreemptLowerPriority"});
    let class = serde_json::from_value(class).expect("a class");
    classes.create(&PostParams::default(), &class).await.expect("the sandbox takes it");
    for name in ["low-0", "low-1", "low-2"] {
        let mut low = pod(name, "12", "1Gi");
        low["spec"]["terminationGracePeriodSeconds"] = json!(0);
        bench.cluster.create(&low).await;
        bench.cluster.node_of(name).await;
    }
    bench.cluster.create(&pod("big", "100", "1Gi")).await;
    let mut high = pod("high", "12", "1Gi");
    high["spec"]["priorityClassName"] = json!("high");
    bench.cluster.create(&high).await;
    bench.cluster.node_of("high").await;
    let find = |received: &Received, (pod, spans): (&str, [&str; 2])| {
        let mut traces = attempts(received, "unschedulable").into_iter();
        traces.find(|trace| trace.pod == pod && trace.has_all_parents() && spans.iter().all(|name| trace.has(name)))
    };
    let [big, high] = [("big", ["PATCH pods/status", "Diagnose"]), ("high", ["DELETE pods", "PostFilter"])];
    let is_complete = |received: &Received| find(received, big).and(find(received, high)).is_some();
    let received = collector.until("traces of both pods", is_complete).await;
    let big = find(&received, big).expect("waited for");
    let high = find(&received, high).expect("waited for");
    let message = text(&big.attempt.attributes, "message").expect("a message");
    assert!(message.contains("Insufficient cpu"), "{message}");
    assert_eq!(big.named("Diagnose").parent_span_id, big.attempt.span_id);
    assert_eq!(big.named("NodeToStatus/NodeResourcesFit").parent_span_id, big.named("Diagnose").span_id);
    assert!(big.attempt.status.is_none(), "it is not an error that a pod fits nowhere");
    assert_eq!(high.named("PostFilter/DefaultPreemption").parent_span_id, high.named("PostFilter").span_id);
    assert_eq!(high.named("DELETE pods").parent_span_id, high.attempt.span_id);
    let event = high.attempt.events.first().expect("an event");
    assert_eq!(event.name, "Preemption");
    assert!(event.attributes.iter().any(|attribute| attribute.key == "victims"), "{event:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_fails_is_an_error() {
    let collector = Collector::start(CollectorBehavior::Takes).await;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let rules = dir.path().join("rules.yaml");
    let rule = "{match: {resources: [pods/binding]}, fault: {type: Status, code: 403}, count: 1}";
    std::fs::write(&rules, format!("faults: [{rule}]")).expect("a file");
    let rules = rules.display().to_string();
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2", "--faults", &rules]).await;
    let bench = Bench::start_on(cluster, &collector.address.to_string(), 1_000_000).await;
    bench.cluster.create(&pod("a", "100m", "64Mi")).await;
    bench.cluster.node_of("a").await;
    let is_complete = |received: &Received| {
        let has_all = |trace: &Trace| trace.has("POST pods/binding") && trace.has("Bind") && trace.has_all_parents();
        attempts(received, "error").iter().any(has_all)
    };
    let received = collector.until("a trace", is_complete).await;
    let traces = attempts(&received, "error");
    let [trace] = traces.as_slice() else { panic!("{traces:?}") };
    for span in [trace.named("POST pods/binding"), trace.named("Bind"), &trace.attempt] {
        assert_eq!(span.status.as_ref().map(|status| status.code), Some(STATUS_ERROR), "{span:?}");
    }
    trace.check_nesting();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_takes_nothing_costs_nothing_and_is_counted() {
    for is_grpc in [false, true] {
        let collector = Collector::start(CollectorBehavior::Refuses).await;
        let scheme = if is_grpc { "" } else { "http://" };
        let bench = Bench::start(&format!("{scheme}{}", collector.address), 1_000_000).await;
        bench.cluster.create(&pod("a", "100m", "64Mi")).await;
        bench.cluster.all_bound(1).await;
        bench.metric("berth_trace_spans_lost_total{reason=\"not_taken\"}", |spans| spans > 10).await;
        bench.metric("berth_trace_spans_exported_total", |spans| spans == 0).await;
        let mut bench = bench;
        bench.scheduler.process.line("the trace collector does not accept spans; the spans are lost").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_holds_up_nothing() {
    let collector = Collector::start(CollectorBehavior::Hangs).await;
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "6"]).await;
    let bench = Bench::start_on(cluster, &format!("http://{}", collector.address), 1_000_000).await;
    let n_pods = 600;
    let began = Instant::now();
    bench.cluster.create_all((0..n_pods).map(|number| pod(&format!("pod-{number}"), "10m", "1Mi"))).await;
    bench.cluster.all_bound(n_pods).await;
    bench.metric("berth_trace_spans_lost_total{reason=\"queue_full\"}", |spans| spans > 0).await;
    let most = 1 + began.elapsed().as_secs() / REQUEST_SECONDS;
    let n_requests = collector.now().n_requests as u64;
    assert!((1..=most).contains(&n_requests), "one batch at a time, but {n_requests} requests, where {most} are many");
    let Bench { cluster: _cluster, scheduler } = bench;
    scheduler.process.terminate();
    let ended = within(END_TIME, scheduler.process.ended(DEADLINE)).await.expect("it waits for no collector");
    assert!(ended.status.success(), "{}", ended.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_of_the_attempts_is_traced_and_a_rate_of_0_sends_nothing() {
    let collector = Collector::start(CollectorBehavior::Takes).await;
    for (per_million, expected) in [(0, 0..=0), (300_000, 1..=99)] {
        let bench = Bench::start(&collector.address.to_string(), per_million).await;
        bench.cluster.create_all((0..100).map(|number| pod(&format!("pod-{number}"), "10m", "1Mi"))).await;
        bench.cluster.all_bound(100).await;
        let Bench { cluster: _cluster, scheduler } = bench;
        // The last spans are sent before the process ends.
        scheduler.process.terminate();
        let ended = scheduler.process.ended(DEADLINE).await;
        assert!(ended.status.success(), "{}", ended.err);
        let received = collector.now();
        let traces: BTreeSet<&[u8]> = received.spans.iter().map(|span| &*span.trace_id).collect();
        assert!(expected.contains(&traces.len()), "{} traces at {per_million}", traces.len());
        assert_eq!(received.n_requests == 0, per_million == 0);
        assert_eq!(attempts(&received, "scheduled").len(), traces.len(), "the end of each traced attempt is there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_go_over_tls_to_a_collector_with_a_trusted_certificate() {
    for protocol in ["http/protobuf", "grpc"] {
        let (collector, certificate) = Collector::start_tls().await;
        let endpoint = format!("https://localhost:{}", collector.address.port());
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
        let file = cluster.dir.path().join("collector.crt");
        std::fs::write(&file, certificate).expect("a file");
        let file = file.display().to_string();
        let variables = [("OTEL_EXPORTER_OTLP_PROTOCOL", protocol), ("SSL_CERT_FILE", &*file)];
        let bench = Bench::start_with(cluster, &endpoint, 1_000_000, &variables).await;
        bench.cluster.create(&pod("a", "100m", "64Mi")).await;
        collector.until("a trace", |received| !attempts(received, "scheduled").is_empty()).await;
        let is_grpc = protocol == "grpc";
        assert_eq!(collector.now().headers["content-type"] == "application/grpc", is_grpc);
        drop(bench);

        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
        let n_requests = collector.now().n_requests;
        let variables = [("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)];
        let mut bench = Bench::start_with(cluster, &endpoint, 1_000_000, &variables).await;
        bench.cluster.create(&pod("a", "100m", "64Mi")).await;
        let line = bench.scheduler.process.line("the trace collector does not accept spans").await;
        assert!(line.contains("invalid peer certificate"), "{line}");
        assert_eq!(collector.now().n_requests, n_requests, "{protocol}: nothing goes to an unknown collector");
    }
}
