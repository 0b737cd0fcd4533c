//! Disruption budgets: the victims whose eviction would violate a budget.
//!
//! kube-scheduler: `filterPodsWithPDBViolation` in
//! `pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`.

use std::collections::BTreeMap;

use berth_model::{ClusterTable, DisruptionBudgets, Pod};

use crate::built_in::StaticKind;

/// The kind of the budgets.
pub(super) const KIND: StaticKind = StaticKind::new(DisruptionBudgets::API_VERSION, DisruptionBudgets::KIND);

/// Whether the eviction of each of `pods` violates a budget. The pods are evicted in this order.
///
/// An eviction uses up one allowed disruption of each budget that covers the pod. This is so even if the eviction
/// violates one of these budgets.
pub(super) fn violated<'a>(
    budgets: &DisruptionBudgets,
    table: &ClusterTable,
    pods: impl Iterator<Item = &'a Pod>,
) -> Vec<bool> {
    let mut left: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    let mut violated = Vec::new();
    for pod in pods {
        let namespace = table.symbols.text(pod.namespace);
        let mut is_violated = false;
        for (name, budget) in budgets.protecting(table, pod) {
            let left = left.entry((namespace, name)).or_insert(budget.disruptions_allowed());
            *left = left.saturating_sub(1);
            is_violated |= *left < 0;
        }
        violated.push(is_violated);
    }
    violated
}
