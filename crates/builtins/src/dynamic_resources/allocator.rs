//! Allocation by structured parameters (KEP-4381): which devices could a set of claims get on a node?
//!
//! Depth first, and the first solution wins: claims in the pod's order, requests in the claim's, sub-requests in order of
//! preference, devices in the order of [`super::layouts`]. Within a request devices are taken in that order only, never
//! permuted. The order is part of the contract: it decides which allocation gets recorded.
//!
//! [`plan`] turns claims into what the search needs, once for all nodes, [`search`] searches, [`eligibility`] says which devices a request may
//! have, [`result`] writes the status of a claim. There is no clock here: a search that would take too long is cut
//! off after a number of steps.

mod eligibility;
#[cfg(test)]
mod history;
mod plan;
#[cfg(test)]
mod properties;
mod result;
mod search;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::search::Search;
pub(super) use self::{plan::Plan, search::Picked};
use super::{
    cel::Selectors,
    in_use::InUse,
    layouts::{LaidOut, Layout},
    objects::Allocation,
    pools::PoolState,
    slices::SliceTable,
};

/// Devices that one claim can hold.
const MAX_DEVICES_OF_CLAIM: usize = 32;

/// What allocations on all nodes have in common.
#[derive(Debug)]
pub(super) struct Inventory<'a> {
    pub(super) slices: &'a SliceTable,
    pub(super) in_use: &'a InUse,
}

/// What a node can offer to a list of claims.
#[derive(Debug)]
pub(super) enum Offer {
    Devices(Devices),
    /// The node can't serve all claims.
    Nothing,
    /// The same, but the slices of some pool contradict each other, so it was left out.
    NothingWithoutInvalid(String),
}

/// Devices for all claims.
#[derive(Debug)]
pub(super) struct Devices {
    picked: Vec<Picked>,
    of_node: Arc<[LaidOut]>,
    /// For each request with alternatives, which one was taken: 0 is the preferred one.
    pub(super) choices: Vec<usize>,
}

impl Devices {
    /// An allocation for each claim of the plan, in order.
    pub(super) fn allocations(&self, plan: &Plan, node_name: &str) -> Vec<Allocation> {
        result::write(plan, &self.picked, &self.of_node, node_name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AllocationError {
    /// The search was cut off.
    #[error("timed out trying to allocate devices")]
    TimedOut,
    #[error("{0}")]
    Failed(String),
}

/// Searches devices for the claims of `plan` on the node of `layout`. `max_steps` bounds the search; a step is a look at
/// a device.
///
/// # Errors
/// Something that no other node would change: a selector that can't be evaluated, a claim that asks for too much; or a
/// pool that a request for all devices can't do without is not complete.
pub(super) fn allocate(
    inventory: &Inventory<'_>,
    selectors: &mut Selectors,
    plan: &Plan,
    layout: &mut Layout,
    max_steps: u64,
) -> Result<Offer, AllocationError> {
    let mut scratch = Vec::new();
    let Some(amounts) = plan.amounts(selectors, layout, &mut scratch)? else { return Ok(Offer::Nothing) };
    let Layout { devices, unusable, answers } = layout;
    let mut search = Search::new(inventory, selectors, (plan, amounts), (devices, answers), max_steps);
    if search.run()? {
        let chosen = search.into_chosen();
        let choices = result::choices(plan, &chosen);
        let picked = chosen.into_iter().map(Picked::from).collect();
        return Ok(Offer::Devices(Devices { picked, of_node: Arc::clone(devices), choices }));
    }
    let invalid = unusable.iter().find(|(_, state)| *state == PoolState::Invalid);
    Ok(invalid.map_or(Offer::Nothing, |(pool, _)| Offer::NothingWithoutInvalid(pool.to_string())))
}
