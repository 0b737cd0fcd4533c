//! The counters that partitions of devices consume, during a search on one node (KEP-4815).

use berth_model::Feature;
use rustc_hash::FxHashMap;

use super::Inventory;
use crate::dynamic_resources::{
    device_id::PoolId,
    slices::{Counters, SliceDevice},
};

/// The remaining counters of pools.
///
/// The search of Kubernetes 1.36 takes the counters of a device before it checks taints and constraints, and does not
/// always give them back. The taken counters can therefore differ from the counters that the chosen devices consume.
#[derive(Debug, Default)]
pub(super) struct CounterLedger<'p> {
    /// The remaining counters of each pool, without the counters of devices that claims hold or that the search has
    /// chosen. Devices of claims can exceed the counters, so amounts can be below zero.
    left: FxHashMap<LedgerKey<'p>, Counters>,
}

/// The name of a pool, and its driver with [`Feature::CountersAreOfOneDriver`].
type LedgerKey<'p> = (Option<&'p str>, &'p str);

impl<'p> CounterLedger<'p> {
    /// Takes the counters that `device` consumes. Returns `false` if any counter of the pool would then be below zero,
    /// even a counter that the device does not consume. No counter is taken in this case.
    pub(super) fn take(&mut self, inventory: &Inventory<'_>, device: &'p SliceDevice) -> bool {
        let pool = &device.id.pool;
        let left = self.left.entry(key_of(inventory, pool)).or_insert_with(|| left_in(inventory, pool));
        add(left, device, -1);
        if left.values().flat_map(|set| set.values()).all(|amount| amount.signum() >= 0) {
            return true;
        }
        add(left, device, 1);
        false
    }

    /// Gives back the counters that `device` consumes.
    pub(super) fn give_back(&mut self, inventory: &Inventory<'_>, device: &'p SliceDevice) {
        if let Some(left) = self.left.get_mut(&key_of(inventory, &device.id.pool)) {
            add(left, device, 1);
        }
    }
}

fn key_of<'p>(inventory: &Inventory<'_>, pool: &'p PoolId) -> LedgerKey<'p> {
    let names_driver = inventory.features.has(Feature::CountersAreOfOneDriver);
    (names_driver.then_some(&*pool.driver), &*pool.pool)
}

/// The counters of a pool, less the amounts that the devices of claims consume.
fn left_in(inventory: &Inventory<'_>, pool: &PoolId) -> Counters {
    let mut left = inventory.slices.facts(pool).map(|facts| facts.counters.clone()).unwrap_or_default();
    for holder in inventory.slices.devices_of(pool).filter(|device| inventory.in_use.is_held(device.number)) {
        add(&mut left, holder, -1);
    }
    left
}

/// Adds the device's counters with `sign`, which is 1 or -1. A counter that is not in `left` is ignored.
fn add(left: &mut Counters, device: &SliceDevice, sign: i32) {
    for (set, counter, amount) in device.consumes_counters() {
        let Some(left) = left.get_mut(set).and_then(|counters| counters.get_mut(counter)) else { continue };
        *left = if sign > 0 { &*left + amount } else { &*left - amount };
    }
}
