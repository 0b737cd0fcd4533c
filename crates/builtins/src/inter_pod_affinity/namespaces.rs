//! Namespaces: their labels, and the namespaces that a namespace selector matches.
//!
//! Pods are counted by namespace, so a namespace selector is turned into a list of namespaces that have had pods. The
//! list is kept until a `Namespace` object changes or a pod is placed in a namespace that has had no pods before.

use berth_model::{ClusterTable, ObjectView, Sym, Symbols, api::StringMap, pod::LabelSelector};
use rustc_hash::FxHashMap;
use serde::Deserialize;

use crate::symbol_lookup::{self, SymbolSweeps};

/// The number of selectors that are kept at a time.
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

/// The `Namespace` objects, and the namespaces in which pods have been placed.
#[derive(Debug)]
pub(super) struct Namespaces {
    objects: ObjectView<Namespace>,
    /// The namespaces in which pods have been placed, sorted. A namespace without pods stays until its symbol is freed,
    /// so that pod queries do not change.
    with_pods: Vec<Sym>,
    /// The namespaces of [`Self::with_pods`] that a selector matches.
    matching: FxHashMap<LabelSelector, Vec<Sym>>,
    sweeps: SymbolSweeps,
}

impl Default for Namespaces {
    fn default() -> Self {
        let objects = ObjectView::new("v1", "Namespace");
        Self { objects, with_pods: Vec::new(), matching: FxHashMap::default(), sweeps: SymbolSweeps::default() }
    }
}

impl Namespaces {
    pub(super) fn refresh(&mut self, table: &ClusterTable) {
        let were_freed = self.sweeps.has_changed(&table.symbols);
        if were_freed {
            self.with_pods.retain(|namespace| !table.symbols.text(*namespace).is_empty());
        }
        if self.objects.refresh(table.objects()) || were_freed || self.matching.len() > CAPACITY {
            self.matching.clear();
        }
    }

    /// Records that a pod was placed in `namespace`.
    pub(super) fn add_with_pods(&mut self, namespace: Sym) {
        if let Err(at) = self.with_pods.binary_search(&namespace) {
            self.with_pods.insert(at, namespace);
            self.matching.clear();
        }
    }

    /// The namespaces in which pods have been placed, sorted.
    pub(super) fn with_pods(&self) -> &[Sym] {
        &self.with_pods
    }

    pub(super) fn has_pods(&self, namespace: Sym) -> bool {
        self.with_pods.binary_search(&namespace).is_ok()
    }

    /// The labels of a namespace, sorted as label selectors need them; `None` if the namespace has no object.
    pub(super) fn labels(&self, namespace: Sym, symbols: &Symbols) -> Option<Vec<(Sym, Sym)>> {
        let object = self.objects.get("", symbols.text(namespace))?;
        // No selector contains a key without a symbol.
        let pairs = object.metadata.labels.iter().flatten();
        let known =
            pairs.filter_map(|(key, value)| Some((symbols.lookup(key)?, symbol_lookup::lookup(symbols, value))));
        let mut labels: Vec<_> = known.collect();
        labels.sort_unstable();
        Some(labels)
    }

    /// The namespaces with pods that have a `Namespace` object which matches `selector`, sorted.
    pub(super) fn matching(&mut self, selector: &LabelSelector, symbols: &Symbols) -> &[Sym] {
        if !self.matching.contains_key(selector) {
            let matches = |namespace: &Sym| self.matches(selector, *namespace, symbols);
            let matching = self.with_pods.iter().copied().filter(matches).collect();
            self.matching.insert(selector.clone(), matching);
        }
        self.matching.get(selector).map_or(&[], |namespaces| namespaces)
    }

    /// Whether `namespace` has an object with labels that match.
    pub(super) fn matches(&self, selector: &LabelSelector, namespace: Sym, symbols: &Symbols) -> bool {
        self.labels(namespace, symbols).is_some_and(|labels| selector.matches(&labels))
    }
}
