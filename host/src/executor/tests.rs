//! The executor against an API server played by the test.

use std::{collections::BTreeSet, future::IntoFuture as _, path::PathBuf, time::Duration};

use axum::{Json, Router, extract::Path, routing::patch, routing::post};
use berth_cluster::ConnectOptions;
use berth_framework::{CycleId, Effect};
use serde_json::json;
use tokio::net::TcpListener;

use super::*;

const DEADLINE: Duration = Duration::from_secs(20);

/// An executor whose API server binds pods at once, and answers patches of claims when told to.
struct Bench {
    actions: mpsc::Sender<Action>,
    events: mpsc::Receiver<Event>,
    release: watch::Sender<bool>,
    _plugins: mpsc::Receiver<Message>,
}

impl Bench {
    async fn new() -> Self {
        let (release, released) = watch::channel(false);
        let hang = move || {
            let mut released = released.clone();
            async move {
                let _ = released.wait_for(|released| *released).await;
                Json(json!({}))
            }
        };
        let bind = async |Path((_, pod)): Path<(String, String)>| Json(json!({"kind": "Status", "bound": pod}));
        let routes = Router::new()
            .route("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}", patch(hang))
            .route("/api/v1/namespaces/{namespace}/pods/{name}/binding", post(bind));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(axum::serve(listener, routes).into_future());

        let client = client(&format!("http://{address}")).await;
        let (actions, to_do) = mpsc::channel(16);
        let (sender, events) = mpsc::channel(16);
        let (plugins, inbox) = mpsc::channel(16);
        let executor = Executor {
            writer: Writer::new(client.clone()),
            kinds: Kinds::new(client.clone()),
            recorder: EventRecorder::spawn(client, "here", berth_cluster::RequestRate::UNLIMITED),
            events: sender,
            plugins,
            metrics: Arc::new(Metrics::new()),
            extenders: watch::channel(None).1,
        };
        tokio::spawn(executor.run(to_do));
        Self { actions, events, release, _plugins: inbox }
    }

    async fn ask(&self, pod: usize, request: Request) {
        let name = format!("pod-{pod}");
        let pod = PodRef { namespace: "default".to_owned(), uid: name.as_str().into(), name, ..PodRef::default() };
        let action = Action::Pod(PodRequest { pod, request });
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
    berth_cluster::connect(&options).await.expect("a client").client
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
    };
    Request::AwaitedEffects(PluginEffects {
        cycle: CycleId(1),
        scheduler_name: "default-scheduler".to_owned(),
        plugin: plugin.into(),
        effects: vec![patch],
    })
}

fn bind() -> Request {
    Request::Bind { cycle: CycleId(1), node: "n1".to_owned() }
}

/// More than may be open at a time.
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
            cycle: CycleId(1),
            scheduler_name,
            plugin,
            effects: vec![done.clone()],
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
