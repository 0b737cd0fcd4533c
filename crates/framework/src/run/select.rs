//! Which of the best nodes is taken.
//!
//! Kubernetes pops the root of a binary heap of scores whose random tie-breaker is not filled in, so among equal
//! scores the winner is the one that comes first when the heap over the feasible list is read in pre-order: its place
//! in the list decides, not chance.

use berth_model::{NodeIdx, NodeSet};

/// The nodes with the highest total. `totals` belongs to the members of `feasible` in ascending order.
#[must_use]
pub fn best(feasible: &NodeSet, totals: &[i64]) -> NodeSet {
    let Some(&highest) = totals.iter().max() else { return NodeSet::default() };
    feasible.iter().zip(totals).filter(|(_, total)| **total == highest).map(|(node, _)| node).collect()
}

/// The node to take; `None` when nothing is feasible.
#[must_use]
pub fn select(feasible_order: &[NodeIdx], feasible: &NodeSet, totals: &[i64]) -> Option<NodeIdx> {
    let best = best(feasible, totals);
    let places = feasible_order.iter().enumerate().filter(|(_, node)| best.contains(**node));
    places.min_by_key(|(place, _)| pre_order(*place)).map(|(_, &node)| node)
}

/// Sorts places in an implicit binary heap as a walk "node, left, right" meets them: the path from the root as bits,
/// left-aligned, and a node before what lies below it.
fn pre_order(place: usize) -> (usize, u32) {
    let path = place + 1;
    let unused = path.leading_zeros();
    (path << unused, usize::BITS - unused)
}

#[cfg(test)]
mod tests {
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
    fn places_are_those_of_the_feasible_list() {
        let order = [NodeIdx(9), NodeIdx(2), NodeIdx(5)];
        let feasible: NodeSet = order.iter().copied().collect();
        assert_eq!(select(&order, &feasible, &[3, 3, 3]), Some(NodeIdx(9)));
        assert_eq!(select(&order, &feasible, &[3, 3, 1]), Some(NodeIdx(2)));
        assert_eq!(select(&[], &NodeSet::default(), &[]), None);
    }
}
