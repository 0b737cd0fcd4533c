//! The cluster events that describe a change of a pod or a node, so that plugins can register for them.

use std::sync::{Arc, LazyLock};

use berth_framework::ClusterEvent;
use berth_model::{Node, Pod, pod::Resources};
use berth_queue::{EventObjects, ObjectEvent, ObjectEventKind, PodEventLabels};

static POD_ADDED: LazyLock<ObjectEventKind> =
    LazyLock::new(|| ObjectEventKind::new(ObjectEvent::ASSIGNED_POD, ClusterEvent::ADD));
static POD_DELETED: LazyLock<ObjectEventKind> =
    LazyLock::new(|| ObjectEventKind::new(ObjectEvent::ASSIGNED_POD, ClusterEvent::DELETE));

/// The events of a pod's update, in order. If none of the listed parts changed, the event is a general update.
pub(crate) fn pod_updates(old: &Arc<Pod>, new: &Arc<Pod>, labels: &PodEventLabels) -> Vec<Arc<ObjectEvent>> {
    let changes = [
        (ClusterEvent::UPDATE_POD_LABEL, old.labels != new.labels),
        (ClusterEvent::UPDATE_POD_SCALE_DOWN, is_smaller(&new.placed_requests, &old.placed_requests)),
        (
            ClusterEvent::UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
            !old.scheduling_gates.is_empty() && new.scheduling_gates.is_empty(),
        ),
        (ClusterEvent::UPDATE_POD_TOLERATION, old.tolerations.len() != new.tolerations.len()),
        // The claims that a pod names never change. Only the claims that are generated for the pod can change.
        (
            ClusterEvent::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
            old.resource_claims != new.resource_claims || old.extended_claim != new.extended_claim,
        ),
    ];
    let mut actions: Vec<u32> =
        changes.into_iter().filter(|(_, happened)| *happened).map(|(action, _)| action).collect();
    if actions.is_empty() {
        actions.push(ClusterEvent::UPDATE);
    }
    let subject = || EventObjects::Pod { old: Some(Arc::clone(old)), new: Some(Arc::clone(new)) };
    let event = |action| {
        if new.node_name.is_none() {
            labels.own_update(action, subject())
        } else {
            ObjectEvent::new(ObjectEvent::ASSIGNED_POD, action, subject())
        }
    };
    actions.into_iter().map(|action| Arc::new(event(action))).collect()
}

/// Whether any amount decreased.
fn is_smaller(new: &Resources, old: &Resources) -> bool {
    new.milli_cpu < old.milli_cpu
        || new.memory < old.memory
        || new.ephemeral_storage < old.ephemeral_storage
        || old.scalars.iter().any(|&(name, amount)| new.get(name) < amount)
}

pub(crate) fn pod_added(pod: &Arc<Pod>) -> Arc<ObjectEvent> {
    let subject = EventObjects::Pod { old: None, new: Some(Arc::clone(pod)) };
    Arc::new(POD_ADDED.object_event(subject))
}

/// The event of a pod that left its node, or that lost its nomination.
pub(crate) fn pod_deleted(pod: &Arc<Pod>) -> Arc<ObjectEvent> {
    let subject = EventObjects::Pod { old: Some(Arc::clone(pod)), new: None };
    Arc::new(POD_DELETED.object_event(subject))
}

pub(crate) fn node_added(node: Node) -> Arc<ObjectEvent> {
    let subject = EventObjects::Node { old: None, new: Some(Arc::new(node)) };
    Arc::new(ObjectEvent::new(ObjectEvent::NODE, ClusterEvent::ADD, subject))
}

pub(crate) fn node_deleted(node: Node) -> Arc<ObjectEvent> {
    let subject = EventObjects::Node { old: Some(Arc::new(node)), new: None };
    Arc::new(ObjectEvent::new(ObjectEvent::NODE, ClusterEvent::DELETE, subject))
}

/// The events of a node's update, in order. The list is empty if nothing changed for which a plugin can register.
pub(crate) fn node_updates(old: Node, new: Node, conditions_differ: bool) -> Vec<Arc<ObjectEvent>> {
    let changes = [
        (ClusterEvent::UPDATE_NODE_TAINT, old.unschedulable && !new.unschedulable),
        (
            ClusterEvent::UPDATE_NODE_ALLOCATABLE,
            old.allocatable != new.allocatable || old.allowed_pods != new.allowed_pods,
        ),
        (ClusterEvent::UPDATE_NODE_LABEL, old.labels != new.labels),
        (ClusterEvent::UPDATE_NODE_TAINT, old.taints != new.taints),
        (ClusterEvent::UPDATE_NODE_CONDITION, conditions_differ),
        (ClusterEvent::UPDATE_NODE_ANNOTATION, old.annotations != new.annotations),
        (ClusterEvent::UPDATE_NODE_DECLARED_FEATURE, old.declared_features != new.declared_features),
    ];
    if !changes.iter().any(|(_, happened)| *happened) {
        return Vec::new();
    }
    let (old, new) = (Arc::new(old), Arc::new(new));
    let subject = || EventObjects::Node { old: Some(Arc::clone(&old)), new: Some(Arc::clone(&new)) };
    let happened = changes.into_iter().filter(|(_, happened)| *happened);
    happened.map(|(action, _)| Arc::new(ObjectEvent::new(ObjectEvent::NODE, action, subject()))).collect()
}

#[cfg(test)]
mod tests {
    use berth_model::{
        Features,
        pod::{ClaimName, PodClaim},
    };

    use super::*;

    #[test]
    fn a_generated_claim_is_an_event_of_its_own() {
        let pod = |claim| {
            let claim = PodClaim { name: Arc::from("gpu"), from_template: true, claim };
            Arc::new(Pod { resource_claims: [claim].into(), ..Pod::default() })
        };
        let generated = ClaimName::Known(Arc::from("training-gpu-x"));
        let labels = PodEventLabels::of(Features::default());
        let updates = pod_updates(&pod(ClaimName::Pending), &pod(generated), labels);
        let actions: Vec<u32> = updates.iter().map(|update| update.event.actions).collect();
        assert_eq!(actions, [ClusterEvent::UPDATE_POD_GENERATED_RESOURCE_CLAIM]);
    }

    #[test]
    fn a_claim_for_extended_resources_is_a_generated_claim() {
        let pod = |claim: Option<&str>| Arc::new(Pod { extended_claim: claim.map(Arc::from), ..Pod::default() });
        let labels = PodEventLabels::of(Features::default());
        let actions = |old, new| -> Vec<u32> {
            pod_updates(&pod(old), &pod(new), labels).iter().map(|update| update.event.actions).collect()
        };
        assert_eq!(actions(None, Some("made")), [ClusterEvent::UPDATE_POD_GENERATED_RESOURCE_CLAIM]);
        assert_eq!(actions(Some("made"), None), [ClusterEvent::UPDATE_POD_GENERATED_RESOURCE_CLAIM]);
        assert_eq!(actions(Some("made"), Some("made")), [ClusterEvent::UPDATE]);
    }
}
