//! The state of a pod in one word, for programs.

use serde::{Deserialize, Serialize};

use crate::{
    analysis::{Analysis, NODE_RESOURCES_FIT},
    record::DecisionRecord,
    subject::{PodState, Subject},
};

/// The state in one word. If several words apply, the first of them in this order is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Cause {
    /// The pod is on its node.
    Bound,
    /// The pod has a node, and its binding is not finished.
    Binding,
    /// The pod would not fit on any new node, because it names an object that does not exist, or asks for something
    /// impossible. Only the rejections of built-in plugins are known to have this meaning.
    Misconfigured,
    /// The pod requests more of a resource than even an empty node has.
    LargerThanAnyNode,
    /// Something holds the pod back: a scheduling gate, a plugin, or the absence of a plugin.
    Held,
    /// Pods are leaving to make room for the pod.
    WaitingForVictims,
    /// A plugin rejects the pod as a whole, before it looks at nodes, for example because a quota is full.
    Rejected,
    /// All nodes together have enough resources for the pod's requests, but no single node has enough.
    Fragmented,
    /// The nodes that would accept the pod have too few free resources for its requests.
    OutOfCapacity,
    /// Each node is refused for a reason other than its remaining resources.
    Constrained,
    /// The pod was not tried yet.
    NotYetTried,
    /// A node fits, and the last attempt chose a node, but the pod was rejected or the attempt failed between Reserve
    /// and Bind.
    NotBound,
    /// A node fits at the moment, so the next attempt will succeed on this node.
    Fits,
    /// The known facts do not show the cause.
    Unknown,
}

impl Cause {
    /// The first cause that applies.
    pub(crate) fn of(subject: &Subject, decision: Option<&DecisionRecord>, analysis: Option<&Analysis>) -> Self {
        match subject.state {
            PodState::Bound { .. } => return Self::Bound,
            PodState::Binding { .. } if subject.holders.is_empty() => return Self::Binding,
            PodState::Binding { .. } => return Self::Held,
            PodState::Queued { .. } | PodState::Unscheduled | PodState::NotCreated => {}
        }
        let holds = [
            (Self::Misconfigured, analysis.is_some_and(is_misconfigured)),
            (Self::LargerThanAnyNode, analysis.is_some_and(is_larger_than_any_node)),
            (Self::Held, !subject.holders.is_empty()),
            (Self::WaitingForVictims, subject.nominated_node.is_some() && analysis.is_none_or(|it| it.feasible == 0)),
            (Self::Rejected, analysis.is_some_and(|it| it.pod_rejected.is_some())),
            (Self::Fragmented, analysis.is_some_and(|it| is_short_of_resources(it) && is_enough_in_sum(it))),
            (Self::OutOfCapacity, analysis.is_some_and(is_short_of_resources)),
            (Self::Constrained, analysis.is_some_and(is_refused)),
            (Self::NotYetTried, subject.attempts == 0 && subject.state != PodState::NotCreated),
            (Self::NotBound, decision.is_some_and(|decision| decision.not_bound.is_some())),
            (Self::Fits, analysis.is_some_and(|analysis| analysis.feasible > 0)),
        ];
        holds.into_iter().find(|(_, holds)| *holds).map_or(Self::Unknown, |(cause, _)| cause)
    }
}

/// The built-in plugins whose final rejections at PreFilter are about the pod itself, for example about a claim that
/// does not exist, or about terms that contradict each other. A rejection by another plugin may end without a change to
/// the pod, as the rejection for a full quota does.
const CHECK_THE_POD: [&str; 7] = [
    "DynamicResources",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
];

fn is_misconfigured(analysis: &Analysis) -> bool {
    analysis.pod_rejected.as_ref().is_some_and(|rejected| {
        let is_final = rejected.code == "UnschedulableAndUnresolvable";
        is_final && rejected.plugins.iter().all(|plugin| CHECK_THE_POD.contains(&plugin.as_str()))
    })
}

fn is_larger_than_any_node(analysis: &Analysis) -> bool {
    analysis.nodes > 0 && analysis.resources.iter().any(|resource| resource.requested > resource.largest_node)
}

/// Whether there are nodes that only lack resources for the pod.
fn is_short_of_resources(analysis: &Analysis) -> bool {
    let mut of_resources = analysis.plugins.iter().filter(|report| report.plugin == NODE_RESOURCES_FIT);
    analysis.feasible == 0 && of_resources.any(|report| report.alone > 0)
}

fn is_enough_in_sum(analysis: &Analysis) -> bool {
    analysis.resources.iter().all(|resource| resource.total_free >= resource.requested)
}

fn is_refused(analysis: &Analysis) -> bool {
    analysis.error.is_none() && analysis.feasible == 0
}
