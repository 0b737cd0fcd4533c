//! Disruption budgets: the victims whose eviction would violate a budget.
//!
//! kube-scheduler: `filterPodsWithPDBViolation` in
//! `pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`.

use std::collections::BTreeMap;

use berth_model::{ClusterTable, ObjectTable, ObjectView, Pod, api, selector::LabelMatcher};
use serde::Deserialize;

use crate::built_in::StaticKind;

/// The `PodDisruptionBudget`s of the cluster.
#[derive(Debug)]
pub(super) struct Budgets(ObjectView<Budget>);

/// The fields that preemption reads from a budget.
#[derive(Debug, Deserialize)]
#[serde(from = "BudgetObject")]
struct Budget {
    /// `None` if the selector is absent, empty, or does not parse: then the budget protects no pod.
    selector: Option<LabelMatcher>,
    disruptions_allowed: i64,
    /// Names of pods that `disruptions_allowed` already counts as evicted.
    disrupted: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BudgetObject {
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    selector: Option<api::LabelSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    disruptions_allowed: i64,
    disrupted_pods: Option<BTreeMap<String, serde::de::IgnoredAny>>,
}

impl From<BudgetObject> for Budget {
    fn from(BudgetObject { spec, status }: BudgetObject) -> Self {
        let selector = LabelMatcher::compile(spec.selector.as_ref()).ok();
        Self {
            selector: selector.filter(|selector| !selector.is_empty()),
            disruptions_allowed: status.disruptions_allowed,
            disrupted: status.disrupted_pods.unwrap_or_default().into_keys().collect(),
        }
    }
}

impl Budget {
    fn covers(&self, pod: &Pod, labels: &api::StringMap) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
            && !self.disrupted.iter().any(|name| **name == *pod.name)
    }
}

impl Budgets {
    pub(super) const KIND: StaticKind = StaticKind::new("policy/v1", "PodDisruptionBudget");

    pub(super) fn new() -> Self {
        Self(Self::KIND.view())
    }

    pub(super) fn refresh(&mut self, objects: &ObjectTable) {
        self.0.refresh(objects);
    }

    /// Whether the eviction of each of `pods`, evicted in this order, violates a budget.
    ///
    /// An eviction uses up one allowed disruption of each budget that covers the pod, even if it violates one of these
    /// budgets.
    pub(super) fn violated<'a>(&self, table: &ClusterTable, pods: impl Iterator<Item = &'a Pod>) -> Vec<bool> {
        let mut left: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        let mut violated = Vec::new();
        for pod in pods {
            let namespace = table.symbols.text(pod.namespace);
            let mut budgets = self.0.in_namespace(namespace).peekable();
            let mut is_violated = false;
            if budgets.peek().is_some() && !pod.labels.is_empty() {
                let labels = label_texts(table, pod);
                for (name, budget) in budgets.filter(|(_, budget)| budget.covers(pod, &labels)) {
                    let left = left.entry((namespace, name)).or_insert(budget.disruptions_allowed);
                    *left = left.saturating_sub(1);
                    is_violated |= *left < 0;
                }
            }
            violated.push(is_violated);
        }
        violated
    }
}

fn label_texts(table: &ClusterTable, pod: &Pod) -> api::StringMap {
    let text = |sym| table.symbols.text(sym).to_owned();
    pod.labels.iter().map(|&(key, value)| (text(key), text(value))).collect()
}
