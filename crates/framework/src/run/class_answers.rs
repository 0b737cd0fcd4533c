//! The answers of plugins about the nodes for one pod, kept for the next pods of its equivalence class.
//!
//! A plugin may declare that its answers depend only on the node's row and on the pod apart from its identity
//! ([`Reach::Row`]). Such a plugin is asked once about each node, and from then on only about nodes whose row was
//! written since ([`ClusterTable::rows_since`]). All other plugins are asked about each pod. The order of the visit,
//! the nodes that are looked at and the chosen node are the same with and without kept answers.
//!
//! [`ClassAnswers`] holds the answers for one class. It is a value of an [`EquivalenceCache`](crate::EquivalenceCache),
//! whose documentation says which classes have an entry. [`ClassAnswers::filter`] and [`ClassAnswers::score`] add the
//! answers about the nodes that cycles look at.
//!
//! # How far an answer reaches
//! A plugin declares the reach of its answers in its hook `Reuse`; see [`Reach`].
//!
//! # What is kept for a row
//! The entry keeps three things for a row. The first is whether the row passes all Filters whose answers are kept, and
//! which plugin removed it. The second is the scores that need no NormalizeScore, and their weighted sum. The third is
//! the raw scores of the other plugins. Each cycle normalises these raw scores over the nodes that passed in the cycle.
//! A column in which all rows are equal takes no memory. At 5,000 nodes an entry takes 45 kB. Each plugin that gives
//! nodes different scores adds 5 kB, or 40 kB if it normalises its scores.
//!
//! # End of life
//! An answer is renewed when its row was written since. Another version, weight, order or set of plugins empties the
//! entry.
//!
//! # Surprises
//! - PreFilter and PreScore of every plugin run in each cycle.
//! - A pod that fits on no node is tried once more without the cache, because only plugins can say why the pod does not
//!   fit.
//! - Some pods are placed without the cache: a pod that PreFilter restricts to some nodes, a pod with a nomination, a
//!   pod that competes with nominated pods, and every pod while extenders are configured.
//! - A question that is not asked is not counted: `plugin_evaluation_total` grows by fewer nodes than in
//!   kube-scheduler.
//! - Opportunistic batching (KEP-5598, `scheduler::cycle`) is a different feature, because it changes which node a pod
//!   gets. A pod whose node comes from batching never reaches the cache.

mod search;

use std::sync::Arc;

use berth_model::{ClusterTable, NodeSet};

use crate::{
    hooks::Reach,
    plugin::{PluginIdx, Point},
    points::Call,
    profile::Profile,
    run::{PluginBits, kept_answers::KeptAnswers, score_column::ScoreColumn},
};

/// The answers for one equivalence class, for the nodes that cycles looked at. The answers belong to one
/// [`ClusterTable`]. They hold while the plugins that gave them serve. A caller that replaces a plugin clears the
/// cache.
#[derive(Debug, Default)]
pub struct ClassAnswers {
    /// The position up to which the table's journal of rows was followed.
    position: u64,
    /// The plugins whose answers `checked` and `passing` hold.
    filters: Vec<Reused>,
    /// Rows whose verdict is known.
    checked: NodeSet,
    /// The checked rows that pass all of `filters`.
    passing: NodeSet,
    /// The answers from which `passing` and `sums` were computed, by plugin. Decisions hold them, too.
    kept: Arc<KeptAnswers>,
    /// The plugins whose answers `scored`, `sums` and `raw` hold.
    scores: Vec<Reused>,
    /// Rows whose scores are known.
    scored: NodeSet,
    /// The weighted sum of the scores that are not normalised, by row.
    sums: Vec<i64>,
    /// The scores that are normalised in each cycle.
    raw: Vec<ScoreColumn<i64>>,
    scratch: Scratch,
}

/// A plugin whose answers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reused {
    plugin: PluginIdx,
    version: u64,
    /// The weight of the plugin's scores.
    weight: i64,
    /// Whether the plugin has NormalizeScore.
    normalizes: bool,
}

/// Buffers of one cycle.
#[derive(Debug, Default)]
struct Scratch {
    reused: Vec<Reused>,
    /// Plugins that are asked about each pod.
    asked: PluginBits,
    /// Plugins that have nothing to do for the pod.
    unconcerned: PluginBits,
    /// Rows that were written after their verdict was known.
    changed: NodeSet,
    batch: NodeSet,
    removed: NodeSet,
    scores: Vec<i64>,
    /// The number of nodes about which plugins were asked in this phase although their answers are kept.
    n_asked_anew: usize,
}

impl ClassAnswers {
    /// Forgets every answer.
    pub fn clear(&mut self) {
        self.checked.clear();
        Arc::make_mut(&mut self.kept).forget_removed();
        self.scored.clear();
        self.raw.clear();
    }

    /// Forgets the answers about rows that were written since the last cycle. Returns the number of rows whose verdict
    /// was known; these rows are in `scratch.changed`.
    fn catch_up(&mut self, table: &ClusterTable) -> usize {
        let mut n_changed = 0;
        let changed = &mut self.scratch.changed;
        changed.clear();
        match table.rows_since(self.position) {
            Some(rows) => rows.for_each(|row| {
                if self.checked.contains(row) {
                    self.checked.remove(row);
                    changed.insert(row);
                    n_changed += 1;
                    if !self.passing.contains(row) {
                        Arc::make_mut(&mut self.kept).forget_row(row);
                    }
                }
                self.scored.remove(row);
            }),
            None => self.clear(),
        }
        self.position = table.row_position();
        n_changed
    }

    /// Decides which Filter plugins' answers are kept. If the plugins changed, the old answers are forgotten.
    fn plan_filters(&mut self, profile: &mut Profile, call: &Call<'_>, skipped: &PluginBits) {
        self.scratch.plan(profile, call, Point::Filter, skipped);
        if self.scratch.reused != self.filters {
            self.filters.clone_from(&self.scratch.reused);
            Arc::make_mut(&mut self.kept).begin_filters(self.filters.iter().map(|it| it.plugin));
            self.checked.clear();
            self.scratch.changed.clear();
        }
    }

    /// Decides which Score plugins' answers are kept. If the plugins changed, the old answers are forgotten.
    fn plan_scores(&mut self, profile: &mut Profile, call: &Call<'_>, skipped: &PluginBits) {
        self.scratch.plan(profile, call, Point::Score, skipped);
        if self.scratch.reused != self.scores {
            self.scores.clone_from(&self.scratch.reused);
            Arc::make_mut(&mut self.kept)
                .begin_scores(self.scores.iter().filter(|it| !it.normalizes).map(|it| (it.plugin, it.weight)));
            self.scored.clear();
            self.raw.clear();
        }
        self.raw.resize_with(self.scores.iter().filter(|it| it.normalizes).count(), ScoreColumn::default);
    }
}

impl Scratch {
    /// Divides the plugins of `point` that are not skipped into `reused`, `asked` and `unconcerned`.
    fn plan(&mut self, profile: &mut Profile, call: &Call<'_>, point: Point, skipped: &PluginBits) {
        self.reused.clear();
        self.asked.clear();
        self.unconcerned.clear();
        for position in 0..profile.plugins.at(point).len() {
            let Some(&plugin) = profile.plugins.at(point).get(position) else { break };
            if skipped.contains(plugin) {
                continue;
            }
            let weight = profile.plugins.weight(plugin);
            let Some(instance) = profile.get(plugin) else { continue };
            match instance.reach(call) {
                Reach::Cluster => self.asked.insert(plugin),
                Reach::Nothing | Reach::NothingAnywhere | Reach::NothingYet => self.unconcerned.insert(plugin),
                Reach::Row { version } => {
                    let normalizes = instance.normalize().is_some();
                    self.reused.push(Reused { plugin, version, weight, normalizes });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
