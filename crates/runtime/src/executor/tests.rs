//! Tests of the executor against an API server that the test simulates.

use std::{collections::BTreeSet, future::IntoFuture as _, path::PathBuf, time::Duration};

use axum::{
    Json, Router,
    extract::Path,
    http::StatusCode,
    routing::{patch, post},
};
use berth_cluster::{ConnectOptions, RequestRate};
use berth_framework::{CycleId, Effect, PatchType};
use berth_model::BinaryId;
use berth_scheduler::{GrantedEffect, HeldBytes};
use berth_telemetry::{
    audit::AuditLog,
    metrics::Metrics,
    notices::{EventSink, PluginEvent, PluginHistory},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tracing::Level;

use super::*;
use crate::heard::{self, Heard};

/// Much longer than any step takes, even on a machine that stands still for a while.
const DEADLINE: Duration = Duration::from_secs(120);

/// Drops events about plugins.
#[derive(Debug)]
pub(super) struct NoEvents;

impl EventSink for NoEvents {
    fn record(&self, _: PluginEvent) {}
}

/// An executor with an API server that binds pods immediately, except `pod-9`. The server answers patches of claims
/// when the test allows it.
struct Bench {
    actions: mpsc::Sender<Task>,
    events: mpsc::Receiver<Event>,
    release: watch::Sender<bool>,
    /// The patches of pods' statuses.
    patched: mpsc::UnboundedReceiver<Value>,
    /// The bodies of requests that change or delete claims.
    changed: mpsc::UnboundedReceiver<Value>,
    metrics: Arc<Metrics>,
}

impl Bench {
    async fn new() -> Self {
        Self::with_audit(AuditLog::default()).await
    }

    /// A bench with requests that are limited to this rate.
    async fn with_rate(rate: RequestRate) -> Self {
        Self::with(AuditLog::default(), rate).await
    }

    async fn with_audit(audit: AuditLog) -> Self {
        Self::with(audit, RequestRate::UNLIMITED).await
    }

    async fn with(audit: AuditLog, rate: RequestRate) -> Self {
        heard::install();
        let (release, released) = watch::channel(false);
        let (sender, changed) = mpsc::unbounded_channel();
        let hang = move |Json(body): Json<Value>| {
            let mut released = released.clone();
            let sender = sender.clone();
            async move {
                sender.send(body).expect("the test takes it");
                let _ = released.wait_for(|released| *released).await;
                Json(json!({}))
            }
        };
        let create = async || (StatusCode::CREATED, Json(json!({"metadata": {"uid": "of-the-new"}})));
        let bind = async |Path((_, pod)): Path<(String, String)>| {
            let code = if pod == "pod-9" { StatusCode::FORBIDDEN } else { StatusCode::CREATED };
            (code, Json(json!({"kind": "Status", "message": format!("the binding of {pod}")})))
        };
        let (sender, patched) = mpsc::unbounded_channel();
        let patch_status = async move |Json(body): Json<Value>| {
            sender.send(body).expect("the test takes it");
            Json(json!({}))
        };
        let routes = Router::new()
            .route("/api/v1/namespaces/{namespace}/persistentvolumeclaims", post(create))
            .route("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}", patch(hang.clone()).delete(hang))
            .route("/api/v1/namespaces/{namespace}/pods/{name}/status", patch(patch_status))
            .route("/api/v1/namespaces/{namespace}/pods/{name}/binding", post(bind));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(axum::serve(listener, routes).into_future());

        let client = client(&format!("http://{address}")).await;
        let (actions, to_do) = mpsc::channel(16);
        let (sender, events) = mpsc::channel(16);
        let metrics = Arc::new(Metrics::default());
        let executor = Executor {
            sinks: Sinks {
                metrics: Arc::clone(&metrics),
                audit,
                events: Arc::new(NoEvents),
                history: PluginHistory::default(),
            },
            writer: Writer::new(client.clone()).with_rate(rate),
            kinds: Kinds::new(client.clone()),
            recorder: EventRecorder::spawn(client, "here", RequestRate::UNLIMITED),
            events: sender,
            extenders: watch::channel(None).1,
            traces: Traces::default(),
            api_calls: Some(metrics.api_calls.clone()),
        };
        tokio::spawn(executor.run(to_do));
        Self { actions, events, release, patched, changed, metrics }
    }

    async fn ask(&self, pod: usize, request: Request) {
        self.ask_for("main", pod, request).await;
    }

    /// Sends `request` about a pod of this profile.
    async fn ask_for(&self, profile: &str, pod: usize, request: Request) {
        let name = format!("pod-{pod}");
        let pod =
            PodRef { namespace: "default".into(), uid: name.as_str().into(), name: name.into(), ..PodRef::default() };
        let action = Task::Pod(PodRequest { pod, profile: profile.into(), request });
        let sent = tokio::time::timeout(DEADLINE, self.actions.send(action)).await;
        assert!(matches!(sent, Ok(Ok(()))), "the executor takes no more actions");
    }

    async fn answer(&mut self) -> Event {
        let event = tokio::time::timeout(DEADLINE, self.events.recv()).await;
        event.expect("the executor answers").expect("the executor lives")
    }
}

async fn client(server: &str) -> berth_cluster::Client {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("kubeconfig");
    let kubeconfig = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}],\
         clusters: [{{name: c, cluster: {{server: {server:?}}}}}], users: [{{name: u, user: {{}}}}]}}"
    );
    std::fs::write(&path, kubeconfig).expect("a file");
    let options = ConnectOptions { kubeconfig: Some(path), ..ConnectOptions::default() };
    berth_cluster::connect(&options).await.expect("a client").client()
}

fn patch_claim(pod: usize) -> Request {
    patch_claim_by("VolumeBinding", pod)
}

fn patch_claim_by(plugin: &str, pod: usize) -> Request {
    let patch = Effect::Patch {
        kind: "v1/PersistentVolumeClaim".to_owned(),
        namespace: "default".to_owned(),
        name: format!("claim-{pod}"),
        subresource: None,
        patch: b"{}".to_vec(),
        patch_type: PatchType::Merge,
    };
    awaited(plugin, vec![GrantedEffect { effect: patch, uid: None }])
}

fn awaited(plugin: &str, effects: Vec<GrantedEffect>) -> Request {
    Request::AwaitedEffects(PluginEffects {
        held: HeldBytes::default(),
        cycle: CycleId(1),
        point: Point::PreBind,
        scheduler_name: "default-scheduler".to_owned(),
        plugin: plugin.into(),
        binary: Some(BinaryId::Native),
        effects,
    })
}

fn bind() -> Request {
    Request::Bind { cycle: CycleId(1), node: "n1".into() }
}

/// A number above the limit of open requests.
const STUCK: usize = 300;

#[tokio::test]
async fn pods_without_volumes_do_not_wait_for_claims_that_hang() {
    let mut bench = Bench::new().await;
    for pod in 0..STUCK {
        bench.ask(pod, patch_claim(pod)).await;
    }
    let mut bound = BTreeSet::new();
    for pod in STUCK..2 * STUCK {
        bench.ask(pod, bind()).await;
        let Event::BindFinished { uid, result: Ok(()), .. } = bench.answer().await else { panic!("not bound") };
        bound.insert(uid);
    }
    assert_eq!(bound.len(), STUCK);
}

const SLOW: RequestRate = RequestRate { per_second: 20.0, burst: 1 };

#[tokio::test]
async fn a_profile_that_binds_many_pods_delays_no_other() {
    let mut bench = Bench::with_rate(SLOW).await;
    for pod in 100..100 + STUCK {
        bench.ask(pod, bind()).await;
    }
    bench.ask_for("other", 1, bind()).await;
    let mut n_before = 0;
    while !matches!(bench.answer().await, Event::BindFinished { uid, .. } if uid == "pod-1".into()) {
        n_before += 1;
    }
    assert!(n_before < 30, "{n_before} of {STUCK} bindings of the other profile came first");
}

#[tokio::test]
async fn updates_of_the_status_of_many_pods_keep_none_from_being_bound() {
    let mut bench = Bench::with_rate(SLOW).await;
    for pod in 100..12_100 {
        bench.ask(pod, reject("no room")).await;
    }
    let before = bench.patched.len();
    bench.ask(1, bind()).await;
    assert!(matches!(bench.answer().await, Event::BindFinished { uid, result: Ok(()), .. } if uid == "pod-1".into()));
    // The binding is also sent before the patches that wait for the rate.
    let n_first = bench.patched.len() - before;
    assert!(n_first < 16, "{n_first} updates came before the binding");
    for pod in 12_100..21_000 {
        bench.ask(pod, reject("no room")).await;
    }
    assert!(matches!(bench.answer().await, Event::StatusPatchFailed { .. }), "a patch that is dropped is reported");
    let dropped = bench.metrics.render().lines().any(|line| {
        line.strip_prefix("berth_status_patches_dropped_total ")
            .is_some_and(|count| count.parse::<u32>().is_ok_and(|it| it > 0))
    });
    assert!(dropped);
}

#[tokio::test]
async fn what_a_plugin_changes_is_in_the_audit_log() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("audit.log");
    let audit = AuditLog::open(Some(&file)).expect("a file");
    let mut bench = Bench::with_audit(audit.clone()).await;
    bench.release.send_replace(true);
    bench.ask(7, patch_claim(7)).await;
    assert!(matches!(bench.answer().await, Event::EffectsFinished { result: Ok(()), .. }));
    audit.flush(DEADLINE).await;
    let text = std::fs::read_to_string(&file).expect("a file");
    let entry: Value = serde_json::from_str(&text).expect("one line of JSON");
    let expected = json!({
        "time": entry["time"], "plugin": "VolumeBinding", "by": "plugin", "event": "effect",
        "profile": "default-scheduler", "digest": "native", "cycle": 1, "point": "PreBind",
        "pod": {"namespace": "default", "name": "pod-7", "uid": "pod-7"},
        "verb": "patch", "kind": "v1/PersistentVolumeClaim", "namespace": "default", "name": "claim-7", "result": "ok",
    });
    assert_eq!(entry, expected);
}

#[tokio::test]
async fn what_is_changed_still_has_the_uid_that_was_looked_at() {
    let (kind, namespace) = ("v1/PersistentVolumeClaim".to_owned(), "default".to_owned());
    let patch = |name: &str, patch: &str| {
        let (kind, namespace, name, patch) =
            (kind.clone(), namespace.clone(), name.to_owned(), patch.as_bytes().to_vec());
        Effect::Patch { kind, namespace, name, subresource: None, patch, patch_type: PatchType::Merge }
    };
    let delete =
        |name: &str| Effect::Delete { kind: kind.clone(), namespace: namespace.clone(), name: name.to_owned() };
    let body = br#"{"metadata": {"name": "new"}}"#.to_vec();
    let create = Effect::Create { kind: kind.clone(), namespace: namespace.clone(), body };
    let effects = vec![
        (patch("old", r#"{"metadata": {"uid": "of-the-old", "labels": {"a": "b"}}}"#), Some("of-the-old")),
        (delete("old"), Some("of-the-old")),
        (patch("any", "{}"), None),
        (create, None),
        (patch("new", r#"{"spec": {}}"#), None),
        (delete("new"), None),
    ];
    let effects = effects.into_iter().map(|(effect, uid)| GrantedEffect { effect, uid: uid.map(Into::into) }).collect();
    let mut bench = Bench::new().await;
    bench.release.send_replace(true);
    bench.ask(0, awaited("VolumeBinding", effects)).await;
    assert!(matches!(bench.answer().await, Event::EffectsFinished { result: Ok(()), .. }));
    let mut sent = Vec::new();
    while let Ok(body) = bench.changed.try_recv() {
        sent.push(body);
    }
    let deletion = |uid: &str| json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
    let expected = [
        json!({"metadata": {"uid": "of-the-old", "labels": {"a": "b"}}}),
        deletion("of-the-old"),
        json!({}),
        json!({"spec": {}, "metadata": {"uid": "of-the-new"}}),
        deletion("of-the-new"),
    ];
    assert_eq!(sent, expected);
    // A patch that names another uid, or has no place for a uid, is not sent.
    for broken in ["[]", r#"{"metadata": null}"#, r#"{"metadata": {"uid": "of-another"}}"#] {
        let effects = vec![GrantedEffect { effect: patch("old", broken), uid: Some("of-the-old".into()) }];
        bench.ask(0, awaited("VolumeBinding", effects)).await;
        assert!(matches!(bench.answer().await, Event::EffectsFinished { result: Err(_), .. }), "{broken}");
    }
    assert!(bench.changed.try_recv().is_err());
}

#[tokio::test]
async fn at_unreserve_an_effect_that_fails_does_not_stop_the_next() {
    let patch = |patch: &str| Effect::Patch {
        kind: "v1/PersistentVolumeClaim".to_owned(),
        namespace: "default".to_owned(),
        name: "claim".to_owned(),
        subresource: None,
        patch: patch.as_bytes().to_vec(),
        patch_type: PatchType::StrategicMerge,
    };
    for (point, expected) in [(Point::PreBind, None), (Point::Reserve, Some(json!({"metadata": {"uid": "its-uid"}})))] {
        let effects = ["[]", "{}"].map(|it| GrantedEffect { effect: patch(it), uid: Some("its-uid".into()) });
        let mut request = awaited("DynamicResources", effects.into());
        if let Request::AwaitedEffects(effects) = &mut request {
            effects.point = point;
        }
        let mut bench = Bench::new().await;
        bench.release.send_replace(true);
        bench.ask(0, request).await;
        assert!(matches!(bench.answer().await, Event::EffectsFinished { result: Err(_), .. }));
        assert_eq!(bench.changed.try_recv().ok(), expected, "{point:?}");
    }
}

#[tokio::test]
async fn requests_about_one_pod_stay_in_order() {
    let mut bench = Bench::new().await;
    bench.ask(0, patch_claim(0)).await;
    bench.ask(0, bind()).await;
    bench.ask(1, bind()).await;
    assert!(matches!(bench.answer().await, Event::BindFinished { uid, .. } if uid == "pod-1".into()));
    bench.release.send_replace(true);
    assert!(matches!(bench.answer().await, Event::EffectsFinished { result: Ok(()), .. }));
    assert!(matches!(bench.answer().await, Event::BindFinished { uid, .. } if uid == "pod-0".into()));
}

#[tokio::test]
async fn plugins_do_not_wait_for_each_other_before_a_pod_is_bound() {
    let mut bench = Bench::new().await;
    bench.ask(0, patch_claim_by("VolumeBinding", 0)).await;
    let done = Effect::Event { warning: false, reason: "R".into(), action: "A".into(), note: "N".into() };
    let effects = |plugin: &str| {
        let (scheduler_name, plugin) = ("default-scheduler".to_owned(), plugin.into());
        Request::AwaitedEffects(PluginEffects {
            held: HeldBytes::default(),
            cycle: CycleId(1),
            point: Point::PreBind,
            scheduler_name,
            plugin,
            binary: None,
            effects: vec![GrantedEffect { effect: done.clone(), uid: None }],
        })
    };
    bench.ask(0, effects("VolumeBinding")).await;
    bench.ask(0, bind()).await;
    bench.ask(1, patch_claim_by("VolumeBinding", 1)).await;
    bench.ask(1, effects("DynamicResources")).await;
    let is_of_the_other = |event: &Event| matches!(event, Event::EffectsFinished { uid, plugin, .. } if *uid == "pod-1".into() && **plugin == *"DynamicResources");
    let first = bench.answer().await;
    assert!(is_of_the_other(&first), "{first:?}");
    bench.release.send_replace(true);
    let mut of_the_first = Vec::new();
    for _ in 0..4 {
        match bench.answer().await {
            Event::EffectsFinished { uid, .. } if uid == "pod-0".into() => of_the_first.push("effects"),
            Event::BindFinished { .. } => of_the_first.push("binding"),
            _ => {}
        }
    }
    assert_eq!(of_the_first, ["effects", "effects", "binding"]);
}

#[tokio::test]
async fn a_pod_that_is_gone_causes_no_warning() {
    let mut bench = Bench::new().await;
    let heard = Heard::new();
    // The server has no pods. The requests are about pod-0.
    for (name, expected) in [("pod-0", vec![]), ("pod-8", vec!["effect failed"])] {
        let patch = Effect::Patch {
            kind: "v1/Pod".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            subresource: None,
            patch: b"{}".to_vec(),
            patch_type: PatchType::Merge,
        };
        bench.ask(0, awaited("Approval", vec![GrantedEffect { effect: patch, uid: None }])).await;
        let Event::EffectsFinished { result: Err(error), .. } = bench.answer().await else { panic!("{name}") };
        let error = error.to_string();
        assert!(error.starts_with(&format!("cannot patch pods/{name}: ")), "{error}");
        let warnings = heard.take().into_iter().filter(|line| line.level == Level::WARN);
        assert_eq!(warnings.map(|line| line.message).collect::<Vec<_>>(), expected, "{name}");
    }
}

fn nominate(node: &str) -> Request {
    Request::PatchStatus(StatusChange { nominated_node_name: Some(node.to_owned()), ..StatusChange::default() })
}

fn reject(message: &str) -> Request {
    let condition = json!({"type": "PodScheduled", "status": "False", "message": message});
    let condition = Some(serde_json::from_value(condition).expect("a condition"));
    Request::PatchStatus(StatusChange { condition, ..StatusChange::default() })
}

#[tokio::test]
async fn patches_that_wait_become_one() {
    let mut bench = Bench::new().await;
    bench.ask(0, patch_claim(0)).await;
    for request in [nominate("n1"), reject("no room"), nominate("n2"), reject("no room at all")] {
        bench.ask(0, request).await;
    }
    bench.ask(1, nominate("n3")).await;
    let of_the_other = bench.patched.recv().await.expect("a patch");
    assert_eq!(of_the_other, json!({"status": {"nominatedNodeName": "n3"}}));
    bench.release.send_replace(true);
    let patch = bench.patched.recv().await.expect("a patch");
    assert_eq!(patch["status"]["nominatedNodeName"], "n2");
    assert_eq!(patch["status"]["conditions"][0]["message"], "no room at all");
    bench.ask(0, bind()).await;
    bench.answer().await;
    assert!(matches!(bench.answer().await, Event::BindFinished { result: Ok(()), .. }));
    assert!(bench.patched.is_empty());
    let counted = bench.metrics.render();
    for line in [
        "scheduler_async_api_call_execution_total{call_type=\"pod_binding\",result=\"success\"} 1",
        "scheduler_async_api_call_execution_total{call_type=\"pod_status_patch\",result=\"success\"} 2",
        "scheduler_pending_async_api_calls{call_type=\"pod_status_patch\"} 0",
    ] {
        assert!(counted.lines().any(|it| it == line), "{line} is missing from\n{counted}");
    }
}

#[tokio::test]
async fn a_binding_drops_the_patches_before_it() {
    let mut bench = Bench::new().await;
    for pod in [0, 9] {
        bench.ask(pod, patch_claim(pod)).await;
        bench.ask(pod, nominate("n1")).await;
        bench.ask(pod, bind()).await;
        bench.ask(pod, nominate("")).await;
    }
    bench.release.send_replace(true);
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.push(match bench.answer().await {
            Event::EffectsFinished { uid, .. } => format!("{uid}: effects"),
            Event::BindFinished { uid, result, .. } => format!("{uid}: bound {}", result.is_ok()),
            Event::StatusPatchFailed { uid } => format!("{uid}: not patched"),
            other => panic!("{other:?}"),
        });
    }
    answers.sort_by_key(|answer| answer[..5].to_owned());
    let expected =
        ["pod-0: effects", "pod-0: bound true", "pod-9: effects", "pod-9: not patched", "pod-9: bound false"];
    assert_eq!(answers, expected);
    assert!(bench.patched.is_empty());
}
