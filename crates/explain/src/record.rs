//! What is kept of a decision.

use std::sync::Arc;

use berth_framework::{
    Profile,
    run::{Decision, Diagnosis, Findings, NoNode, Rejection},
};
use berth_model::{ClusterTable, NodeIdx, NodeSet, Pod, PodUid, Time, serde_with::shared_text};
use serde::{Deserialize, Serialize};

/// How many nodes are kept with all their scores.
const N_BEST: usize = 10;

/// How many nodes are named beside each count.
const N_EXAMPLES: usize = 3;

/// A decision about one pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRecord {
    /// `metadata.uid` of the pod.
    pub uid: PodUid,
    /// When the record was made, in milliseconds by the scheduler's clock.
    pub at: Time,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// What was decided.
    pub outcome: Outcome,
    /// How far the cycle looked.
    pub sampled: Sampled,
    /// The best nodes with their scores, the best first. Empty if they were not kept: when many pods come at once, this is kept of
    /// some of them.
    pub best: Vec<RankedNode>,
    /// The nodes that plugins rejected. As for [`Self::best`].
    pub rejected: Vec<Rejected>,
}

/// What was decided.
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
        /// What it said.
        message: String,
    },
}

/// How far a cycle looked for nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sampled {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Nodes that were looked at: enough of them had passed then.
    pub visited: usize,
    /// Nodes that passed.
    pub feasible: usize,
    /// Answers were those given for pods of the same equivalence class.
    pub has_earlier_answers: bool,
    /// The node was the next best for the pod before, which has the same signature: no other was looked at.
    pub is_hinted: bool,
}

/// A node that fits, with what led to its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RankedNode {
    /// `metadata.name`.
    #[serde(with = "shared_text")]
    pub node: Arc<str>,
    /// The sum of the weighted scores; `None` if nothing was scored, since there was no choice.
    pub total: Option<i64>,
    /// What each plugin gave it.
    pub scores: Vec<PluginScore>,
}

/// What a plugin gave a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginScore {
    /// Which plugin.
    #[serde(with = "shared_text")]
    pub plugin: Arc<str>,
    /// What Score gave.
    pub raw: i64,
    /// What NormalizeScore made of it.
    pub normalized: i64,
    /// The normalised score times the plugin's weight.
    pub weighted: i64,
}

/// Nodes that a plugin rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejected {
    /// Which plugin; empty for an extender.
    #[serde(with = "shared_text")]
    pub plugin: Arc<str>,
    /// How many nodes. A plugin is not asked about nodes that one before it rejected.
    pub nodes: usize,
    /// Why; empty if the cycle did not ask, as other nodes passed.
    pub message: String,
    /// Some of the nodes.
    pub examples: Vec<String>,
}

/// A decision's attempt.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The profile whose plugins were asked.
    pub profile: &'a Profile,
    /// The nodes at that time.
    pub table: &'a ClusterTable,
    /// When.
    pub at: Time,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Whether nodes and scores are kept if the pod has a node. If it has none, all is kept.
    pub is_whole: bool,
}

impl DecisionRecord {
    /// What is kept of a decision.
    #[must_use]
    pub fn of(decision: &Decision, made: &Made<'_>) -> Self {
        let Made { pod, profile, table, at, attempt, is_whole } = *made;
        let Decision { outcome, findings } = decision;
        let sample = findings.sample();
        let feasible = findings.feasible().len();
        let sampled = Sampled {
            nodes: table.n_nodes(),
            visited: sample.n_visited,
            feasible,
            has_earlier_answers: !findings.earlier_answers().filters.is_empty(),
            is_hinted: findings.hint() == berth_framework::run::HintOutcome::Used,
        };
        let mut record = Self {
            uid: pod.uid.clone(),
            at,
            attempt,
            outcome: outcome_of(outcome, table),
            sampled,
            best: Vec::new(),
            rejected: Vec::new(),
        };
        match outcome {
            Err(NoNode::Rejected(diagnosis)) => record.rejected = with_reasons(diagnosis, profile, table),
            Ok(_) if is_whole => {
                record.best = ranked(profile, table, findings, N_BEST);
                let removed = findings.removed();
                record.rejected = removed
                    .map(|(plugin, nodes)| rejected(Arc::clone(profile.name(plugin)), String::new(), nodes, table))
                    .collect();
            }
            Ok(_) | Err(NoNode::EmptyCluster | NoNode::Broken(_)) => {}
        }
        record
    }

    /// Bytes that it takes, roughly.
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
        size_of::<Self>()
            + text
            + self.best.iter().map(of_best).sum::<usize>()
            + self.rejected.iter().map(of_rejected).sum::<usize>()
    }
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

/// The best nodes, the best first; among equals the one that was found first, as the cycle chooses.
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
