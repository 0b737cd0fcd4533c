//! Temporary symbols in a table that mirrors another table. They leave no trace in the table.

use super::{Returned, Sym, Symbols};

/// The state of the table before the first temporary symbol, for [`Symbols::end_temporary`].
#[must_use]
#[derive(Clone, Copy, Debug)]
pub struct TemporarySymbols {
    n_texts: usize,
    n_unused: usize,
}

impl Symbols {
    /// Makes all new symbols temporary until [`Self::end_temporary`]. This table mirrors another table
    /// ([`Self::mirror`]), and the other table may later give the numbers of the temporary symbols to other strings. No
    /// symbol may be mirrored before `end_temporary`.
    pub fn begin_temporary(&self) -> TemporarySymbols {
        debug_assert!(self.free.is_empty(), "a table that mirrors another frees no symbol itself");
        TemporarySymbols { n_texts: self.texts.len(), n_unused: self.n_unused }
    }

    /// Removes the symbols that were made since `begun`, and announces this to the replicas. The cost grows with the
    /// number of these symbols. No object with temporary symbols may be in use any more. If such an object is dropped
    /// later, it returns no symbols.
    pub fn end_temporary(&mut self, begun: TemporarySymbols) {
        let TemporarySymbols { n_texts, n_unused } = begun;
        // Without this new list, an object that is dropped later would release a symbol that stands for another string.
        self.returned = Returned::default();
        while self.texts.len() > n_texts {
            let Some(text) = self.texts.pop() else { break };
            let sym = Sym(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
            if self.by_text.get(&text) == Some(&sym) {
                self.by_text.remove(&text);
            }
            self.note(sym);
        }
        self.uses.truncate(n_texts);
        self.free.retain(|sym| sym.index() < n_texts);
        self.sweep = None;
        self.n_unused = n_unused;
        // Results that were computed from the texts of temporary symbols no longer hold.
        self.n_sweeps += 1;
    }
}
