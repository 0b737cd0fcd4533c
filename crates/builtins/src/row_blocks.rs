//! Arithmetic on columns of amounts, 64 rows at a time.
//!
//! The compiler makes vector instructions of a loop over arrays of a fixed length, but not of a loop over the members
//! of a set. Amounts are divided as floating-point numbers, because a processor divides several of them at a time. The
//! quotient is rounded down to the result of integer division, which is exact for amounts below [`SMALL`]. Blocks with
//! other amounts, and blocks with few members, are left to the rule for one row. This rule defines the right result.

use berth_model::{NodeIdx, NodeSet, cluster_table::at, node_set::RowBlock};

/// Rows of a block: one word of a [`NodeSet`].
const N_ROWS: usize = 64;

/// A number for each row of a block.
pub(crate) type Block<T> = [T; N_ROWS];

/// Amounts from 0 up to, but not including, this number are small. A hundred times a small amount is an exact `f64`.
const SMALL: i64 = 1 << 46;

/// The minimum number of members of a block. Fewer rows are processed one by one.
const MIN_MEMBERS: u32 = 12;

/// The number from which on neighbouring `f64` values differ by 1.
const INTEGERS: f64 = (1_u64 << 52) as f64;

/// The allocatable and the used amounts of a resource, by row. Rows after the end are 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amounts<'a> {
    pub(crate) allocatable: &'a [i64],
    pub(crate) used: &'a [i64],
}

impl<'a> Amounts<'a> {
    /// Keeps the nodes that have `request` left. `is_short` says whether the request does not fit a row. Its arguments
    /// are the row's allocatable and used amounts.
    pub(crate) fn narrow_to_room(self, request: i64, nodes: &mut NodeSet, is_short: impl Fn(i64, i64) -> bool) {
        nodes.retain_in_blocks(|block| {
            let is_worth_it = block.n_members() >= MIN_MEMBERS && is_small(request);
            let with_room = if is_worth_it { self.with_room(request, block.first) } else { None };
            with_room.map_or_else(
                || {
                    let with_room =
                        block.rows().filter(|node| !is_short(at(self.allocatable, *node), at(self.used, *node)));
                    with_room.fold(0, |rows, node| rows | 1 << (node.0 % 64))
                },
                |with_room| block.members & with_room,
            )
        });
    }

    /// The rows of a block that have `request` left; `None` if amounts are not small.
    fn with_room(self, request: i64, first: NodeIdx) -> Option<u64> {
        match self.whole_block(first) {
            Some((allocatable, used)) => has_room(request, allocatable, used),
            None => {
                let (allocatable, used) = self.copied_block(first);
                has_room(request, &allocatable, &used)
            }
        }
    }

    /// Passes the rows of the block to `run`, if the amounts are small and each member has some of the resource. The
    /// allocatable amounts of all rows can be divisors.
    #[inline]
    pub(crate) fn in_positive_block<T>(
        self,
        block: RowBlock,
        run: impl FnOnce(&Block<i64>, &Block<i64>) -> T,
    ) -> Option<T> {
        let copies;
        let (allocatable, used) = match self.whole_block(block.first) {
            Some((allocatable, used)) if are_positive_and_small(allocatable, used) => (allocatable, used),
            Some(_) | None => {
                copies = self.positive_copies(block)?;
                (&copies.0, &copies.1)
            }
        };
        Some(run(allocatable, used))
    }

    /// The rows from `first` on; `None` if a column ends before the end of the block.
    #[inline]
    fn whole_block(self, first: NodeIdx) -> Option<(&'a Block<i64>, &'a Block<i64>)> {
        let rows = |column: &'a [i64]| column.get(first.index()..)?.first_chunk();
        Some((rows(self.allocatable)?, rows(self.used)?))
    }

    /// The block, with zeros after the end of a column.
    #[cold]
    fn copied_block(self, first: NodeIdx) -> (Block<i64>, Block<i64>) {
        let copied = |column: &[i64]| {
            let mut block = [0; N_ROWS];
            let rows = column.get(first.index()..).unwrap_or_default();
            block.iter_mut().zip(rows).for_each(|(copied, amount)| *copied = *amount);
            block
        };
        (copied(self.allocatable), copied(self.used))
    }

    /// Copies of the block. Rows that are not members and have no amount get 1 as the allocatable amount.
    #[cold]
    fn positive_copies(self, block: RowBlock) -> Option<(Block<i64>, Block<i64>)> {
        let (mut allocatable, used) = self.copied_block(block.first);
        for (row, amount) in allocatable.iter_mut().enumerate() {
            if *amount == 0 && block.members >> row & 1 == 0 {
                *amount = 1;
            }
        }
        are_positive_and_small(&allocatable, &used).then_some((allocatable, used))
    }
}

/// Whether an amount is small. The amount may also be the bits of several amounts, combined by OR.
#[inline]
pub(crate) fn is_small(amount: i64) -> bool {
    (0..SMALL).contains(&amount)
}

#[inline]
fn are_positive_and_small(allocatable: &Block<i64>, used: &Block<i64>) -> bool {
    // Among small numbers, the only negative result is 0 - 1.
    let bits = |all: i64, used: i64| all | all.wrapping_sub(1) | used;
    is_small(allocatable.iter().zip(used).fold(0, |all_bits, (all, used)| all_bits | bits(*all, *used)))
}

/// Bit `i` is set if row `i` has `request` left; `None` if amounts are not small.
fn has_room(request: i64, allocatable: &Block<i64>, used: &Block<i64>) -> Option<u64> {
    const BITS: Block<i64> = {
        let mut bits = [0; N_ROWS];
        let mut row = 0;
        while row < N_ROWS {
            bits[row] = 1 << row;
            row += 1;
        }
        bits
    };
    let (mut short, mut all_bits) = (0, 0);
    for ((allocatable, used), bit) in allocatable.iter().zip(used).zip(&BITS) {
        all_bits |= allocatable | used;
        // The sign of the remaining amount, on all bits.
        short |= (allocatable.wrapping_sub(*used).wrapping_sub(request) >> 63) & bit;
    }
    is_small(all_bits).then_some(!short.cast_unsigned())
}

/// Appends the score of each member of `nodes`, in ascending order. `of_block` scores all rows of a block that has
/// members, or returns `None` if it cannot score the block. `of_row` scores one node.
pub(crate) fn score_in_blocks(
    nodes: &NodeSet,
    scores: &mut Vec<i64>,
    of_block: impl Fn(RowBlock, &mut Block<i64>) -> Option<()>,
    mut of_row: impl FnMut(NodeIdx) -> i64,
) {
    scores.reserve(nodes.len());
    let mut of_all = [0; N_ROWS];
    for block in nodes.blocks() {
        if block.n_members() < MIN_MEMBERS || of_block(block, &mut of_all).is_none() {
            scores.extend(block.rows().map(&mut of_row));
        } else if block.members == u64::MAX {
            scores.extend_from_slice(&of_all);
        } else {
            scores.extend(block.offsets().map(|row| of_all.get(row).copied().unwrap_or(0)));
        }
    }
}

/// An amount as a floating-point number. It is exact from 0 up to 2^52. A cast gives the same result, but some
/// processors cast only one number at a time.
#[inline]
pub(crate) fn number(amount: i64) -> f64 {
    f64::from_bits(amount.cast_unsigned() | INTEGERS.to_bits()) - INTEGERS
}

/// Rounds a number from 0 up to 2^51 down. [`f64::floor`] is a function call on processors without an instruction for
/// it.
#[inline]
pub(crate) fn round_down(number: f64) -> f64 {
    let nearest = (number + INTEGERS) - INTEGERS;
    nearest - if nearest > number { 1.0 } else { 0.0 }
}

/// The number, rounded down like [`round_down`], as an integer.
#[inline]
pub(crate) fn integer_below(number: f64) -> i64 {
    let nearest = number + INTEGERS;
    (nearest.to_bits() ^ INTEGERS.to_bits()).cast_signed() - i64::from(nearest - INTEGERS > number)
}

#[cfg(test)]
mod tests {
    use berth_framework::Plugin;
    use berth_model::{Pod, pod::Resources};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        built_in::BuiltIn,
        node_resources_balanced_allocation::NodeResourcesBalancedAllocation,
        node_resources_fit::NodeResourcesFit,
        testing::{TestCluster, pod_of},
    };

    /// Amounts of all magnitudes. Most of the amounts are small.
    fn amounts() -> impl Strategy<Value = i64> {
        prop_oneof![0..200_i64, 0..SMALL, Just(SMALL - 1), Just(0)]
    }

    /// Amounts of which some are 0, some are too large to be small, and some are equal.
    fn odd_amounts() -> impl Strategy<Value = i64> {
        prop_oneof![8 => 1..9_i64, 8 => 1..1_i64 << 40, 1 => Just(0), 1 => SMALL - 1..SMALL + 1]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn nodes_get_the_same_scores_together_as_alone(
            rows in prop::collection::vec((odd_amounts(), odd_amounts(), 0..120_i64, 0..120_i64, 0..8_u8), 1..150),
            is_odd in any::<bool>(),
            request in (0..1000_i64, 0..1_i64 << 32),
        ) {
            let amounts = |milli_cpu, memory| Resources { milli_cpu, memory, ..Resources::default() };
            let mut cluster = TestCluster::default();
            for (index, &(milli_cpu, memory, cpu_share, memory_share, _)) in rows.iter().enumerate() {
                let (milli_cpu, memory) = if is_odd { (milli_cpu, memory) } else { (milli_cpu.max(1), memory.clamp(1, 1 << 40)) };
                let name = format!("n{index}");
                let node = cluster.edit_node(&name, |node| node.allocatable = amounts(milli_cpu, memory));
                cluster.place(node, pod_of(amounts(milli_cpu / 100 * cpu_share, memory / 100 * memory_share)));
            }
            let nodes = cluster.table().nodes().iter().zip(&rows).filter(|(_, row)| row.4 > 0);
            let nodes: NodeSet = nodes.map(|(node, _)| node).collect();
            let requests = amounts(request.0, request.1);
            let pod = Pod { scoring_requests: requests.clone(), balanced_requests: requests, ..Pod::default() };
            let most = r#"{"scoringStrategy":{"type":"MostAllocated","resources":[{"name":"cpu","weight":3},{"name":"memory"}]}}"#;
            let mut plugins: [Box<dyn Plugin>; 3] = [
                Box::new(NodeResourcesFit::new("null").unwrap()),
                Box::new(NodeResourcesFit::new(most).unwrap()),
                Box::new(NodeResourcesBalancedAllocation::new("null").unwrap()),
            ];
            for plugin in &mut plugins {
                let (mut together, mut alone) = (Vec::new(), Vec::new());
                let call = cluster.call(1, &pod);
                let point = plugin.score().unwrap();
                point.score(&call, &nodes, &mut together).unwrap();
                for node in nodes.iter() {
                    point.score(&call, &NodeSet::from_iter([node]), &mut alone).unwrap();
                }
                prop_assert_eq!(together, alone);
            }
        }

        #[test]
        fn numbers_are_exact(amount in 0..1_i64 << 51) {
            prop_assert_eq!(number(amount), amount as f64);
            prop_assert_eq!(integer_below(number(amount)), amount);
        }

        #[test]
        fn numbers_are_rounded_down(number in 0.0..1e6_f64, whole in 0..1_i64 << 50) {
            prop_assert_eq!(round_down(number), number.floor());
            prop_assert_eq!(integer_below(number) as f64, number.floor());
            let whole = whole as f64;
            prop_assert_eq!(round_down(whole), whole);
            prop_assert_eq!(round_down(whole.next_down().max(0.0)), whole.next_down().max(0.0).floor());
        }

        /// The strategies of NodeResourcesFit rely on this property.
        #[test]
        fn a_hundredfold_is_divided_as_integers_are(part in amounts(), whole in amounts(), near in -2..3_i64, share in 0..101_i64) {
            let check = |part: i64, whole: i64| {
                let share = integer_below(number(part) * 100.0 / number(whole));
                assert_eq!(share, part * 100 / whole, "{part} of {whole}");
            };
            let whole = whole.max(1);
            check(part.min(whole), whole);
            let close = whole * share / 100 + near;
            check(close.clamp(0, whole), whole);
        }

        #[test]
        fn room_in_blocks_is_room_in_rows(
            rows in prop::collection::vec((amounts(), amounts(), 0..4_u8), 0..200),
            request in amounts(),
            odd in prop::option::of((0..200_usize, any::<i64>())),
        ) {
            let mut allocatable: Vec<i64> = rows.iter().map(|row| row.0).collect();
            let used: Vec<i64> = rows.iter().map(|row| row.1.min(row.0)).take(150).collect();
            if let Some((row, amount)) = odd && let Some(slot) = allocatable.get_mut(row) {
                *slot = amount;
            }
            let is_short = |allocatable: i64, used: i64| request > allocatable.saturating_sub(used);
            let members = (0..).map(NodeIdx).zip(&rows).filter(|(_, row)| row.2 > 0).map(|(node, _)| node);
            let mut nodes: NodeSet = members.collect();
            let mut expected = nodes.clone();
            expected.retain(|node| !is_short(at(&allocatable, node), at(&used, node)));
            Amounts { allocatable: &allocatable, used: &used }.narrow_to_room(request, &mut nodes, is_short);
            prop_assert_eq!(nodes, expected);
        }
    }
}
