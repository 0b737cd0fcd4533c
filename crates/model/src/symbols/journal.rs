//! The symbols that were made and freed recently, for replicas that are updated.

use std::collections::VecDeque;

use super::Sym;

/// The number of changes that a replica may miss. A replica that missed more gets all symbols.
const CAPACITY: usize = 1 << 16;

#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    changes: VecDeque<Sym>,
    /// The number of changes so far.
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

    /// The symbols that changed since `position`, each once; `None` if the journal does not reach back that far.
    pub(super) fn since(&self, position: u64) -> Option<Vec<Sym>> {
        let oldest = self.position - self.changes.len() as u64;
        let skip = usize::try_from(position.checked_sub(oldest)?).ok()?;
        let mut changed: Vec<Sym> = self.changes.iter().skip(skip).copied().collect();
        changed.sort_unstable();
        changed.dedup();
        Some(changed)
    }
}
