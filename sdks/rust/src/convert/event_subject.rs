//! The object of an event, for queueing hints.

use berth_framework::EventSubject;
use berth_model::{Node, ObjectKey, Pod, Sym};

use super::{pairs, pod, resources, syms, taint};
use crate::bindings::{
    queueing_hint::exports::berth::scheduler::queueing_hint, shared::berth::scheduler::types as wit,
};

/// The objects that an [`EventSubject`] refers to.
#[derive(Debug)]
pub(crate) enum OwnedSubject {
    Pod { old: Option<Box<Pod>>, new: Option<Box<Pod>> },
    Node { old: Option<Box<Node>>, new: Option<Box<Node>> },
    Object { key: ObjectKey, old: Option<Vec<u8>>, new: Option<Vec<u8>> },
    Hidden,
}

impl OwnedSubject {
    pub(crate) fn new(subject: queueing_hint::EventSubject) -> Self {
        use queueing_hint::EventSubject as Wit;
        match subject {
            Wit::Pod(change) => {
                let [old, new] = [change.old, change.new].map(|it| it.map(pod).map(Box::new));
                Self::Pod { old, new }
            }
            Wit::Node(change) => {
                let [old, new] = [change.old, change.new].map(|it| it.map(node).map(Box::new));
                Self::Node { old, new }
            }
            Wit::Object(queueing_hint::ObjectChange { object, old, new }) => {
                Self::Object { key: key(object), old, new }
            }
            Wit::Hidden => Self::Hidden,
        }
    }

    pub(crate) fn borrowed(&self) -> EventSubject<'_> {
        match self {
            Self::Pod { old, new } => EventSubject::Pod { old: old.as_deref(), new: new.as_deref() },
            Self::Node { old, new } => EventSubject::Node { old: old.as_deref(), new: new.as_deref() },
            Self::Object { key, old, new } => EventSubject::Object { key, old: old.as_deref(), new: new.as_deref() },
            Self::Hidden => EventSubject::Hidden,
        }
    }
}

fn node(node: wit::Node) -> Node {
    Node {
        name: Sym(node.name),
        unschedulable: node.unschedulable,
        labels: pairs(node.labels),
        taints: node.taints.into_iter().map(taint).collect(),
        allocatable: resources(node.allocatable),
        allowed_pods: node.allowed_pods,
        declared_features: syms(node.declared_features),
        ..Node::default()
    }
}

/// `v1/PersistentVolumeClaim`, `storage.k8s.io/v1/CSINode`.
fn key(object: wit::ObjectRef) -> ObjectKey {
    let (api_version, kind) = object.kind.rsplit_once('/').unwrap_or(("", &object.kind));
    ObjectKey {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: object.namespace,
        name: object.name,
    }
}
