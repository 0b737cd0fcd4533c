//! The scores of one Score plugin for the nodes that passed.

use berth_model::NodeSet;

use crate::{
    profile::PluginIdx,
    run::kept_answers::{KeptAnswers, KeptScores},
};

/// One plugin's scores for the feasible nodes in ascending order.
#[derive(Clone, Copy, Debug)]
pub struct PluginScores<'a> {
    /// The plugin.
    pub plugin: PluginIdx,
    /// The factor by which the plugin's normalised scores are multiplied in the totals.
    pub weight: i64,
    nodes: &'a NodeSet,
    source: Source<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Cycle(&'a CycleScores),
    Kept(&'a KeptScores),
}

/// The scores that a plugin gave in a cycle, or that the cycle normalised. Each node that passed has one score, in
/// ascending order of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run) struct CycleScores {
    pub(in crate::run) plugin: PluginIdx,
    pub(in crate::run) weight: i64,
    pub(in crate::run) n_nodes: usize,
    /// Whether all nodes have the same score. The columns then have one entry.
    pub(in crate::run) is_common: bool,
    pub(in crate::run) raw: Vec<i64>,
    /// The normalised scores; empty if the plugin does not normalise.
    pub(in crate::run) normalized: Vec<i64>,
}

impl<'a> PluginScores<'a> {
    pub(super) fn of_cycle(scores: &'a CycleScores, nodes: &'a NodeSet) -> Self {
        Self { plugin: scores.plugin, weight: scores.weight, nodes, source: Source::Cycle(scores) }
    }

    pub(super) fn kept(answers: &'a KeptAnswers, nodes: &'a NodeSet) -> impl Iterator<Item = Self> {
        let of_plugin = move |scores: &'a KeptScores| Self {
            plugin: scores.plugin,
            weight: scores.weight,
            nodes,
            source: Source::Kept(scores),
        };
        answers.scores().iter().map(of_plugin)
    }

    /// The scores as Score gave them.
    pub fn raw(self) -> impl Iterator<Item = i64> {
        self.by_node(|scores| &scores.raw)
    }

    /// The scores after NormalizeScore; equal to [`Self::raw`] for a plugin without it.
    pub fn normalized(self) -> impl Iterator<Item = i64> {
        self.by_node(|scores| if scores.normalized.is_empty() { &scores.raw } else { &scores.normalized })
    }

    /// The numbers that the plugin adds to the totals: the normalised scores times its weight.
    pub fn weighted(self) -> impl Iterator<Item = i64> {
        self.normalized().map(move |score| score * self.weight)
    }

    fn by_node(self, column: impl Fn(&CycleScores) -> &Vec<i64>) -> impl Iterator<Item = i64> {
        self.nodes.iter().enumerate().filter_map(move |(place, node)| match self.source {
            Source::Cycle(scores) => column(scores).get(if scores.is_common { 0 } else { place }).copied(),
            Source::Kept(scores) => Some(scores.column.at(node).into()),
        })
    }
}
