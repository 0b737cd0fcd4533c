//! The record that is kept of a decision.

use std::{fmt, sync::Arc};

use berth_framework::{
    CycleId, Profile,
    run::{Decision, Diagnosis, Findings, NoNode, Rejection},
};
use berth_model::{ClusterTable, NodeIdx, NodeSet, Pod, PodUid, Time, serde_with::shared_text};
use serde::{Deserialize, Serialize};

/// The number of nodes that are kept with all their scores.
const N_BEST: usize = 10;

/// The number of nodes that are named beside each count.
const N_EXAMPLES: usize = 3;

/// A decision about one pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRecord {
    /// `metadata.uid` of the pod.
    pub uid: PodUid,
    /// The time when the record was made, in milliseconds by the scheduler's clock.
    pub at: Time,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The label of the event that made the scheduler try the pod, as in `scheduler_queue_incoming_pods_total`. The
    /// event is the pod's creation, or the event that moved the pod after the last attempt. Empty if the pod only
    /// waited for the end of its backoff.
    #[serde(default, with = "shared_text", skip_serializing_if = "str::is_empty")]
    pub brought_by: Arc<str>,
    /// The result of the decision.
    pub outcome: Outcome,
    /// The part of the cluster that the cycle examined.
    pub sampled: Sampled,
    /// The best nodes with their scores, the best first. When many pods arrive together, the scores of only some pods
    /// are kept. For all other pods, the list is empty.
    pub best: Vec<RankedNode>,
    /// The nodes that plugins rejected. They are kept if [`Self::best`] is kept, or if no node fits.
    pub rejected: Vec<Rejected>,
    /// The reason why the pod was not bound to the node afterwards. `None` if the pod was bound, or may still be bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_bound: Option<NotBound>,
    /// The cycle of the attempt. Only the scheduler that made the attempt knows it.
    #[serde(skip)]
    pub cycle: CycleId,
    /// The id of the attempt's trace, if the host traces the attempt. The host sets the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<str>>,
}

/// The reason why a pod did not reach the node that was chosen for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotBound {
    /// The extension point, such as `Permit`; `None` if the attempt ended for another reason.
    pub point: Option<String>,
    /// The plugin that rejected the pod or failed at this point; `None` if no plugin rejected the pod or failed.
    pub plugin: Option<String>,
    /// The message of that plugin, or of the scheduler.
    pub message: String,
}

impl fmt::Display for NotBound {
    /// Writes `plugin Gang rejected the pod at Permit: MESSAGE`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { point, plugin, message } = self;
        match (plugin, point) {
            (Some(plugin), Some(point)) => write!(formatter, "plugin {plugin} rejected the pod at {point}: {message}"),
            (Some(plugin), None) => write!(formatter, "plugin {plugin} rejected the pod: {message}"),
            (None, Some(point)) => write!(formatter, "the attempt failed at {point}: {message}"),
            (None, None) => write!(formatter, "the attempt failed: {message}"),
        }
    }
}

/// The result of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "result")]
pub enum Outcome {
    /// The pod goes to this node.
    Placed {
        /// `metadata.name`.
        #[serde(with = "shared_text")]
        node: Arc<str>,
    },
    /// No node fits.
    Rejected {
        /// The message of the pod's condition.
        message: String,
    },
    /// A plugin broke.
    Failed {
        /// The message of the plugin.
        message: String,
    },
}

/// The part of the cluster that a cycle examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sampled {
    /// The number of nodes in the cluster.
    pub nodes: usize,
    /// The number of nodes that were examined. The search stopped there because enough nodes had passed.
    pub visited: usize,
    /// The number of nodes that passed.
    pub feasible: usize,
    /// Whether the answers were given for earlier pods of the same equivalence class.
    pub has_earlier_answers: bool,
    /// Whether the node was the next best node for the previous pod, which has the same signature. No other node was
    /// then examined.
    pub is_hinted: bool,
    /// The number of nodes with the best total, if nodes were scored and [`DecisionRecord::best`] was kept. The order
    /// of these nodes in the search decides which node is chosen.
    #[serde(default)]
    pub tied: usize,
}

/// A node that fits, with the scores that led to its rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RankedNode {
    /// `metadata.name`.
    #[serde(with = "shared_text")]
    pub node: Arc<str>,
    /// The sum of the weighted scores; `None` if no node was scored, because only one node passed.
    pub total: Option<i64>,
    /// The scores from each plugin.
    pub scores: Vec<PluginScore>,
}

/// The scores of a node from one plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginScore {
    /// The name of the plugin.
    #[serde(with = "shared_text")]
    pub plugin: Arc<str>,
    /// The result of Score.
    pub raw: i64,
    /// The result of NormalizeScore.
    pub normalized: i64,
    /// The normalised score times the plugin's weight.
    pub weighted: i64,
}

/// Nodes that a plugin rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejected {
    /// The name of the plugin; empty for an extender.
    #[serde(with = "shared_text")]
    pub plugin: Arc<str>,
    /// The number of nodes. A plugin is not asked about nodes that an earlier plugin rejected.
    pub nodes: usize,
    /// The reason; empty if the cycle did not ask for it because other nodes passed.
    pub message: String,
    /// Some of the nodes.
    pub examples: Vec<String>,
}

/// The attempt in which a decision was made.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The profile with the plugins that were asked.
    pub profile: &'a Profile,
    /// The nodes at the time of the attempt.
    pub table: &'a ClusterTable,
    /// The time of the attempt.
    pub at: Time,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The label of the event that made the scheduler try the pod, if there was such an event.
    pub brought_by: Option<&'a Arc<str>>,
    /// The cycle of the attempt.
    pub cycle: CycleId,
    /// Whether nodes and scores are kept if the pod has a node. If the pod has no node, everything is kept.
    pub is_whole: bool,
}

impl DecisionRecord {
    /// Makes the record of a decision.
    #[must_use]
    pub fn of(decision: &Decision, made: &Made<'_>) -> Self {
        let Made { pod, profile, table, at, attempt, brought_by, cycle, is_whole } = *made;
        let Decision { outcome, findings } = decision;
        let sample = findings.sample();
        let feasible = findings.feasible().len();
        let sampled = Sampled {
            nodes: table.n_nodes(),
            visited: sample.n_visited,
            feasible,
            has_earlier_answers: !findings.earlier_answers().filters.is_empty(),
            is_hinted: findings.hint() == berth_framework::run::HintOutcome::Used,
            tied: 0,
        };
        let mut record = Self {
            uid: pod.uid.clone(),
            at,
            attempt,
            brought_by: brought_by.map(Arc::clone).unwrap_or_default(),
            outcome: outcome_of(outcome, table),
            sampled,
            best: Vec::new(),
            rejected: Vec::new(),
            not_bound: None,
            cycle,
            trace: None,
        };
        match outcome {
            Err(NoNode::Rejected(diagnosis)) => record.rejected = with_reasons(diagnosis, profile, table),
            Ok(_) if is_whole => {
                record.best = ranked(profile, table, findings, N_BEST);
                record.sampled.tied = n_best(findings.totals());
                let removed = findings.removed();
                record.rejected = removed
                    .map(|(plugin, nodes)| rejected(Arc::clone(profile.name(plugin)), String::new(), nodes, table))
                    .collect();
            }
            Ok(_) | Err(NoNode::EmptyCluster | NoNode::Broken(_)) => {}
        }
        record
    }

    /// The approximate size of the record in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let text = match &self.outcome {
            Outcome::Placed { .. } => 0,
            Outcome::Rejected { message } | Outcome::Failed { message } => message.len(),
        };
        let of_best = |node: &RankedNode| size_of::<RankedNode>() + node.scores.len() * size_of::<PluginScore>();
        let of_rejected = |rejected: &Rejected| {
            let examples: usize = rejected.examples.iter().map(|node| size_of::<String>() + node.len()).sum();
            size_of::<Rejected>() + rejected.message.len() + examples
        };
        // The pod that shares its uid with the record may be gone, so the uid is counted. All pods share the labels of
        // events.
        let not_bound = self.not_bound.as_ref().map_or(0, |it| {
            let names = [&it.point, &it.plugin].into_iter().flatten();
            it.message.len() + names.map(String::len).sum::<usize>()
        });
        size_of::<Self>()
            + self.uid.len()
            + text
            + not_bound
            + self.trace.as_ref().map_or(0, |trace| trace.len())
            + self.best.iter().map(of_best).sum::<usize>()
            + self.rejected.iter().map(of_rejected).sum::<usize>()
    }
}

/// The number of nodes with the highest total.
fn n_best(totals: &[i64]) -> usize {
    let highest = totals.iter().max();
    totals.iter().filter(|total| Some(*total) == highest).count()
}

fn outcome_of(outcome: &Result<NodeIdx, NoNode>, table: &ClusterTable) -> Outcome {
    match outcome {
        Ok(node) => Outcome::Placed { node: table.symbols.shared_text(table.name(*node)) },
        Err(NoNode::EmptyCluster) => Outcome::Rejected { message: "no nodes available to schedule pods".to_owned() },
        Err(NoNode::Rejected(diagnosis)) => Outcome::Rejected { message: diagnosis.message() },
        Err(NoNode::Broken(status)) => Outcome::Failed { message: status.message() },
    }
}

fn with_reasons(diagnosis: &Diagnosis, profile: &Profile, table: &ClusterTable) -> Vec<Rejected> {
    let with_reason = |rejection: &Rejection| {
        let name = Arc::clone(profile.name(rejection.plugin));
        rejected(name, rejection.status.message(), &rejection.nodes, table)
    };
    diagnosis.rejections.iter().map(with_reason).collect()
}

fn rejected(plugin: Arc<str>, message: String, nodes: &NodeSet, table: &ClusterTable) -> Rejected {
    let name = |node| table.symbols.text(table.name(node)).to_owned();
    Rejected { plugin, nodes: nodes.len(), message, examples: nodes.iter().take(N_EXAMPLES).map(name).collect() }
}

/// The best nodes, the best first. Among nodes with equal scores, the node that was found first comes first, as in the
/// cycle.
pub(crate) fn ranked(profile: &Profile, table: &ClusterTable, findings: &Findings, limit: usize) -> Vec<RankedNode> {
    let rows: Vec<NodeIdx> = findings.feasible().iter().collect();
    let totals = findings.totals();
    // The position of each node among the rows, in the order in which they were found.
    let mut places: Vec<usize> =
        findings.feasible_order().iter().filter_map(|node| rows.binary_search(node).ok()).collect();
    if !totals.is_empty() {
        places.sort_by_key(|place| std::cmp::Reverse(totals.get(*place).copied()));
    }
    places.truncate(limit);
    let mut nodes: Vec<RankedNode> = Vec::with_capacity(places.len());
    for place in &places {
        let Some(row) = rows.get(*place) else { continue };
        let node = table.symbols.shared_text(table.name(*row));
        nodes.push(RankedNode { node, total: totals.get(*place).copied(), scores: Vec::new() });
    }
    for scores in findings.plugin_scores() {
        let (raw, normalized): (Vec<i64>, Vec<i64>) = (scores.raw().collect(), scores.normalized().collect());
        let (plugin, weight) = (profile.name(scores.plugin), profile.plugins.weight(scores.plugin));
        for (node, place) in nodes.iter_mut().zip(&places) {
            if let (Some(raw), Some(normalized)) = (raw.get(*place), normalized.get(*place)) {
                let (raw, normalized) = (*raw, *normalized);
                let plugin = Arc::clone(plugin);
                node.scores.push(PluginScore { plugin, raw, normalized, weighted: normalized * weight });
            }
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::n_best;

    #[test]
    fn nodes_with_the_best_total_are_counted() {
        assert_eq!([n_best(&[3, 5, 5, 1]), n_best(&[2]), n_best(&[])], [2, 1, 0]);
    }
}
