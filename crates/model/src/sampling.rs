//! The number of feasible nodes at which the search for nodes stops.
//!
//! The rule is in Kubernetes' documentation on `percentageOfNodesToScore` (scheduler performance tuning).

/// The smallest number of fitting nodes at which a search may stop early. A cluster with fewer nodes is always searched
/// completely.
pub const MIN_FEASIBLE_NODES: usize = 100;
/// The smallest percentage of a large cluster that is searched by default.
const MIN_PERCENTAGE: usize = 5;

/// The number of fitting nodes that is enough among `n_nodes` candidates.
///
/// `profile_percentage` takes precedence over `global`. A percentage of zero stands for a percentage that shrinks with
/// the cluster: 50 minus one for each 125 nodes, at least 5.
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
