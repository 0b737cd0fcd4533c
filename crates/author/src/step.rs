//! One step of a case: the changes to the cluster, and the questions to the plugin after them.

use std::collections::BTreeMap;

use berth_framework::{ClusterEvent, EventSubject, HintCall, Plugin, Point, RejectedNodes, Status};
use berth_model::{Node, NodeSet, ObjectKey, Pod, Time, api};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    answers::{Hint, PluginAnswers, Rejection, Unanswered},
    case_action::CaseAction,
    case_decoding::{WrongForm, object},
    case_host::CaseHost,
    case_uids::{with_uid, with_uid_of_pod},
    harness::{HarnessError, PluginHarness},
    ignored::unasked,
    placing::{FailsAt, Target},
    released::{ask_again, follow_effects, follow_undone},
};

const NOT_PLACED: &str =
    "the step sends the pod to no node (add `bindTo: NODE`, `bindingFailsOn: NODE` or `waitsOn: NODE`)";
const WAITS: &str = "the pod of the step waits at Permit or PreBind (`released` has the answers once its wait ends)";
const PLACED: &str = "the step sends the pod to a node, and PostFilter is called only if no node passes";

/// A change to the cluster, and the answers after it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CaseStep {
    /// The time of this step and the later steps, as in `2026-11-23T09:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<Moment>,
    /// Nodes that are new or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Value>,
    /// Names of nodes that are removed, before `nodes` are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// Pods on nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<Value>,
    /// Pods that leave their nodes before `pods` are added, by uid: `namespace/name` where the case gives no uid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone_pods: Vec<String>,
    /// Objects of other kinds that are removed, before `objects` are added: `apiVersion`, `kind` and `metadata` tell which.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone_objects: Vec<Value>,
    /// Objects of other kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Value>,
    /// The pod to place; null stands for the pod of the case. A pod that waits since an earlier step is changed instead.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub pod: Value,
    /// The node that the pod goes to: the points from Reserve to PostBind are called. If the plugin does not reject the
    /// pod, the pod is on the node afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind_to: Option<String>,
    /// The node that the pod goes to until its binding fails: the points from Reserve to Bind are called, and then
    /// Unreserve. Instead of `bindTo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding_fails_on: Option<String>,
    /// The last point that is called before Unreserve, with `bindingFailsOn`. If left out, it is Bind: the API server
    /// refuses the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails_at: Option<FailsAt>,
    /// The node that the pod goes to while it waits at Permit or PreBind: Reserve, Permit and PreBind are called until the
    /// plugin holds the pod, which it must. The pod is on the node until a later step allows or rejects it at Permit by an
    /// effect, changes an object that the effect `wait` names so that the plugin no longer holds the pod, or its time is
    /// out. Instead of `bindTo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_on: Option<String>,
    /// Nodes that other plugins reject, by name: Filter and Score are not called for them, and PostFilter gets the
    /// rejections.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rejected_by_others: BTreeMap<String, Rejection>,
    /// Pods to put in order: the plugin gives their sort keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<QueuedPod>,
    /// The event of a queueing hint. The pod of the step is the pod that the plugin rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<CaseEvent>,
    /// The plugin's answers.
    #[serde(default)]
    pub expect: PluginAnswers,
}

/// RFC 3339, with an offset or `Z`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Moment(Time);

/// The text does not name a time since 1970.
#[derive(Debug, thiserror::Error)]
#[error("invalid time {0:?}: expected a time such as 2026-11-23T09:00:00Z")]
pub struct NoMoment(String);

impl TryFrom<String> for Moment {
    type Error = NoMoment;

    fn try_from(text: String) -> Result<Self, NoMoment> {
        Time::from_rfc3339(&text).map(Self).ok_or(NoMoment(text))
    }
}

impl From<Moment> for String {
    fn from(Moment(time): Moment) -> Self {
        time.to_rfc3339()
    }
}

/// A pod in the step's queue, and the time when it was queued.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct QueuedPod {
    /// The pod.
    pub pod: Value,
    /// The time when it was queued, in milliseconds.
    #[serde(default)]
    pub queued_at: i64,
}

/// A change of one object, after the step's other changes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaseEvent {
    /// `Pod`, `Node`, or as `events-to-register` in the manifest calls it.
    pub resource: String,
    /// The actions on the object.
    pub actions: Vec<CaseAction>,
    /// The object before the change; null if the object is new.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub old: Value,
    /// The object after the change; null if the object is deleted.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub new: Value,
}

/// The reason why a case has no answers.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The plugin was called, and failed.
    #[error("the plugin fails: {}", .0.message())]
    Plugin(Status),
    /// The cluster cannot hold the objects of the step.
    #[error(transparent)]
    Cluster(#[from] HarnessError),
    /// An object does not have the form of its kind.
    #[error(transparent)]
    Object(#[from] WrongForm),
    /// A node is removed that the cluster does not have.
    #[error("cannot remove node {0}: it does not exist")]
    NoSuchNode(String),
    /// A pod is on a node that the cluster does not have.
    #[error("pod {pod} is on node {node}, which does not exist: add the node to `nodes`")]
    PodWithoutNode { pod: String, node: String },
    /// A pod is removed that the cluster does not have.
    #[error("gonePods: no pod has the uid {0:?}; a pod without metadata.uid has NAMESPACE/NAME as its uid")]
    NoSuchPod(String),
    /// An object is removed that the cluster does not have.
    #[error("cannot remove {0}: it does not exist")]
    NoSuchObject(String),
    /// A node that a key of the step names does not exist.
    #[error("{key}: node {node} does not exist: correct the name, or add the node to `nodes`")]
    NoSuchNodeIn { key: &'static str, node: String },
    /// The step sends the pod to a node in two ways.
    #[error("bindTo, bindingFailsOn and waitsOn cannot be used in the same step: keep one of them")]
    TwoTargets,
    /// The step says where the attempt fails, and no attempt fails.
    #[error("failsAt is only for a step with bindingFailsOn: add `bindingFailsOn: NODE`, or leave failsAt out")]
    NothingFails,
    /// The pod of the step has been waiting since an earlier step.
    #[error(
        "pod {0} has been waiting at Permit or PreBind since an earlier step: leave bindTo, bindingFailsOn and waitsOn out, give this \
         step another pod, or take the waiting pod away with gonePods"
    )]
    Waits(String),
    /// The plugin does not hold the pod of `waitsOn`.
    #[error("waitsOn: the plugin does not hold the pod at Permit or PreBind: {0}")]
    DoesNotWait(String),
    /// The step in which the expected answers of a case cannot be updated.
    #[error("case {case:?}, step {step}: {reason}")]
    Step { case: String, step: usize, reason: Box<CaseError> },
}

impl CaseStep {
    pub(crate) fn now(&self) -> Option<Time> {
        self.now.as_ref().map(|moment| moment.0)
    }

    /// Changes the cluster, and returns the step's own pod.
    ///
    /// # Errors
    /// An object has another form, or the step removes a node that does not exist.
    pub fn enter(&self, harness: &mut PluginHarness) -> Result<Pod, CaseError> {
        self.apply(harness)?;
        pending(harness, &self.pod, "pod")
    }

    /// Changes the cluster, and asks the plugin about `pod` and about the other questions of the step.
    ///
    /// # Errors
    /// The step is invalid, or the plugin fails.
    pub(crate) fn answers(
        &self,
        harness: &mut PluginHarness,
        host: &CaseHost,
        pod: &Value,
    ) -> Result<PluginAnswers, CaseError> {
        if let Some(now) = self.now() {
            harness.set_now(now);
            host.set_now(now.0);
        }
        let mut changed = self.changed_objects(harness);
        self.apply(harness)?;
        let place = if self.pod.is_null() { "the pod of the case" } else { "pod" };
        let interned = pending(harness, pod, place)?;
        let target = self.target(harness)?;
        let waits = harness.waiting().contains(&interned.uid);
        if waits && target.is_some() {
            return Err(CaseError::Waits(interned.uid.to_string()));
        }
        let by_others = self.by_others(harness)?;
        let words = self.words(harness, &interned)?;
        if waits && !self.pod.is_null() {
            self.change_waiting(harness, interned.clone())?;
            changed.push(core_object("Pod", &self.pod));
        }
        let ended = ask_again(harness, &changed, host.grants()).map_err(CaseError::Plugin)?;
        // The attempt of a waiting pod has already begun, so no earlier point is called for this pod.
        let mut answers = if waits {
            PluginAnswers::default()
        } else {
            harness.decide(&interned, target, &by_others, host.grants()).map_err(CaseError::Plugin)?
        };
        if self.waits_on.is_some() && !harness.waiting().contains(&interned.uid) {
            return Err(CaseError::DoesNotWait(answers.why_not_held()));
        }
        if let (Some(name), true) = (self.bind_to.as_ref().or(self.waits_on.as_ref()), answers.lets_the_pod_be_bound())
        {
            let mut bound: api::Pod = object(&with_uid(pod), place)?;
            bound.spec.node_name.clone_from(name);
            harness.set_pod(&bound).map_err(HarnessError::Pod)?;
        }
        follow_effects(harness, &mut answers, host.grants()).map_err(CaseError::Plugin)?;
        answers.add_ended_waits(ended);
        follow_undone(harness, &mut answers, host.grants()).map_err(CaseError::Plugin)?;
        (answers.explain, answers.explain_nodes) = (words.explain, words.explain_nodes);
        answers.order = self.order(harness)?;
        if let Some(event) = &self.event {
            answers.hint = event.hint(harness, &interned, &mut answers.ignored)?;
        }
        answers.note_unknown_nodes(|name| harness.cluster().node(name).is_some());
        let waits = waits.then_some(WAITS);
        answers.note_unanswered(|point| self.unanswered(point, harness.plugin(), waits));
        // The answers of Unreserve, PostBind, QueueSort and QueueingHint have no status that would show a fault.
        harness.plugin().out_of_service().map_or(Ok(answers), |fault| Err(CaseError::Plugin(fault)))
    }

    /// The objects that the step changes. The cluster must not have taken in the step yet, since pods that leave are
    /// known by their uids alone.
    fn changed_objects(&self, harness: &PluginHarness) -> Vec<ObjectKey> {
        let mut changed: Vec<ObjectKey> = self.objects.iter().chain(&self.gone_objects).map(ObjectKey::of).collect();
        changed.extend(self.nodes.iter().map(|node| core_object("Node", node)));
        changed.extend(self.pods.iter().map(|pod| core_object("Pod", pod)));
        changed.extend(self.gone.iter().map(|name| core_key("Node", "", name)));
        let table = harness.cluster().table();
        for (_, pod, _) in table.pods().iter() {
            if self.gone_pods.iter().any(|uid| uid == pod.uid.as_str()) {
                changed.push(core_key("Pod", table.symbols.text(pod.namespace), &pod.name));
            }
        }
        changed
    }

    /// Changes the pod of this step, which waits and counts on its node.
    fn change_waiting(&self, harness: &mut PluginHarness, pod: Pod) -> Result<(), CaseError> {
        let Some(node) = harness.change_waiting(pod) else { return Ok(()) };
        let mut bound: api::Pod = object(&with_uid(&self.pod), "pod")?;
        bound.spec.node_name = node;
        Ok(harness.set_pod(&bound).map_err(HarnessError::Pod)?)
    }

    /// Why the step does not ask the plugin at this point; `None` if nothing in the step keeps it from being asked.
    /// `waits` is the reason if the pod of the step waits.
    fn unanswered(&self, point: Point, plugin: &mut dyn Plugin, waits: Option<&'static str>) -> Option<Unanswered> {
        let not_placed = (!self.places_the_pod()).then_some(waits.unwrap_or(NOT_PLACED));
        let (is_implemented, not_asked) = match point {
            Point::PostFilter => (plugin.post_filter().is_some(), waits.or(self.places_the_pod().then_some(PLACED))),
            Point::Reserve => (plugin.reserve().is_some(), not_placed),
            Point::Permit => (plugin.permit().is_some(), not_placed.or(self.ends_before(FailsAt::Permit))),
            Point::PreBind => (plugin.pre_bind().is_some(), not_placed.or(self.ends_before(FailsAt::PreBind))),
            Point::Bind => (plugin.bind().is_some(), not_placed.or(self.ends_before(FailsAt::Bind))),
            Point::QueueSort => {
                (plugin.queue_sort().is_some(), self.queue.is_empty().then_some("the step has no `queue`"))
            }
            Point::QueueingHint => {
                (plugin.queueing_hint().is_some(), self.event.is_none().then_some("the step has no `event`"))
            }
            Point::PreEnqueue
            | Point::PreFilter
            | Point::Filter
            | Point::PreScore
            | Point::Score
            | Point::Normalize
            | Point::PreBindPreFlight
            | Point::PostBind
            | Point::Sign
            | Point::Explain => return None,
        };
        if is_implemented { not_asked.map(Unanswered::NotAsked) } else { Some(Unanswered::NotImplemented) }
    }

    fn places_the_pod(&self) -> bool {
        self.bind_to.is_some() || self.binding_fails_on.is_some() || self.waits_on.is_some()
    }

    /// Why this point after Reserve is not called for a pod that goes to a node.
    fn ends_before(&self, point: FailsAt) -> Option<&'static str> {
        if self.waits_on.is_some() && point > FailsAt::Permit {
            return Some("with waitsOn the pod stays where the plugin holds it (a later step lets it go on)");
        }
        let fails = self.fails_at.is_some_and(|last| last < point);
        fails.then_some("with failsAt the attempt fails at an earlier point (name a later point in failsAt)")
    }

    /// The plugin's own words, if the case expects words.
    fn words(&self, harness: &mut PluginHarness, pod: &Pod) -> Result<PluginAnswers, CaseError> {
        let PluginAnswers { explain, explain_nodes, .. } = &self.expect;
        let mut words = PluginAnswers::default();
        let mut about = vec![None; explain.iter().len()];
        for name in explain_nodes.keys() {
            let node = harness.cluster().node(name);
            let absent = || CaseError::NoSuchNodeIn { key: "explainNodes", node: name.clone() };
            about.push(Some(node.ok_or_else(absent)?));
        }
        if about.is_empty() {
            return Ok(words);
        }
        let mut said = harness.explain(pod, &about).map_err(CaseError::Plugin)?.into_iter();
        if let Some(expected) = explain {
            words.explain = said.next().map(|text| expected.or_said(text));
        }
        for ((name, expected), text) in explain_nodes.iter().zip(said) {
            words.explain_nodes.insert(name.clone(), expected.or_said(text));
        }
        Ok(words)
    }

    /// The rejections of other plugins.
    fn by_others(&self, harness: &PluginHarness) -> Result<Vec<RejectedNodes>, CaseError> {
        let rejection = |(name, Rejection { code, reasons }): (&String, &Rejection)| {
            let node = harness.cluster().node(name);
            let node = node.ok_or_else(|| CaseError::NoSuchNodeIn { key: "rejectedByOthers", node: name.clone() })?;
            let status = Status::new(*code, reasons.iter().cloned());
            Ok::<_, CaseError>(RejectedNodes { status, nodes: NodeSet::from_iter([node]) })
        };
        self.rejected_by_others.iter().map(rejection).collect()
    }

    fn target(&self, harness: &PluginHarness) -> Result<Option<Target>, CaseError> {
        let node = |key, name: &String| {
            let node = harness.cluster().node(name);
            node.ok_or_else(|| CaseError::NoSuchNodeIn { key, node: name.clone() })
        };
        if self.fails_at.is_some() && self.binding_fails_on.is_none() {
            return Err(CaseError::NothingFails);
        }
        match (&self.bind_to, &self.binding_fails_on, &self.waits_on) {
            (None, None, None) => Ok(None),
            (Some(name), None, None) => Ok(Some(Target::Bind(node("bindTo", name)?))),
            (None, Some(name), None) => {
                let last = self.fails_at.unwrap_or_default();
                Ok(Some(Target::BindingFails(node("bindingFailsOn", name)?, last)))
            }
            (None, None, Some(name)) => Ok(Some(Target::Waits(node("waitsOn", name)?))),
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => Err(CaseError::TwoTargets),
        }
    }

    /// The names of the waiting pods, in the order of their sort keys.
    fn order(&self, harness: &mut PluginHarness) -> Result<Vec<String>, CaseError> {
        let mut keyed = Vec::new();
        for (at, QueuedPod { pod, queued_at }) in self.queue.iter().enumerate() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let pod = pending(harness, pod, &format!("queue[{at}].pod"))?;
            keyed.extend(harness.plugin().queue_sort().map(|point| (point.sort_key(&pod, *queued_at), name)));
        }
        // Pods with equal keys stay in the order of the file.
        keyed.sort_by_key(|(key, _)| *key);
        Ok(keyed.into_iter().map(|(_, name)| name).collect())
    }

    fn apply(&self, harness: &mut PluginHarness) -> Result<(), CaseError> {
        for name in &self.gone {
            if !harness.remove_node(name) {
                return Err(CaseError::NoSuchNode(name.clone()));
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            harness.set_node(&object(node, &format!("nodes[{at}]"))?);
        }
        for uid in &self.gone_pods {
            if !harness.remove_pod(uid) {
                return Err(CaseError::NoSuchPod(uid.clone()));
            }
        }
        for (at, pod) in self.pods.iter().enumerate() {
            let pod: api::Pod = object(&with_uid(pod), &format!("pods[{at}]"))?;
            let node = &pod.spec.node_name;
            if !node.is_empty() && harness.cluster().node(node).is_none() {
                return Err(CaseError::PodWithoutNode { pod: pod.metadata.name, node: node.clone() });
            }
            harness.set_pod(&pod).map_err(HarnessError::Pod)?;
        }
        for object in &self.gone_objects {
            if !harness.cluster_mut().remove_object(object) {
                return Err(CaseError::NoSuchObject(object.to_string()));
            }
        }
        self.objects.iter().for_each(|object| harness.set_object(&with_uid_of_pod(object)));
        Ok(())
    }
}

impl CaseEvent {
    /// The answer of the plugin's hint; `None` if the plugin has no hint. An event about which the scheduler never asks
    /// gives a line of `ignored`.
    fn hint(
        &self,
        harness: &mut PluginHarness,
        pod: &Pod,
        ignored: &mut Vec<String>,
    ) -> Result<Option<Hint>, CaseError> {
        let actions = self.actions.iter().fold(0, |bits, action| bits | action.bits());
        let event = ClusterEvent::new(&self.resource, actions);
        let (old, new) = (
            EventObject::of(harness, &self.resource, &self.old, "event.old")?,
            EventObject::of(harness, &self.resource, &self.new, "event.new")?,
        );
        harness.sync().map_err(CaseError::Plugin)?;
        let (plugin, cluster) = harness.parts();
        let call =
            HintCall { table: cluster.table(), pod, event: &event, subject: subject(old.as_ref(), new.as_ref()) };
        let answer = plugin.queueing_hint().map(|point| point.queueing_hint(&call));
        if answer.is_some() {
            ignored.extend(unasked(plugin.manifest(), &event));
        }
        Ok(answer.map(|is_worth_it| if is_worth_it { Hint::Queue } else { Hint::Skip }))
    }
}

/// An object on one side of an event, as plugins see it.
enum EventObject {
    Pod(Box<Pod>),
    Node(Box<Node>),
    Other(ObjectKey, Vec<u8>),
}

impl EventObject {
    fn of(harness: &mut PluginHarness, resource: &str, value: &Value, place: &str) -> Result<Option<Self>, CaseError> {
        if value.is_null() {
            return Ok(None);
        }
        Ok(Some(match resource {
            "Pod" => Self::Pod(Box::new(pending(harness, value, place)?)),
            "Node" => Self::Node(Box::new(harness.cluster_mut().intern_node(&object(value, place)?))),
            _ => Self::Other(ObjectKey::of(value), with_uid_of_pod(value).to_string().into_bytes()),
        }))
    }
}

/// Both objects have the same kind, because they belong to the same resource.
fn subject<'a>(old: Option<&'a EventObject>, new: Option<&'a EventObject>) -> EventSubject<'a> {
    let pod = |side: Option<&'a EventObject>| match side {
        Some(EventObject::Pod(pod)) => Some(&**pod),
        Some(EventObject::Node(_) | EventObject::Other(..)) | None => None,
    };
    let node = |side: Option<&'a EventObject>| match side {
        Some(EventObject::Node(node)) => Some(&**node),
        Some(EventObject::Pod(_) | EventObject::Other(..)) | None => None,
    };
    let json = |side: Option<&'a EventObject>| match side {
        Some(EventObject::Other(_, json)) => Some(json.as_slice()),
        Some(EventObject::Pod(_) | EventObject::Node(_)) | None => None,
    };
    match new.or(old) {
        None => EventSubject::Hidden,
        Some(EventObject::Pod(_)) => EventSubject::Pod { old: pod(old), new: pod(new) },
        Some(EventObject::Node(_)) => EventSubject::Node { old: node(old), new: node(new) },
        Some(EventObject::Other(key, _)) => EventSubject::Object { key, old: json(old), new: json(new) },
    }
}

/// The key of a node or a pod, which a file of cases writes without its kind.
fn core_object(kind: &str, object: &Value) -> ObjectKey {
    let ObjectKey { namespace, name, .. } = ObjectKey::of(object);
    core_key(kind, &namespace, &name)
}

fn core_key(kind: &str, namespace: &str, name: &str) -> ObjectKey {
    let [api_version, kind, namespace, name] = ["v1", kind, namespace, name].map(str::to_owned);
    ObjectKey { api_version, kind, namespace, name }
}

/// The pod to place, with its JSON. `place` is its place in the step.
fn pending(harness: &mut PluginHarness, pod: &Value, place: &str) -> Result<Pod, CaseError> {
    let pod = with_uid(pod);
    let mut decoded: api::Pod = object(&pod, place)?;
    decoded.json = Some(pod.to_string().into_bytes().into());
    Ok(harness.intern(&decoded))
}
