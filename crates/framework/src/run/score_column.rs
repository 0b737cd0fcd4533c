//! The scores of one plugin, by row.

use berth_model::{NodeIdx, NodeSet};

/// The scores of one plugin by row. Most plugins do not affect most pods and give all nodes the same score. Such scores
/// need no column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::run) enum ScoreColumn<T> {
    /// Nothing was scored yet.
    #[default]
    Empty,
    /// Every row that was scored has this score.
    Same(T),
    /// A score for each row.
    ByRow(Vec<T>),
}

impl<T: Copy + Default + PartialEq> ScoreColumn<T> {
    pub(in crate::run) fn put(&mut self, row: NodeIdx, score: T, n_rows: usize) {
        match self {
            Self::Empty => *self = Self::Same(score),
            Self::Same(known) if *known == score => {}
            Self::Same(known) => {
                let mut column = vec![*known; n_rows.max(row.index() + 1)];
                put(&mut column, row, score);
                *self = Self::ByRow(column);
            }
            Self::ByRow(column) => put(column, row, score),
        }
    }

    pub(in crate::run) fn at(&self, row: NodeIdx) -> T {
        match self {
            Self::Empty => T::default(),
            Self::Same(score) => *score,
            Self::ByRow(column) => at(column, row),
        }
    }
}

pub(in crate::run) fn put<T: Copy + Default>(column: &mut Vec<T>, row: NodeIdx, score: T) {
    if row.index() >= column.len() {
        column.resize(row.index() + 1, T::default());
    }
    if let Some(slot) = column.get_mut(row.index()) {
        *slot = score;
    }
}

pub(in crate::run) fn at<T: Copy + Default>(column: &[T], row: NodeIdx) -> T {
    column.get(row.index()).copied().unwrap_or_default()
}

/// Appends the scores of the members of `nodes` in the column.
pub(in crate::run) fn append_rows(column: &[i64], nodes: &NodeSet, to: &mut Vec<i64>) {
    for block in nodes.blocks() {
        match column.get(block.first.index()..).and_then(|rows| rows.first_chunk::<64>()) {
            Some(rows) if block.members == u64::MAX => to.extend_from_slice(rows),
            Some(_) | None => to.extend(block.rows().map(|row| at(column, row))),
        }
    }
}
