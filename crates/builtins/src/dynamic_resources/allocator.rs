//! Allocation by structured parameters (KEP-4381): which devices could a set of claims get on a node?
//!
//! Depth first, and the first solution wins: claims in the pod's order, requests in the claim's, sub-requests in order of
//! preference, devices in the order of [`super::pools`]. Within a request devices are taken in that order only, never
//! permuted. The order is part of the contract: it decides which allocation gets recorded.
//!
//! [`plan`] turns claims into what the search needs, [`search`] searches, [`eligibility`] says which devices a request may
//! have, [`result`] writes the status of a claim. There is no clock here: a search that would take too long is cut
//! off after a number of steps.

mod eligibility;
mod plan;
#[cfg(test)]
mod properties;
mod result;
mod search;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use self::{plan::Plan, search::Search};
use super::{
    cel::Selectors,
    in_use::InUse,
    objects::{Allocation, DeviceClass, ResourceClaim},
    pools::{self, PoolState},
    slices::{NodeView, SliceTable},
};

/// Devices that one claim can hold.
const MAX_DEVICES_OF_CLAIM: usize = 32;

/// What allocations on all nodes have in common.
#[derive(Debug)]
pub(super) struct Inventory<'a> {
    pub(super) slices: &'a SliceTable,
    pub(super) classes: &'a BTreeMap<String, Arc<DeviceClass>>,
    pub(super) in_use: &'a InUse,
}

/// What a node can offer to a list of claims.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Offer {
    /// An allocation for each claim, in order.
    Allocated(Vec<Allocated>),
    /// The node can't serve all claims.
    Nothing,
    /// The same, but the slices of some pool contradict each other, so it was left out.
    NothingWithoutInvalid(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Allocated {
    pub(super) allocation: Allocation,
    /// For each request with alternatives, which one was taken: 0 is the preferred one.
    pub(super) choices: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AllocationError {
    /// The search was cut off.
    #[error("timed out trying to allocate devices")]
    TimedOut,
    #[error("{0}")]
    Failed(String),
}

/// Searches devices for `claims` on `node`. `max_steps` bounds the search; a step is a look at a device.
///
/// # Errors
/// Something that no other node would change: a selector that can't be evaluated, a claim that asks for too much; or a
/// pool that a request for all devices can't do without is not complete.
pub(super) fn allocate(
    inventory: &Inventory<'_>,
    selectors: &mut Selectors,
    claims: &[&ResourceClaim],
    node: NodeView<'_>,
    max_steps: u64,
) -> Result<Offer, AllocationError> {
    let pools = pools::gather(inventory.slices, node).map_err(AllocationError::Failed)?;
    let Some(plan) = Plan::new(inventory, selectors, claims, &pools)? else { return Ok(Offer::Nothing) };
    let mut search = Search::new(inventory, selectors, &plan, max_steps);
    if search.run()? {
        return Ok(Offer::Allocated(result::write(&plan, search.chosen(), node)));
    }
    let mut invalid = pools.iter().filter(|pool| pool.state == PoolState::Invalid);
    Ok(invalid.next().map_or(Offer::Nothing, |pool| Offer::NothingWithoutInvalid(pool.id.to_string())))
}
