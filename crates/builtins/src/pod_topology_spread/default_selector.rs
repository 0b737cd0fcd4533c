//! The selector of default constraints. It combines the selectors of the services that select the pod with the selector
//! of the pod's controller.
//!
//! kube-scheduler: `DefaultSelector` in `pkg/scheduler/framework/plugins/helper/spread.go`.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{
    ClusterTable, ObjectView, Pod, Sym, Symbols, api,
    pod::{LabelSelector, Operator, Requirement},
    selector::{self, LabelMatcher},
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer};

use crate::{
    built_in::StaticKind,
    symbol_lookup::{SymbolSweeps, SymbolVersion, UNKNOWN, lookup},
};

/// The kinds of the objects that this file reads.
pub(super) const OBJECTS: &[StaticKind] = &[
    StaticKind::new("v1", "Service"),
    StaticKind::new("v1", "ReplicationController"),
    StaticKind::new("apps/v1", "ReplicaSet"),
    StaticKind::new("apps/v1", "StatefulSet"),
];

/// A Service or a ReplicationController. The selector of both kinds is a map of labels.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WithMapSelector {
    spec: MapSelectorSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MapSelectorSpec {
    selector: Option<BTreeMap<String, String>>,
}

/// A ReplicaSet or a StatefulSet.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WithLabelSelector {
    spec: LabelSelectorSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LabelSelectorSpec {
    #[serde(deserialize_with = "compiled")]
    selector: Option<LabelMatcher>,
}

/// The compiled selector; `None` for a selector that the API server refuses.
fn compiled<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LabelMatcher>, D::Error> {
    let selector: Option<api::LabelSelector> = Option::deserialize(deserializer)?;
    Ok(LabelMatcher::compile(selector.as_ref()).ok())
}

/// Services and controllers.
#[derive(Debug)]
pub(super) struct DefaultSelector {
    services: ObjectView<WithMapSelector>,
    replication_controllers: ObjectView<WithMapSelector>,
    replica_sets: ObjectView<WithLabelSelector>,
    stateful_sets: ObjectView<WithLabelSelector>,
    service_selectors: FxHashMap<Sym, ServiceSelectors>,
    sweeps: SymbolSweeps,
}

/// The key and the value of a label.
type Label = (Sym, Sym);

/// The selectors of the services in one namespace.
#[derive(Debug, Default)]
struct ServiceSelectors {
    /// Selectors by their first label.
    by_label: FxHashMap<Label, Vec<Vec<Label>>>,
    /// Services with strings that have no symbol yet. They select no pod.
    unresolved: Vec<Arc<WithMapSelector>>,
    symbols: SymbolVersion,
}

impl Default for DefaultSelector {
    fn default() -> Self {
        Self {
            services: ObjectView::new("v1", "Service"),
            replication_controllers: ObjectView::new("v1", "ReplicationController"),
            replica_sets: ObjectView::new("apps/v1", "ReplicaSet"),
            stateful_sets: ObjectView::new("apps/v1", "StatefulSet"),
            service_selectors: FxHashMap::default(),
            sweeps: SymbolSweeps::default(),
        }
    }
}

impl DefaultSelector {
    /// The selector for the pod. The selector has no requirements if no service selects the pod and no known kind of
    /// controller owns the pod.
    pub(super) fn get(&mut self, table: &ClusterTable, pod: &Pod) -> LabelSelector {
        self.refresh(table);
        let symbols = &table.symbols;
        let namespace = symbols.text(pod.namespace);
        let services = self.service_selectors.entry(pod.namespace).or_insert_with(|| ServiceSelectors {
            unresolved: self.services.in_namespace(namespace).map(|(_, service)| Arc::clone(service)).collect(),
            ..ServiceSelectors::default()
        });
        services.resolve(symbols);
        let mut labels = services.labels_for(pod);
        let mut requirements = Vec::new();
        if let Some(owner) = &pod.owner {
            match (&*owner.api_version, &*owner.kind) {
                ("v1", "ReplicationController") => {
                    if let Some(controller) = self.replication_controllers.get(namespace, &owner.name) {
                        add_controller(&mut labels, controller, symbols);
                    }
                }
                ("apps/v1", "ReplicaSet") => {
                    requirements = requirements_of(self.replica_sets.get(namespace, &owner.name), symbols);
                }
                ("apps/v1", "StatefulSet") => {
                    requirements = requirements_of(self.stateful_sets.get(namespace, &owner.name), symbols);
                }
                _ => {}
            }
        }
        requirements.extend(labels.into_iter().map(|(key, value)| equals(key, value)));
        requirements.sort_unstable();
        requirements.dedup();
        LabelSelector { requirements, error: None }
    }

    /// Decodes the changed objects.
    pub(super) fn refresh(&mut self, table: &ClusterTable) {
        let objects = table.objects();
        let were_freed = self.sweeps.has_changed(&table.symbols);
        if self.services.refresh(objects) || were_freed {
            self.service_selectors.clear();
        }
        self.replication_controllers.refresh(objects);
        self.replica_sets.refresh(objects);
        self.stateful_sets.refresh(objects);
    }
}

impl ServiceSelectors {
    /// Looks up the strings without a symbol again if there are new symbols.
    fn resolve(&mut self, symbols: &Symbols) {
        if !self.symbols.has_changed(symbols) {
            return;
        }
        let by_label = &mut self.by_label;
        self.unresolved.retain(|service| {
            let pairs = service.spec.selector.iter().flatten();
            let known = pairs.map(|(key, value)| Some((symbols.lookup(key)?, symbols.lookup(value)?)));
            let Some(selector) = known.collect::<Option<Vec<_>>>() else { return true };
            if let Some(&first) = selector.first() {
                by_label.entry(first).or_default().push(selector);
            }
            false
        });
    }

    /// The labels in the selectors of all services that select the pod.
    fn labels_for(&self, pod: &Pod) -> Vec<Label> {
        let candidates = pod.labels.iter().filter_map(|label| self.by_label.get(label)).flatten();
        let selecting =
            candidates.filter(|selector| selector.iter().all(|pair| pod.labels.binary_search(pair).is_ok()));
        selecting.flatten().copied().collect()
    }
}

/// Adds the selector of a ReplicationController. The controller's value replaces a service's value for the same key.
fn add_controller(labels: &mut Vec<Label>, controller: &WithMapSelector, symbols: &Symbols) {
    for (key, value) in controller.spec.selector.iter().flatten() {
        let pair = (lookup(symbols, key), lookup(symbols, value));
        labels.retain(|(key, _)| *key != pair.0 || *key == UNKNOWN);
        labels.push(pair);
    }
}

fn requirements_of(owner: Option<&Arc<WithLabelSelector>>, symbols: &Symbols) -> Vec<Requirement> {
    let matcher = owner.and_then(|owner| owner.spec.selector.as_ref());
    let requirements = matcher.and_then(LabelMatcher::requirements).unwrap_or_default();
    requirements.iter().filter_map(|requirement| requirement_of(requirement, symbols)).collect()
}

/// Converts a requirement. `None` for `Gt` and `Lt`, which are not operators of label selectors.
fn requirement_of(requirement: &selector::Requirement, symbols: &Symbols) -> Option<Requirement> {
    let operator = match requirement.operator() {
        selector::Operator::Equals | selector::Operator::In => Operator::In,
        selector::Operator::NotIn => Operator::NotIn,
        selector::Operator::Exists => Operator::Exists,
        selector::Operator::DoesNotExist => Operator::DoesNotExist,
        selector::Operator::Gt | selector::Operator::Lt => return None,
    };
    let mut values: Vec<Sym> = requirement.values().iter().map(|value| lookup(symbols, value)).collect();
    values.sort_unstable();
    Some(Requirement { key: lookup(symbols, requirement.key()), operator, values })
}

fn equals(key: Sym, value: Sym) -> Requirement {
    Requirement { key, operator: Operator::In, values: vec![value] }
}
