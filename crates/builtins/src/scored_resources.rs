//! The resources by which NodeResourcesFit and NodeResourcesBalancedAllocation score, from `resources` in their args
//! and from the columns of the node table.

use berth_framework::Call;
use berth_model::{ClusterTable, NodeIdx, NodeSet, Sym, cluster_table::at, node_set::RowBlock, pod::Resources};
use serde::Deserialize;
use smallvec::SmallVec;
use thiserror::Error;

use crate::{
    dynamic_resources::{ClassDevices, DEVICE_CLASS_PREFIX, DeviceColumns},
    row_blocks::{Amounts, Block, is_small},
};

/// An entry of `resources` in the args of a plugin that scores by resources.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceArgs {
    name: String,
    /// The weight; 0 means 1.
    #[serde(default)]
    weight: i64,
}

/// A resource to score by.
#[derive(Clone, Debug)]
pub(crate) struct ScoredResource {
    name: String,
    weight: i64,
    /// Whether the resource is none of cpu, memory, ephemeral-storage and pods. Such a resource is scored only for pods
    /// that request it.
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

/// One scored resource on all nodes, and one pod's request for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceView<'a> {
    pub(crate) weight: i64,
    pub(crate) request: i64,
    amounts: Amounts<'a>,
}

impl ResourceView<'_> {
    /// Passes a block of rows with some members to `run`: the allocatable amounts, and the sums of requests. Returns
    /// `None` if the amounts, the sums or the pod's request are too large, or if a member has none of the resource.
    #[inline]
    pub(crate) fn in_block<T>(&self, block: RowBlock, run: impl FnOnce(&Block<i64>, &Block<i64>) -> T) -> Option<T> {
        if is_small(self.request) { self.amounts.in_positive_block(block, run) } else { None }
    }

    /// The node's allocatable amount, and the sum of the requests of the pods on the node. `None` if the node has none
    /// of the resource.
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
    /// The pod's request for this resource.
    pub(crate) fn request(&self, requests: &Resources, table: &ClusterTable) -> i64 {
        table.symbols.lookup(&self.name).map_or(0, |name| requests.get(name))
    }
}

/// The resources that are scored for a pod with `requests`. `used` returns the column with the sums of requests.
/// `served` are the resources that devices serve, from [`served_by_devices`].
pub(crate) fn views<'a>(
    resources: &[ScoredResource],
    requests: &Resources,
    table: &'a ClusterTable,
    served: &'a [(Sym, DeviceColumns)],
    used: impl Fn(Sym) -> &'a [i64],
) -> SmallVec<[ResourceView<'a>; 4]> {
    let amounts = |name| match served.iter().find(|(resource, _)| *resource == name) {
        Some((_, DeviceColumns { allocatable, used })) => Amounts { allocatable, used },
        None => Amounts { allocatable: table.allocatable().column(name), used: used(name) },
    };
    let view = |resource: &ScoredResource| {
        let name = table.symbols.lookup(&resource.name).filter(|&name| name != Sym::PODS)?;
        let request = requests.get(name);
        let is_scored = request != 0 || !resource.is_scalar;
        is_scored.then(|| ResourceView { weight: resource.weight, request, amounts: amounts(name) })
    };
    resources.iter().filter_map(view).collect()
}

/// The scored resources that the pod requests and that devices may serve.
fn may_be_served<'a>(
    resources: &'a [ScoredResource],
    requests: &Resources,
    table: &ClusterTable,
) -> impl Iterator<Item = Sym> + use<'a> {
    let names: SmallVec<[Sym; 4]> = resources
        .iter()
        .filter(|resource| resource.is_scalar && is_device_resource(&resource.name))
        .filter_map(|resource| table.symbols.lookup(&resource.name))
        .filter(|name| requests.get(*name) != 0)
        .collect();
    names.into_iter()
}

/// The scored resources that the pod requests and that devices serve, with their amounts on `nodes`.
pub(crate) fn served_by_devices(
    devices: &mut ClassDevices,
    resources: &[ScoredResource],
    requests: &Resources,
    call: &Call<'_>,
    nodes: &NodeSet,
) -> Vec<(Sym, DeviceColumns)> {
    let served = may_be_served(resources, requests, call.table);
    served.filter_map(|name| Some((name, devices.columns(call, name, nodes)?))).collect()
}

/// Whether the score of a node depends on devices.
pub(crate) fn depends_on_devices(
    devices: &mut ClassDevices,
    resources: &[ScoredResource],
    requests: &Resources,
    call: &Call<'_>,
) -> bool {
    may_be_served(resources, requests, call.table).any(|name| devices.serve(call, name))
}

/// Whether a DeviceClass can serve a resource of this name.
fn is_device_resource(name: &str) -> bool {
    is_extended(name) || name.starts_with(DEVICE_CLASS_PREFIX)
}

/// Whether `name` is an extended resource. Other resources are native, such as hugepages or attachable volumes.
pub(crate) fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}
