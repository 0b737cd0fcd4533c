//! The settings of an operator, except the settings of plugins.

use serde::{Deserialize, Serialize};

/// The settings of an operator, except the settings of plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The percentage of nodes to score; 0 adapts to the size of the cluster.
    pub percentage_of_nodes_to_score: i32,
    /// The backoff, and the time that a pod stays in the unschedulable pool.
    pub queue: berth_queue::Settings,
    /// Whether answers of plugins are kept for pods of one equivalence class ([`berth_framework::EquivalenceCache`]).
    /// The setting affects only the speed, and not the choice of nodes.
    pub equivalence_cache: bool,
    /// The feature gate NominatedNodeNameForExpectation: a pod that waits before it is bound shows the node that was
    /// chosen for it.
    pub publishes_expected_node: bool,
    /// The feature gate SchedulerAsyncPreemption: other pods are tried while the victims of a preemption are evicted.
    pub evicts_asynchronously: bool,
    /// Whether decisions are recorded for explanations ([`crate::Scheduler::drain_decisions`]).
    pub records_decisions: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            percentage_of_nodes_to_score: 0,
            queue: berth_queue::Settings::default(),
            equivalence_cache: true,
            publishes_expected_node: true,
            evicts_asynchronously: true,
            records_decisions: false,
        }
    }
}
