//! The distinct lists of taints of nodes, so that a rule looks at each list once.

use crate::pod::Taint;

/// The taint sets by id; 0 is the empty set. A replica does not count the nodes of a set, because the owner of the
/// table decides which set has an id.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaintSets {
    sets: Vec<Vec<Taint>>,
    /// The number of nodes with each set. The empty set is not counted.
    n_nodes: Vec<u32>,
    free: Vec<u32>,
}

/// The taint set that a node got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaintSetId {
    pub id: u32,
    /// Whether the id is new, or stood for another set before.
    pub is_new: bool,
}

impl TaintSets {
    pub(crate) fn all(&self) -> &[Vec<Taint>] {
        &self.sets
    }

    /// Counts one more node with these taints.
    pub(crate) fn join(&mut self, taints: &[Taint]) -> TaintSetId {
        if self.sets.is_empty() {
            self.put(0, Vec::new());
        }
        let known = (0u32..).zip(&self.sets).find(|(id, set)| *set == taints && (*id == 0) == taints.is_empty());
        let (id, is_new) = match known {
            Some((id, _)) => (id, false),
            None => {
                let next = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
                let id = self.free.pop().unwrap_or(next);
                self.put(id, taints.to_vec());
                (id, true)
            }
        };
        if let Some(n_nodes) = self.n_nodes.get_mut(id as usize).filter(|_| id > 0) {
            *n_nodes += 1;
        }
        TaintSetId { id, is_new }
    }

    /// Counts one node less with the set. A set without nodes is deleted.
    pub(crate) fn leave(&mut self, id: u32) {
        let Some(n_nodes) = self.n_nodes.get_mut(id as usize).filter(|n_nodes| **n_nodes > 0) else { return };
        *n_nodes -= 1;
        if *n_nodes == 0 {
            self.put(id, Vec::new());
            self.free.push(id);
        }
    }

    /// Sets the taint set of an id, in a replica.
    pub(crate) fn announce(&mut self, id: u32, taints: &[Taint]) {
        self.put(id, taints.to_vec());
    }

    fn put(&mut self, id: u32, taints: Vec<Taint>) {
        let index = id as usize;
        if index >= self.sets.len() {
            self.sets.resize(index + 1, Vec::new());
            self.n_nodes.resize(index + 1, 0);
        }
        if let Some(set) = self.sets.get_mut(index) {
            *set = taints;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sym, pod::TaintEffect};

    fn taints(value: u32) -> Vec<Taint> {
        vec![Taint { key: Sym(20), value: Sym(value), effect: TaintEffect::NoSchedule }]
    }

    #[test]
    fn sets_that_no_node_has_are_forgotten() {
        let mut sets = TaintSets::default();
        assert_eq!(sets.join(&[]), TaintSetId { id: 0, is_new: false });
        let shared = sets.join(&taints(1));
        assert_eq!(sets.join(&taints(1)), TaintSetId { is_new: false, ..shared });
        for value in 2..10_000 {
            let id = sets.join(&taints(value));
            assert!(id.is_new && id.id != shared.id);
            assert_eq!(sets.all()[id.id as usize], taints(value));
            sets.leave(id.id);
        }
        assert!(sets.all().len() <= 3, "{}", sets.all().len());
        sets.leave(shared.id);
        assert_eq!(sets.all()[shared.id as usize], taints(1), "a second node has it");
        sets.leave(0);
        assert_eq!(sets.join(&[]).id, 0);
    }
}
