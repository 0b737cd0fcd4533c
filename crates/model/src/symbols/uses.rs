//! The symbols that each object uses.

use std::{
    mem,
    sync::{Arc, PoisonError},
};

use smallvec::SmallVec;

use super::{Returned, Sym, Symbols};

/// Interns the strings of one object.
#[derive(Debug)]
pub struct Interning<'a> {
    symbols: &'a mut Symbols,
}

impl<'a> Interning<'a> {
    pub(super) fn new(symbols: &'a mut Symbols) -> Self {
        debug_assert!(symbols.of_object.is_empty(), "one object is interned at a time");
        Self { symbols }
    }

    /// The symbol of `text`, which is made if necessary. A text of more than a kilobyte gets the symbol of its digest.
    pub fn intern(&mut self, text: &str) -> Sym {
        let sym = self.symbols.enter(text);
        if self.symbols.count(sym) {
            self.symbols.of_object.push(sym);
        }
        sym
    }

    /// A value that the object keeps as long as the object uses the symbols.
    #[must_use]
    pub fn finish(self) -> Uses {
        let Symbols { of_object, returned, .. } = &mut *self.symbols;
        if of_object.is_empty() {
            return Uses::default();
        }
        let symbols = UsedSymbols::from_slice(of_object);
        of_object.clear();
        Uses(Some(Arc::new(Used { symbols, returned: Arc::clone(returned) })))
    }
}

/// Releases the symbols. Unless [`Interning::finish`] was called, no symbol stays in use.
impl Drop for Interning<'_> {
    fn drop(&mut self) {
        while let Some(sym) = self.symbols.of_object.pop() {
            self.symbols.release(sym);
        }
    }
}

/// A value that keeps the symbols of an object from being freed while the object, or a copy of it, lives. It is empty
/// in a replica, where the owner of the table decides what is freed.
#[derive(Clone, Debug, Default)]
pub struct Uses(Option<Arc<Used>>);

/// The symbols of one object. The symbols of most pods fit in this array.
pub(super) type UsedSymbols = SmallVec<[Sym; 8]>;

#[derive(Debug)]
struct Used {
    symbols: UsedSymbols,
    returned: Returned,
}

impl Uses {
    /// The number of symbols, including repetitions. The number measures the size of the object.
    #[must_use]
    pub fn n_symbols(&self) -> usize {
        self.0.as_ref().map_or(0, |used| used.symbols.len())
    }
}

/// All values are equal, so that objects with the same content are equal.
impl PartialEq for Uses {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Uses {}

impl Drop for Used {
    fn drop(&mut self) {
        let symbols = mem::take(&mut self.symbols);
        self.returned.lock().unwrap_or_else(PoisonError::into_inner).push(symbols);
    }
}
