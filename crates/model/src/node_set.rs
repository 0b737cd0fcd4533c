//! Node slots and sets of them.

/// A node's slot in every table, stable while the node lives and reused only after it was removed.
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

/// A set of nodes as a bitmap: bit `i % 64` of word `i / 64` is node `i`. Sets with the same members are equal, however many
/// of their last words are zero.
#[derive(Clone, Debug, Default)]
pub struct NodeSet {
    words: Vec<u64>,
}

impl PartialEq for NodeSet {
    fn eq(&self, other: &Self) -> bool {
        let (short, long) = if self.words.len() <= other.words.len() { (self, other) } else { (other, self) };
        let (common, rest) = long.words.split_at(short.words.len());
        short.words == common && rest.iter().all(|&word| word == 0)
    }
}

impl Eq for NodeSet {}

impl NodeSet {
    /// The set of a bitmap.
    #[must_use]
    pub fn from_words(words: Vec<u64>) -> Self {
        Self { words }
    }

    /// The bitmap; its last words may be zero.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Removes every member; the memory stays.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Makes this set equal to `other`; the memory stays.
    pub fn copy_from(&mut self, other: &NodeSet) {
        self.words.clear();
        self.words.extend_from_slice(&other.words);
    }

    /// Adds a node.
    #[inline]
    pub fn insert(&mut self, node: NodeIdx) {
        let word = node.index() / 64;
        if let Some(word) = self.words.get_mut(word) {
            *word |= 1 << (node.0 % 64);
        } else {
            self.words.resize(word + 1, 0);
            self.insert_grown(node);
        }
    }

    #[cold]
    fn insert_grown(&mut self, node: NodeIdx) {
        if let Some(word) = self.words.last_mut() {
            *word |= 1 << (node.0 % 64);
        }
    }

    /// Removes a node; nothing happens if it is no member.
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
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Members in ascending order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = NodeIdx> + '_ {
        (0u32..).zip(&self.words).flat_map(|(index, &word)| Bits { word, base: index * 64 })
    }

    /// Keeps the members for which `keep` holds.
    #[inline]
    pub fn retain(&mut self, mut keep: impl FnMut(NodeIdx) -> bool) {
        for (index, word) in (0u32..).zip(&mut self.words) {
            let mut kept = *word;
            for node in (Bits { word: *word, base: index * 64 }) {
                if !keep(node) {
                    kept &= !(1 << (node.0 % 64));
                }
            }
            *word = kept;
        }
    }

    /// Keeps the members that `keep` returns. It is called for each block of 64 rows that has a member, with the first row
    /// and with the members: bit `i` is the row `i` rows behind the first.
    #[inline]
    pub fn retain_in_blocks(&mut self, mut keep: impl FnMut(NodeIdx, u64) -> u64) {
        for (index, word) in (0u32..).zip(&mut self.words).filter(|(_, word)| **word != 0) {
            *word &= keep(NodeIdx(index * 64), *word);
        }
    }

    /// Each block of 64 rows that has a member: the first row, and the members.
    #[inline]
    pub fn blocks(&self) -> impl Iterator<Item = (NodeIdx, u64)> {
        let blocks = (0u32..).zip(&self.words).map(|(index, &word)| (NodeIdx(index * 64), word));
        blocks.filter(|(_, word)| *word != 0)
    }

    /// The members in the block of 64 rows that begins at `first`.
    #[inline]
    #[must_use]
    pub fn block(&self, first: NodeIdx) -> u64 {
        self.words.get(first.index() / 64).copied().unwrap_or(0)
    }

    /// Whether no member is also in `other`.
    #[must_use]
    pub fn is_disjoint(&self, other: &NodeSet) -> bool {
        self.words.iter().zip(&other.words).all(|(word, other)| word & other == 0)
    }

    /// Keeps the members that are also in `other`.
    pub fn intersect(&mut self, other: &NodeSet) {
        let n_common = self.words.len().min(other.words.len());
        let (common, rest) = self.words.split_at_mut(n_common);
        for (word, other) in common.iter_mut().zip(&other.words) {
            *word &= other;
        }
        rest.fill(0);
    }

    /// Removes the members of `other`.
    pub fn subtract(&mut self, other: &NodeSet) {
        for (word, gone) in self.words.iter_mut().zip(&other.words) {
            *word &= !gone;
        }
    }

    /// Adds the members of `other`.
    pub fn union(&mut self, other: &NodeSet) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Whether every member is also in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &NodeSet) -> bool {
        let (common, rest) = self.words.split_at(self.words.len().min(other.words.len()));
        common.iter().zip(&other.words).all(|(word, other)| word & !other == 0) && rest.iter().all(|&word| word == 0)
    }
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

/// The members of one block of 64 rows.
#[inline]
pub fn rows_of_block((first, members): (NodeIdx, u64)) -> impl Iterator<Item = NodeIdx> {
    Bits { word: members, base: first.0 }
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
    use super::*;

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
