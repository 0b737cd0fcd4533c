//! What an operator can set, plugins aside.

/// What an operator can set, plugins aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// 0 adapts to the size of the cluster.
    pub percentage_of_nodes_to_score: i32,
    /// Backoff, and how long a pod stays in the unschedulable pool.
    pub queue: berth_queue::Settings,
}
