//! Runs the plugins of a profile on one pod: a scheduling cycle without queue, cache or effects.
//!
//! [`place`] is the whole way from a pod to a node: [`pre_filter`], [`list_candidates`], [`filter`], then either [`score`]
//! and [`Attempt::choose`], or, when no node passed, [`explain`]. All of them write into one [`Attempt`], which keeps every
//! intermediate result until the next cycle reuses its buffers.

mod bind;
mod board;
mod diagnosis;
mod dry_run;
mod extend;
mod filter;
mod nominated;
mod place;
mod pre_bind;
mod pre_filter;
mod score;
mod select;
mod sign;
#[cfg(test)]
mod tests;

use std::{iter, time::Duration};

use berth_model::{NodeIdx, NodeSet};

pub use self::{
    bind::{BindRun, PermitRun, PostFilterRun, bind, permit, post_bind, post_filter, reserve, unreserve},
    board::{Board, Boards},
    diagnosis::{Diagnosis, Rejection, histogram},
    dry_run::dry_run,
    filter::{explain, explain_every_plugin, filter, filter_one, list_candidates},
    nominated::NominatedPods,
    place::{Hint, HintOutcome, NoNode, NodeSearch, place},
    pre_bind::{PreBindRun, PreFlights, pre_bind, pre_bind_again, pre_bind_pre_flight},
    pre_filter::{PreFilterAnswer, PreFilterOutcome, Restriction, pre_filter},
    score::{PluginScores, score},
    select::Ranking,
    sign::{Signature, sign},
};
use crate::{
    profile::{PluginIdx, Profile},
    status::{Code, Status},
};

/// A set of plugins of one profile. Of a profile with up to 64 plugins it takes no memory of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginBits {
    first: u64,
    /// The plugins behind the first 64.
    others: Vec<u64>,
}

impl PluginBits {
    /// Whether `plugin` is in the set.
    #[must_use]
    pub fn contains(&self, plugin: PluginIdx) -> bool {
        let (word, bit) = (plugin.index() / 64, plugin.index() % 64);
        let word = word.checked_sub(1).map_or(Some(self.first), |at| self.others.get(at).copied());
        word.is_some_and(|word| word >> bit & 1 == 1)
    }

    /// Whether no plugin is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words().all(|word| word == 0)
    }

    /// Adds `plugin`; [`PluginIdx::NOBODY`] is in no set and changes nothing.
    pub fn insert(&mut self, plugin: PluginIdx) {
        if plugin == PluginIdx::NOBODY {
            return;
        }
        let (word, bit) = (plugin.index() / 64, plugin.index() % 64);
        if word > self.others.len() {
            self.others.resize(word, 0);
        }
        let word = word.checked_sub(1).map_or(Some(&mut self.first), |at| self.others.get_mut(at));
        if let Some(word) = word {
            *word |= 1 << bit;
        }
    }

    /// Empties the set; its buffer stays.
    pub fn clear(&mut self) {
        self.first = 0;
        self.others.clear();
    }

    /// The members in the order of the profile.
    pub fn iter(&self) -> impl Iterator<Item = PluginIdx> + '_ {
        let bits =
            |(at, word): (u32, u64)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit);
        (0..).zip(self.words()).flat_map(bits).map(PluginIdx)
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// Every intermediate result of one scheduling attempt, and its scratch space.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    /// The answers of the PreFilter plugins, in order, as far as they were asked.
    pub pre_filters: Vec<PreFilterAnswer>,
    /// Plugins whose PreFilter asked to skip their Filter.
    pub skipped_filters: PluginBits,
    /// The nodes that PreFilter plugins restricted the candidates to, if they did.
    pub restriction: Option<Restriction>,
    /// Nodes to look at, in the cluster's order; empty in a cycle that found a node with a board.
    pub candidates: Vec<NodeIdx>,
    /// Nodes that passed.
    pub feasible: NodeSet,
    /// The same nodes in the order in which they were found.
    pub feasible_order: Vec<NodeIdx>,
    /// How many candidates Filter has looked at.
    pub n_visited: usize,
    /// When the search for nodes that pass was over, by the clock of the profile's meter.
    pub filtered_at: Option<Duration>,
    /// What each Filter plugin removed, in the order of the plugins.
    removed: Vec<NodeSet>,
    /// Whether any of them is not empty: clearing some twenty bitmaps costs as much as a cycle with a board.
    has_removed: bool,
    /// Nodes that would not pass if the pods nominated to them were there.
    rejected_with_nominated: Vec<Rejection>,
    /// Nodes that extenders rejected with a reason.
    rejected_by_extenders: Vec<Rejection>,
    /// Whether extenders left out any node, with a reason or without.
    has_extender_removed: bool,
    batch: NodeSet,
    before: NodeSet,
    /// Plugins whose PreScore asked to skip their Score.
    pub skipped_scores: PluginBits,
    /// Scores of each plugin that scored, in the order of the plugins; of a cycle with a board, of those that were asked
    /// about all nodes.
    pub scores: Vec<PluginScores>,
    n_scored: usize,
    /// What became of [`NodeSearch::hint`].
    pub hint: HintOutcome,
    /// Weighted sums, one for each member of `feasible` in ascending order.
    pub totals: Vec<i64>,
}

impl Attempt {
    /// Empties everything; the buffers stay.
    pub fn clear(&mut self) {
        self.pre_filters.clear();
        self.skipped_filters.clear();
        self.restriction = None;
        self.hint = HintOutcome::None;
        self.candidates.clear();
        self.filtered_at = None;
        self.clear_verdicts();
        self.clear_scores();
    }

    /// The scores of this cycle; [`Self::scores`] may hold more, from earlier ones.
    #[must_use]
    pub fn plugin_scores(&self) -> &[PluginScores] {
        self.scores.get(..self.n_scored).unwrap_or_default()
    }

    /// The node to take of [`Self::feasible`]; `None` if it is empty. Among equal [totals](Self::totals) its place in
    /// [`Self::feasible_order`] decides, as in kube-scheduler.
    pub fn choose(&mut self) -> Option<NodeIdx> {
        let Self { feasible_order, feasible, totals, batch, .. } = self;
        select::select(feasible_order, feasible, totals, batch)
    }

    fn clear_scores(&mut self) {
        self.skipped_scores.clear();
        self.n_scored = 0;
        self.totals.clear();
    }

    fn clear_verdicts(&mut self) {
        self.feasible.clear();
        self.feasible_order.clear();
        self.n_visited = 0;
        if std::mem::take(&mut self.has_removed) {
            self.removed.iter_mut().for_each(NodeSet::clear);
        }
        self.rejected_with_nominated.clear();
        self.rejected_by_extenders.clear();
        self.has_extender_removed = false;
    }
}

/// A plugin that rejected a pod or failed, and its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which plugin.
    pub plugin: PluginIdx,
    /// What it said.
    pub status: Status,
}

impl Refusal {
    /// A rejection stays what it is; anything else becomes an error that names the plugin.
    fn new(profile: &Profile, plugin: PluginIdx, status: Status, doing: &str) -> Self {
        if status.code.is_rejected() {
            return Self { plugin, status };
        }
        let text = match status.code {
            Code::Error => status.message(),
            Code::Success
            | Code::Unschedulable
            | Code::UnschedulableAndUnresolvable
            | Code::Wait
            | Code::Skip
            | Code::Pending => format!("unexpected status {}: {}", status.code.as_str(), status.message()),
        };
        Self { plugin, status: Status::error(format!("running {doing} plugin \"{}\": {text}", profile.name(plugin))) }
    }
}
