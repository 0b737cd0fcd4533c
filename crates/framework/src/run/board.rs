//! Boards: what plugins said about the nodes for one pod, kept for the next pods that are like it.
//!
//! Pods of one controller differ only in what names them. A plugin that declares that its answers follow from the pod
//! without that and from the node's row ([`Reach::Row`]) is asked once about each node; from then on only about nodes whose
//! row was written since ([`ClusterTable::rows_since`]). All other plugins are asked about each pod. The visiting order, the
//! nodes that are looked at, and the choice among them are the same with and without a board.
//!
//! A [`Board`] belongs to one shape of pods ([`Pod::is_like`]) and is filled by [`Board::filter`] and [`Board::score`] as
//! far as cycles look. [`Boards`] keeps the boards that were used last. A shape gets one when its second pod comes: a pod
//! unlike all others, of a StatefulSet say, costs a look at a hash.
//!
//! # How far an answer reaches
//! A plugin says so in its hook `Reuse`.
//! - [`Reach::Row`]: the answer follows from the pod's shape, the node's row and a version number that the plugin gives. Such
//!   answers are kept.
//! - [`Reach::Cluster`]: the plugin is asked about each pod. A plugin without the hook has this reach.
//! - [`Reach::Nothing`]: the plugin has nothing to do with such pods, as VolumeZone with pods that have no volumes.
//! - [`Reach::NothingAnywhere`]: in addition, such pods on nodes make no difference to the plugin.
//! - [`Reach::NothingWithoutAffinity`]: as `Nothing`, as long as no pod on a node says anything about other pods.
//!
//! # What is kept for a row
//! Whether the row passes all Filters whose answers are kept; the weighted sum of the scores that need no NormalizeScore; and
//! the raw scores of the other plugins, which each cycle normalises over the nodes that passed in it. A column in which all
//! rows are equal takes no memory.
//!
//! # End of life
//! An answer is made again when its row was written since. Another version, weight, order or set of plugins empties the
//! board; [`Boards::clear`] forgets all boards. The least recently used board gives way to a new one.
//!
//! # Surprises
//! - PreFilter and PreScore of every plugin run in each cycle.
//! - A pod that fits nowhere is asked about once more without the board, since only that says why. A pod that PreFilter
//!   restricts to some nodes, a pod with a nomination, a pod that competes with nominated pods, and every pod while there are
//!   extenders, are asked about without a board, too.
//! - What is not asked is not counted: `plugin_evaluation_total` grows by fewer nodes than in kube-scheduler.
//! - Opportunistic batching (KEP-5598, `scheduler::cycle`) is something else, since it changes which node a pod gets. A pod
//!   for which it names the node never comes to a board.

mod columns;
mod search;

use berth_model::{ClusterTable, NodeSet, Pod};

use self::columns::RawScores;
use crate::{
    hooks::Reach,
    plugin::{PluginIdx, Point},
    points::Call,
    profile::Profile,
    run::PluginBits,
};

/// Boards kept at a time. At 5,000 nodes one takes 45 kB, and as much again for each plugin that normalises scores which
/// are not all equal.
const CAPACITY: usize = 64;

/// Shapes remembered of which one pod came.
const N_REMEMBERED: usize = 1024;

/// The boards of all profiles. They follow one [`ClusterTable`], and hold while the plugins that answered serve: whoever
/// replaces a plugin calls [`Boards::clear`].
#[derive(Debug, Default)]
pub struct Boards {
    boards: Vec<Board>,
    /// Hashes of shapes, each in the place that it determines.
    seen: Vec<u64>,
    /// Pods that found a board: the clock by which boards grow old.
    n_uses: u64,
}

/// The answers for one shape of pods.
#[derive(Debug)]
pub struct Board {
    hash: u64,
    /// One of the pods. It keeps the symbols of the shape from being freed.
    pod: Pod,
    last_used: u64,
    /// Up to where the table's journal of rows was followed.
    position: u64,
    /// Which answers `checked` and `passing` hold.
    filters: Vec<Reused>,
    /// Rows whose verdict is known.
    checked: NodeSet,
    /// Those of them that every one of `filters` lets pass.
    passing: NodeSet,
    /// Which answers `scored`, `sums` and `raw` hold.
    scores: Vec<Reused>,
    /// Rows whose scores are known.
    scored: NodeSet,
    /// By row: the weighted sum of the scores that are not normalised.
    sums: Vec<i64>,
    /// The scores that are normalised in each cycle.
    raw: Vec<RawScores>,
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
    before: NodeSet,
    scores: Vec<i64>,
    /// About so many nodes plugins were asked in this phase although their answers are kept.
    n_asked_anew: usize,
}

impl Boards {
    /// The board for pods like this one; `None` for the first of them.
    pub fn of(&mut self, pod: &Pod) -> Option<&mut Board> {
        let hash = pod.shape_hash();
        let known = self.boards.iter().position(|board| board.hash == hash && board.pod.is_like(pod));
        let at = match known {
            Some(at) => at,
            None if self.was_seen(hash) => self.insert(hash, pod),
            None => return None,
        };
        self.n_uses += 1;
        let board = self.boards.get_mut(at)?;
        board.last_used = self.n_uses;
        Some(board)
    }

    /// Forgets every answer.
    pub fn clear(&mut self) {
        self.boards.clear();
    }

    /// How many pods found a board so far.
    #[must_use]
    pub fn n_uses(&self) -> u64 {
        self.n_uses
    }

    fn was_seen(&mut self, hash: u64) -> bool {
        self.seen.resize(N_REMEMBERED, 0);
        let n_places = self.seen.len() as u64;
        let place = usize::try_from(hash % n_places).unwrap_or(0);
        self.seen.get_mut(place).is_some_and(|seen| std::mem::replace(seen, hash) == hash)
    }

    /// The place of an empty board, if need be that of the board that was not used for longest.
    fn insert(&mut self, hash: u64, pod: &Pod) -> usize {
        if self.boards.len() >= CAPACITY
            && let Some(oldest) = (0..self.boards.len()).min_by_key(|&at| self.boards.get(at).map(|it| it.last_used))
        {
            self.boards.swap_remove(oldest);
        }
        self.boards.push(Board::new(hash, Pod { json: None, ..pod.clone() }));
        self.boards.len() - 1
    }
}

impl Board {
    fn new(hash: u64, pod: Pod) -> Self {
        Self {
            hash,
            pod,
            last_used: 0,
            position: 0,
            filters: Vec::new(),
            checked: NodeSet::default(),
            passing: NodeSet::default(),
            scores: Vec::new(),
            scored: NodeSet::default(),
            sums: Vec::new(),
            raw: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Forgets every answer.
    pub fn clear(&mut self) {
        self.checked.clear();
        self.scored.clear();
        self.raw.clear();
    }

    /// Forgets the answers about rows that were written since the last cycle. Of how many the verdict was known; they are in
    /// `scratch.changed`.
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
            self.checked.clear();
            self.scratch.changed.clear();
        }
    }

    /// The same for Score.
    fn plan_scores(&mut self, profile: &mut Profile, call: &Call<'_>, skipped: &PluginBits) {
        self.scratch.plan(profile, call, Point::Score, skipped);
        if self.scratch.reused != self.scores {
            self.scores.clone_from(&self.scratch.reused);
            self.scored.clear();
            self.raw.clear();
        }
        self.raw.resize_with(self.scores.iter().filter(|it| it.normalizes).count(), RawScores::default);
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
                Reach::Nothing | Reach::NothingAnywhere | Reach::NothingWithoutAffinity => {}
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
