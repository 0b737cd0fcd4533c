//! What is kept by plugin and node: which plugin removed a node, and what each score was.
//!
//! The cycles of a class add to it, and the decision of each of them holds it too. It is copied when an answer changes while
//! somebody holds the decision of an earlier cycle; a decision that was given back costs nothing.

use berth_model::{NodeIdx, NodeSet};

use super::score_column::ScoreColumn;
use crate::profile::PluginIdx;

/// The answers that decisions show. Totals and the set of nodes that pass are worked out of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::run) struct KeptAnswers {
    removed: Vec<Removed>,
    scores: Vec<KeptScores>,
}

/// The rows that a Filter plugin removed, and none before it. Their verdicts are known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Removed {
    plugin: PluginIdx,
    rows: NodeSet,
}

/// The scores of a plugin that does not normalise: they are from 0 to 100.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run) struct KeptScores {
    pub(in crate::run) plugin: PluginIdx,
    pub(in crate::run) weight: i64,
    pub(in crate::run) column: ScoreColumn<u8>,
}

impl KeptAnswers {
    /// Begins with other Filter plugins.
    pub(in crate::run) fn begin_filters(&mut self, filters: impl Iterator<Item = PluginIdx>) {
        self.removed.clear();
        self.removed.extend(filters.map(|plugin| Removed { plugin, rows: NodeSet::default() }));
    }

    /// Begins with other Score plugins and their weights.
    pub(in crate::run) fn begin_scores(&mut self, scores: impl Iterator<Item = (PluginIdx, i64)>) {
        self.scores.clear();
        self.scores.extend(scores.map(|(plugin, weight)| KeptScores {
            plugin,
            weight,
            column: ScoreColumn::default(),
        }));
    }

    /// Forgets every verdict.
    pub(in crate::run) fn forget_removed(&mut self) {
        self.removed.iter_mut().for_each(|removed| removed.rows.clear());
    }

    /// Forgets why one row did not pass.
    pub(in crate::run) fn forget_row(&mut self, row: NodeIdx) {
        self.removed.iter_mut().for_each(|removed| removed.rows.remove(row));
    }

    /// The Filter plugin at this position among those whose answers are kept removed these rows.
    pub(in crate::run) fn remove(&mut self, position: usize, rows: &NodeSet) {
        if let Some(removed) = self.removed.get_mut(position) {
            removed.rows.union(rows);
        }
    }

    pub(in crate::run) fn scores_mut(&mut self) -> impl Iterator<Item = &mut ScoreColumn<u8>> {
        self.scores.iter_mut().map(|scores| &mut scores.column)
    }

    /// The rows that each plugin removed, if there are any.
    pub(in crate::run) fn removed(&self) -> impl Iterator<Item = (PluginIdx, &NodeSet)> {
        self.removed.iter().filter(|it| !it.rows.is_empty()).map(|it| (it.plugin, &it.rows))
    }

    pub(in crate::run) fn scores(&self) -> &[KeptScores] {
        &self.scores
    }
}
