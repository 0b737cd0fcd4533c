//! Allocation by structured parameters (KEP-4381): the devices that a set of claims could get on a node.
//!
//! The search is depth first, and the first solution wins: claims in the order of the pod, requests in the order of the
//! claim, sub-requests in order of preference, devices in the order of [`super::node_devices`]. Devices for one request
//! are taken only in that order, never permuted. The order matters because it decides which allocation is recorded.
//!
//! [`plan`] prepares the claims once for all nodes, and [`search`] searches. [`eligibility`], [`counters`] and
//! [`constraints`] decide which devices a request may have, and [`result`] makes the status of the claims. A search
//! that would take too long is cut off after a number of steps, and when the time of the search for a node is over.

mod alternative;
mod chosen;
mod constraints;
mod counters;
mod eligibility;
#[cfg(test)]
mod history;
mod limit;
mod plan;
#[cfg(test)]
mod properties;
mod result;
mod search;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use berth_model::Features;

use self::{
    chosen::PickedDevice,
    search::{Demand, Search, Supply},
};
pub(super) use self::{limit::SearchLimit, plan::Plan};
use super::{
    cel::{SelectorError, Selectors},
    in_use::InUse,
    node_devices::{NodeDevice, NodeDevices},
    objects::Allocation,
    pools::PoolState,
    slices::SliceTable,
};

/// The number of devices that one claim can hold.
const MAX_DEVICES_OF_CLAIM: usize = 32;

/// The devices of the cluster, and the claims that hold them.
#[derive(Debug)]
pub(super) struct Inventory<'a> {
    pub(super) slices: &'a SliceTable,
    pub(super) in_use: &'a InUse,
    pub(super) features: Features,
}

/// Whether a node has devices for a list of claims.
#[derive(Debug)]
pub(super) enum AllocationOutcome {
    Devices(Devices),
    /// The node cannot serve all claims.
    Nothing,
    /// The node cannot serve all claims, and pools were left out because their slices contradict each other.
    NothingWithInvalidPool,
}

/// The devices that a node has for all claims.
#[derive(Debug)]
pub(super) struct Devices {
    picked: Vec<PickedDevice>,
    of_node: Arc<[NodeDevice]>,
    /// The alternative of each request with alternatives: 0 is the preferred alternative.
    pub(super) choices: Vec<usize>,
}

impl Devices {
    /// An allocation for each claim of the plan, in order.
    pub(super) fn allocations(&self, features: Features, plan: &Plan, node_name: &str) -> Vec<Allocation> {
        result::write(features, plan, &self.picked, &self.of_node, node_name)
    }
}

/// The reason why the search for devices failed. A search that finds no devices has no error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AllocationError {
    /// The search was cut off.
    #[error("timed out trying to allocate devices")]
    TimedOut,
    /// The search was cut off while it was at this selector.
    #[error("timed out trying to allocate devices: {origin}: selector #{position} was evaluated last")]
    SelectorTimedOut { origin: String, position: usize },
    #[error(
        "claim {claim}, request {request}: could not retrieve device class {class}: \
         deviceclass.resource.k8s.io {class:?} not found"
    )]
    ClassNotFound { claim: String, request: String, class: String },
    #[error(
        "claim {claim}, {kind} {request}: has capacity requests, but the DRAConsumableCapacity feature is disabled"
    )]
    CapacityDisabled { claim: String, kind: &'static str, request: String },
    #[error("claim {claim}, request {request}: asks for all devices, but resource pool {pool} is currently {state}")]
    PoolNotUsable { claim: String, request: String, pool: String, state: &'static str },
    #[error("claim {claim}: number of requested devices {n_devices} exceeds the claim limit of {MAX_DEVICES_OF_CLAIM}")]
    TooManyDevices { claim: String, n_devices: usize },
    #[error("claim {claim}, constraint #{position}: empty constraint (unsupported constraint type?)")]
    UnsupportedConstraint { claim: String, position: usize },
    #[error(
        "claim {claim}, request {request}: cannot add device {device} because a claim constraint would not be satisfied"
    )]
    ConstraintForbidsDevice { claim: String, request: String, device: String },
    #[error("{origin}: selector #{position}: unsupported selector type")]
    UnsupportedSelector { origin: String, position: usize },
    #[error("{origin}: selector #{position}{on_device}: {source}")]
    Selector {
        origin: String,
        position: usize,
        /// ` on device DRIVER/POOL/DEVICE`, or nothing.
        on_device: String,
        source: SelectorError,
    },
}

impl AllocationError {
    /// Whether the search was cut off.
    pub(super) fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut | Self::SelectorTimedOut { .. })
    }
}

/// Searches `node_devices` for devices for the claims of `plan`.
///
/// # Errors
/// See [`AllocationError`].
pub(super) fn allocate(
    inventory: &Inventory<'_>,
    selectors: &mut Selectors,
    plan: &Plan,
    node_devices: &mut NodeDevices,
    limit: SearchLimit<'_>,
) -> Result<AllocationOutcome, AllocationError> {
    let mut scratch = Vec::new();
    let amounts = plan.amounts(inventory, selectors, limit, node_devices, &mut scratch)?;
    let NodeDevices { devices, unusable, selection_results } = node_devices;
    let (demand, supply) = (Demand { plan, amounts }, Supply { devices, selection_results });
    let mut search = Search::new(inventory, selectors, demand, supply, limit);
    if search.run()? {
        let chosen = search.into_chosen();
        let choices = result::choices(plan, &chosen);
        let picked = chosen.into_iter().map(PickedDevice::from).collect();
        return Ok(AllocationOutcome::Devices(Devices { picked, of_node: Arc::clone(devices), choices }));
    }
    let has_invalid = unusable.iter().any(|pool| pool.state == PoolState::Invalid);
    Ok(if has_invalid { AllocationOutcome::NothingWithInvalidPool } else { AllocationOutcome::Nothing })
}
