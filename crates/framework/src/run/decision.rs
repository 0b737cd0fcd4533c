//! The decision of a scheduling cycle, as a value.
//!
//! [`place`](super::place) returns a [`Decision`], which contains an outcome and the [`Findings`] that led to the
//! outcome. The decision owns its data and outlives the cycle, the plugins' instances and the buffers of the
//! [`Attempt`](super::Attempt). It holds only data that the cycle computed anyway, and nothing is formatted before
//! somebody reads it. Nodes and plugins are indexes into the node table and the profile of that cycle.
//!
//! A decision that is no longer needed may be passed to [`Attempt::recycle`](super::Attempt::recycle). The next cycle
//! then reuses its buffers.

mod scores;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use berth_model::{NodeIdx, NodeSet};

pub(super) use self::scores::CycleScores;
pub use self::scores::PluginScores;
use super::{Diagnosis, PluginBits, Rejection, kept_answers::KeptAnswers};
use crate::{profile::PluginIdx, status::Status};

/// The range of a search for nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchRange {
    /// The position in the list of candidates at which the search begins. At the end of the list, the search continues
    /// at the beginning of the list.
    pub start: usize,
    /// The number of passing nodes that is enough.
    pub n_wanted: usize,
}

/// The decision of one scheduling cycle about a pod.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The chosen node, or the reason why no node was chosen.
    pub outcome: Result<NodeIdx, NoNode>,
    /// The facts that the cycle found on the way.
    pub findings: Findings,
}

/// The reason why no node was chosen.
#[derive(Clone, Debug)]
pub enum NoNode {
    /// The cluster has no nodes.
    EmptyCluster,
    /// No node passes.
    Rejected(Box<Diagnosis>),
    /// A plugin broke; the attempt fails with this status.
    Broken(Status),
}

impl From<Status> for NoNode {
    fn from(status: Status) -> Self {
        NoNode::Broken(status)
    }
}

/// The verdict of one cycle on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeVerdict<'a> {
    /// The node passed.
    Passed {
        /// The node's weighted sum; `None` if the cycle scored no nodes, because only one node passed.
        total: Option<i64>,
    },
    /// The node did not pass.
    Rejected {
        /// The plugin; [`PluginIdx::NOBODY`] for an extender.
        plugin: PluginIdx,
        /// The reason; `None` if the plugin was not asked for it, as in a cycle in which other nodes passed.
        status: Option<&'a Status>,
    },
    /// PreFilter excluded the node.
    LeftOut {
        /// The reason; `None` if the caller did not ask for it.
        status: Option<&'a Status>,
    },
    /// The cycle did not look at the node.
    Unknown,
}

/// The answer of one PreFilter plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreFilterAnswer {
    /// The plugin.
    pub plugin: PluginIdx,
    /// The plugin's status.
    pub status: Status,
    /// The names of the nodes to which the plugin restricts the candidates; `None` for all nodes.
    pub nodes: Option<Vec<String>>,
}

/// The only nodes that remain candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restriction {
    /// Node names. Nodes with these names need not exist.
    pub names: BTreeSet<String>,
    /// The plugins that restricted the nodes, in order.
    pub plugins: Vec<PluginIdx>,
}

/// The part of the cluster in which a cycle looked for nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The position in the list of candidates at which the search began.
    pub start: usize,
    /// The number of passing nodes that was enough.
    pub n_wanted: usize,
    /// The number of candidates that Filter looked at.
    pub n_visited: usize,
}

/// The outcome of a hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HintOutcome {
    /// There was no hint, or the pod is nominated to a node.
    #[default]
    None,
    /// The last node still has room, so the hint was not used.
    NotFull,
    /// The next node does not pass.
    Refused,
    /// The next node was chosen, without looking at other nodes.
    Used,
}

/// The answers of a cycle that were given for earlier pods of the same equivalence class. The value is empty for a
/// cycle that asked every plugin about every node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EarlierAnswers {
    /// Filter plugins whose verdicts are kept.
    pub filters: PluginBits,
    /// The number of nodes about which Filter plugins with kept verdicts had to be asked in this cycle.
    pub n_filtered: usize,
    /// Score plugins whose scores are kept.
    pub scores: PluginBits,
    /// The number of nodes about which Score plugins with kept scores had to be asked in this cycle.
    pub n_scored: usize,
    /// The answers themselves.
    pub(super) kept: Option<Arc<KeptAnswers>>,
}

impl EarlierAnswers {
    pub(super) fn clear(&mut self) {
        self.filters.clear();
        self.scores.clear();
        (self.n_filtered, self.n_scored) = (0, 0);
        self.kept = None;
    }
}

/// Everything that a scheduling cycle found out about a pod, up to the step where it ended.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub(super) pre_filters: Vec<PreFilterAnswer>,
    pub(super) skipped_filters: PluginBits,
    pub(super) restriction: Option<Restriction>,
    pub(super) sample: Sample,
    pub(super) feasible: NodeSet,
    pub(super) feasible_order: Vec<NodeIdx>,
    pub(super) filtered_at: Option<Duration>,
    /// The nodes that each Filter plugin removed, by the index of the plugin.
    pub(super) removed: Vec<NodeSet>,
    /// Whether some set of `removed` has a node. If no set has a node, the sets are not cleared, because clearing some
    /// twenty bitmaps costs as much as a cycle that uses earlier answers.
    pub(super) has_removed: bool,
    /// Nodes that would not pass if the pods nominated to them were running on them.
    pub(super) rejected_with_nominated: Vec<Rejection>,
    /// Nodes that extenders rejected with a reason.
    pub(super) rejected_by_extenders: Vec<Rejection>,
    /// Whether extenders left out any node, with a reason or without.
    pub(super) has_extender_removed: bool,
    pub(super) skipped_scores: PluginBits,
    /// The scores of plugins. Only the first `n_scored` belong to this cycle.
    pub(super) scores: Vec<CycleScores>,
    pub(super) n_scored: usize,
    pub(super) totals: Vec<i64>,
    pub(super) hint: HintOutcome,
    pub(super) earlier: EarlierAnswers,
}

impl Findings {
    /// The answers of the PreFilter plugins that were asked, in order.
    #[must_use]
    pub fn pre_filters(&self) -> &[PreFilterAnswer] {
        &self.pre_filters
    }

    /// The plugins whose PreFilter asked to skip their Filter.
    #[must_use]
    pub fn skipped_filters(&self) -> &PluginBits {
        &self.skipped_filters
    }

    /// The nodes to which PreFilter plugins restricted the candidates; `None` without a restriction.
    #[must_use]
    pub fn restriction(&self) -> Option<&Restriction> {
        self.restriction.as_ref()
    }

    /// The range in which the cycle searched.
    #[must_use]
    pub fn sample(&self) -> Sample {
        self.sample
    }

    /// The nodes that passed.
    #[must_use]
    pub fn feasible(&self) -> &NodeSet {
        &self.feasible
    }

    /// The feasible nodes in the order in which they were found.
    #[must_use]
    pub fn feasible_order(&self) -> &[NodeIdx] {
        &self.feasible_order
    }

    /// The time at which the search for nodes that pass was over, by the clock of the profile's meter.
    #[must_use]
    pub fn filtered_at(&self) -> Option<Duration> {
        self.filtered_at
    }

    /// The nodes that each Filter plugin removed. A plugin is not asked about nodes that an earlier plugin removed. The
    /// first items are the nodes that plugins removed in this cycle, in the order of the profile. If the cycle had
    /// [earlier answers](Self::earlier_answers), the next items are all nodes that a kept answer removes, whether this
    /// cycle visited them or not.
    pub fn removed(&self) -> impl Iterator<Item = (PluginIdx, &NodeSet)> {
        let of_cycle = (0..).map(PluginIdx).zip(&self.removed);
        let of_cycle = of_cycle.filter(|(_, nodes)| self.has_removed && !nodes.is_empty());
        of_cycle.chain(self.earlier.kept.iter().flat_map(|kept| kept.removed()))
    }

    /// The plugins whose PreScore asked to skip their Score.
    #[must_use]
    pub fn skipped_scores(&self) -> &PluginBits {
        &self.skipped_scores
    }

    /// The scores of each plugin for the nodes that passed. The scores add up to the totals. The first items are the
    /// scores of plugins that were asked about all of these nodes or whose scores were normalised in this cycle, in the
    /// order of the profile. The next items are the zeros of plugins that were not asked because they have nothing to
    /// do for the pod ([`Reach::Nothing`](crate::Reach::Nothing)). The last items are the scores that were
    /// [kept](Self::earlier_answers).
    pub fn plugin_scores(&self) -> impl Iterator<Item = PluginScores<'_>> {
        let of_cycle = self.scores.iter().take(self.n_scored);
        // A cycle that had no choice has no scores.
        let kept = self.earlier.kept.iter().filter(|_| !self.totals.is_empty());
        let kept = kept.flat_map(|kept| PluginScores::kept(kept, &self.feasible));
        of_cycle.map(|scores| PluginScores::of_cycle(scores, &self.feasible)).chain(kept)
    }

    /// The weighted sums, one sum for each member of [`Self::feasible`] in ascending order; empty if no node was
    /// scored.
    #[must_use]
    pub fn totals(&self) -> &[i64] {
        &self.totals
    }

    /// The outcome of [`NodeSearch::hint`](super::NodeSearch::hint).
    #[must_use]
    pub fn hint(&self) -> HintOutcome {
        self.hint
    }

    /// The answers that the equivalence cache gave.
    #[must_use]
    pub fn earlier_answers(&self) -> &EarlierAnswers {
        &self.earlier
    }

    /// Empties everything, and keeps the buffers.
    pub(super) fn clear(&mut self) {
        self.pre_filters.clear();
        self.skipped_filters.clear();
        self.restriction = None;
        self.hint = HintOutcome::None;
        self.filtered_at = None;
        self.earlier.clear();
        self.clear_verdicts();
        self.clear_scores();
    }

    /// Clears the results of earlier searches of the cycle.
    pub(super) fn begin_search(&mut self, SearchRange { start, n_wanted }: SearchRange) {
        self.clear_verdicts();
        self.earlier.clear();
        self.sample = Sample { start, n_wanted, n_visited: 0 };
    }

    pub(super) fn clear_scores(&mut self) {
        self.skipped_scores.clear();
        self.n_scored = 0;
        self.totals.clear();
    }

    pub(super) fn clear_verdicts(&mut self) {
        self.feasible.clear();
        self.feasible_order.clear();
        self.sample = Sample::default();
        if std::mem::take(&mut self.has_removed) {
            self.removed.iter_mut().for_each(NodeSet::clear);
        }
        self.rejected_with_nominated.clear();
        self.rejected_by_extenders.clear();
        self.has_extender_removed = false;
    }
}

impl Decision {
    /// The verdict of the cycle on this node. The call searches all findings, so it is meant for texts that people
    /// read, and not for the loop over nodes.
    #[must_use]
    pub fn verdict(&self, node: NodeIdx) -> NodeVerdict<'_> {
        let Self { outcome, findings } = self;
        if findings.feasible.contains(node) {
            let place = findings.feasible.iter().position(|other| other == node);
            let total = place.and_then(|place| findings.totals.get(place).copied());
            return NodeVerdict::Passed { total };
        }
        let diagnosis = match outcome {
            Err(NoNode::Rejected(diagnosis)) => Some(diagnosis),
            Ok(_) | Err(NoNode::EmptyCluster | NoNode::Broken(_)) => None,
        };
        let of_diagnosis = diagnosis.iter().flat_map(|diagnosis| &diagnosis.rejections);
        let early = findings.rejected_with_nominated.iter().chain(&findings.rejected_by_extenders);
        if let Some(rejection) = of_diagnosis.chain(early).find(|rejection| rejection.nodes.contains(node)) {
            return NodeVerdict::Rejected { plugin: rejection.plugin, status: Some(&rejection.status) };
        }
        if let Some((plugin, _)) = findings.removed().find(|(_, nodes)| nodes.contains(node)) {
            return NodeVerdict::Rejected { plugin, status: None };
        }
        match diagnosis.and_then(|diagnosis| diagnosis.absent.as_ref()) {
            Some(status) => NodeVerdict::LeftOut { status: Some(status) },
            None => NodeVerdict::Unknown,
        }
    }
}
