//! The PodDisruptionBudgets that the evictions of a preemption would violate.
//!
//! kube-scheduler evicts pods against a budget if nothing else makes room
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/#poddisruptionbudget-is-supported-but-not-guaranteed>).

use std::collections::BTreeMap;

use berth_model::{ClusterTable, ObjectView, Pod, api, selector::LabelMatcher};
use serde::{Deserialize, Serialize, de::IgnoredAny};

/// A budget that allows fewer evictions than a preemption needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ViolatedBudget {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The number of evictions that the budget allows at the moment.
    pub allowed: i64,
    /// The number of pods of this budget that would have to leave.
    pub victims: usize,
}

/// The fields of a budget that count here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Budget {
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
    /// The pods that `disruptions_allowed` already counts as evicted, by name.
    disrupted_pods: Option<BTreeMap<String, IgnoredAny>>,
}

/// The budgets that the eviction of all these pods would violate.
pub(crate) fn violated(table: &ClusterTable, victims: &[&Pod]) -> Vec<ViolatedBudget> {
    let mut budgets: ObjectView<Budget> = ObjectView::new("policy/v1", "PodDisruptionBudget");
    budgets.refresh(table.objects());
    let mut violated = Vec::new();
    for (namespace, name, budget) in budgets.iter() {
        let covered = victims.iter().filter(|pod| table.symbols.text(pod.namespace) == namespace);
        let n_covered = covered.filter(|pod| budget.covers(table, pod)).count();
        let allowed = budget.status.disruptions_allowed;
        if n_covered > usize::try_from(allowed).unwrap_or(0) {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            violated.push(ViolatedBudget { namespace, name, allowed, victims: n_covered });
        }
    }
    violated
}

impl Budget {
    /// Whether the eviction of a pod in the budget's namespace counts. A budget with an empty selector protects no pod,
    /// and no budget protects a pod without labels, as in kube-scheduler (`filterPodsWithPDBViolation`).
    fn covers(&self, table: &ClusterTable, pod: &Pod) -> bool {
        if pod.labels.is_empty() {
            return false;
        }
        let text = |sym| table.symbols.text(sym).to_owned();
        let labels: api::StringMap = pod.labels.iter().map(|&(key, value)| (text(key), text(value))).collect();
        let selector = LabelMatcher::compile(self.spec.selector.as_ref());
        let is_selected = selector.is_ok_and(|selector| !selector.is_empty() && selector.matches(&labels));
        is_selected && !self.status.disrupted_pods.iter().flatten().any(|(name, _)| **name == *pod.name)
    }
}
