//! The log of changes. An entry names the row and the column that changed.
//!
//! Every change gets a new generation. The log holds the last few thousand changes. For each row and column, the
//! generation of the newest change is kept as well, so that a row which changed often is sent once.

use std::{collections::VecDeque, sync::Arc};

use berth_model::{Column, Columns, NodeIdx, ObjectKey, PodIdx};

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Added(NodeIdx),
    Removed(NodeIdx),
    Columns(NodeIdx, Columns),
    Object(Arc<ObjectKey>),
    /// A pod came to this slot or left it.
    Pod(PodIdx),
}

#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    capacity: usize,
    generation: u64,
    /// Entry `i` has generation `generation - changes.len() + 1 + i`.
    changes: VecDeque<Change>,
    columns: [Vec<u64>; Column::ALL.len()],
    added: Vec<u64>,
    removed: Vec<u64>,
    /// The generation at which the taint set of each id was made.
    taint_sets: Vec<u64>,
}

impl ChangeLog {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn record_columns(&mut self, node: NodeIdx, columns: Columns) -> u64 {
        let generation = self.push(Change::Columns(node, columns));
        for (column, stamps) in Column::ALL.into_iter().zip(&mut self.columns) {
            if columns.contains(column) {
                stamp(stamps, node.index(), generation);
            }
        }
        generation
    }

    pub(crate) fn record_added(&mut self, node: NodeIdx) -> u64 {
        let generation = self.push(Change::Added(node));
        stamp(&mut self.added, node.index(), generation);
        generation
    }

    pub(crate) fn record_removed(&mut self, node: NodeIdx) -> u64 {
        let generation = self.push(Change::Removed(node));
        stamp(&mut self.removed, node.index(), generation);
        generation
    }

    pub(crate) fn record_object(&mut self, key: Arc<ObjectKey>) -> u64 {
        self.push(Change::Object(key))
    }

    pub(crate) fn record_pod(&mut self, pod: PodIdx) -> u64 {
        self.push(Change::Pod(pod))
    }

    /// Notes that `id` stands for another taint set from the next generation on.
    pub(crate) fn note_taint_set(&mut self, id: u32) {
        let next = self.generation + 1;
        stamp(&mut self.taint_sets, id as usize, next);
    }

    /// Whether a replica at `generation` does not know taint set `id` yet.
    pub(crate) fn taint_set_is_new(&self, id: usize, generation: u64) -> bool {
        self.taint_sets.get(id).is_some_and(|&made| made > generation)
    }

    /// The changes after `generation`, with their generations. `None` if the log no longer reaches back to
    /// `generation`, or if `generation` is 0 or has not been reached yet.
    pub(crate) fn since(&self, generation: u64) -> Option<impl Iterator<Item = (u64, &Change)>> {
        let oldest = self.generation - self.changes.len() as u64;
        let skip = usize::try_from(generation.checked_sub(oldest)?).ok()?;
        (generation > 0 && generation <= self.generation)
            .then(|| ((generation + 1)..).zip(self.changes.iter().skip(skip)))
    }

    /// Whether the change of `node` in `column` at `generation` is the newest change of the column.
    pub(crate) fn is_newest(&self, node: NodeIdx, column: Column, generation: u64) -> bool {
        let stamps = self.columns.get(column.index());
        stamps.and_then(|stamps| stamps.get(node.index())) == Some(&generation)
    }

    pub(crate) fn is_newest_addition(&self, node: NodeIdx, generation: u64) -> bool {
        self.added.get(node.index()) == Some(&generation)
    }

    pub(crate) fn is_newest_removal(&self, node: NodeIdx, generation: u64) -> bool {
        self.removed.get(node.index()) == Some(&generation)
    }

    fn push(&mut self, change: Change) -> u64 {
        if self.changes.len() >= self.capacity {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.generation += 1;
        self.generation
    }
}

fn stamp(stamps: &mut Vec<u64>, index: usize, generation: u64) {
    if index >= stamps.len() {
        stamps.resize(index + 1, 0);
    }
    if let Some(slot) = stamps.get_mut(index) {
        *slot = generation;
    }
}
