//! Namespaces: their labels, and which of them a selector of namespaces means.
//!
//! Pods are counted by namespace, so a selector is spelt out as the namespaces in which pods have been placed. What was
//! spelt out stays valid until a `Namespace` object changes or the first pod of another namespace is placed.

use berth_model::{ObjectTable, ObjectView, Sym, Symbols, api::StringMap, pod::LabelSelector};
use rustc_hash::FxHashMap;
use serde::Deserialize;

/// Stands for a string that nothing has interned. No table reaches this number, so it equals no key and no value.
const UNKNOWN: Sym = Sym(u32::MAX);

/// Selectors kept at a time.
const CAPACITY: usize = 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Namespace {
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    labels: Option<StringMap>,
}

/// All namespaces that the API server shows, and those that hold placed pods.
#[derive(Debug)]
pub(super) struct Namespaces {
    objects: ObjectView<Namespace>,
    /// Sorted. A namespace whose last pod left stays: it costs nothing, and questions about it stay the same.
    inhabited: Vec<Sym>,
    spelt_out: FxHashMap<LabelSelector, Vec<Sym>>,
}

impl Default for Namespaces {
    fn default() -> Self {
        let objects = ObjectView::new("v1", "Namespace");
        Self { objects, inhabited: Vec::new(), spelt_out: FxHashMap::default() }
    }
}

impl Namespaces {
    pub(super) fn refresh(&mut self, objects: &ObjectTable) {
        if self.objects.refresh(objects) || self.spelt_out.len() > CAPACITY {
            self.spelt_out.clear();
        }
    }

    /// Notes that a pod was placed in `namespace`.
    pub(super) fn inhabit(&mut self, namespace: Sym) {
        if let Err(at) = self.inhabited.binary_search(&namespace) {
            self.inhabited.insert(at, namespace);
            self.spelt_out.clear();
        }
    }

    /// The namespaces in which pods have been placed, sorted.
    pub(super) fn inhabited(&self) -> &[Sym] {
        &self.inhabited
    }

    pub(super) fn is_inhabited(&self, namespace: Sym) -> bool {
        self.inhabited.binary_search(&namespace).is_ok()
    }

    /// The labels of a namespace as label selectors want them; `None` for one that does not exist.
    pub(super) fn labels(&self, namespace: Sym, symbols: &Symbols) -> Option<Vec<(Sym, Sym)>> {
        let object = self.objects.get("", symbols.text(namespace))?;
        // A key that nothing has interned stands in no selector.
        let pairs = object.metadata.labels.iter().flatten();
        let known =
            pairs.filter_map(|(key, value)| Some((symbols.lookup(key)?, symbols.lookup(value).unwrap_or(UNKNOWN))));
        let mut labels: Vec<_> = known.collect();
        labels.sort_unstable();
        Some(labels)
    }

    /// The inhabited namespaces that exist and match `selector`, sorted.
    pub(super) fn spell_out(&mut self, selector: &LabelSelector, symbols: &Symbols) -> &[Sym] {
        if !self.spelt_out.contains_key(selector) {
            let matches = |namespace: &Sym| self.selects(selector, *namespace, symbols);
            let matching = self.inhabited.iter().copied().filter(matches).collect();
            self.spelt_out.insert(selector.clone(), matching);
        }
        self.spelt_out.get(selector).map_or(&[], |namespaces| namespaces)
    }

    /// Whether `namespace` exists and matches.
    pub(super) fn selects(&self, selector: &LabelSelector, namespace: Sym, symbols: &Symbols) -> bool {
        self.labels(namespace, symbols).is_some_and(|labels| selector.matches(&labels))
    }
}
