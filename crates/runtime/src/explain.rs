//! `/explain`: why a pod is where it is, or waits.
//!
//! Where the pod is comes from the copy that follows the scheduler, the last decision from the ring. What plugins say about each node
//! is worked out on the copy, by instances of their own, which are made for the question and dropped after it.

mod subject;

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::get,
};
use berth_config::{RunningConfiguration, Usage};
use berth_explain::{Analysis, DecisionRecord, DecisionRing, Explanation, NodeReport, Question, Subject, analyze};
use berth_framework::{Call, CycleId, Profile, run::NominatedPods};
use berth_model::{Pod, PodUid, Sym, Time};
use berth_plugin_host::Message;
use berth_scheduler::{ClusterView, PodPlace};
use berth_telemetry::clock;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use self::subject::subject;
use crate::follower::Follower;

/// The cycle in which plugins are asked: their instances see no other.
const CYCLE: CycleId = CycleId(1);

/// The last decisions, which the scheduling thread enters.
pub(crate) type Decisions = Arc<Mutex<DecisionRing>>;

/// Answers questions about pods. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Explainer {
    pub follower: Follower,
    pub decisions: Decisions,
    pub supervisor: mpsc::Sender<Message>,
    pub running: RunningConfiguration,
}

/// What is asked.
#[derive(Debug, Deserialize)]
struct About {
    namespace: String,
    name: String,
    /// A node on which the pod is or is not.
    node: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum ExplainError {
    #[error(
        "the scheduler does not know pod {0}/{1}: it is not there, it has ended, or its spec.schedulerName is that of another scheduler"
    )]
    UnknownPod(String, String),
    #[error("the scheduler does not show its pods in time; try again")]
    Slow,
    #[error("the scheduler is stopping")]
    Stopping,
}

/// What is known without asking plugins.
struct Known {
    uid: PodUid,
    subject: Subject,
    as_of: Time,
    is_complete: bool,
}

/// The route. A client that reaches it sees every pod.
pub(crate) fn routes(explainer: Explainer) -> Router {
    Router::new().route("/explain", get(answer)).with_state(explainer)
}

async fn answer(State(explainer): State<Explainer>, Query(about): Query<About>) -> Response {
    let refuse = |status, error: ExplainError| (status, Json(json!({ "error": error.to_string() }))).into_response();
    match explainer.explain(about).await {
        Ok(explanation) => Json(explanation).into_response(),
        Err(error @ ExplainError::UnknownPod(..)) => refuse(StatusCode::NOT_FOUND, error),
        Err(error @ (ExplainError::Slow | ExplainError::Stopping)) => refuse(StatusCode::SERVICE_UNAVAILABLE, error),
    }
}

impl Explainer {
    async fn explain(&self, about: About) -> Result<Explanation, ExplainError> {
        let About { namespace, name, node } = about;
        let names = (namespace.clone(), name.clone());
        let known = self.follower.ask(move |view| known(view, &names)).await.ok_or(ExplainError::Slow)?;
        let Known { uid, subject, as_of, is_complete } = known.ok_or(ExplainError::UnknownPod(namespace, name))?;
        let decision = self.last_decision(&uid);
        let mut notes = Vec::new();
        if !is_complete {
            notes.push("the scheduler is busy: some of this is older than the rest".to_owned());
        }
        let scheduler_name = subject.scheduler_name.clone();
        let (analysis, retries) = match self.profile(scheduler_name).await? {
            Ok(profile) => {
                let asked = self.follower.ask(move |view| analysis(view, profile, &uid, node.as_deref())).await;
                asked.ok_or(ExplainError::Slow)?.map_or_else(Default::default, |(it, retries)| (Some(it), retries))
            }
            Err(reason) => {
                notes.push(format!("plugins were not asked: {reason}"));
                Default::default()
            }
        };
        let mut subject = subject;
        subject.retries = retries;
        let has_decision = decision.is_some();
        let mut explanation = Explanation::new(subject, decision, analysis);
        if explanation.subject.attempts > 0 && !has_decision {
            notes.push("the last decision is not kept any more; what plugins say now may differ from it".to_owned());
        }
        explanation.notes = notes;
        explanation.as_of = clock::rfc3339(clock::wall(as_of));
        explanation.age_milliseconds = clock::now().since(as_of);
        Ok(explanation)
    }

    /// The last decision about the pod, with its age.
    fn last_decision(&self, uid: &str) -> Option<(DecisionRecord, u64)> {
        let decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        let record = decisions.last_about(uid)?.clone();
        let age = clock::now().since(record.at);
        Some((record, age))
    }

    /// New instances of the plugins that serve in a profile.
    async fn profile(&self, scheduler_name: String) -> Result<Result<Profile, Usage>, ExplainError> {
        let (answer, profile) = oneshot::channel();
        let settings = Box::new(self.running.settings());
        let message = Message::CopyProfile { settings, scheduler_name, answer };
        self.supervisor.send(message).await.map_err(|_| ExplainError::Stopping)?;
        profile.await.map_err(|_| ExplainError::Stopping)
    }
}

fn known(view: &mut ClusterView, (namespace, name): &(String, String)) -> Option<Known> {
    let pod = view.find_pod(namespace, name)?;
    Some(Known {
        uid: pod.pod().uid.clone(),
        subject: subject(view, pod),
        as_of: view.as_of(),
        is_complete: view.is_complete(),
    })
}

/// What the plugins say about the pod on each node, and what has it tried again. `None` if the pod is gone meanwhile.
fn analysis(
    view: &mut ClusterView,
    mut profile: Profile,
    uid: &PodUid,
    node: Option<&str>,
) -> Option<(Analysis, Vec<berth_explain::Retry>)> {
    let followed = view.pod(uid)?;
    // A pod that has a node is asked about as it was before: its node is no wish of its own.
    let pod = Arc::new(Pod { node_name: Sym::NONE, ..Pod::clone(followed.pod()) });
    let rejected_by = match followed.place() {
        PodPlace::Queued(waiting) => waiting.record.rejectors.iter().chain(&waiting.record.pending).cloned().collect(),
        PodPlace::Binding(_) | PodPlace::Assumed { .. } | PodPlace::Bound { .. } | PodPlace::Unscheduled => Vec::new(),
    };
    let retries = subject::retries(&mut profile, &rejected_by);
    let analysis = view.without_pod(uid, |view| ask(view, &mut profile, &pod, node));
    Some((analysis, retries))
}

fn ask(view: &ClusterView, profile: &mut Profile, pod: &Arc<Pod>, node: Option<&str>) -> Analysis {
    if let Err((plugin, status)) = profile.sync(view.cache()) {
        let error = format!("{}: {}", profile.name(plugin), status.message());
        return Analysis { nodes: view.table().n_nodes(), error: Some(error), ..Analysis::default() };
    }
    let table = view.table();
    let nominated = NominatedPods::new(table, pod, view.nominated_pods());
    let row = node.and_then(|node| table.find(table.symbols.lookup(node)?));
    let question = Question { order: view.cache().order(), nominated: &nominated, node: row };
    let mut analysis = analyze(profile, &Call::new(CYCLE, view.as_of(), pod, table), &question);
    if let (Some(node), None) = (node, row) {
        analysis.node = Some(NodeReport { node: node.to_owned(), ..NodeReport::default() });
    }
    analysis
}
