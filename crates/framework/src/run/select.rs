//! The choice among the nodes with the highest score.
//!
//! kube-scheduler 1.36 pops the root of a binary heap of scores (`pkg/scheduler/schedule_one.go`), and its random
//! tie-breaker is not filled in. Therefore the first of the nodes with the highest score wins when the heap over the
//! feasible list is read in pre-order. The choice depends on the place in the list, and is not random.

use berth_model::{NodeIdx, NodeSet};

use super::Findings;

/// Writes the nodes with the highest total into `best`. `totals` has an entry for each member of `feasible`, in
/// ascending order.
fn find_best(feasible: &NodeSet, totals: &[i64], best: &mut NodeSet) {
    let highest = highest(totals);
    best.copy_from(feasible);
    let mut rest = totals;
    best.retain_in_blocks(|block| {
        let (here, behind) = rest.split_at((block.n_members() as usize).min(rest.len()));
        rest = behind;
        if !here.contains(&highest) {
            return 0;
        }
        if let Some(here) = here.as_array::<64>() {
            return equal_bits(here, highest);
        }
        let with_totals = block.offsets().zip(here);
        with_totals.filter(|(_, total)| **total == highest).fold(0, |best, (offset, _)| best | 1 << offset)
    });
}

/// The numbers that equal `number`, as bits: bit `i` stands for `numbers[i]`.
fn equal_bits(numbers: &[i64; 64], number: i64) -> u64 {
    let mut equal = [0_u8; 64];
    equal.iter_mut().zip(numbers).for_each(|(equal, other)| *equal = u8::from(*other == number));
    // The product of eight bytes with this number has the lowest bit of each byte in its highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = equal.as_chunks::<8>();
    let bits = eights.iter().map(|eight| u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56);
    bits.zip(0..).fold(0, |all, (bits, at)| all | bits << (8 * at))
}

/// The highest of the numbers.
fn highest(totals: &[i64]) -> i64 {
    // Four maxima run side by side, so that no comparison waits for the comparison before it.
    let (fours, rest) = totals.as_chunks::<4>();
    let each_of = |highest: [i64; 4], four: &[i64; 4]| std::array::from_fn(|at| highest[at].max(four[at]));
    let of_fours = fours.iter().fold([i64::MIN; 4], each_of);
    of_fours.iter().chain(rest).copied().max().unwrap_or(i64::MIN)
}

/// The number of places that are looked at one by one before all are listed.
const N_PLACES_TRIED: usize = 32;

/// Chooses a node; `None` when no node is feasible. Afterwards, `best` contains the nodes with the highest total.
pub(super) fn select(
    feasible_order: &[NodeIdx],
    feasible: &NodeSet,
    totals: &[i64],
    best: &mut NodeSet,
) -> Option<NodeIdx> {
    find_best(feasible, totals, best);
    let mut members = best.iter();
    if let (Some(only), None) = (members.next(), members.next()) {
        return Some(only);
    }
    let node_at = |place: usize| feasible_order.get(place).copied();
    let mut first = PreOrder::over(feasible_order.len()).take(N_PLACES_TRIED).filter_map(node_at);
    first.find(|node| best.contains(*node)).or_else(|| node_at(first_in_pre_order(&places_of(feasible_order, best))?))
}

/// A set of places in a list as a bitmap.
struct Places {
    words: Vec<u64>,
    n_places: usize,
}

/// The places of the members of `nodes` in the list.
fn places_of(list: &[NodeIdx], nodes: &NodeSet) -> Places {
    Places { words: list.chunks(64).map(|block| nodes.bits_of(block)).collect(), n_places: list.len() }
}

impl Places {
    fn contains(&self, place: usize) -> bool {
        self.words.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Whether the set contains a place from `start` (inclusive) to `end` (exclusive).
    fn meets(&self, start: usize, end: usize) -> bool {
        if start >= end {
            return false;
        }
        let (first, last) = (start / 64, (end - 1) / 64);
        let behind_start = u64::MAX << (start % 64);
        let before_end = u64::MAX >> (63 - (end - 1) % 64);
        let word = |at: usize| self.words.get(at).copied().unwrap_or(0);
        if first == last {
            return word(first) & behind_start & before_end != 0;
        }
        word(first) & behind_start != 0 || (first + 1..last).any(|at| word(at) != 0) || word(last) & before_end != 0
    }

    /// Whether the set contains a place in the heap's subtree of `root`. The places of a subtree on one level are
    /// neighbours.
    fn meet_subtree(&self, root: usize) -> bool {
        let (mut start, mut n_on_level) = (root, 1);
        while start < self.n_places {
            if self.meets(start, (start + n_on_level).min(self.n_places)) {
                return true;
            }
            (start, n_on_level) = (2 * start + 1, 2 * n_on_level);
        }
        false
    }
}

/// The first place of the set in the pre-order "node, left, right" of an implicit heap.
fn first_in_pre_order(places: &Places) -> Option<usize> {
    let mut place = 0;
    if !places.meet_subtree(place) {
        return None;
    }
    while !places.contains(place) {
        let left = 2 * place + 1;
        place = if places.meet_subtree(left) { left } else { left + 1 };
    }
    Some(place)
}

/// The feasible nodes from best to worst, in the order in which Kubernetes' heap of scores yields them. The first node
/// is the node that [`Attempt::choose`](super::Attempt::choose) takes. Equal nodes after it come in the order in which
/// Go's `container/heap` leaves them.
#[derive(Clone, Debug, Default)]
pub struct Ranking<Node = NodeIdx>(Vec<(i64, Node)>);

impl Ranking {
    /// Ranks the nodes that passed.
    #[must_use]
    pub fn new(findings: &Findings) -> Self {
        let Findings { feasible_order, feasible, totals, .. } = findings;
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
    /// The ranking with each node replaced by the result of `call`.
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

    /// Moves the node at `place` down in the heap of the first `end` nodes, below better nodes.
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

/// The places of an implicit binary heap in the pre-order "node, left, right".
struct PreOrder {
    next: Option<usize>,
    n_places: usize,
}

impl PreOrder {
    fn over(n_places: usize) -> Self {
        Self { next: (n_places > 0).then_some(0), n_places }
    }

    /// The place at which the walk continues after the subtree of `place`. On the way up from `place`, it is the right
    /// sibling of the first left child.
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

    fn selected(feasible_order: &[NodeIdx], feasible: &NodeSet, totals: &[i64]) -> Option<NodeIdx> {
        select(feasible_order, feasible, totals, &mut NodeSet::default())
    }

    #[test]
    fn ties_go_to_the_first_in_pre_order() {
        let order: Vec<NodeIdx> = (0..7).map(NodeIdx).collect();
        let feasible: NodeSet = order.iter().copied().collect();
        let pick = |totals: [i64; 7]| selected(&order, &feasible, &totals).map(|node| node.0);
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
        fn a_ranking_begins_with_the_selected_node_and_descends(scores in proptest::collection::vec(0i64..4, 0..300)) {
            let n_nodes = u32::try_from(scores.len()).unwrap();
            let order: Vec<NodeIdx> = (0..n_nodes).map(|place| NodeIdx(place * 7 % n_nodes.max(1))).collect();
            let order: Vec<NodeIdx> = if n_nodes % 7 == 0 { (0..n_nodes).map(NodeIdx).collect() } else { order };
            let feasible: NodeSet = order.iter().copied().collect();
            let mut best = NodeSet::default();
            find_best(&feasible, &scores, &mut best);
            let walked = PreOrder::over(order.len()).map(|place| order[place]).find(|node| best.contains(*node));
            prop_assert_eq!(first_in_pre_order(&places_of(&order, &best)).map(|place| order[place]), walked);
            let findings = Findings {
                feasible_order: order.clone(),
                feasible: feasible.clone(),
                totals: scores.clone(),
                ..Findings::default()
            };
            let mut ranking = Ranking::new(&findings);
            let ranked: Vec<NodeIdx> = std::iter::from_fn(|| ranking.pop()).collect();
            prop_assert_eq!(ranked.first().copied(), selected(&order, &feasible, &scores));
            let totals: Vec<i64> = ranked.iter().map(|node| scores[node.0 as usize]).collect();
            prop_assert!(totals.is_sorted_by(|left, right| left >= right));
            prop_assert_eq!(ranked.iter().copied().collect::<NodeSet>(), feasible);
        }
    }

    #[test]
    fn places_are_those_of_the_feasible_list() {
        let order = [NodeIdx(9), NodeIdx(2), NodeIdx(5)];
        let feasible: NodeSet = order.iter().copied().collect();
        assert_eq!(selected(&order, &feasible, &[3, 3, 3]), Some(NodeIdx(9)));
        assert_eq!(selected(&order, &feasible, &[3, 3, 1]), Some(NodeIdx(2)));
        assert_eq!(selected(&[], &NodeSet::default(), &[]), None);
    }
}
