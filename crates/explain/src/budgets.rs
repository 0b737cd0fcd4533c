//! The PodDisruptionBudgets that the evictions of a preemption would violate.
//!
//! kube-scheduler violates a budget if nothing else makes room
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/#poddisruptionbudget-is-supported-but-not-guaranteed>).

use std::collections::BTreeMap;

use berth_model::{ClusterTable, DisruptionBudgets, Pod};
use serde::{Deserialize, Serialize};

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

/// The budgets that the eviction of all these pods would violate.
pub(crate) fn violated(table: &ClusterTable, victims: &[&Pod]) -> Vec<ViolatedBudget> {
    let mut budgets = DisruptionBudgets::default();
    budgets.refresh(table.objects());
    let mut needed: BTreeMap<(&str, &str), ViolatedBudget> = BTreeMap::new();
    for pod in victims {
        let namespace = table.symbols.text(pod.namespace);
        for (name, budget) in budgets.protecting(table, pod) {
            let needed = needed.entry((namespace, name)).or_insert_with(|| ViolatedBudget {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                allowed: budget.disruptions_allowed(),
                victims: 0,
            });
            needed.victims += 1;
        }
    }
    needed.into_values().filter(|budget| budget.victims > usize::try_from(budget.allowed).unwrap_or(0)).collect()
}
