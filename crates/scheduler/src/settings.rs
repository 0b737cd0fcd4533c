//! What an operator can set, plugins aside.

use serde::{Deserialize, Serialize};

/// What an operator can set, plugins aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// 0 adapts to the size of the cluster.
    pub percentage_of_nodes_to_score: i32,
    /// Backoff, and how long a pod stays in the unschedulable pool.
    pub queue: berth_queue::Settings,
    /// Whether answers of plugins are kept for pods of one equivalence class ([`berth_framework::EquivalenceCache`]). Nodes are chosen alike
    /// either way; without it, more slowly.
    pub equivalence_cache: bool,
    /// The gate NominatedNodeNameForExpectation: a pod that is to wait before it is bound shows the node that it is going to.
    pub publishes_expected_node: bool,
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
            records_decisions: false,
        }
    }
}
