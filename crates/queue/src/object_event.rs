//! Events in the cluster that may make pods schedulable.

use std::sync::{Arc, LazyLock};

use berth_framework::ClusterEvent;
use berth_model::{Feature, Features, Node, ObjectKey, Pod};

/// A cluster event with its objects.
#[derive(Clone, Debug)]
pub struct ObjectEvent {
    /// The kind of event. It is `AssignedPod` or `TargetPod` for a pod; a registration may say `Pod` for both.
    pub event: Arc<ClusterEvent>,
    /// The objects of the event.
    pub objects: EventObjects,
    /// The label that metrics use for the event, such as `NodeAdd` or `AssignedPodDelete`.
    pub label: Arc<str>,
}

/// The object before and after the event. The state is `None` where the object did not exist.
#[derive(Clone, Debug)]
pub enum EventObjects {
    /// The event has no particular object.
    Cluster,
    /// A pod.
    Pod {
        /// The pod before the event.
        old: Option<Arc<Pod>>,
        /// The pod after the event.
        new: Option<Arc<Pod>>,
    },
    /// A node.
    Node {
        /// The node before the event.
        old: Option<Arc<Node>>,
        /// The node after the event.
        new: Option<Arc<Node>>,
    },
    /// An object of another kind, as JSON.
    Object {
        /// The kind, namespace and name of the object.
        key: ObjectKey,
        /// The object before the event.
        old: Option<Arc<[u8]>>,
        /// The object after the event.
        new: Option<Arc<[u8]>>,
    },
}

/// The labels that metrics and log lines use for events of pods without a node.
#[derive(Debug)]
pub struct PodEventLabels {
    /// A pod appeared.
    pub added: Arc<str>,
    /// A pod changed in any way.
    pub updated: Arc<str>,
    /// A pod is gone, or has got a node.
    pub deleted: Arc<str>,
    /// The beginning of the label for a change of the waiting pod itself; the name of the action follows.
    own: &'static str,
}

static OF_1_36: LazyLock<PodEventLabels> =
    LazyLock::new(|| PodEventLabels::new("UnschedulablePod", "UnschedulablePod"));
static OF_1_37: LazyLock<PodEventLabels> = LazyLock::new(|| PodEventLabels::new("UnscheduledPod", "TargetPod"));

impl PodEventLabels {
    fn new(resource: &str, own: &'static str) -> Self {
        let label = |action: &str| Arc::from(format!("{resource}{action}"));
        Self { added: label("Add"), updated: label("Update"), deleted: label("Delete"), own }
    }

    /// The labels that the release uses.
    #[must_use]
    pub fn of(features: Features) -> &'static Self {
        if features.has(Feature::PodEventsByKind) { &OF_1_37 } else { &OF_1_36 }
    }

    /// An event about a change of the waiting pod itself.
    #[must_use]
    pub fn own_update(&self, actions: u32, objects: EventObjects) -> ObjectEvent {
        let event = ClusterEvent::new(ObjectEvent::TARGET_POD, actions);
        let label = Arc::from(format!("{}{}", self.own, event.action_name().unwrap_or_default()));
        ObjectEvent { event: Arc::new(event), objects, label }
    }
}

/// The data that all events of one kind share. Callers with frequent events make this value once.
#[derive(Clone, Debug)]
pub struct ObjectEventKind {
    event: Arc<ClusterEvent>,
    label: Arc<str>,
}

impl ObjectEventKind {
    /// A kind with the label that kube-scheduler gives it.
    #[must_use]
    pub fn new(resource: &str, actions: u32) -> Self {
        let event = ClusterEvent::new(resource, actions);
        let label = Arc::from(format!("{resource}{}", event.action_name().unwrap_or_default()));
        Self { event: Arc::new(event), label }
    }

    /// An event of this kind that happened to `objects`.
    #[must_use]
    pub fn object_event(&self, objects: EventObjects) -> ObjectEvent {
        ObjectEvent { event: Arc::clone(&self.event), objects, label: Arc::clone(&self.label) }
    }
}

impl ObjectEvent {
    /// A pod that has a node.
    pub const ASSIGNED_POD: &str = "AssignedPod";
    /// The waiting pod itself.
    pub const TARGET_POD: &str = "TargetPod";
    /// A node.
    pub const NODE: &str = "Node";

    /// An event with the label that kube-scheduler gives it.
    #[must_use]
    pub fn new(resource: &str, actions: u32, objects: EventObjects) -> Self {
        ObjectEventKind::new(resource, actions).object_event(objects)
    }

    /// An event that concerns every waiting pod, regardless of the plugin that rejected the pod.
    pub(crate) fn wildcard(label: &str) -> Self {
        let event = Arc::new(ClusterEvent::new("*", ClusterEvent::ALL));
        Self { event, objects: EventObjects::Cluster, label: Arc::from(label) }
    }

    /// An estimate of the bytes that the event holds. The estimate counts both states of the object, because no other
    /// part of the program may hold the object any more.
    pub(crate) fn bytes(&self) -> usize {
        let objects = match &self.objects {
            EventObjects::Cluster => 0,
            EventObjects::Pod { old, new } => old.iter().chain(new).map(|pod| pod_bytes(pod)).sum(),
            EventObjects::Node { old, new } => old.iter().chain(new).map(|node| node_bytes(node)).sum(),
            EventObjects::Object { old, new, .. } => old.iter().chain(new).map(|json| json.len()).sum(),
        };
        size_of::<Self>() + objects
    }

    pub(crate) fn is_wildcard(&self) -> bool {
        self.event.resource == "*" && self.event.actions == ClusterEvent::ALL
    }
}

/// The estimated bytes of one symbol of an object: the text, and the list entry that refers to the text.
const SYMBOL_BYTES: usize = 128;

/// The estimated bytes of a name that is not a symbol, such as the name of a volume or a claim.
const NAME_BYTES: usize = 256;

fn pod_bytes(pod: &Pod) -> usize {
    let n_names = pod.volumes.len() + pod.resource_claims.len() + pod.scheduling_gates.len();
    let json = pod.json.as_ref().map_or(0, |json| json.len());
    size_of::<Pod>() + pod.uses.n_symbols() * SYMBOL_BYTES + n_names * NAME_BYTES + json
}

fn node_bytes(node: &Node) -> usize {
    let annotations: usize = node.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    size_of::<Node>() + node.uses.n_symbols() * SYMBOL_BYTES + annotations
}
