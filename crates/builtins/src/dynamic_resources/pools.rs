//! The pools with devices for a node, in the order in which the allocator tries them.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{Feature, Features};

use super::{
    device_id::PoolId,
    slices::{NodeView, PlacementError, Slice, SliceDevice, SliceTable},
};

/// The devices of a pool's newest generation that one node can use.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    pub(super) id: &'a PoolId,
    pub(super) state: PoolState,
    /// Devices in the order of slices, and within a slice in the slice's order.
    pub(super) devices: Vec<&'a Arc<SliceDevice>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolState {
    Usable,
    /// Slices are missing, because the driver has not published all of them yet.
    Incomplete,
    /// The slices of the pool contradict each other.
    Invalid,
}

/// The pools of one node.
///
/// # Errors
/// A node selector of a slice cannot be evaluated.
pub(super) fn gather<'a>(
    slices: &'a SliceTable,
    features: Features,
    node: NodeView<'_>,
) -> Result<Vec<Pool<'a>>, PlacementError> {
    let mut by_pool: BTreeMap<&PoolId, Vec<&Slice>> = BTreeMap::new();
    let has_partitions = features.has(Feature::DRAPartitionableDevices);
    for slice in slices.usable_on(node)?.into_iter().filter(|slice| has_partitions || !slice.selects_by_device()) {
        by_pool.entry(&slice.pool).or_default().push(slice);
    }
    let mut pools: Vec<Pool<'a>> = Vec::with_capacity(by_pool.len());
    for (id, mut usable) in by_pool {
        let newest = usable.iter().map(|slice| slice.generation).max().unwrap_or_default();
        usable.retain(|slice| slice.generation == newest);
        let Some(state) = state_of(slices, id, &usable, newest) else { continue };
        let devices = usable.iter().flat_map(|slice| &slice.devices).filter(|device| device.is_usable_on(node));
        pools.push(Pool { id, state, devices: devices.collect() });
    }
    // The sort is stable, so drivers and pools keep their order on both sides.
    pools.sort_by_key(|pool| pool.devices.iter().any(|device| !device.device.binding_conditions.is_empty()));
    Ok(pools)
}

/// `None` if the driver is about to replace this generation: a newer one exists, but not yet for this node.
fn state_of(slices: &SliceTable, id: &PoolId, usable: &[&Slice], generation: i64) -> Option<PoolState> {
    let facts = slices.facts(id)?;
    let n_expected = usable.first().map_or(0, |slice| slice.n_slices_of_pool);
    let n_usable = i64::try_from(usable.len()).unwrap_or(i64::MAX);
    if n_usable != n_expected {
        if facts.generation > generation {
            return None;
        }
        if facts.n_slices != n_expected {
            return Some(PoolState::Incomplete);
        }
    }
    let is_invalid = facts.generation == generation && facts.is_invalid;
    Some(if is_invalid { PoolState::Invalid } else { PoolState::Usable })
}
