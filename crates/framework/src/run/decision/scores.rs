//! What one Score plugin said about the nodes that passed.

use crate::profile::PluginIdx;

/// One plugin's scores for the feasible nodes in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginScores {
    /// Which plugin.
    pub plugin: PluginIdx,
    pub(in crate::run) weight: i64,
    pub(in crate::run) n_nodes: usize,
    /// Whether all nodes have one score: then the columns have one entry.
    pub(in crate::run) is_common: bool,
    pub(in crate::run) raw: Vec<i64>,
    /// Empty if the plugin does not normalise.
    pub(in crate::run) normalized: Vec<i64>,
}

impl PluginScores {
    /// As Score gave them.
    pub fn raw(&self) -> impl Iterator<Item = i64> {
        self.by_node(&self.raw)
    }

    /// What NormalizeScore made of them; equal to [`Self::raw`] for a plugin without it.
    pub fn normalized(&self) -> impl Iterator<Item = i64> {
        self.by_node(if self.normalized.is_empty() { &self.raw } else { &self.normalized })
    }

    /// What the plugin adds to the totals: the normalised scores times its weight.
    pub fn weighted(&self) -> impl Iterator<Item = i64> {
        self.normalized().map(|score| score * self.weight)
    }

    fn by_node(&self, scores: &[i64]) -> impl Iterator<Item = i64> {
        let n_times = if self.is_common { self.n_nodes } else { 1 };
        scores.iter().flat_map(move |score| std::iter::repeat_n(*score, n_times))
    }
}
