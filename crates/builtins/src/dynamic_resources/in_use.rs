//! The devices that allocated claims hold.

use std::collections::BTreeMap;

use berth_model::quantity::Quantity;
use rustc_hash::FxHashMap;

use super::{
    objects::{Allocation, DeviceResult},
    slices::DeviceId,
};

/// Counts holders, since nothing but the API server's word keeps two claims from naming the same device. Access for
/// administration holds nothing.
#[derive(Debug, Default)]
pub(super) struct InUse {
    dedicated: FxHashMap<DeviceId, u32>,
    shared: FxHashMap<DeviceId, Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    n_shares: u32,
    consumed: BTreeMap<String, Quantity>,
}

impl InUse {
    pub(super) fn add(&mut self, allocation: &Allocation) {
        for result in held(allocation) {
            let id = id_of(result);
            if result.share_id.is_none() {
                *self.dedicated.entry(id).or_default() += 1;
                continue;
            }
            let shared = self.shared.entry(id).or_default();
            shared.n_shares += 1;
            for (name, amount) in &result.consumed_capacity {
                let consumed = shared.consumed.entry(name.clone()).or_default();
                *consumed = &*consumed + amount;
            }
        }
    }

    /// Undoes one [`InUse::add`] of the same allocation.
    pub(super) fn remove(&mut self, allocation: &Allocation) {
        for result in held(allocation) {
            let id = id_of(result);
            if result.share_id.is_none() {
                if let Some(n_holders) = self.dedicated.get_mut(&id) {
                    *n_holders = n_holders.saturating_sub(1);
                    if *n_holders == 0 {
                        self.dedicated.remove(&id);
                    }
                }
                continue;
            }
            let Some(shared) = self.shared.get_mut(&id) else { continue };
            shared.n_shares = shared.n_shares.saturating_sub(1);
            if shared.n_shares == 0 {
                self.shared.remove(&id);
                continue;
            }
            for (name, amount) in &result.consumed_capacity {
                if let Some(consumed) = shared.consumed.get_mut(name) {
                    *consumed = &*consumed - amount;
                }
            }
        }
    }

    pub(super) fn is_dedicated(&self, device: &DeviceId) -> bool {
        self.dedicated.contains_key(device)
    }

    /// By one claim or several.
    pub(super) fn is_held(&self, device: &DeviceId) -> bool {
        self.is_dedicated(device) || self.shared.contains_key(device)
    }

    pub(super) fn consumed(&self, device: &DeviceId, capacity: &str) -> Option<&Quantity> {
        self.shared.get(device)?.consumed.get(capacity)
    }
}

fn held(allocation: &Allocation) -> impl Iterator<Item = &DeviceResult> {
    allocation.devices.results.iter().filter(|result| result.admin_access != Some(true))
}

fn id_of(result: &DeviceResult) -> DeviceId {
    DeviceId::new(&result.driver, &result.pool, &result.device)
}
