//! Compares the events for which plugins register in the queue with the events in their manifests, and their queueing
//! hints with the recorded hints.

use berth_framework::ClusterEvent;
use berth_model::Features;
use serde::Deserialize;

use crate::{
    execution::Execution,
    findings::Findings,
    hints::{self, HintRow},
};

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Row {
    Registration(Registration),
    Hints(Box<HintRow>),
}

#[derive(Debug, Deserialize)]
pub(crate) struct Registration {
    plugin: String,
    resource: String,
    actions: Vec<String>,
}

pub(crate) fn check(row: &Row, features: Features, execution: &dyn Execution) -> Findings {
    let mut findings = Findings::default();
    match row {
        Row::Registration(registration) => compare(registration, execution, &mut findings),
        Row::Hints(row) => hints::check(row, features, execution, &mut findings),
    }
    findings
}

fn compare(registration: &Registration, execution: &dyn Execution, findings: &mut Findings) {
    let Some(factory) = execution.factory(&registration.plugin) else {
        findings.leave_out(&registration.plugin);
        return;
    };
    let actions = registration.actions.iter().map(|action| bit(action)).fold(0, |bits, bit| bits | bit);
    let expected = ClusterEvent::new(&registration.resource, actions);
    let events = factory.manifest().events_to_register.clone().unwrap_or_default();
    let what = format!("registration of {}", registration.plugin);
    if events.contains(&expected) {
        findings.compare(what, &expected, &expected);
    } else {
        findings.differ(what, format!("{expected:?}"), format!("{events:?}"));
    }
}

fn bit(action: &str) -> u32 {
    match action {
        "Add" => ClusterEvent::ADD,
        "Delete" => ClusterEvent::DELETE,
        "UpdateNodeAllocatable" => ClusterEvent::UPDATE_NODE_ALLOCATABLE,
        "UpdateNodeLabel" => ClusterEvent::UPDATE_NODE_LABEL,
        "UpdateNodeTaint" => ClusterEvent::UPDATE_NODE_TAINT,
        "UpdateNodeCondition" => ClusterEvent::UPDATE_NODE_CONDITION,
        "UpdateNodeAnnotation" => ClusterEvent::UPDATE_NODE_ANNOTATION,
        "UpdateNodeDeclaredFeature" => ClusterEvent::UPDATE_NODE_DECLARED_FEATURE,
        "UpdatePodLabel" => ClusterEvent::UPDATE_POD_LABEL,
        "UpdatePodScaleDown" => ClusterEvent::UPDATE_POD_SCALE_DOWN,
        "UpdatePodToleration" => ClusterEvent::UPDATE_POD_TOLERATION,
        "UpdatePodSchedulingGatesEliminated" => ClusterEvent::UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
        "UpdatePodGeneratedResourceClaim" => ClusterEvent::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        // No event has this bit, so the row differs.
        _ => 1 << 31,
    }
}
