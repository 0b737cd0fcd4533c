//! scheduler_perf's pods with terms about other pods.

use berth_testing::PodMaker;
use serde_json::{Value, json};

use super::{
    nodes::{HOSTNAME, ZONE},
    pods::REQUIRED,
};

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The namespaces in which a term looks for pods.
#[derive(Clone, Copy)]
pub(super) enum Where {
    /// The namespaces `sched-0` and `sched-1`.
    Named,
    /// The namespaces with the label `team: devops`.
    Selected,
}

fn term(color: &str, topology_key: &str, place: Where) -> Value {
    let mut term = json!({"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": topology_key});
    match place {
        Where::Named => term["namespaces"] = json!(["sched-1", "sched-0"]),
        Where::Selected => term["namespaceSelector"] = json!({"matchLabels": {"team": "devops"}}),
    }
    term
}

fn preferred(color: &str, place: Where) -> Value {
    json!({PREFERRED: [{"weight": 1, "podAffinityTerm": term(color, HOSTNAME, place)}]})
}

pub(super) fn anti_affinity(pod: PodMaker, place: Where) -> PodMaker {
    let affinity = json!({"podAntiAffinity": {REQUIRED: [term("green", HOSTNAME, place)]}});
    pod.label("color", "green").label("name", "test").spec("affinity", affinity)
}

pub(super) fn affinity(pod: PodMaker, place: Where) -> PodMaker {
    pod.label("color", "blue").spec("affinity", json!({"podAffinity": {REQUIRED: [term("blue", ZONE, place)]}}))
}

pub(super) fn preferred_affinity(pod: PodMaker, place: Where) -> PodMaker {
    pod.label("color", "red").spec("affinity", json!({"podAffinity": preferred("red", place)}))
}

pub(super) fn preferred_anti_affinity(pod: PodMaker, place: Where) -> PodMaker {
    pod.label("color", "yellow").spec("affinity", json!({"podAntiAffinity": preferred("yellow", place)}))
}

/// Adds a gate, and an affinity to pods of the same app.
pub(super) fn gated_with_affinity(pod: PodMaker) -> PodMaker {
    let term = json!({"labelSelector": {"matchLabels": {"app": "scheduler-perf"}}, "topologyKey": HOSTNAME});
    pod.label("app", "scheduler-perf").spec("affinity", json!({"podAffinity": {REQUIRED: [term]}}))
}
