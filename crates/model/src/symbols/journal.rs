//! Which symbols were made and freed lately, for replicas that catch up.

use std::collections::VecDeque;

use super::Sym;

/// How many changes a replica may miss before it is told all symbols.
const CAPACITY: usize = 1 << 16;

#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    changes: VecDeque<Sym>,
    /// How many changes there have been.
    position: u64,
}

impl Journal {
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn push(&mut self, sym: Sym) {
        if self.changes.len() >= CAPACITY {
            self.changes.pop_front();
        }
        self.changes.push_back(sym);
        self.position += 1;
    }

    /// What changed since `position`, each symbol once; `None` when the journal does not reach back that far.
    pub(super) fn since(&self, position: u64) -> Option<Vec<Sym>> {
        let oldest = self.position - self.changes.len() as u64;
        let skip = usize::try_from(position.checked_sub(oldest)?).ok()?;
        let mut changed: Vec<Sym> = self.changes.iter().skip(skip).copied().collect();
        changed.sort_unstable();
        changed.dedup();
        Some(changed)
    }
}
