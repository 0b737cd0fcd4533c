//! Random effects against an API server that answers at random. Each request with effects gets an answer, and no name
//! leads a request to another path.

use std::{
    future::IntoFuture as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, Uri},
};
use berth_framework::{CycleId, Effect, ObjectRef, PatchType};
use berth_scheduler::{GrantedEffect, HeldBytes};
use berth_telemetry::{audit::AuditLog, metrics::Metrics, notices::PluginHistory};
use fuzz_targets::{Random, rounds};
use serde_json::json;
use tokio::{net::TcpListener, runtime::Runtime};

use super::{tests::NoEvents, *};
use crate::heard;

const DEADLINE: Duration = Duration::from_secs(60);

const NAMES: [&str; 14] =
    ["a", "web-0", "system:x", "", ".", "..", "a/b", "a?dryRun=All", "a#b", "a%2fb", "a b", "ä", "a\nb", "u"];

const KINDS: [&str; 10] = [
    "v1/Pod",
    "v1/Secret",
    "resource.k8s.io/v1/ResourceClaim",
    "example.com/v1/Ox",
    "../v1/Pod",
    "v1/../Pod",
    "v1?x/Pod",
    "Pod",
    "",
    "a b/c/d",
];

/// The requests to the API server, and its next answers.
#[derive(Debug, Default)]
struct Log {
    asked: Vec<Uri>,
    answers: Vec<u16>,
}

type SharedLog = Arc<Mutex<Log>>;

#[test]
fn effects_are_answered_and_names_lead_nowhere_else() {
    heard::install();
    let runtime = Runtime::new().unwrap();
    let (actions, mut events, log) = runtime.block_on(start());
    rounds(60, |random| {
        let effects: Vec<Effect> = (0..=random.below(4)).map(|_| effect(random)).collect();
        let told = format!("{effects:?}");
        *log.lock().unwrap() = Log {
            asked: Vec::new(),
            // No status of this list leads to another try.
            answers: (0..64).map(|_| *random.one_of(&[200, 201, 403, 404, 409, 422])).collect(),
        };
        let event = runtime.block_on(async {
            actions.send(action(effects)).await.expect("the executor lives");
            tokio::time::timeout(DEADLINE, events.recv()).await
        });
        assert!(matches!(event, Ok(Some(Event::EffectsFinished { .. }))), "{event:?} after {told}");
        for uri in &log.lock().unwrap().asked {
            let path = uri.path();
            assert!(path.starts_with("/api/v1") || path.starts_with("/apis/"), "{uri} by {told}");
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/".contains(&byte);
            assert!(path.bytes().all(is_plain) && uri.query().is_none(), "{uri} by {told}");
            assert!(path.split('/').skip(1).all(|part| !matches!(part, "" | "." | "..")), "{uri} by {told}");
        }
    });
}

async fn start() -> (mpsc::Sender<Task>, mpsc::Receiver<Event>, SharedLog) {
    let log = SharedLog::default();
    let answer = async |State(log): State<SharedLog>, uri: Uri| {
        let mut log = log.lock().unwrap();
        log.asked.push(uri);
        let code = log.answers.pop().and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::OK);
        (code, Json(json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"uid": "u", "name": "a"}, "resources": []})))
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, Router::new().fallback(answer).with_state(Arc::clone(&log))).into_future());
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    let (actions, to_do) = mpsc::channel(16);
    let (sender, events) = mpsc::channel(16);
    let executor = Executor {
        sinks: Sinks {
            metrics: Arc::new(Metrics::default()),
            audit: AuditLog::default(),
            events: Arc::new(NoEvents),
            history: PluginHistory::default(),
        },
        writer: Writer::new(client.clone()),
        kinds: Kinds::new(client.clone()),
        // Another task posts events at another time, so this API server does not get these events.
        recorder: EventRecorder::spawn(
            kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap(),
            "here",
            berth_cluster::RequestRate::UNLIMITED,
        ),
        events: sender,
        extenders: watch::channel(None).1,
        traces: Traces::default(),
        api_calls: None,
    };
    tokio::spawn(executor.run(to_do));
    (actions, events, log)
}

fn action(effects: Vec<Effect>) -> Task {
    let pod = PodRef { namespace: "default".into(), uid: "u".into(), name: "a".into(), ..PodRef::default() };
    let request = Request::AwaitedEffects(PluginEffects {
        held: HeldBytes::default(),
        cycle: CycleId(1),
        point: Point::PreBind,
        scheduler_name: "default-scheduler".to_owned(),
        plugin: "Mine".into(),
        binary: None,
        effects: effects.into_iter().map(|effect| GrantedEffect { effect, uid: None }).collect(),
    });
    Task::Pod(PodRequest { pod, profile: "main".into(), request })
}

fn effect(random: &mut Random) -> Effect {
    let name = |random: &mut Random| (*random.one_of(&NAMES)).to_owned();
    let kind = (*random.one_of(&KINDS)).to_owned();
    let body = random.one_of(&["{}", "null", "[", "{\"metadata\": {\"name\": \"../x\"}}", ""]).as_bytes().to_vec();
    let subresource = (random.below(2) == 0).then(|| name(random));
    let (namespace, name) = (name(random), name(random));
    match random.below(6) {
        0 => {
            let patch_type = if random.below(2) == 0 { PatchType::Merge } else { PatchType::StrategicMerge };
            Effect::Patch { kind, namespace, name, subresource, patch: body, patch_type }
        }
        1 => Effect::Create { kind, namespace, body },
        2 => Effect::Delete { kind, namespace, name },
        3 => Effect::Evict { namespace, name, uid: "u".to_owned(), message: "no\u{1b}[2J".to_owned() },
        4 => Effect::Event { warning: true, reason: name, action: namespace, note: "n".repeat(random.below(5000)) },
        _ => Effect::Wait {
            objects: vec![ObjectRef { kind, namespace, name }],
            timeout_ms: 1,
            timeout_message: String::new(),
        },
    }
}
