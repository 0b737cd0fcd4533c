//! Strings of plugin args and API objects, as symbols of the node table.
//!
//! Rules never intern a string, because the cluster table of a component is a copy that takes its symbols from the
//! host. A string without a symbol equals nothing in the table. The string may get a symbol later, so plugins that keep
//! looked-up strings look them up again once the table has other symbols: [`SymbolVersion`].

use berth_model::{Sym, Symbols};

/// The value for a string without a symbol. No table reaches this number, so the value equals no key and no value of
/// the table.
pub(crate) const UNKNOWN: Sym = Sym(u32::MAX);

/// The symbol of `text`, or [`UNKNOWN`].
pub(crate) fn lookup(symbols: &Symbols, text: &str) -> Sym {
    symbols.lookup(text).unwrap_or(UNKNOWN)
}

/// Shows whether strings must be looked up again. Every table has symbols, so the first look-up always happens.
#[derive(Debug, Default)]
pub(crate) struct SymbolVersion(u64);

impl SymbolVersion {
    /// Whether a string got or lost its symbol since the last call.
    pub(crate) fn has_changed(&mut self, symbols: &Symbols) -> bool {
        std::mem::replace(&mut self.0, symbols.version()) != symbols.version()
    }
}

/// Shows whether symbols were freed. A symbol that a plugin kept may then stand for another string.
#[derive(Debug, Default)]
pub(crate) struct SymbolSweeps(u64);

impl SymbolSweeps {
    /// Whether symbols were freed since the last call.
    pub(crate) fn has_changed(&mut self, symbols: &Symbols) -> bool {
        std::mem::replace(&mut self.0, symbols.n_sweeps()) != symbols.n_sweeps()
    }
}
