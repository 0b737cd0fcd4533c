//! The counters that partitions of devices consume, during a search on one node (KEP-4815).

use rustc_hash::FxHashMap;

use super::Inventory;
use crate::dynamic_resources::{
    device_id::PoolId,
    slices::{Counters, SliceDevice},
};

/// What is left of the counters of pools.
///
/// In Kubernetes 1.36 the search takes the counters of a device before it looks at taints and constraints, and does not
/// always give them back. So what is taken is not the same as what the chosen devices consume.
#[derive(Debug, Default)]
pub(super) struct CounterLedger<'p> {
    /// What is left of each pool's counters after the devices that claims hold and the search so far. Devices that are
    /// held can exceed the counters, so amounts can be below zero.
    left: FxHashMap<&'p PoolId, Counters>,
}

impl<'p> CounterLedger<'p> {
    /// Takes what `device` consumes. `false`, and nothing is taken, if some counter of the pool, not only one that the device
    /// consumes, would then be below zero.
    pub(super) fn take(&mut self, inventory: &Inventory<'_>, device: &'p SliceDevice) -> bool {
        let pool = &device.id.pool;
        let left = self.left.entry(pool).or_insert_with(|| left_in(inventory, pool));
        add(left, device, -1);
        if left.values().flat_map(|set| set.values()).all(|amount| amount.signum() >= 0) {
            return true;
        }
        add(left, device, 1);
        false
    }

    /// Gives back what `device` consumes.
    pub(super) fn give_back(&mut self, device: &'p SliceDevice) {
        if let Some(left) = self.left.get_mut(&device.id.pool) {
            add(left, device, 1);
        }
    }
}

/// What the devices of a pool leave of its counters that claims hold.
fn left_in(inventory: &Inventory<'_>, pool: &PoolId) -> Counters {
    let mut left = inventory.slices.facts(pool).map(|facts| facts.counters.clone()).unwrap_or_default();
    for holder in inventory.slices.devices_of(pool).filter(|device| inventory.in_use.is_held(device.number)) {
        add(&mut left, holder, -1);
    }
    left
}

/// `sign` is 1 or -1. A counter that the pool does not have does not count.
fn add(left: &mut Counters, device: &SliceDevice, sign: i32) {
    for (set, counter, amount) in device.consumes_counters() {
        let Some(left) = left.get_mut(set).and_then(|counters| counters.get_mut(counter)) else { continue };
        *left = if sign > 0 { &*left + amount } else { &*left - amount };
    }
}
