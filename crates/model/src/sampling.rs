//! How many nodes are looked at before the best of them is taken.
//!
//! Rule: Kubernetes' documentation on `percentageOfNodesToScore` (scheduler performance tuning).

/// Clusters below this are always searched whole, and no search ends before this many nodes were found.
pub const MIN_FEASIBLE_NODES: usize = 100;
/// The least percentage that a large cluster is searched by default.
const MIN_PERCENTAGE: usize = 5;

/// How many nodes that fit are enough among `n_nodes` candidates.
///
/// `profile_percentage` wins over `global`. A percentage of zero means one that shrinks with the cluster: 50 minus one
/// for each 125 nodes, at least 5.
#[must_use]
pub fn num_feasible_nodes_to_find(n_nodes: usize, profile_percentage: Option<i32>, global: i32) -> usize {
    if n_nodes < MIN_FEASIBLE_NODES {
        return n_nodes;
    }
    let percentage = match usize::try_from(profile_percentage.unwrap_or(global)) {
        Ok(percentage @ 1..) => percentage,
        _ => 50usize.saturating_sub(n_nodes / 125).max(MIN_PERCENTAGE),
    };
    (n_nodes.saturating_mul(percentage) / 100).clamp(MIN_FEASIBLE_NODES, n_nodes)
}
