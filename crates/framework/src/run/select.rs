//! Which of the best nodes is taken.
//!
//! kube-scheduler 1.36 pops the root of a binary heap of scores (`pkg/scheduler/schedule_one.go`) whose
//! random tie-breaker is not filled in. So among equal scores the winner is the node that comes first when the heap over
//! the feasible list is read in pre-order: its place in the list decides, not chance.

use berth_model::{NodeIdx, NodeSet};

/// The nodes with the highest total. `totals` belongs to the members of `feasible` in ascending order.
#[must_use]
pub fn best(feasible: &NodeSet, totals: &[i64]) -> NodeSet {
    let Some(&highest) = totals.iter().max() else { return NodeSet::default() };
    let mut best = feasible.clone();
    let mut totals = totals.iter();
    best.retain(|_| totals.next() == Some(&highest));
    best
}

/// The node to take; `None` when nothing is feasible.
#[must_use]
pub fn select(feasible_order: &[NodeIdx], feasible: &NodeSet, totals: &[i64]) -> Option<NodeIdx> {
    let best = best(feasible, totals);
    let nodes = PreOrder::over(feasible_order.len()).filter_map(|place| feasible_order.get(place));
    nodes.copied().find(|node| best.contains(*node))
}

/// The feasible nodes from best to worst, in the order in which Kubernetes' heap of scores yields them: the first is the
/// one that [`select`] takes; equal nodes after it come in the order that Go's `container/heap` leaves them in.
#[derive(Clone, Debug, Default)]
pub struct Ranking<Node = NodeIdx>(Vec<(i64, Node)>);

impl Ranking {
    /// The arguments are those of [`select`].
    #[must_use]
    pub fn new(feasible_order: &[NodeIdx], feasible: &NodeSet, totals: &[i64]) -> Self {
        let mut by_row = vec![0; feasible.iter().last().map_or(0, |node| node.index() + 1)];
        for (node, total) in feasible.iter().zip(totals) {
            if let Some(slot) = by_row.get_mut(node.index()) {
                *slot = *total;
            }
        }
        let heap = feasible_order.iter().map(|&node| (by_row.get(node.index()).copied().unwrap_or(0), node)).collect();
        let mut ranking = Self(heap);
        for place in (0..ranking.0.len() / 2).rev() {
            ranking.sink(place, ranking.0.len());
        }
        ranking
    }
}

impl<Node> Ranking<Node> {
    /// The same ranking with each node replaced by what `call` makes of it.
    #[must_use]
    pub fn map<Other>(self, call: impl Fn(Node) -> Other) -> Ranking<Other> {
        Ranking(self.0.into_iter().map(|(total, node)| (total, call(node))).collect())
    }

    /// The best node that is left.
    pub fn pop(&mut self) -> Option<Node> {
        let last = self.0.len().checked_sub(1)?;
        self.0.swap(0, last);
        self.sink(0, last);
        self.0.pop().map(|(_, node)| node)
    }

    /// Lets the node at `place` sink below better ones among the first `end`.
    fn sink(&mut self, mut place: usize, end: usize) {
        let total = |heap: &[(i64, Node)], place: usize| heap.get(place).map_or(i64::MIN, |(total, _)| *total);
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            if left >= end {
                break;
            }
            let better = if right < end && total(&self.0, right) > total(&self.0, left) { right } else { left };
            if total(&self.0, better) <= total(&self.0, place) {
                break;
            }
            self.0.swap(place, better);
            place = better;
        }
    }
}

/// The places of an implicit binary heap as a walk "node, left, right" meets them.
struct PreOrder {
    next: Option<usize>,
    n_places: usize,
}

impl PreOrder {
    fn over(n_places: usize) -> Self {
        Self { next: (n_places > 0).then_some(0), n_places }
    }

    /// Where the walk goes on behind everything below `place`: to the right of the nearest place that is a left child.
    fn behind(&self, mut place: usize) -> Option<usize> {
        while place > 0 {
            let is_left = place % 2 == 1;
            if is_left && place + 1 < self.n_places {
                return Some(place + 1);
            }
            place = (place - 1) / 2;
        }
        None
    }
}

impl Iterator for PreOrder {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let place = self.next?;
        let left = 2 * place + 1;
        self.next = if left < self.n_places { Some(left) } else { self.behind(place) };
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ties_go_to_the_first_in_pre_order() {
        let order: Vec<NodeIdx> = (0..7).map(NodeIdx).collect();
        let feasible: NodeSet = order.iter().copied().collect();
        let pick = |totals: [i64; 7]| select(&order, &feasible, &totals).map(|node| node.0);
        assert_eq!(pick([1, 1, 1, 1, 1, 1, 1]), Some(0));
        assert_eq!(pick([0, 0, 1, 0, 1, 0, 0]), Some(4), "below the left child of the root, before its right child");
        assert_eq!(pick([0, 0, 1, 0, 0, 2, 0]), Some(5));
        assert_eq!(pick([0, 1, 0, 1, 0, 0, 0]), Some(1));
    }

    #[test]
    fn the_walk_meets_every_place_once() {
        let walk = |n_places| PreOrder::over(n_places).collect::<Vec<_>>();
        assert_eq!(walk(10), [0, 1, 3, 7, 8, 4, 9, 2, 5, 6]);
        assert_eq!(walk(6), [0, 1, 3, 4, 2, 5]);
        assert_eq!((walk(2), walk(1), walk(0)), (vec![0, 1], vec![0], vec![]));
    }

    proptest! {
        #[test]
        fn a_ranking_begins_with_the_selected_node_and_descends(scores in proptest::collection::vec(0i64..4, 0..40)) {
            let n_nodes = u32::try_from(scores.len()).unwrap();
            let order: Vec<NodeIdx> = (0..n_nodes).map(|place| NodeIdx(place * 7 % n_nodes.max(1))).collect();
            let order: Vec<NodeIdx> = if n_nodes % 7 == 0 { (0..n_nodes).map(NodeIdx).collect() } else { order };
            let feasible: NodeSet = order.iter().copied().collect();
            let mut ranking = Ranking::new(&order, &feasible, &scores);
            let ranked: Vec<NodeIdx> = std::iter::from_fn(|| ranking.pop()).collect();
            prop_assert_eq!(ranked.first().copied(), select(&order, &feasible, &scores));
            let totals: Vec<i64> = ranked.iter().map(|node| scores[node.0 as usize]).collect();
            prop_assert!(totals.is_sorted_by(|left, right| left >= right));
            prop_assert_eq!(ranked.iter().copied().collect::<NodeSet>(), feasible);
        }
    }

    #[test]
    fn places_are_those_of_the_feasible_list() {
        let order = [NodeIdx(9), NodeIdx(2), NodeIdx(5)];
        let feasible: NodeSet = order.iter().copied().collect();
        assert_eq!(select(&order, &feasible, &[3, 3, 3]), Some(NodeIdx(9)));
        assert_eq!(select(&order, &feasible, &[3, 3, 1]), Some(NodeIdx(2)));
        assert_eq!(select(&[], &NodeSet::default(), &[]), None);
    }
}
