//! The results of a simulation for each pod, as data for `berth simulate -o json` and for answers to what-if questions.

use berth_framework::{
    PluginIdx,
    run::{Decision, Diagnosis, NoNode},
};
use berth_model::{ClusterTable, NodeIdx};
use serde::Serialize;

/// The number of nodes that are named for each reason. Further nodes are only counted.
const EXAMPLES: usize = 3;

/// The results for the pods of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// The pods that waited for a node, in their order.
    pub pods: Vec<PodOutcome>,
    /// The pods that were evicted for other pods, in the order of their evictions.
    pub evictions: Vec<Eviction>,
}

/// The result for one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOutcome {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The node of the pod; absent for a pod that stays pending.
    pub node: Option<String>,
    /// The alternatives to the node, for a pod with a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// The reason why the pod has no node; `None` for a pod with a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
}

/// The nodes among which the scheduler chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The number of nodes in the cluster.
    pub nodes: usize,
    /// The number of nodes that passed every filter, among the examined nodes.
    pub feasible: usize,
    /// The weighted sum of the node's scores; absent if only one node passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    /// The highest weighted sum among the nodes that were not chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<i64>,
}

/// The reason why a pod has no node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The reason in one word.
    pub reason: RefusalReason,
    /// The message of the pod's condition.
    pub message: String,
    /// The answers of each plugin. The plugin that rejected the most nodes comes first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejections: Vec<NodesRejected>,
    /// The node on which a preemption made room, if the pod waits for this room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated_node: Option<String>,
}

/// The reason why a pod has no node, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum RefusalReason {
    /// No profile of the configuration has the pod's `schedulerName`.
    NotServed,
    /// A PreEnqueue plugin holds the pod, for example because of its scheduling gates.
    Gated,
    /// No node passes.
    Unschedulable,
    /// A plugin or the scheduler failed.
    SchedulerError,
    /// The pod has a node, and waits at Permit for other pods.
    WaitsAtPermit,
    /// The simulation ended before the pod was tried.
    NotTried,
}

/// Nodes that one plugin rejected for the same reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodesRejected {
    /// The plugin; absent for an extender, or if the plugin is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The reasons, in the order in which users read them.
    pub reasons: Vec<String>,
    /// The number of nodes.
    pub nodes: usize,
    /// Some of the nodes.
    pub examples: Vec<String>,
}

/// A pod that was evicted for another pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Eviction {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The pod's node.
    pub node: String,
}

impl RefusalReason {
    /// The reason as a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotServed => "NotServed",
            Self::Gated => "Gated",
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
            Self::WaitsAtPermit => "WaitsAtPermit",
            Self::NotTried => "NotTried",
        }
    }
}

impl Refusal {
    /// A refusal that no node caused.
    pub(crate) fn new(reason: RefusalReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), rejections: Vec::new(), nominated_node: None }
    }
}

impl Choice {
    /// The alternatives to this node in the decision; `None` if the decision chose another node.
    #[must_use]
    pub fn of(decision: &Decision, node: &str, table: &ClusterTable) -> Option<Self> {
        let chosen = table.symbols.lookup(node).and_then(|name| table.find(name));
        let Decision { outcome: Ok(decided), findings } = decision else { return None };
        if Some(*decided) != chosen {
            return None;
        }
        let scored = || findings.feasible().iter().zip(findings.totals());
        Some(Self {
            nodes: table.n_nodes(),
            feasible: findings.feasible().len(),
            score: scored().find(|(idx, _)| Some(*idx) == chosen).map(|(_, total)| *total),
            runner_up: scored().filter(|(idx, _)| Some(*idx) != chosen).map(|(_, total)| *total).max(),
        })
    }

    /// The reason in one line.
    #[must_use]
    pub fn why(&self) -> String {
        let fit = format!("{} of {} nodes fit", self.feasible, self.nodes);
        match (self.score, self.runner_up) {
            (Some(score), Some(runner_up)) if score == runner_up => {
                format!("{fit}; this node is the first of the nodes with the score {score}")
            }
            (Some(score), Some(runner_up)) => {
                format!("{fit}; this node has the score {score}, and the next best node has {runner_up}")
            }
            (Some(score), None) => format!("{fit}; this node has the score {score}"),
            (None, _) => format!("{fit}; no other choice"),
        }
    }
}

/// The plugins' answers about nodes in the decision with the text `message`. The result is empty if the last decision
/// has another text.
pub(crate) fn rejections(
    decision: &Decision,
    message: &str,
    table: &ClusterTable,
    plugin_name: impl Fn(PluginIdx) -> Option<String>,
) -> Vec<NodesRejected> {
    let Err(NoNode::Rejected(diagnosis)) = &decision.outcome else { return Vec::new() };
    if diagnosis.message() != message {
        return Vec::new();
    }
    let mut rejections: Vec<NodesRejected> = Vec::new();
    for rejection in &diagnosis.rejections {
        let plugin = plugin_name(rejection.plugin);
        let known = rejections.iter_mut().find(|it| it.plugin == plugin && it.reasons == rejection.status.reasons);
        let (n_nodes, examples) = (rejection.nodes.len(), rejection.nodes.iter().map(|node| name(table, node)));
        match known {
            Some(known) => known.nodes += n_nodes,
            None => rejections.push(NodesRejected {
                plugin,
                reasons: rejection.status.reasons.clone(),
                nodes: n_nodes,
                examples: examples.take(EXAMPLES).collect(),
            }),
        }
    }
    rejections.extend(rejected_by_pre_filter(diagnosis));
    rejections.sort_by_key(|rejection| std::cmp::Reverse(rejection.nodes));
    rejections
}

/// The rejection by PreFilter: of the nodes that it left out, or of all nodes.
fn rejected_by_pre_filter(diagnosis: &Diagnosis) -> Option<NodesRejected> {
    let n_explicit: usize = diagnosis.rejections.iter().map(|rejection| rejection.nodes.len()).sum();
    let status = diagnosis.pre_filter.as_ref().or(diagnosis.absent.as_ref())?;
    let nodes = diagnosis.n_all_nodes.saturating_sub(n_explicit);
    let is_any = nodes > 0 && !status.reasons.is_empty();
    is_any.then(|| NodesRejected { plugin: None, reasons: status.reasons.clone(), nodes, examples: Vec::new() })
}

fn name(table: &ClusterTable, node: NodeIdx) -> String {
    table.symbols.text(table.name(node)).to_owned()
}
