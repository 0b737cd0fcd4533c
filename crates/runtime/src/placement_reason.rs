//! The reason why a pod was placed on its node, for people.

use berth_framework::run::Decision;
use berth_scheduler::{Action, PodRequest, Request, Scheduler};
use serde::Serialize;

/// The node of one pod, with the scores that led to the choice.
#[derive(Clone, Debug, Serialize)]
pub struct PlacementReason {
    pub namespace: String,
    pub name: String,
    pub node: String,
    /// The number of nodes in the cluster.
    pub nodes: usize,
    /// The number of nodes that passed every filter.
    pub feasible: usize,
    /// The weighted sum of the chosen node; absent if only one node passed.
    pub score: Option<i64>,
    /// The highest weighted sum among the nodes that were not chosen.
    pub runner_up: Option<i64>,
}

impl PlacementReason {
    /// The reason in one line.
    pub fn why(&self) -> String {
        let fit = format!("{} of {} nodes fit", self.feasible, self.nodes);
        match (self.score, self.runner_up) {
            (Some(score), Some(runner_up)) if score == runner_up => {
                format!("{fit}; this node is the first of the nodes with the score {score}")
            }
            (Some(score), Some(runner_up)) => format!(
                "{fit}; this node has the score {score}, and the next best \
                                                       node has {runner_up}"
            ),
            (Some(score), None) => format!("{fit}; this node has the score {score}"),
            (None, _) => format!("{fit}; no other choice"),
        }
    }
}

/// The reasons for the placements of the cycle that has just ended.
pub(crate) fn placement_reasons(scheduler: &Scheduler, sink: &mut dyn FnMut(PlacementReason)) {
    let Some(Decision { findings, .. }) = scheduler.last_decision() else { return };
    for action in scheduler.pending_actions() {
        let Action::Pod(PodRequest {
            pod,
            request: Request::Bind { node, .. } | Request::BindByExtender { node, .. },
            ..
        }) = action
        else {
            continue;
        };
        let table = scheduler.cache().table();
        let chosen = table.symbols.lookup(node).and_then(|name| table.find(name));
        let scored = || findings.feasible().iter().zip(findings.totals());
        let score = scored().find(|(idx, _)| Some(*idx) == chosen).map(|(_, total)| *total);
        let runner_up = scored().filter(|(idx, _)| Some(*idx) != chosen).map(|(_, total)| *total).max();
        sink(PlacementReason {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            node: node.to_string(),
            nodes: table.n_nodes(),
            feasible: findings.feasible().len(),
            score,
            runner_up,
        });
    }
}
