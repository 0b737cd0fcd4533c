//! The PodDisruptionBudgets of a cluster, and the pods that they protect.
//!
//! kube-scheduler: `filterPodsWithPDBViolation` in
//! `pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

use crate::{ClusterTable, ObjectTable, ObjectView, Pod, api, selector::LabelMatcher};

/// The PodDisruptionBudgets of a cluster, reduced to the fields that preemption reads.
#[derive(Debug)]
pub struct DisruptionBudgets(ObjectView<DisruptionBudget>);

/// One budget.
#[derive(Debug, Deserialize)]
#[serde(from = "BudgetObject")]
pub struct DisruptionBudget {
    /// The pods that the budget protects. `None` if the selector is absent, empty, or does not parse: then the budget
    /// protects no pod.
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
    disrupted_pods: Option<BTreeMap<String, IgnoredAny>>,
}

impl From<BudgetObject> for DisruptionBudget {
    fn from(BudgetObject { spec, status }: BudgetObject) -> Self {
        let selector = LabelMatcher::compile(spec.selector.as_ref()).ok();
        Self {
            selector: selector.filter(|selector| !selector.is_empty()),
            disruptions_allowed: status.disruptions_allowed,
            disrupted: status.disrupted_pods.unwrap_or_default().into_keys().collect(),
        }
    }
}

impl DisruptionBudget {
    /// `status.disruptionsAllowed`: the number of evictions that the budget allows at the moment.
    #[must_use]
    pub fn disruptions_allowed(&self) -> i64 {
        self.disruptions_allowed
    }

    fn covers(&self, pod: &Pod, labels: &api::StringMap) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
            && !self.disrupted.iter().any(|name| **name == *pod.name)
    }
}

impl Default for DisruptionBudgets {
    fn default() -> Self {
        Self(ObjectView::new(Self::API_VERSION, Self::KIND))
    }
}

impl DisruptionBudgets {
    /// The `apiVersion` of the budgets.
    pub const API_VERSION: &str = "policy/v1";
    /// The `kind` of the budgets.
    pub const KIND: &str = "PodDisruptionBudget";

    /// Reads the changes to the objects.
    pub fn refresh(&mut self, objects: &ObjectTable) {
        self.0.refresh(objects);
    }

    /// The budgets that protect the pod, with their names. A budget protects only pods of its own namespace. No budget
    /// protects a pod without labels.
    pub fn protecting<'a>(
        &'a self,
        table: &'a ClusterTable,
        pod: &'a Pod,
    ) -> impl Iterator<Item = (&'a str, &'a DisruptionBudget)> {
        let text = |sym| table.symbols.text(sym);
        let budgets = self.0.in_namespace(text(pod.namespace)).map(|(name, budget)| (name, &**budget));
        let mut budgets = budgets.peekable();
        let may_protect = !pod.labels.is_empty() && budgets.peek().is_some();
        let labels: api::StringMap = if may_protect {
            pod.labels.iter().map(|&(key, value)| (text(key).to_owned(), text(value).to_owned())).collect()
        } else {
            api::StringMap::default()
        };
        budgets.filter(move |(_, budget)| may_protect && budget.covers(pod, &labels))
    }
}
