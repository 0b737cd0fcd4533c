//! Interned strings.
//!
//! The host owns one table and announces each symbol to the replicas before its first use, so a symbol means the same
//! string everywhere. A fixed prefix of well-known names has the same symbols in every table without being announced.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// An interned string. [`Sym::NONE`] stands for an absent value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sym(pub u32);

impl Sym {
    /// The empty string, and an absent value.
    pub const NONE: Sym = Sym(0);
    /// `cpu`.
    pub const CPU: Sym = Sym(1);
    /// `memory`.
    pub const MEMORY: Sym = Sym(2);
    /// `ephemeral-storage`.
    pub const EPHEMERAL_STORAGE: Sym = Sym(3);
    /// `pods`.
    pub const PODS: Sym = Sym(4);
    /// `TCP`.
    pub const TCP: Sym = Sym(5);
    /// `0.0.0.0`: a host port on every address.
    pub const ANY_ADDRESS: Sym = Sym(6);
    /// `kubernetes.io/hostname`.
    pub const HOSTNAME_LABEL: Sym = Sym(7);
    /// `topology.kubernetes.io/zone`.
    pub const ZONE_LABEL: Sym = Sym(8);
    /// `topology.kubernetes.io/region`.
    pub const REGION_LABEL: Sym = Sym(9);
    /// `node.kubernetes.io/unschedulable`.
    pub const UNSCHEDULABLE_TAINT: Sym = Sym(10);

    /// Whether it stands for an absent value.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// In the order of the constants above.
const WELL_KNOWN: [&str; 11] = [
    "",
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "TCP",
    "0.0.0.0",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/unschedulable",
];

/// The table behind [`Sym`].
#[derive(Clone, Debug)]
pub struct Symbols {
    by_text: FxHashMap<Arc<str>, Sym>,
    texts: Vec<Arc<str>>,
}

impl Default for Symbols {
    fn default() -> Self {
        let mut symbols = Self { by_text: FxHashMap::default(), texts: Vec::new() };
        for text in WELL_KNOWN {
            symbols.intern(text);
        }
        symbols
    }
}

impl Symbols {
    /// How many symbols every table starts with; they are never announced.
    pub const N_WELL_KNOWN: usize = WELL_KNOWN.len();

    /// The symbol of `text`, made if there is none yet.
    pub fn intern(&mut self, text: &str) -> Sym {
        if let Some(&sym) = self.by_text.get(text) {
            return sym;
        }
        let sym = Sym(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        let text: Arc<str> = Arc::from(text);
        self.texts.push(Arc::clone(&text));
        self.by_text.insert(text, sym);
        sym
    }

    /// The symbol of `text` if something has interned it: a string without a symbol equals no value in the node table.
    #[must_use]
    pub fn lookup(&self, text: &str) -> Option<Sym> {
        self.by_text.get(text).copied()
    }

    /// The string behind `sym`; empty for one that was never announced.
    #[must_use]
    pub fn text(&self, sym: Sym) -> &str {
        self.texts.get(sym.0 as usize).map_or("", |text| text)
    }

    /// Enters a symbol that the owner of the table announced. Symbols arrive in the order in which they were made.
    pub fn announce(&mut self, sym: Sym, text: &str) {
        let index = sym.0 as usize;
        if index >= self.texts.len() {
            self.texts.resize(index + 1, Arc::from(""));
        }
        let text: Arc<str> = Arc::from(text);
        if let Some(slot) = self.texts.get_mut(index) {
            *slot = Arc::clone(&text);
        }
        self.by_text.insert(text, sym);
    }

    /// The number of symbols.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Never: every table starts with the well-known symbols.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Symbols made after the first `known` ones, oldest first.
    pub fn since(&self, known: usize) -> impl Iterator<Item = (Sym, &str)> {
        (0u32..).zip(&self.texts).skip(known).map(|(index, text)| (Sym(index), &**text))
    }
}
