//! Interned strings.
//!
//! The host owns one table and announces each symbol to the replicas before its first use. Interned pods and nodes keep
//! their symbols in use ([`Uses`]). Once most symbols are unused, they are freed step by step. The replicas are
//! informed, and the number of a freed symbol is later given to another string. A fixed prefix of well-known names has
//! the same symbols in every table, permanently and without being announced.

mod journal;
mod temporary;
mod uses;

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use sha2::{Digest as _, Sha256};

use self::{journal::Journal, uses::UsedSymbols};
pub use self::{
    temporary::TemporarySymbols,
    uses::{Interning, Uses},
};

/// An interned string. [`Sym::NONE`] stands for an absent value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sym(pub u32);

impl Sym {
    /// The symbol of the empty string, which also stands for an absent value.
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
    /// `0.0.0.0`, for a host port on every address.
    pub const ANY_ADDRESS: Sym = Sym(6);
    /// `kubernetes.io/hostname`.
    pub const HOSTNAME_LABEL: Sym = Sym(7);
    /// `topology.kubernetes.io/zone`.
    pub const ZONE_LABEL: Sym = Sym(8);
    /// `topology.kubernetes.io/region`.
    pub const REGION_LABEL: Sym = Sym(9);
    /// `node.kubernetes.io/unschedulable`.
    pub const UNSCHEDULABLE_TAINT: Sym = Sym(10);

    /// Whether the symbol stands for an absent value.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The texts of the symbols, in the order of the constants above.
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

/// The table of the strings of [`Sym`].
#[derive(Debug)]
pub struct Symbols {
    by_text: FxHashMap<Arc<str>, Sym>,
    /// The text of each symbol; empty for a number that was freed.
    texts: Vec<Arc<str>>,
    /// The number of uses of each symbol, or [`FOR_EVER`].
    uses: Vec<u32>,
    /// The number of unused symbols that are not freed yet. A string that is interned again gets its old symbol.
    n_unused: usize,
    free: Vec<Sym>,
    /// The place at which the next step of freeing begins, while symbols are being freed.
    sweep: Option<usize>,
    is_eager: bool,
    version: u64,
    n_sweeps: u64,
    journal: Journal,
    returned: Returned,
    /// A buffer for the symbols of the object that is being interned.
    of_object: Vec<Sym>,
    /// An empty buffer. [`Self::take_back`] exchanges it with the list of returned symbols, and empties it again.
    taken_back: Vec<UsedSymbols>,
}

/// The symbols of dropped [`Uses`]. Any thread may drop a `Uses`.
type Returned = Arc<Mutex<Vec<UsedSymbols>>>;

/// The number of returned objects for which memory is kept. When more objects are dropped at once, the memory beyond
/// this number is freed.
const MAX_KEPT: usize = 1 << 10;

/// A value in place of a number of uses, for a symbol that is never freed.
const FOR_EVER: u32 = u32::MAX;

/// The longest text that is kept. A longer text is replaced by its digest. Names and labels are shorter, because
/// kube-apiserver limits them (names 253 bytes, qualified names 317, values 63). kube-apiserver does not limit image
/// names and the texts that a kubelet reports.
const MAX_TEXT_BYTES: usize = 1024;

/// While fewer symbols are unused, none is freed. This many symbols with their texts take a megabyte or two.
const MIN_UNUSED: usize = 1 << 14;

/// The number of symbols that one step of freeing looks at. A step takes some microseconds.
const SWEEP_STEP: usize = 1 << 12;

impl Default for Symbols {
    fn default() -> Self {
        let mut symbols = Self {
            by_text: FxHashMap::default(),
            texts: Vec::new(),
            uses: Vec::new(),
            n_unused: 0,
            free: Vec::new(),
            sweep: None,
            is_eager: false,
            version: 0,
            n_sweeps: 0,
            journal: Journal::default(),
            returned: Returned::default(),
            of_object: Vec::new(),
            taken_back: Vec::new(),
        };
        for (sym, text) in (0u32..).map(Sym).zip(WELL_KNOWN) {
            symbols.announce(sym, text);
        }
        symbols
    }
}

/// Clones the table. The copy does not free a symbol that is in use now, because the [`Uses`] count only for the
/// original.
impl Clone for Symbols {
    fn clone(&self) -> Self {
        Self {
            by_text: self.by_text.clone(),
            texts: self.texts.clone(),
            uses: self.uses.clone(),
            free: self.free.clone(),
            journal: self.journal.clone(),
            returned: Returned::default(),
            of_object: Vec::new(),
            taken_back: Vec::new(),
            ..*self
        }
    }
}

impl Symbols {
    /// The symbol of `text`, which is made if necessary and is never freed. The method is for names from the
    /// configuration.
    pub fn intern(&mut self, text: &str) -> Sym {
        let sym = self.enter(text);
        if let Some(uses) = self.uses.get_mut(sym.index()) {
            self.n_unused -= usize::from(*uses == 0);
            *uses = FOR_EVER;
        }
        sym
    }

    /// Interns the strings of one object, which then keeps them in use.
    pub fn of_object(&mut self) -> Interning<'_> {
        Interning::new(self)
    }

    /// The symbol of `text`, if the text was interned. A text without a symbol equals no value in the node table.
    #[must_use]
    pub fn lookup(&self, text: &str) -> Option<Sym> {
        self.by_text.get(text).copied()
    }

    /// The string of `sym`; empty for a symbol that was never announced or was freed.
    #[must_use]
    pub fn text(&self, sym: Sym) -> &str {
        self.texts.get(sym.index()).map_or("", |text| text)
    }

    /// [`Self::text`] as a shared text.
    #[must_use]
    pub fn shared_text(&self, sym: Sym) -> Arc<str> {
        self.texts.get(sym.index()).map_or_else(|| Arc::from(""), Arc::clone)
    }

    /// The number of symbols, including unused symbols.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len() - self.free.len()
    }

    /// Always `false`, because every table starts with the well-known symbols.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number that grows whenever a string gets a symbol or loses it. A caller that looked up strings must look them
    /// up again when this number has grown.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A number that grows whenever symbols were freed. A freed symbol may later stand for another string. If a caller
    /// computes a result from the text of a symbol, and keeps the result longer than the pods and nodes with this
    /// symbol, the result holds only as long as this number stays the same.
    #[must_use]
    pub fn n_sweeps(&self) -> u64 {
        self.n_sweeps
    }
}

/// Methods for replicas, and for the owner that updates them.
impl Symbols {
    /// Stores a symbol that the owner of the table announced. An empty text means that the symbol was freed.
    pub fn announce(&mut self, sym: Sym, text: &str) {
        self.enter_announced(sym, Arc::from(text));
    }

    /// Stores a symbol like [`Self::announce`], for a copy of the table in the same process that has replicas of its own.
    /// The copy shares the text.
    pub fn mirror(&mut self, sym: Sym, text: Arc<str>) {
        self.enter_announced(sym, text);
        self.journal.push(sym);
    }

    fn enter_announced(&mut self, sym: Sym, text: Arc<str>) {
        let index = sym.index();
        if index >= self.texts.len() {
            self.texts.resize(index + 1, Arc::from(""));
            self.uses.resize(index + 1, FOR_EVER);
        }
        let Some(slot) = self.texts.get_mut(index) else { return };
        if *slot != text && !slot.is_empty() {
            // The text may have been announced before with another number.
            if self.by_text.get(slot) == Some(&sym) {
                self.by_text.remove(slot);
            }
            self.n_sweeps += 1;
        }
        *slot = Arc::clone(&text);
        if !text.is_empty() || sym.is_none() {
            self.by_text.insert(text, sym);
        }
        self.version += 1;
    }

    /// Undoes everything since `earlier` was cloned from this table.
    pub fn return_to(&mut self, earlier: Self) {
        // Callers that looked up strings after `earlier` was cloned must look them up again.
        let (version, n_sweeps) = (self.version + 1, self.n_sweeps + 1);
        *self = Self { version, n_sweeps, ..earlier };
    }

    /// At most `limit` symbols with their texts, from number `first` on. Well-known and freed symbols are left out. The
    /// second value is the number at which the next call begins; it is `None` at the end.
    pub fn portion(&self, first: usize, limit: usize) -> (Vec<(Sym, Arc<str>)>, Option<usize>) {
        let first = first.max(WELL_KNOWN.len());
        let end = first.saturating_add(limit).min(self.texts.len());
        let numbered = (0u32..).map(Sym).zip(&self.texts).take(end).skip(first);
        let announced = numbered.filter(|(_, text)| !text.is_empty()).map(|(sym, text)| (sym, Arc::clone(text)));
        (announced.collect(), (end < self.texts.len()).then_some(end))
    }

    /// The number of times that a symbol was made or freed. Replicas remember the number up to which they followed.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.journal.position()
    }

    /// The symbols that were made or freed since `position`, with their present texts. 0 is the position of a replica
    /// that knows only the well-known symbols.
    #[must_use]
    pub fn since(&self, position: u64) -> Vec<(Sym, &str)> {
        let changed = match self.journal.since(position) {
            Some(changed) => changed,
            None => self.all_announced(),
        };
        let is_news = |sym: &Sym| position > 0 || !self.text(*sym).is_empty();
        changed.into_iter().filter(is_news).map(|sym| (sym, self.text(sym))).collect()
    }

    fn all_announced(&self) -> Vec<Sym> {
        let n_symbols = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        (0..n_symbols).skip(WELL_KNOWN.len()).map(Sym).collect()
    }
}

/// Methods that make and free symbols.
impl Symbols {
    /// Subtracts the uses that have ended. Once half of the symbols are unused, each call frees some of them, so the
    /// caller should call often. An unused symbol for which `is_held` holds is not freed.
    pub fn free_unused(&mut self, is_held: impl Fn(Sym) -> bool) {
        self.take_back();
        let is_due = self.n_unused >= MIN_UNUSED && self.n_unused * 2 >= self.len();
        if self.sweep.is_none() && (is_due || self.is_eager) {
            self.sweep = Some(0);
        }
        let Some(begin) = self.sweep else { return };
        let end = begin.saturating_add(SWEEP_STEP).min(self.texts.len());
        self.sweep = (end < self.texts.len()).then_some(end);
        let n_free = self.free.len();
        for index in begin..end {
            let sym = Sym(u32::try_from(index).unwrap_or(u32::MAX));
            if self.uses.get(index) == Some(&0) && !self.text(sym).is_empty() && !is_held(sym) {
                self.free(sym);
            }
        }
        self.n_sweeps += u64::from(self.free.len() > n_free);
    }

    /// Makes the table free symbols as soon as they are unused. Tests call this method, because they would otherwise
    /// need many symbols.
    pub fn free_eagerly(&mut self) {
        self.is_eager = true;
    }

    fn take_back(&mut self) {
        let mut taken_back = std::mem::take(&mut self.taken_back);
        std::mem::swap(&mut taken_back, &mut *self.returned.lock().unwrap_or_else(PoisonError::into_inner));
        for sym in taken_back.iter().flatten() {
            self.release(*sym);
        }
        taken_back.clear();
        taken_back.shrink_to(MAX_KEPT);
        self.taken_back = taken_back;
    }

    fn free(&mut self, sym: Sym) {
        let nothing = self.texts.first().map_or_else(|| Arc::from(""), Arc::clone);
        if let Some(slot) = self.texts.get_mut(sym.index()) {
            self.by_text.remove(&std::mem::replace(slot, nothing));
        }
        self.free.push(sym);
        self.n_unused -= 1;
        self.note(sym);
    }

    /// The symbol of a string. A new symbol is not used yet.
    fn enter(&mut self, text: &str) -> Sym {
        if text.len() > MAX_TEXT_BYTES {
            return self.enter(&stand_in(text));
        }
        if let Some(&sym) = self.by_text.get(text) {
            return sym;
        }
        let text: Arc<str> = Arc::from(text);
        let sym = self.free.pop().unwrap_or_else(|| {
            self.texts.push(Arc::clone(&text));
            self.uses.push(0);
            Sym(u32::try_from(self.texts.len() - 1).unwrap_or(u32::MAX))
        });
        if let Some(slot) = self.texts.get_mut(sym.index()) {
            *slot = Arc::clone(&text);
        }
        self.by_text.insert(text, sym);
        self.n_unused += 1;
        self.note(sym);
        sym
    }

    fn note(&mut self, sym: Sym) {
        self.version += 1;
        self.journal.push(sym);
    }

    /// Counts one more use. Returns whether the use must be returned later.
    fn count(&mut self, sym: Sym) -> bool {
        let Some(uses) = self.uses.get_mut(sym.index()).filter(|uses| **uses != FOR_EVER) else { return false };
        self.n_unused -= usize::from(*uses == 0);
        *uses += 1;
        *uses != FOR_EVER
    }

    fn release(&mut self, sym: Sym) {
        let Some(uses) = self.uses.get_mut(sym.index()).filter(|uses| **uses != FOR_EVER) else { return };
        debug_assert!(*uses > 0, "a use that was never counted is given back");
        *uses = uses.saturating_sub(1);
        self.n_unused += usize::from(*uses == 0);
    }
}

/// The text that replaces a long text. Equal texts have equal replacements, and no shorter text of the API looks like a
/// replacement.
fn stand_in(text: &str) -> String {
    let digest = crate::Digest::new(Sha256::digest(text).into());
    format!("sha256:{digest} of {} bytes", text.len())
}

#[cfg(test)]
mod tests;
