//! The pods on nodes, and the journal of pods that came and left.
//!
//! A rule that counts pods does not read the whole table for each pod to be scheduled. It counts once, remembers
//! [`PodTable::position`], and then follows [`PodTable::since`].

use std::{collections::VecDeque, sync::Arc};

use crate::{node_set::NodeIdx, pod::Pod};

/// A pod's slot. It stays the same while the pod is on its node without change, and is reused afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIdx(pub u32);

impl PodIdx {
    /// The slot as an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A pod that came to a node or left it. A pod that changed leaves and comes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodChange {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The node that the pod came to or left.
    pub node: NodeIdx,
    /// 1 for a pod that came, -1 for a pod that left.
    pub sign: i32,
}

/// The number of changes that a rule may miss. A rule that missed more must count again.
const JOURNAL_CAPACITY: usize = 4096;

/// All pods on nodes, including assumed pods.
#[derive(Clone, Debug, Default)]
pub struct PodTable {
    slots: Vec<Option<(Arc<Pod>, NodeIdx)>>,
    by_node: Vec<Vec<PodIdx>>,
    n_pods: usize,
    journal: VecDeque<PodChange>,
    /// The number of changes so far.
    position: u64,
    /// The position of the first change that can still be followed.
    first: u64,
}

impl PodTable {
    /// The number of pods.
    #[must_use]
    pub fn n_pods(&self) -> usize {
        self.n_pods
    }

    /// The pod in a slot, with its node.
    #[must_use]
    pub fn get(&self, pod: PodIdx) -> Option<(&Arc<Pod>, NodeIdx)> {
        self.slots.get(pod.index())?.as_ref().map(|(pod, node)| (pod, *node))
    }

    /// All pods with their slots and nodes.
    pub fn iter(&self) -> impl Iterator<Item = (PodIdx, &Arc<Pod>, NodeIdx)> {
        let slots = (0u32..).zip(&self.slots);
        slots.filter_map(|(idx, slot)| slot.as_ref().map(|(pod, node)| (PodIdx(idx), pod, *node)))
    }

    /// The pods on `node`, in no particular order.
    pub fn on(&self, node: NodeIdx) -> impl Iterator<Item = (PodIdx, &Arc<Pod>)> {
        let slots = self.by_node.get(node.index()).map_or(&[][..], |slots| slots);
        slots.iter().filter_map(|&idx| self.get(idx).map(|(pod, _)| (idx, pod)))
    }

    /// The end of the journal.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The changes after `position`; `None` if the journal does not reach back that far.
    #[must_use]
    pub fn since(&self, position: u64) -> Option<impl Iterator<Item = &PodChange>> {
        let skip = usize::try_from(position.checked_sub(self.first)?).ok()?;
        (position <= self.position).then(|| self.journal.iter().skip(skip))
    }

    /// Puts a pod on a node. A pod that has the slot already leaves first.
    pub fn place(&mut self, idx: PodIdx, pod: Arc<Pod>, node: NodeIdx) {
        self.remove(idx);
        if idx.index() >= self.slots.len() {
            self.slots.resize(idx.index() + 1, None);
        }
        if node.index() >= self.by_node.len() {
            self.by_node.resize(node.index() + 1, Vec::new());
        }
        self.by_node[node.index()].push(idx);
        self.slots[idx.index()] = Some((Arc::clone(&pod), node));
        self.n_pods += 1;
        self.record(PodChange { pod, node, sign: 1 });
    }

    /// Removes the pod in a slot, if the slot is not empty.
    pub fn remove(&mut self, idx: PodIdx) {
        let Some((pod, node)) = self.slots.get_mut(idx.index()).and_then(Option::take) else { return };
        if let Some(slots) = self.by_node.get_mut(node.index()) {
            slots.retain(|other| *other != idx);
        }
        self.n_pods -= 1;
        self.record(PodChange { pod, node, sign: -1 });
    }

    /// Empties the table. A rule that followed the journal must count again.
    pub(crate) fn clear(&mut self) {
        let position = self.position + 1;
        *self = Self { position, first: position, ..Self::default() };
    }

    fn record(&mut self, change: PodChange) {
        if self.journal.len() >= JOURNAL_CAPACITY {
            self.journal.pop_front();
            self.first += 1;
        }
        self.journal.push_back(change);
        self.position += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> Arc<Pod> {
        Arc::new(Pod { name: Arc::from(name), ..Pod::default() })
    }

    fn followed(table: &PodTable, position: u64) -> Option<Vec<(String, i32)>> {
        Some(table.since(position)?.map(|change| (change.pod.name.to_string(), change.sign)).collect())
    }

    #[test]
    fn the_journal_tells_what_came_and_went() {
        let mut table = PodTable::default();
        table.place(PodIdx(0), pod("a"), NodeIdx(3));
        let position = table.position();
        table.place(PodIdx(1), pod("b"), NodeIdx(3));
        table.place(PodIdx(0), pod("a"), NodeIdx(1));
        table.remove(PodIdx(1));
        let expected = [("b", 1), ("a", -1), ("a", 1), ("b", -1)].map(|(name, sign)| (name.to_owned(), sign));
        assert_eq!(followed(&table, position), Some(expected.to_vec()));
        assert_eq!(table.on(NodeIdx(3)).count(), 0);
        assert_eq!(table.on(NodeIdx(1)).count(), 1);
        assert_eq!(table.n_pods(), 1);
    }

    #[test]
    fn a_journal_that_was_overrun_says_so() {
        let mut table = PodTable::default();
        for _ in 0..JOURNAL_CAPACITY {
            table.place(PodIdx(0), pod("a"), NodeIdx(0));
        }
        assert_eq!(followed(&table, 0), None);
        assert!(followed(&table, table.position()).is_some_and(|changes| changes.is_empty()));
        let position = table.position();
        table.clear();
        assert_eq!(followed(&table, position), None);
    }
}
