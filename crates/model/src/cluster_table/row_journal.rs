//! The journal of the rows that changed, the oldest change first. Code that keeps an answer about a row learns from the
//! journal that the answer is outdated.

use std::collections::VecDeque;

use crate::node_set::NodeIdx;

/// The number of changes that a reader may miss. If a reader missed more changes, all of its data is outdated.
const CAPACITY: usize = 1 << 13;

/// The last changes of rows, in any column.
#[derive(Clone, Debug, Default)]
pub(super) struct RowJournal {
    rows: VecDeque<NodeIdx>,
    /// The number of changes so far.
    position: u64,
    /// The position of the first change that can still be followed.
    first: u64,
}

impl RowJournal {
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn record(&mut self, node: NodeIdx) {
        if self.rows.len() >= CAPACITY {
            self.rows.pop_front();
            self.first += 1;
        }
        self.rows.push_back(node);
        self.position += 1;
    }

    pub(super) fn since(&self, position: u64) -> Option<impl Iterator<Item = NodeIdx>> {
        let skip = usize::try_from(position.checked_sub(self.first)?).ok()?;
        (position <= self.position).then(|| self.rows.range(skip.min(self.rows.len())..).copied())
    }

    /// Ends the journal for all readers, so that each reader must start again.
    pub(super) fn overrun(&mut self) {
        self.rows.clear();
        self.position += 1;
        self.first = self.position;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_what_it_missed_or_learns_that_it_missed_too_much() {
        let mut journal = RowJournal::default();
        let start = journal.position();
        journal.record(NodeIdx(3));
        let later = journal.position();
        journal.record(NodeIdx(1));
        let since = |journal: &RowJournal, position| journal.since(position).map(|rows| rows.collect::<Vec<_>>());
        assert_eq!(since(&journal, start), Some(vec![NodeIdx(3), NodeIdx(1)]));
        assert_eq!(since(&journal, later), Some(vec![NodeIdx(1)]));
        assert_eq!(since(&journal, journal.position()), Some(Vec::new()));
        for _ in 0..CAPACITY {
            journal.record(NodeIdx(2));
        }
        assert_eq!(since(&journal, later), None);
        let now = journal.position();
        assert_eq!(since(&journal, now), Some(Vec::new()));
        journal.overrun();
        assert_eq!(since(&journal, now), None);
        assert_eq!(since(&journal, journal.position()), Some(Vec::new()));
    }
}
