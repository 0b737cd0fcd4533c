//! The pools with devices for a node, in the order in which the allocator tries them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::{Feature, Features};

use super::{
    device_id::PoolId,
    slices::{NodeView, PlacementError, Slice, SliceDevice, SliceTable},
    stable_allocator,
};

/// The slices of a pool's newest generation that are for one node.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    pub(super) id: &'a PoolId,
    pub(super) state: PoolState,
    /// Devices in the order of slices, and within a slice in the slice's order. If a slice has a separate node selection
    /// for each device, some of its devices may be for other nodes.
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
    let is_partitioned = |slice: &Slice| slice.selects_by_device() || slice.has_counters();
    for slice in slices.usable_on(node)?.into_iter().filter(|slice| has_partitions || !is_partitioned(slice)) {
        by_pool.entry(&slice.pool).or_default().push(slice);
    }
    if has_partitions && !features.has(Feature::CounterSlicesAreForTheirNodes) {
        add_counter_slices(slices, &mut by_pool);
    }
    let mut pools: Vec<Pool<'a>> = Vec::with_capacity(by_pool.len());
    for (id, mut usable) in by_pool {
        let newest = usable.iter().map(|slice| slice.generation).max().unwrap_or_default();
        usable.retain(|slice| slice.generation == newest);
        let Some(state) = state_of(slices, features, id, &usable, newest) else { continue };
        let devices = usable.iter().flat_map(|slice| &slice.devices);
        pools.push(Pool { id, state, devices: devices.collect() });
    }
    if !stable_allocator::is_in_use(features) {
        // The sort is stable, so drivers and pools keep their order on both sides.
        pools.sort_by_key(Pool::needs_binding);
    }
    Ok(pools)
}

impl Pool<'_> {
    /// Whether the search may choose from the pool, and some of its devices have binding conditions.
    fn needs_binding(&self) -> bool {
        self.state == PoolState::Usable && self.devices.iter().any(|it| !it.device.binding_conditions.is_empty())
    }
}

/// Adds slices with counters that are for other nodes, as Kubernetes 1.36 does. If no other slice of their pool is for
/// this node, they matter only while the pool is incomplete or invalid.
fn add_counter_slices<'a>(slices: &'a SliceTable, by_pool: &mut BTreeMap<&'a PoolId, Vec<&'a Slice>>) {
    for pool in slices.doubtful_pools() {
        by_pool.entry(pool).or_default();
    }
    for (pool, usable) in by_pool {
        for slice in slices.counter_slices_of(pool) {
            if !usable.iter().any(|known| known.name == slice.name) {
                usable.push(slice);
            }
        }
        usable.sort_unstable_by_key(|slice| slice.name.as_str());
    }
}

/// `None` if the driver is about to replace this generation: a newer one exists, but not yet for this node.
fn state_of(
    slices: &SliceTable,
    features: Features,
    id: &PoolId,
    usable: &[&Slice],
    generation: i64,
) -> Option<PoolState> {
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
    let is_newest = facts.generation == generation;
    let has_wrong_counters = features.has(Feature::DRAPartitionableDevices) && is_newest && facts.has_wrong_counters;
    let may_have_equal_names = !is_newest || facts.has_equal_names;
    let is_invalid = has_wrong_counters || may_have_equal_names && have_equal_names(usable);
    Some(if is_invalid { PoolState::Invalid } else { PoolState::Usable })
}

/// Whether two devices in slices for one node have one name. Devices for other nodes may have the same names.
fn have_equal_names(slices: &[&Slice]) -> bool {
    let mut names = BTreeSet::new();
    !slices.iter().flat_map(|slice| &slice.devices).all(|device| names.insert(&device.id.device))
}
