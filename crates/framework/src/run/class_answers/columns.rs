//! Scores of one plugin, before they are normalised, by row.

use berth_model::{NodeIdx, NodeSet, node_set::rows_of_block};

/// Most pods have nothing to do with most plugins that normalise, and all nodes get the same score: then there is no column.
#[derive(Debug, Default)]
pub(super) enum RawScores {
    /// Nothing was scored yet.
    #[default]
    Empty,
    /// Every row that was scored has this score.
    Same(i64),
    /// By row.
    ByRow(Vec<i64>),
}

impl RawScores {
    pub(super) fn put(&mut self, row: NodeIdx, score: i64, n_rows: usize) {
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
}

pub(super) fn put(column: &mut Vec<i64>, row: NodeIdx, score: i64) {
    if row.index() >= column.len() {
        column.resize(row.index() + 1, 0);
    }
    if let Some(slot) = column.get_mut(row.index()) {
        *slot = score;
    }
}

pub(super) fn at(column: &[i64], row: NodeIdx) -> i64 {
    column.get(row.index()).copied().unwrap_or(0)
}

/// Appends what the members of `nodes` have in the column.
pub(super) fn append_rows(column: &[i64], nodes: &NodeSet, to: &mut Vec<i64>) {
    for (first, members) in nodes.blocks() {
        match column.get(first.index()..).and_then(|rows| rows.first_chunk::<64>()) {
            Some(rows) if members == u64::MAX => to.extend_from_slice(rows),
            Some(_) | None => to.extend(rows_of_block((first, members)).map(|row| at(column, row))),
        }
    }
}
