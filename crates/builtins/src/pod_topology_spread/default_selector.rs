//! Which pods belong together when a pod has no constraints of its own: those that its services select, and its
//! controller.

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::Call;
use berth_model::{
    ObjectTable, ObjectView, Pod, Sym, Symbols, api,
    pod::{LabelSelector, Operator, Requirement},
    selector::{self, LabelMatcher},
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer};

/// Stands for a string without a symbol: it equals no label of any pod.
const UNKNOWN: Sym = Sym(u32::MAX);

/// `apiVersion` and kind of what decides.
pub(super) const OBJECTS: &[(&str, &str)] =
    &[("v1", "Service"), ("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")];

/// A service or a replication controller.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Equalities {
    spec: EqualitiesSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EqualitiesSpec {
    selector: Option<BTreeMap<String, String>>,
}

/// A replica set or a stateful set.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Workload {
    spec: WorkloadSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WorkloadSpec {
    #[serde(deserialize_with = "compiled")]
    selector: Option<LabelMatcher>,
}

/// `None` for a selector that the API server would refuse.
fn compiled<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LabelMatcher>, D::Error> {
    let selector: Option<api::LabelSelector> = Option::deserialize(deserializer)?;
    Ok(LabelMatcher::compile(selector.as_ref()).ok())
}

/// Services and workloads, ready to be asked about a pod.
#[derive(Debug)]
pub(super) struct DefaultSelector {
    services: ObjectView<Equalities>,
    replication_controllers: ObjectView<Equalities>,
    replica_sets: ObjectView<Workload>,
    stateful_sets: ObjectView<Workload>,
    service_selectors: FxHashMap<Sym, ServiceSelectors>,
}

/// Key and value.
type Label = (Sym, Sym);

/// The services of one namespace, to be found by the labels of a pod.
#[derive(Debug, Default)]
struct ServiceSelectors {
    /// Selectors by their first label.
    by_label: FxHashMap<Label, Vec<Vec<Label>>>,
    /// Services with strings that no symbol stands for: they select no pod yet.
    unresolved: Vec<Arc<Equalities>>,
    n_symbols: usize,
}

impl Default for DefaultSelector {
    fn default() -> Self {
        Self {
            services: ObjectView::new("v1", "Service"),
            replication_controllers: ObjectView::new("v1", "ReplicationController"),
            replica_sets: ObjectView::new("apps/v1", "ReplicaSet"),
            stateful_sets: ObjectView::new("apps/v1", "StatefulSet"),
            service_selectors: FxHashMap::default(),
        }
    }
}

impl DefaultSelector {
    /// What the pods that belong to the pod's group have in common; without requirements if it belongs to none.
    pub(super) fn of(&mut self, call: &Call<'_>) -> LabelSelector {
        self.refresh(call.table.objects());
        let symbols = &call.table.symbols;
        let namespace = symbols.text(call.pod.namespace);
        let services = self.service_selectors.entry(call.pod.namespace).or_insert_with(|| ServiceSelectors {
            unresolved: self.services.in_namespace(namespace).map(|(_, service)| Arc::clone(service)).collect(),
            ..ServiceSelectors::default()
        });
        services.resolve(symbols);
        let mut labels = services.labels_for(call.pod);
        let mut requirements = Vec::new();
        if let Some(owner) = &call.pod.owner {
            match (&*owner.api_version, &*owner.kind) {
                ("v1", "ReplicationController") => {
                    if let Some(controller) = self.replication_controllers.get(namespace, &owner.name) {
                        overlay(&mut labels, controller, symbols);
                    }
                }
                ("apps/v1", "ReplicaSet") => {
                    requirements = interned(self.replica_sets.get(namespace, &owner.name), symbols);
                }
                ("apps/v1", "StatefulSet") => {
                    requirements = interned(self.stateful_sets.get(namespace, &owner.name), symbols);
                }
                _ => {}
            }
        }
        requirements.extend(labels.into_iter().map(|(key, value)| equals(key, value)));
        requirements.sort_unstable();
        requirements.dedup();
        LabelSelector { requirements, error: None }
    }

    fn refresh(&mut self, objects: &ObjectTable) {
        if self.services.refresh(objects) {
            self.service_selectors.clear();
        }
        self.replication_controllers.refresh(objects);
        self.replica_sets.refresh(objects);
        self.stateful_sets.refresh(objects);
    }
}

impl ServiceSelectors {
    /// Looks unknown strings up again if there are new symbols.
    fn resolve(&mut self, symbols: &Symbols) {
        if self.n_symbols == symbols.len() {
            return;
        }
        self.n_symbols = symbols.len();
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

    /// What the services that select the pod select by.
    fn labels_for(&self, pod: &Pod) -> Vec<Label> {
        let candidates = pod.labels.iter().filter_map(|label| self.by_label.get(label)).flatten();
        let selecting =
            candidates.filter(|selector| selector.iter().all(|pair| pod.labels.binary_search(pair).is_ok()));
        selecting.flatten().copied().collect()
    }
}

/// Adds the selector of a replication controller, which wins over that of a service on the same key.
fn overlay(labels: &mut Vec<Label>, controller: &Equalities, symbols: &Symbols) {
    for (key, value) in controller.spec.selector.iter().flatten() {
        let pair = (lookup(symbols, key), lookup(symbols, value));
        labels.retain(|(key, _)| *key != pair.0 || *key == UNKNOWN);
        labels.push(pair);
    }
}

fn interned(workload: Option<&Arc<Workload>>, symbols: &Symbols) -> Vec<Requirement> {
    let matcher = workload.and_then(|workload| workload.spec.selector.as_ref());
    let requirements = matcher.and_then(LabelMatcher::requirements).unwrap_or_default();
    requirements.iter().filter_map(|requirement| requirement_of(requirement, symbols)).collect()
}

/// Label selectors know no `Gt` and `Lt`.
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

fn lookup(symbols: &Symbols, text: &str) -> Sym {
    symbols.lookup(text).unwrap_or(UNKNOWN)
}
