//! Node slots, and sets of node slots.

/// A node's slot in every table. It stays the same while the node lives, and is reused only after the node was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIdx(pub u32);

impl NodeIdx {
    /// The row as an index into columns.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of nodes as a bitmap: bit `i % 64` of word `i / 64` is node `i`. Sets with the same members are equal, even if
/// their bitmaps end with different numbers of zero words.
///
/// The cost of an operation on all members depends on the words between the first and the last member. A set of one
/// node is therefore cheap.
#[derive(Clone, Debug, Default)]
pub struct NodeSet {
    words: Vec<u64>,
    /// The number of words at the beginning that are zero. It is at most `words.len()`.
    n_zero: usize,
}

impl PartialEq for NodeSet {
    fn eq(&self, other: &Self) -> bool {
        let from = self.n_zero.min(other.n_zero);
        let (short, long) = if self.words.len() <= other.words.len() { (self, other) } else { (other, self) };
        let (common, rest) = long.words.split_at(short.words.len());
        short.words.get(from..) == common.get(from..) && rest.iter().all(|&word| word == 0)
    }
}

impl Eq for NodeSet {}

impl NodeSet {
    /// The set of the bitmap in `words`.
    #[must_use]
    pub fn from_words(words: Vec<u64>) -> Self {
        Self { words, n_zero: 0 }
    }

    /// The bitmap; its last words may be zero.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The words that may differ from zero.
    #[inline]
    fn used(&self) -> &[u64] {
        self.words.get(self.n_zero..).unwrap_or_default()
    }

    #[inline]
    fn used_mut(&mut self) -> &mut [u64] {
        self.words.get_mut(self.n_zero..).unwrap_or_default()
    }

    /// [`Self::used`] as blocks.
    #[inline]
    fn numbered(&self) -> impl Iterator<Item = RowBlock> + '_ {
        self.used().iter().zip(rows_from(self.n_zero)).map(|(word, first)| RowBlock { first, members: *word })
    }

    #[inline]
    fn numbered_mut(&mut self) -> impl Iterator<Item = (NodeIdx, &mut u64)> + '_ {
        let rows = rows_from(self.n_zero);
        rows.zip(self.used_mut())
    }

    /// Removes every member, and keeps the memory.
    pub fn clear(&mut self) {
        self.words.clear();
        self.n_zero = 0;
    }

    /// Makes this set equal to `other`, and keeps the memory.
    pub fn copy_from(&mut self, other: &NodeSet) {
        self.words.clear();
        self.words.resize(other.n_zero, 0);
        self.words.extend_from_slice(other.used());
        self.n_zero = other.n_zero;
    }

    /// Adds a node.
    #[inline]
    pub fn insert(&mut self, node: NodeIdx) {
        self.insert_word(node.index() / 64, 1 << (node.0 % 64));
    }

    /// Adds the members of one word.
    #[inline]
    fn insert_word(&mut self, at: usize, members: u64) {
        if let Some(word) = self.words.get_mut(at) {
            *word |= members;
            self.n_zero = self.n_zero.min(at);
        } else if members != 0 {
            self.insert_behind(at, members);
        }
    }

    #[cold]
    fn insert_behind(&mut self, at: usize, members: u64) {
        if self.words.is_empty() {
            self.n_zero = at;
        }
        self.words.resize(at, 0);
        self.words.push(members);
    }

    /// Removes a node. A node that is not a member is ignored.
    #[inline]
    pub fn remove(&mut self, node: NodeIdx) {
        if let Some(word) = self.words.get_mut(node.index() / 64) {
            *word &= !(1 << (node.0 % 64));
        }
    }

    /// Whether the node is a member.
    #[inline]
    #[must_use]
    pub fn contains(&self, node: NodeIdx) -> bool {
        self.words.get(node.index() / 64).is_some_and(|word| word >> (node.0 % 64) & 1 == 1)
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used().iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used().iter().all(|&word| word == 0)
    }

    /// The members in ascending order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = NodeIdx> + '_ {
        self.numbered().flat_map(RowBlock::rows)
    }

    /// Keeps the members for which `keep` holds.
    #[inline]
    pub fn retain(&mut self, mut keep: impl FnMut(NodeIdx) -> bool) {
        for (first, word) in self.numbered_mut() {
            let mut kept = *word;
            for node in (RowBlock { first, members: *word }).rows() {
                if !keep(node) {
                    kept &= !(1 << (node.0 % 64));
                }
            }
            *word = kept;
        }
    }

    /// Keeps the members that `keep` returns, as bits of [`RowBlock::members`]. `keep` is called for each block that
    /// has a member.
    #[inline]
    pub fn retain_in_blocks(&mut self, mut keep: impl FnMut(RowBlock) -> u64) {
        for (first, word) in self.numbered_mut().filter(|(_, word)| **word != 0) {
            *word &= keep(RowBlock { first, members: *word });
        }
    }

    /// Each block of 64 rows that has a member.
    #[inline]
    pub fn blocks(&self) -> impl Iterator<Item = RowBlock> {
        self.numbered().filter(|block| block.members != 0)
    }

    /// The members in the block of 64 rows that begins at `first`.
    #[inline]
    #[must_use]
    pub fn block(&self, first: NodeIdx) -> u64 {
        self.words.get(first.index() / 64).copied().unwrap_or(0)
    }

    /// The rows that are members, as bits: bit `i` stands for `rows[i]`. There are at most 64 rows.
    #[must_use]
    pub fn bits_of(&self, rows: &[NodeIdx]) -> u64 {
        debug_assert!(rows.len() <= 64);
        let Some(first) = first_of_run(rows) else {
            return rows.iter().rev().fold(0, |bits, row| bits << 1 | u64::from(self.contains(*row)));
        };
        let (word, bit) = (first.index() / 64, first.0 % 64);
        let word_at = |at: usize| self.words.get(at).copied().unwrap_or(0);
        let behind = if bit == 0 { 0 } else { word_at(word + 1) << (64 - bit) };
        (word_at(word) >> bit | behind) & low_bits(rows.len())
    }

    /// Adds the rows whose bit is set: bit `i` stands for `rows[i]`. There are at most 64 rows.
    pub fn insert_bits(&mut self, rows: &[NodeIdx], bits: u64) {
        debug_assert!(rows.len() <= 64 && bits & !low_bits(rows.len()) == 0);
        let Some(first) = first_of_run(rows) else {
            let rows = rows.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
            return rows.for_each(|(_, row)| self.insert(*row));
        };
        let (word, bit) = (first.index() / 64, first.0 % 64);
        self.insert_word(word, bits << bit);
        if bit != 0 {
            self.insert_word(word + 1, bits >> (64 - bit));
        }
    }

    /// Whether no member is also in `other`.
    #[must_use]
    pub fn is_disjoint(&self, other: &NodeSet) -> bool {
        let from = self.n_zero.max(other.n_zero);
        let others = other.words.get(from..).unwrap_or_default();
        self.words.get(from..).unwrap_or_default().iter().zip(others).all(|(word, other)| word & other == 0)
    }

    /// Keeps the members that are also in `other`.
    pub fn intersect(&mut self, other: &NodeSet) {
        let n_common = self.words.len().min(other.words.len());
        self.words.truncate(n_common);
        let from = self.n_zero.max(other.n_zero).min(n_common);
        if let Some(gone) = self.words.get_mut(self.n_zero..from) {
            gone.fill(0);
        }
        self.n_zero = from;
        for (word, other) in self.used_mut().iter_mut().zip(other.words.get(from..).unwrap_or_default()) {
            *word &= other;
        }
    }

    /// Removes the members of `other`.
    pub fn subtract(&mut self, other: &NodeSet) {
        let from = self.n_zero.max(other.n_zero);
        let behind = self.words.get_mut(from..).unwrap_or_default();
        for (word, gone) in behind.iter_mut().zip(other.words.get(from..).unwrap_or_default()) {
            *word &= !gone;
        }
    }

    /// Adds the members of `other`.
    pub fn union(&mut self, other: &NodeSet) {
        if self.words.is_empty() {
            return self.copy_from(other);
        }
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        let behind = self.words.get_mut(other.n_zero..).unwrap_or_default();
        for (word, more) in behind.iter_mut().zip(other.used()) {
            *word |= more;
        }
        self.n_zero = self.n_zero.min(other.n_zero);
    }

    /// Whether every member is also in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &NodeSet) -> bool {
        let (common, rest) = self.words.split_at(self.words.len().min(other.words.len()));
        let from = self.n_zero.min(common.len());
        let common = common.get(from..).unwrap_or_default().iter().zip(other.words.get(from..).unwrap_or_default());
        let is_here = |(word, other): (&u64, &u64)| word & !other == 0;
        common.into_iter().all(is_here) && rest.iter().all(|&word| word == 0)
    }
}

/// The first row of each word, from this word on.
#[inline]
fn rows_from(word: usize) -> impl Iterator<Item = NodeIdx> {
    let first = u32::try_from(word).unwrap_or(u32::MAX / 64);
    (first..).map(|word| NodeIdx(word * 64))
}

impl FromIterator<NodeIdx> for NodeSet {
    fn from_iter<T: IntoIterator<Item = NodeIdx>>(nodes: T) -> Self {
        let mut set = Self::default();
        for node in nodes {
            set.insert(node);
        }
        set
    }
}

/// The first row, if the rows follow each other without a gap. Most rows follow each other in the order in which nodes
/// are visited.
#[inline]
fn first_of_run(rows: &[NodeIdx]) -> Option<NodeIdx> {
    let first = *rows.first()?;
    // The loop compares all rows without an early exit, so that several rows are compared at a time.
    let differs = rows.iter().zip(first.0..).fold(0, |differs, (row, expected)| differs | (row.0 ^ expected));
    (differs == 0).then_some(first)
}

/// A word whose lowest `n` bits are set.
#[inline]
fn low_bits(n: usize) -> u64 {
    if n == 0 { 0 } else { u64::MAX >> (64 - n) }
}

/// A block of 64 rows, with the rows that are members of a set.
#[derive(Clone, Copy, Debug)]
pub struct RowBlock {
    /// The first row, a multiple of 64.
    pub first: NodeIdx,
    /// The members. Bit `i` stands for the row `first + i`.
    pub members: u64,
}

impl RowBlock {
    /// The members in ascending order.
    #[inline]
    pub fn rows(self) -> impl Iterator<Item = NodeIdx> {
        Bits { word: self.members, base: self.first.0 }
    }

    /// The members, as distances from the first row.
    #[inline]
    pub fn offsets(self) -> impl Iterator<Item = usize> {
        RowBlock { first: NodeIdx(0), ..self }.rows().map(NodeIdx::index)
    }

    /// The number of members.
    #[inline]
    #[must_use]
    pub fn n_members(self) -> u32 {
        self.members.count_ones()
    }
}

struct Bits {
    word: u64,
    base: u32,
}

impl Iterator for Bits {
    type Item = NodeIdx;

    #[inline]
    fn next(&mut self) -> Option<NodeIdx> {
        if self.word == 0 {
            return None;
        }
        let bit = self.word.trailing_zeros();
        self.word &= self.word - 1;
        Some(NodeIdx(self.base + bit))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bits_stand_for_listed_rows() {
        let members = [0, 1, 5, 63, 64, 65, 90, 127, 128, 191, 300].map(NodeIdx);
        let set = NodeSet::from_iter(members);
        let runs =
            (0..320).flat_map(|first| [1, 2, 63, 64].map(|n| (first..first + n).map(NodeIdx).collect::<Vec<_>>()));
        let others = [vec![], vec![NodeIdx(65), NodeIdx(64), NodeIdx(2)], vec![NodeIdx(90), NodeIdx(92), NodeIdx(94)]];
        for rows in runs.chain(others) {
            let bits = set.bits_of(&rows);
            let expected: Vec<NodeIdx> = rows.iter().copied().filter(|row| set.contains(*row)).collect();
            let of_bits = rows.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, row)| *row);
            assert_eq!(of_bits.collect::<Vec<_>>(), expected, "{rows:?}");
            assert_eq!(bits.count_ones() as usize, expected.len());
            let mut entered = NodeSet::from_iter([NodeIdx(7)]);
            entered.insert_bits(&rows, bits);
            assert_eq!(entered, expected.iter().copied().chain([NodeIdx(7)]).collect());
            assert_eq!(entered.len(), NodeSet::from_iter(entered.iter()).iter().count());
        }
        assert_eq!((set.len(), NodeSet::default().len()), (members.len(), 0));
    }

    /// Checks every operation against a set of the standard library, for sets that begin and end in any word.
    #[test]
    fn operations_do_what_they_do_on_other_sets() {
        let sets: Vec<BTreeSet<u32>> = [
            &[][..],
            &[0],
            &[130, 131],
            &[64, 65, 300],
            &[0, 63, 64, 200],
            &[400],
            &[300, 400, 500],
            &[1, 2, 3, 130, 300, 500],
        ]
        .map(|rows| rows.iter().copied().collect())
        .into();
        let set = |rows: &BTreeSet<u32>| rows.iter().copied().map(NodeIdx).collect::<NodeSet>();
        let rows = |set: &NodeSet| set.iter().map(|row| row.0).collect::<BTreeSet<u32>>();
        for (one, other) in sets.iter().flat_map(|one| sets.iter().map(move |other| (one, other))) {
            let (left, right) = (set(one), set(other));
            let changed = |change: fn(&mut NodeSet, &NodeSet)| {
                let mut changed = left.clone();
                change(&mut changed, &right);
                assert_eq!(changed.len(), rows(&changed).len());
                // After every operation, the set still works like other sets.
                changed.insert(NodeIdx(70));
                assert!(changed.contains(NodeIdx(70)) && changed.iter().any(|row| row.0 == 70));
                changed.remove(NodeIdx(70));
                rows(&changed)
            };
            let without_70 = |set: BTreeSet<u32>| set.into_iter().filter(|row| *row != 70).collect::<BTreeSet<_>>();
            assert_eq!(changed(NodeSet::union), without_70(one | other));
            assert_eq!(changed(NodeSet::intersect), without_70(one & other));
            assert_eq!(changed(NodeSet::subtract), without_70(one - other));
            assert_eq!(changed(NodeSet::copy_from), *other);
            assert_eq!(left.is_subset(&right), one.is_subset(other), "{one:?} {other:?}");
            assert_eq!(left.is_disjoint(&right), one.is_disjoint(other), "{one:?} {other:?}");
            assert_eq!(left == right, one == other, "{one:?} {other:?}");
        }
        for rows_of_it in &sets {
            let mut cleared = set(rows_of_it);
            cleared.clear();
            assert!(cleared.is_empty() && cleared == NodeSet::default());
            cleared.insert(NodeIdx(200));
            cleared.insert(NodeIdx(3));
            assert_eq!(rows(&cleared), [3, 200].into());
            let mut few = set(rows_of_it);
            few.retain(|row| row.0.is_multiple_of(2));
            assert_eq!(rows(&few), rows_of_it.iter().copied().filter(|row| row.is_multiple_of(2)).collect());
            few.retain_in_blocks(|block| if block.first.0 == 64 { 0 } else { block.members });
            assert!(rows(&few).iter().all(|row| row.is_multiple_of(2) && row / 64 != 1));
            let of_blocks: BTreeSet<u32> = few.blocks().flat_map(RowBlock::rows).map(|row| row.0).collect();
            assert_eq!(of_blocks, rows(&few));
        }
    }

    #[test]
    fn sets_with_the_same_members_are_equal() {
        let few = NodeSet::from_iter([NodeIdx(3)]);
        let mut was_large = NodeSet::from_iter([NodeIdx(3), NodeIdx(200)]);
        assert_ne!(few, was_large);
        was_large.remove(NodeIdx(200));
        assert_eq!(few, was_large);
        assert_eq!(was_large, few);
        assert_ne!(few, NodeSet::from_iter([NodeIdx(4)]));
        assert_eq!(NodeSet::default(), NodeSet::from_words(vec![0, 0]));
    }
}
