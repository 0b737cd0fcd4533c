//! A number for each node. Most of the numbers are zero.

use berth_model::NodeIdx;

/// The maximum number of nodes for which the numbers are kept as a list. Numbers of more nodes are kept by node index.
const SPARSE_CAPACITY: usize = 256;

/// One number for each node, and their sum.
#[derive(Clone, Debug)]
pub(crate) struct NodeCounts {
    counts: Counts,
    total: i64,
}

#[derive(Clone, Debug)]
enum Counts {
    /// The numbers that are not zero, sorted by node.
    Sparse(Vec<(NodeIdx, i64)>),
    /// Numbers by node. The list may be shorter than the table. The numbers beyond its end are zero.
    Dense(Vec<i64>),
}

impl Default for NodeCounts {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl NodeCounts {
    const EMPTY: Self = Self { counts: Counts::Sparse(Vec::new()), total: 0 };

    /// Counts that are zero for each node.
    pub(super) fn none() -> &'static Self {
        const { &Self::EMPTY }
    }

    pub(crate) fn at(&self, node: NodeIdx) -> i64 {
        let count = match &self.counts {
            Counts::Sparse(counts) => {
                position(counts, node).ok().and_then(|at| counts.get(at)).map(|(_, count)| *count)
            }
            Counts::Dense(counts) => counts.get(node.index()).copied(),
        };
        count.unwrap_or(0)
    }

    pub(crate) fn total(&self) -> i64 {
        self.total
    }

    /// Nodes with a count other than zero, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeIdx, i64)> {
        let (sparse, dense) = match &self.counts {
            Counts::Sparse(counts) => (counts.as_slice(), &[][..]),
            Counts::Dense(counts) => (&[][..], counts.as_slice()),
        };
        let by_index = (0u32..).map(NodeIdx).zip(dense.iter().copied());
        sparse.iter().copied().chain(by_index.filter(|(_, count)| *count != 0))
    }

    pub(crate) fn add(&mut self, node: NodeIdx, amount: i64) {
        self.total += amount;
        match &mut self.counts {
            Counts::Sparse(counts) => add_sparse(counts, node, amount),
            Counts::Dense(counts) => add_dense(counts, node, amount),
        }
        if let Counts::Sparse(counts) = &self.counts
            && counts.len() > SPARSE_CAPACITY
        {
            let mut dense = Vec::new();
            counts.iter().rev().for_each(|&(node, count)| add_dense(&mut dense, node, count));
            self.counts = Counts::Dense(dense);
        }
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        other.iter().for_each(|(node, count)| self.add(node, count));
    }
}

fn position(counts: &[(NodeIdx, i64)], node: NodeIdx) -> Result<usize, usize> {
    counts.binary_search_by_key(&node, |(at, _)| *at)
}

fn add_sparse(counts: &mut Vec<(NodeIdx, i64)>, node: NodeIdx, amount: i64) {
    match position(counts, node) {
        Ok(at) => {
            if let Some((_, count)) = counts.get_mut(at) {
                *count += amount;
                if *count == 0 {
                    counts.remove(at);
                }
            }
        }
        Err(_) if amount == 0 => {}
        Err(at) => counts.insert(at, (node, amount)),
    }
}

fn add_dense(counts: &mut Vec<i64>, node: NodeIdx, amount: i64) {
    if node.index() >= counts.len() {
        counts.resize(node.index() + 1, 0);
    }
    if let Some(count) = counts.get_mut(node.index()) {
        *count += amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_and_dense_counts_agree() {
        let mut counts = NodeCounts::default();
        for node in (0..2 * SPARSE_CAPACITY).rev() {
            let node = NodeIdx(u32::try_from(3 * node).unwrap());
            counts.add(node, 2);
            counts.add(node, -1);
            assert_eq!((counts.at(node), counts.at(NodeIdx(node.0 + 1))), (1, 0));
        }
        assert_eq!(counts.total(), 512);
        assert!(counts.iter().map(|(node, count)| (node.index(), count)).eq((0..512).map(|node| (3 * node, 1))));
        for node in 0..512 {
            counts.add(NodeIdx(3 * node), -1);
        }
        assert_eq!((counts.total(), counts.iter().count()), (0, 0));
    }
}
