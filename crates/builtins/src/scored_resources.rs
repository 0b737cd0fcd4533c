//! The resources by which NodeResourcesFit and NodeResourcesBalancedAllocation score: `resources` in their args, and the
//! columns of the node table.

use berth_model::{ClusterTable, NodeIdx, Sym, cluster_table::at, pod::Resources};
use serde::Deserialize;
use smallvec::SmallVec;
use thiserror::Error;

use crate::row_blocks::{Amounts, Block, is_small};

/// An entry of `resources` in the args of a plugin that scores by resources.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceArgs {
    name: String,
    /// 0 means 1.
    #[serde(default)]
    weight: i64,
}

/// A resource to score by.
#[derive(Clone, Debug)]
pub(crate) struct ScoredResource {
    name: String,
    weight: i64,
    /// Neither cpu, memory, ephemeral-storage nor pods. It is scored only for pods that request it.
    is_scalar: bool,
}

/// The weight of a resource is out of range.
#[derive(Debug, Error)]
#[error("resources: the weight of {name} must lie between 1 and {max_weight}, not {weight}")]
pub(crate) struct WeightError {
    name: String,
    weight: i64,
    max_weight: i64,
}

/// One scored resource on all nodes, and what one pod requests of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceView<'a> {
    pub(crate) weight: i64,
    pub(crate) request: i64,
    amounts: Amounts<'a>,
}

impl ResourceView<'_> {
    /// Lets `run` see a block of rows with some members: allocatable amounts, and sums of requests. `None` if they or the
    /// pod's request are too large for it, or a member has none of the resource.
    #[inline]
    pub(crate) fn in_block<T>(
        &self,
        block: (NodeIdx, u64),
        run: impl FnOnce(&Block<i64>, &Block<i64>) -> T,
    ) -> Option<T> {
        if is_small(self.request) { self.amounts.in_positive_block(block, run) } else { None }
    }

    /// The node's allocatable amount, and the sum of requests of the pods on it; `None` if the node has none of the
    /// resource.
    pub(crate) fn amounts(&self, node: NodeIdx) -> Option<(i64, i64)> {
        let allocatable = at(self.amounts.allocatable, node);
        (allocatable != 0).then(|| (allocatable, at(self.amounts.used, node)))
    }
}

/// Fills in defaults and checks that every weight lies in `1..=max_weight`.
pub(crate) fn scored_resources(
    args: Option<Vec<ResourceArgs>>,
    max_weight: i64,
) -> Result<Vec<ScoredResource>, WeightError> {
    let defaults = || ["cpu", "memory"].map(|name| ResourceArgs { name: name.to_owned(), weight: 1 }).to_vec();
    let args = args.filter(|args| !args.is_empty()).unwrap_or_else(defaults);
    let mut resources = Vec::with_capacity(args.len());
    for ResourceArgs { name, weight } in args {
        let weight = if weight == 0 { 1 } else { weight };
        if !(1..=max_weight).contains(&weight) {
            return Err(WeightError { name, weight, max_weight });
        }
        let is_scalar = !matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage" | "pods");
        resources.push(ScoredResource { name, weight, is_scalar });
    }
    Ok(resources)
}

impl ScoredResource {
    /// What a pod requests of this resource.
    pub(crate) fn request(&self, requests: &Resources, table: &ClusterTable) -> i64 {
        table.symbols.lookup(&self.name).map_or(0, |name| requests.get(name))
    }
}

/// The resources that are scored for a pod with `requests`. `used` returns the column with the sums of requests.
pub(crate) fn views<'a>(
    resources: &[ScoredResource],
    requests: &Resources,
    table: &'a ClusterTable,
    used: impl Fn(Sym) -> &'a [i64],
) -> SmallVec<[ResourceView<'a>; 4]> {
    let view = |resource: &ScoredResource| {
        let name = table.symbols.lookup(&resource.name).filter(|&name| name != Sym::PODS)?;
        let request = requests.get(name);
        let is_scored = request != 0 || !resource.is_scalar;
        let amounts = || Amounts { allocatable: table.allocatable().column(name), used: used(name) };
        is_scored.then(|| ResourceView { weight: resource.weight, request, amounts: amounts() })
    };
    resources.iter().filter_map(view).collect()
}

/// Whether `name` is an extended resource, as opposed to a native one such as hugepages or attachable volumes.
pub(crate) fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}
