//! The answers that are kept by plugin and node: which plugin removed a node, and each score.
//!
//! Each cycle of a class adds answers, and the decision of each cycle holds the answers as well. If an answer changes
//! while an earlier decision still holds the answers, all answers are copied. A decision that was given back causes no
//! copy.

use berth_model::{NodeIdx, NodeSet};

use super::score_column::ScoreColumn;
use crate::profile::PluginIdx;

/// The answers that decisions show. The totals and the set of nodes that pass are computed from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::run) struct KeptAnswers {
    removed: Vec<Removed>,
    scores: Vec<KeptScores>,
}

/// The rows that a Filter plugin removed and that every plugin before it let pass. Their verdicts are known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Removed {
    plugin: PluginIdx,
    rows: NodeSet,
}

/// The scores of a plugin that does not normalise. The scores are from 0 to 100.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run) struct KeptScores {
    pub(in crate::run) plugin: PluginIdx,
    pub(in crate::run) weight: i64,
    pub(in crate::run) column: ScoreColumn<u8>,
}

impl KeptAnswers {
    /// Starts again with other Filter plugins.
    pub(in crate::run) fn begin_filters(&mut self, filters: impl Iterator<Item = PluginIdx>) {
        self.removed.clear();
        self.removed.extend(filters.map(|plugin| Removed { plugin, rows: NodeSet::default() }));
    }

    /// Starts again with other Score plugins and their weights.
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

    /// Notes that a Filter plugin removed these rows. `position` is the plugin's position among the plugins whose
    /// answers are kept.
    pub(in crate::run) fn remove(&mut self, position: usize, rows: &NodeSet) {
        if let Some(removed) = self.removed.get_mut(position) {
            removed.rows.union(rows);
        }
    }

    pub(in crate::run) fn scores_mut(&mut self) -> impl Iterator<Item = &mut ScoreColumn<u8>> {
        self.scores.iter_mut().map(|scores| &mut scores.column)
    }

    /// The rows that each plugin removed. Plugins that removed no row are left out.
    pub(in crate::run) fn removed(&self) -> impl Iterator<Item = (PluginIdx, &NodeSet)> {
        self.removed.iter().filter(|it| !it.rows.is_empty()).map(|it| (it.plugin, &it.rows))
    }

    pub(in crate::run) fn scores(&self) -> &[KeptScores] {
        &self.scores
    }
}
