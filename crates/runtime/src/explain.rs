//! `/explain`: the reason why a pod is on its node, or waits.
//!
//! The pod's state comes from the copy that follows the scheduler, and the last decision comes from the ring. The
//! answers of plugins about each node are determined on the copy, by instances of the plugins that schedule no pod.
//! Native instances are [kept](crate::kept_plugins) for the next question. Instances of components are dropped after the
//! question, and so are all instances that saw a pod that does not exist: the symbols of this pod are taken back.

mod remedy;
mod subject;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Extension, Json, Router,
    body::{Body, to_bytes},
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::get,
};
use berth_cluster::ResourceRequest;
use berth_config::{RunningConfiguration, Usage};
use berth_explain::{
    Analysis, DecisionRecord, DecisionRing, EarlierAttempt, Explanation, Holder, NodeReport, PodIdentity, PodState,
    Question, Subject, add_words, analyze,
};
use berth_framework::{
    Call, CycleId, Manifest as PluginManifest, Meter, PluginIdx, Point, Profile, Status,
    run::{NominatedPods, Refusal},
};
use berth_model::{ClusterTable, Pod, PodUid, Sym, Time, api};
use berth_plugin_host::Message;
use berth_scheduler::{ClusterView, PodPlace};
use berth_serving::{
    Health,
    secure_serving::{NoVerdict, RequestUser},
};
use berth_telemetry::clock;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use self::subject::subject;
use crate::follower::{Copied, Follower};

/// The cycle in which plugins are asked about a pod that does not exist. Their instances see only this cycle and the
/// cycles after it.
const CYCLE: CycleId = CycleId(1);

/// The maximum size of a manifest, and the maximum time for its arrival. The API server accepts 3 MiB; a pod has a few
/// KiB.
const MAX_BODY: usize = 256 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of attempts before the last one that an explanation shows.
const N_EARLIER: usize = 10;

/// The number of decisions that `/debug/decisions` shows.
const N_DECISIONS: usize = 100;

/// The last decisions, which the scheduling thread adds.
pub(crate) type Decisions = Arc<Mutex<DecisionRing>>;

/// Answers questions about pods. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Explainer {
    pub follower: Follower,
    pub decisions: Decisions,
    pub supervisor: mpsc::Sender<Message>,
    pub running: RunningConfiguration,
    pub health: Health,
}

/// The pod and the node of a question.
#[derive(Debug, Deserialize)]
struct About {
    namespace: String,
    name: String,
    /// The node that the caller asks about.
    node: Option<String>,
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExplainError {
    #[error(
        "the scheduler does not know pod {0}/{1}: it does not exist, it has finished, or its spec.schedulerName names \
         another scheduler"
    )]
    UnknownPod(String, String),
    #[error("invalid pod: {0}")]
    NoPod(String),
    #[error("{0}")]
    NotServed(String),
    #[error("the scheduler did not answer in time; try again")]
    Slow,
    #[error("the scheduler is stopping")]
    Stopping,
}

/// The facts that are known without asking plugins.
struct Known {
    uid: PodUid,
    subject: Subject,
    as_of: Time,
    is_complete: bool,
}

/// The routes. If a request has no [`RequestUser`], as on the socket, the caller may see every pod.
pub(crate) fn routes(explainer: Explainer) -> Router {
    let routes = Router::new().route("/explain", get(answer).post(answer_about_manifest));
    routes.route("/debug/decisions", get(last_decisions)).with_state(explainer)
}

/// The last decisions about all pods, the newest first. The decisions name pods by uid.
async fn last_decisions(State(explainer): State<Explainer>) -> Json<Vec<DecisionRecord>> {
    let decisions = explainer.decisions.lock().unwrap_or_else(PoisonError::into_inner);
    Json(decisions.newest(N_DECISIONS).cloned().collect())
}

/// The right to see a pod.
pub(crate) fn get_pod<'a>(namespace: &'a str, name: &'a str) -> ResourceRequest<'a> {
    ResourceRequest { group: "", resource: "pods", verb: "get", namespace: Some(namespace), name: Some(name) }
}

/// The right to see a PodDisruptionBudget.
fn get_budget<'a>(namespace: &'a str, name: &'a str) -> ResourceRequest<'a> {
    let (group, resource) = ("policy", "poddisruptionbudgets");
    ResourceRequest { group, resource, verb: "get", namespace: Some(namespace), name: Some(name) }
}

async fn answer(
    State(explainer): State<Explainer>,
    user: Option<Extension<RequestUser>>,
    Query(about): Query<About>,
) -> Response {
    let user = user.as_deref();
    if let Some(refusal) = refusal(user, &get_pod(&about.namespace, &about.name)).await {
        return refusal;
    }
    show(explainer.explain(&about.namespace, &about.name, about.node).await, user).await
}

/// Explains what would happen to a pod that does not exist. The caller must be allowed to create it.
async fn answer_about_manifest(
    State(explainer): State<Explainer>,
    user: Option<Extension<RequestUser>>,
    Query(about): Query<AboutManifest>,
    body: Body,
) -> Response {
    let Ok(Ok(body)) = timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY)).await else {
        return refuse(&ExplainError::NoPod(format!(
            "the request body is incomplete or larger than {} KiB",
            MAX_BODY >> 10
        )));
    };
    let manifest = match Manifest::read(&body) {
        Ok(manifest) => manifest,
        Err(error) => return refuse(&error),
    };
    let namespace = manifest.pod.metadata.namespace.clone();
    let create =
        ResourceRequest { group: "", resource: "pods", verb: "create", namespace: Some(&namespace), name: None };
    let user = user.as_deref();
    if let Some(refusal) = refusal(user, &create).await {
        return refusal;
    }
    show(explainer.explain_manifest(manifest, about.node).await, user).await
}

/// The response to a user that may not make `request`; `None` if the user may make it, or if there is no user, as on
/// the socket.
async fn refusal(user: Option<&RequestUser>, request: &ResourceRequest<'_>) -> Option<Response> {
    let user = user?;
    match user.may(request).await {
        Ok(true) => None,
        Ok(false) => Some(user.forbidden(request)),
        Err(verdict) => Some(verdict.into_response()),
    }
}

async fn show(explained: Result<Explanation, ExplainError>, user: Option<&RequestUser>) -> Response {
    match explained {
        Ok(mut explanation) => match hide(&mut explanation, user).await {
            Ok(()) => Json(explanation).into_response(),
            Err(verdict) => verdict.into_response(),
        },
        Err(error) => refuse(&error),
    }
}

fn refuse(error: &ExplainError) -> Response {
    let status = match error {
        ExplainError::UnknownPod(..) => StatusCode::NOT_FOUND,
        ExplainError::NoPod(_) | ExplainError::NotServed(_) => StatusCode::BAD_REQUEST,
        ExplainError::Slow | ExplainError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(json!({ "error": error.to_string() }))).into_response()
}

/// Removes the names of other pods and of budgets that the user may not see. The pods are only counted.
pub(crate) async fn hide(explanation: &mut Explanation, user: Option<&RequestUser>) -> Result<(), NoVerdict> {
    let preemption = explanation.analysis.as_mut().and_then(|analysis| analysis.preemption.as_mut());
    let (Some(user), Some(preemption)) = (user, preemption) else { return Ok(()) };
    let mut seen = Vec::new();
    for victim in std::mem::take(&mut preemption.examples) {
        let Some((namespace, name)) = victim.split_once('/') else { continue };
        if user.may(&get_pod(namespace, name)).await? {
            seen.push(victim);
        } else {
            preemption.unnamed += 1;
        }
    }
    preemption.examples = seen;
    let mut budgets = Vec::new();
    for budget in std::mem::take(&mut preemption.violated_budgets) {
        if user.may(&get_budget(&budget.namespace, &budget.name)).await? {
            budgets.push(budget);
        }
    }
    preemption.violated_budgets = budgets;
    Ok(())
}

/// A node on which the pod would or would not be placed.
#[derive(Debug, Deserialize)]
struct AboutManifest {
    node: Option<String>,
}

/// A pod that does not exist.
struct Manifest {
    pod: Box<api::Pod>,
    notes: Vec<String>,
}

impl Manifest {
    /// Reads a pod as JSON, and fills in the values that the API server would set.
    fn read(json: &[u8]) -> Result<Self, ExplainError> {
        let no_pod = |error: &dyn std::fmt::Display| ExplainError::NoPod(error.to_string());
        let mut value: Value = serde_json::from_slice(json).map_err(|error| no_pod(&error))?;
        let kind = value["kind"].as_str().unwrap_or_default();
        if kind != "Pod" {
            return Err(no_pod(&format!("its kind is {kind:?}, but only a Pod can be explained")));
        }
        let mut notes = Vec::new();
        let spec = &value["spec"];
        if spec["priorityClassName"].is_string() && !spec["priority"].is_number() {
            notes.push(
                "spec.priorityClassName is not looked up: set spec.priority to see what preemption would do".to_owned(),
            );
        }
        for (object, field, default) in
            [("metadata", "namespace", "default"), ("spec", "schedulerName", "default-scheduler")]
        {
            let fields = value.get_mut(object).and_then(Value::as_object_mut);
            if let Some(fields) = fields
                && fields.get(field).and_then(Value::as_str).unwrap_or_default().is_empty()
            {
                fields.insert(field.to_owned(), default.into());
            }
        }
        // Plugins that read complete pending pods need the JSON.
        let json = value.to_string();
        let mut pod: Box<api::Pod> = serde_path_to_error::deserialize(value).map_err(|error| no_pod(&error))?;
        pod.json = Some(json.into_bytes().into());
        if !pod.spec.node_name.is_empty() {
            return Err(no_pod(&"spec.nodeName is set: no scheduler places such a pod"));
        }
        Ok(Self { pod, notes })
    }

    fn subject(&self) -> Subject {
        let api::ObjectMeta { namespace, name, uid, .. } = &self.pod.metadata;
        Subject {
            pod: PodIdentity { namespace: namespace.clone(), name: name.clone(), uid: uid.clone() },
            scheduler_name: self.pod.spec.scheduler_name.clone(),
            priority: self.pod.spec.priority.unwrap_or_default(),
            state: PodState::NotCreated,
            attempts: 0,
            rejected_by: Vec::new(),
            nominated_node: None,
            holders: Vec::new(),
            retries: Vec::new(),
        }
    }
}

impl Explainer {
    /// Explains a pod. If a node is named, also explains why the pod is or is not on the node.
    pub(crate) async fn explain(
        &self,
        namespace: &str,
        name: &str,
        node: Option<String>,
    ) -> Result<Explanation, ExplainError> {
        let (its_namespace, its_name) = (namespace.to_owned(), name.to_owned());
        let asked = self.follower.ask(move |copied| known(&copied.view, &its_namespace, &its_name)).await;
        let unknown = || ExplainError::UnknownPod(namespace.to_owned(), name.to_owned());
        let Known { uid, subject, as_of, is_complete } = asked.ok_or(ExplainError::Slow)?.ok_or_else(unknown)?;
        let (decision, earlier_attempts) = self.decisions_about(&uid);
        let mut notes = Vec::from_iter(self.standing_by());
        if !is_complete {
            notes.push(BUSY.to_owned());
        }
        let mut subject = subject;
        let mut analysis = None;
        match self.profile(subject.scheduler_name.clone()).await? {
            Ok(profile) => {
                notes.extend(self.without_extenders());
                let about = move |copied: &mut Copied| {
                    let Copied { view, plugins, .. } = copied;
                    plugins.ask(profile, |profile, cycle| {
                        PluginsSay::about(view, Asked { profile, cycle, node: node.as_deref(), chosen: None }, &uid)
                    })
                };
                let asked = self.follower.ask_further(about).await;
                if let Some(they_say) = asked.ok_or(ExplainError::Slow)? {
                    if !they_say.blind.is_empty() {
                        let plugins = they_say.blind.join(", ");
                        notes.push(format!(
                            "the JSON of a pod is not kept once the pod has a node: the current answers of {plugins} \
                             may differ from the earlier ones"
                        ));
                    }
                    let is_gate = |holder: &&mut Holder| holder.point.as_deref() == Some("PreEnqueue");
                    if let Some(answer) = &they_say.at_the_gate {
                        subject.holders.iter_mut().filter(is_gate).for_each(|gate| gate.answers(answer));
                    }
                    subject.holders.extend(they_say.out_of_service);
                    subject.retries = they_say.retries;
                    analysis = Some(they_say.analysis);
                }
            }
            Err(reason) => notes.push(format!("plugins were not asked: {reason}")),
        }
        notes.extend(self.remedies(&subject.holders).await?);
        let has_decision = decision.is_some();
        let mut explanation = Explanation::new(subject, decision, analysis);
        explanation.earlier_attempts = earlier_attempts;
        if explanation.subject.attempts > 0 && !has_decision {
            notes.push(
                "the last decision is no longer kept; the current answers of the plugins may differ from it".to_owned(),
            );
        }
        Ok(dated(explanation, notes, as_of))
    }

    /// Explains the plugins' answers about a pod that does not exist.
    async fn explain_manifest(&self, manifest: Manifest, node: Option<String>) -> Result<Explanation, ExplainError> {
        let profile = self.profile(manifest.pod.spec.scheduler_name.clone()).await?;
        let mut profile = profile.map_err(|reason| ExplainError::NotServed(reason.to_string()))?;
        let mut subject = manifest.subject();
        let Manifest { pod, mut notes } = manifest;
        notes.extend(self.without_extenders());
        let asked = self.follower.ask(move |Copied { view, .. }| {
            let (as_of, is_complete) = (view.as_of(), view.is_complete());
            let gates = profile.plugins.at(Point::PreEnqueue).iter().copied();
            // A plugin that may not read data that it needs is not asked. The analysis names the missing data.
            let gates: Vec<PluginIdx> = gates.filter(|plugin| profile.is_blind(*plugin).is_none()).collect();
            let (analysis, answer) = view.with_new_pod(&pod, |view, pod| {
                let asked = Asked { profile: &mut profile, cycle: CYCLE, node: node.as_deref(), chosen: None };
                ask(view, asked, &Arc::new(pod), &gates)
            });
            let closed = answer.filter(|(_, status)| !status.is_success());
            let gate = closed.map(|(plugin, status)| subject::gate(&mut profile, plugin, &status));
            (analysis, gate, as_of, is_complete)
        });
        let (analysis, gate, as_of, is_complete) = asked.await.ok_or(ExplainError::Slow)?;
        if let Some((holder, retries)) = gate {
            (subject.holders, subject.retries) = (vec![holder], retries);
        }
        if !is_complete {
            notes.push(BUSY.to_owned());
        }
        Ok(dated(Explanation::new(subject, None, Some(analysis)), notes, as_of))
    }

    /// The last decision about the pod with its age, and the attempts before it.
    fn decisions_about(&self, uid: &str) -> (Option<(DecisionRecord, u64)>, Vec<EarlierAttempt>) {
        let decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        let mut about = decisions.about(uid, 1 + N_EARLIER).into_iter();
        let last = about.next().map(|record| (record.clone(), now.since(record.at)));
        let earlier = about.map(|record| EarlierAttempt::of(record, now)).collect();
        (last, earlier)
    }

    /// The note in an explanation if another replica schedules: the attempts and the queue are those of that replica.
    fn standing_by(&self) -> Option<String> {
        if self.health.is_leading() {
            return None;
        }
        let leader = self.health.leader();
        let leader = leader.as_deref().map_or_else(String::new, |leader| format!(", and {leader} leads"));
        Some(format!(
            "this replica stands by{leader}: only the replica that leads knows the attempts and the pod's place in the \
             queue"
        ))
    }

    /// The note in an explanation if there are extenders, which only the scheduler itself asks.
    fn without_extenders(&self) -> Option<String> {
        let settings = self.running.settings();
        let extenders: Vec<&str> = settings.extenders.iter().map(|extender| extender.url_prefix.as_str()).collect();
        (!extenders.is_empty()).then(|| {
            let extenders = extenders.join(", ");
            format!("extenders are not called for this answer, and may refuse nodes or change scores: {extenders}")
        })
    }

    /// New instances of the plugins in a profile.
    pub(crate) async fn profile(&self, scheduler_name: String) -> Result<Result<Profile, Usage>, ExplainError> {
        let (answer, profile) = oneshot::channel();
        let settings = Box::new(self.running.settings());
        let message = Message::CopyProfile { settings, scheduler_name, has_time: false, answer };
        self.supervisor.send(message).await.map_err(|_| ExplainError::Stopping)?;
        profile.await.map_err(|_| ExplainError::Stopping)
    }
}

/// The note in an explanation if the copy is not complete.
const BUSY: &str = "the scheduler is busy: some of the data is older than the other data";

/// The explanation with its age.
fn dated(mut explanation: Explanation, notes: Vec<String>, as_of: Time) -> Explanation {
    explanation.notes.splice(0..0, notes);
    explanation.as_of = clock::rfc3339(clock::wall(as_of));
    explanation.age_milliseconds = clock::now().since(as_of);
    explanation
}

fn known(view: &ClusterView, namespace: &str, name: &str) -> Option<Known> {
    let pod = view.find_pod(namespace, name)?;
    Some(Known {
        uid: pod.pod().uid.clone(),
        subject: subject(view, pod),
        as_of: view.as_of(),
        is_complete: view.is_complete(),
    })
}

/// The plugins that are asked.
struct Asked<'a> {
    profile: &'a mut Profile,
    /// The first cycle in which the plugins are asked.
    cycle: CycleId,
    /// The node that the caller asks about.
    node: Option<&'a str>,
    /// The node that the pod has.
    chosen: Option<Sym>,
}

/// The answers of plugins about a pod.
struct PluginsSay {
    /// The answers about each node.
    analysis: Analysis,
    /// The events that make the scheduler try the pod again.
    retries: Vec<berth_explain::Retry>,
    /// The plugins that need the pod's JSON but do not have it.
    blind: Vec<String>,
    /// The plugin that must be in service before an attempt begins.
    out_of_service: Option<Holder>,
    /// The current answer of the plugin that keeps the pod out of activeQ. `None` if the pod is not gated, or if the
    /// plugin cannot be asked.
    at_the_gate: Option<Status>,
}

impl PluginsSay {
    /// Asks the plugins about the pod. `None` if the pod no longer exists.
    fn about(view: &mut ClusterView, asked: Asked<'_>, uid: &PodUid) -> Option<Self> {
        let profile = &mut *asked.profile;
        let followed = view.pod(uid)?;
        let chosen = followed.place().node();
        // A pod with a node is examined as a pod without a node. Otherwise, its node would count as a request for this
        // node.
        let pod = Arc::new(Pod { node_name: Sym::NONE, ..Pod::clone(followed.pod()) });
        let out_of_service = match followed.place() {
            PodPlace::Queued(waiting) => subject::out_of_service(view.as_of(), profile, waiting),
            PodPlace::Binding(_) | PodPlace::Assumed { .. } | PodPlace::Bound { .. } | PodPlace::Unscheduled => None,
        };
        let (rejected_by, gate): (Vec<Arc<str>>, _) = match followed.place() {
            PodPlace::Queued(waiting) => {
                let record = &waiting.record;
                (record.rejectors.iter().chain(&record.pending).cloned().collect(), record.gated_by.clone())
            }
            PodPlace::Binding(_) | PodPlace::Assumed { .. } | PodPlace::Bound { .. } | PodPlace::Unscheduled => {
                (Vec::new(), None)
            }
        };
        let retries = subject::retries(profile, &rejected_by);
        let is_blind = |plugin: &PluginManifest| plugin.needs.pod_json && pod.json.is_none();
        let manifests = profile.instances().iter().map(|instance| instance.plugin.manifest());
        let blind = manifests.filter(|plugin| is_blind(plugin)).map(|plugin| plugin.name.clone()).collect();
        let gate: Vec<PluginIdx> = gate.and_then(|name| profile.find(&name)).into_iter().collect();
        let asked = Asked { chosen, ..asked };
        let (analysis, answer) = view.without_pod(uid, |view| ask(view, asked, &pod, &gate));
        // A plugin that did not follow the cluster may let the pod in by mistake.
        let answer = answer.map(|(_, status)| status);
        let at_the_gate = answer.filter(|status| analysis.error.is_none() || !status.is_success());
        Some(Self { analysis, retries, blind, out_of_service, at_the_gate })
    }
}

/// Asks the plugins about the pod. Returns their answers, and the answer of [`at_the_gates`].
fn ask(
    view: &ClusterView,
    asked: Asked<'_>,
    pod: &Arc<Pod>,
    gates: &[PluginIdx],
) -> (Analysis, Option<(PluginIdx, Status)>) {
    let Asked { profile, cycle, node, chosen } = asked;
    profile.set_meter(Meter::of_every_attempt(Arc::new(clock::Stopwatch)));
    let table = view.table();
    if let Err(Refusal { plugin, status }) = profile.sync(view.cache()) {
        let error = format!("{}: {}", profile.name(plugin), status.message());
        let analysis = Analysis { nodes: table.n_nodes(), error: Some(error), ..Analysis::default() };
        return (analysis, at_the_gates(profile, pod, table, gates));
    }
    let nominated = NominatedPods::new(table, pod, view.nominated_pods());
    let row = node.and_then(|node| table.find(table.symbols.lookup(node)?));
    let chosen = chosen.and_then(|node| table.find(node));
    let question = Question { order: view.cache().order(), nominated: &nominated, node: row, chosen };
    let call = Call::new(cycle, view.as_of(), pod, table);
    let mut analysis = analyze(profile, &call, &question);
    if let (Some(node), None) = (node, row) {
        analysis.node = Some(NodeReport { node: node.to_owned(), ..NodeReport::default() });
    }
    let answer = at_the_gates(profile, pod, table, gates);
    add_words(profile, &call, &question, &mut analysis);
    (analysis, answer)
}

/// The answer at PreEnqueue of the first of these plugins that keeps the pod out of activeQ, or of the last plugin if
/// all plugins let the pod in.
fn at_the_gates(
    profile: &mut Profile,
    pod: &Pod,
    table: &ClusterTable,
    gates: &[PluginIdx],
) -> Option<(PluginIdx, Status)> {
    let mut last = None;
    for &gate in gates {
        let Some(plugin) = profile.get(gate) else { continue };
        let Some(point) = plugin.pre_enqueue() else { continue };
        let status = point.pre_enqueue(pod, table);
        let is_open = status.is_success();
        last = Some((gate, status));
        if !is_open {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_in_a_file_is_whole_for_plugins_that_see_it_so() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "p", "annotations": {"team": "red"}}, "spec": {}});
        let manifest = Manifest::read(pod.to_string().as_bytes()).expect("a pod");
        let json: Value = serde_json::from_slice(manifest.pod.json.as_deref().expect("its JSON")).expect("JSON");
        assert_eq!(json["metadata"]["annotations"]["team"], "red");
        let filled_in = (&json["metadata"]["namespace"], &json["spec"]["schedulerName"]);
        assert_eq!(filled_in, (&json!("default"), &json!("default-scheduler")));
        assert_eq!(manifest.pod.metadata.namespace, "default");
    }
}
