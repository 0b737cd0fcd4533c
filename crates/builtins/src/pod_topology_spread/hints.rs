//! Queueing hints: the events that may change the counts of a pod's hard constraints
//! (`pkg/scheduler/framework/plugins/podtopologyspread/plugin.go` in kube-scheduler).

use berth_framework::{EventSubject, HintCall};
use berth_model::{Node, Pod, pod::SpreadConstraint};

use crate::hints::has_place;

pub(super) fn may_help(call: &HintCall<'_>, constraints: &[SpreadConstraint]) -> bool {
    match call.subject {
        EventSubject::Pod { old, new } => pod_may_help(call.pod, constraints, old, new),
        EventSubject::Node { old, new } => node_may_help(constraints, old, new),
        EventSubject::Object { .. } | EventSubject::Hidden => true,
    }
}

fn pod_may_help(pod: &Pod, constraints: &[SpreadConstraint], old: Option<&Pod>, new: Option<&Pod>) -> bool {
    let counts = |other: &Pod| other.uid == pod.uid || (has_place(other) && other.namespace == pod.namespace);
    if !old.into_iter().chain(new).all(counts) {
        return false;
    }
    let (Some(old), Some(new)) = (old, new) else {
        return old.or(new).is_none_or(|it| constraints.iter().any(|constraint| matches(constraint, it)));
    };
    let tolerates_more = new.uid == pod.uid && old.tolerations != new.tolerations;
    (tolerates_more && constraints.iter().any(|constraint| constraint.honor_node_taints))
        || constraints.iter().any(|constraint| matches(constraint, old) != matches(constraint, new))
}

fn matches(constraint: &SpreadConstraint, pod: &Pod) -> bool {
    constraint.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

fn node_may_help(constraints: &[SpreadConstraint], old: Option<&Node>, new: Option<&Node>) -> bool {
    let has_all_keys = |node: &Node| constraints.iter().all(|constraint| node.label(constraint.topology_key).is_some());
    let (Some(old), Some(new)) = (old, new) else { return old.or(new).is_none_or(has_all_keys) };
    let moved = || constraints.iter().any(|it| old.label(it.topology_key) != new.label(it.topology_key));
    has_all_keys(old) != has_all_keys(new) || (has_all_keys(new) && (moved() || old.taints != new.taints))
}
