//! What plugins said about the nodes for one pod, kept for the next pods of its equivalence class.
//!
//! A plugin that declares that its answers follow from the pod without what only names it and from the node's row
//! ([`Reach::Row`]) is asked once about each node; from then on only about nodes whose row was written since
//! ([`ClusterTable::rows_since`]). All other plugins are asked about each pod. The visiting order, the nodes that are looked
//! at, and the choice among them are the same with and without.
//!
//! [`ClassAnswers`] are those of one class, in an [`EquivalenceCache`](crate::EquivalenceCache), whose page says which classes
//! have an entry. [`ClassAnswers::filter`] and [`ClassAnswers::score`] fill them as far as cycles look.
//!
//! # How far an answer reaches
//! A plugin says so in its hook `Reuse`: see [`Reach`].
//!
//! # What is kept for a row
//! Whether the row passes all Filters whose answers are kept, and which plugin removed it; the scores that need no
//! NormalizeScore, and their weighted sum; and the raw scores of the other plugins, which each cycle normalises over the nodes
//! that passed in it. A column in which all rows are equal takes no memory. At 5,000 nodes an entry takes 45 kB, 5 kB more for
//! each plugin that gives nodes different scores, and 40 kB for one that normalises these.
//!
//! # End of life
//! An answer is made again when its row was written since. Another version, weight, order or set of plugins empties the
//! entry.
//!
//! # Surprises
//! - PreFilter and PreScore of every plugin run in each cycle.
//! - A pod that fits nowhere is asked about once more without the cache, since only that says why. A pod that PreFilter
//!   restricts to some nodes, a pod with a nomination, a pod that competes with nominated pods, and every pod while there are
//!   extenders, are asked about without it, too.
//! - What is not asked is not counted: `plugin_evaluation_total` grows by fewer nodes than in kube-scheduler.
//! - Opportunistic batching (KEP-5598, `scheduler::cycle`) is something else, since it changes which node a pod gets. A pod
//!   for which it names the node never comes to the cache.

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

/// The answers for one equivalence class, as far as cycles looked. They follow one [`ClusterTable`], and hold while the plugins
/// that answered serve: a caller that replaces a plugin clears the cache.
#[derive(Debug, Default)]
pub struct ClassAnswers {
    /// The place up to which the table's journal of rows was followed.
    position: u64,
    /// Which answers `checked` and `passing` hold.
    filters: Vec<Reused>,
    /// Rows whose verdict is known.
    checked: NodeSet,
    /// The checked rows that every one of `filters` lets pass.
    passing: NodeSet,
    /// What led to `passing` and `sums`, by plugin. Decisions hold it, too.
    kept: Arc<KeptAnswers>,
    /// Which answers `scored`, `sums` and `raw` hold.
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
    /// Rows whose verdict was known before they were written.
    changed: NodeSet,
    batch: NodeSet,
    removed: NodeSet,
    scores: Vec<i64>,
    /// About so many nodes plugins were asked in this phase although their answers are kept.
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

    /// Forgets the answers about rows that were written since the last cycle. Gives the number of those whose verdict
    /// was known; they are in `scratch.changed`.
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

    /// Finds out which Filter plugins' answers are kept, and forgets those of others.
    fn plan_filters(&mut self, profile: &mut Profile, call: &Call<'_>, skipped: &PluginBits) {
        self.scratch.plan(profile, call, Point::Filter, skipped);
        if self.scratch.reused != self.filters {
            self.filters.clone_from(&self.scratch.reused);
            Arc::make_mut(&mut self.kept).begin_filters(self.filters.iter().map(|it| it.plugin));
            self.checked.clear();
            self.scratch.changed.clear();
        }
    }

    /// Finds out which Score plugins' answers are kept, and forgets those of others.
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
    /// Divides the plugins of `point` that are not skipped into `reused` and `asked`.
    fn plan(&mut self, profile: &mut Profile, call: &Call<'_>, point: Point, skipped: &PluginBits) {
        self.reused.clear();
        self.asked.clear();
        for position in 0..profile.plugins.at(point).len() {
            let Some(&plugin) = profile.plugins.at(point).get(position) else { break };
            if skipped.contains(plugin) {
                continue;
            }
            let weight = profile.plugins.weight(plugin);
            let Some(instance) = profile.get(plugin) else { continue };
            match instance.reach(call) {
                Reach::Cluster => self.asked.insert(plugin),
                Reach::Nothing | Reach::NothingAnywhere | Reach::NothingYet => {}
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
