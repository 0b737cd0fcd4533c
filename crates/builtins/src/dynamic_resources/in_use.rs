//! The devices that allocated claims hold.
//!
//! Each device that a slice offers or a claim holds has a number, so that a search need not compare names. A number
//! that is no longer needed is given to another device.

use std::collections::BTreeMap;

use berth_model::quantity::Quantity;
use rustc_hash::FxHashMap;

use super::{
    device_id::DeviceId,
    objects::{Allocation, DeviceResult},
};

/// The number of a [`DeviceId`] while the device is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceNumber(u32);

/// The devices that claims hold. Several claims may hold one device, because the API server allows this. Requests
/// with `adminAccess` hold nothing.
#[derive(Debug, Default)]
pub(super) struct InUse {
    numbers: FxHashMap<DeviceId, DeviceNumber>,
    /// Usages by the numbers of devices.
    usages: Vec<Usage>,
    unused: Vec<DeviceNumber>,
    /// The amounts of a device's capacities that its shares consume.
    consumed: FxHashMap<u32, BTreeMap<String, Quantity>>,
}

/// The users of one device.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// The number of slices that offer the device and of allocation results that name it.
    n_registered: u32,
    n_dedicated: u32,
    n_shares: u32,
}

impl InUse {
    /// Returns the number of the device. A device without a number gets a number. [`InUse::deregister`] undoes this
    /// call.
    pub(super) fn register(&mut self, device: &DeviceId) -> DeviceNumber {
        let number = match self.numbers.get(device) {
            Some(number) => *number,
            None => self.new_number(device),
        };
        if let Some(usage) = self.usage_mut(number) {
            usage.n_registered += 1;
        }
        number
    }

    fn new_number(&mut self, device: &DeviceId) -> DeviceNumber {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.usages.push(Usage::default());
            DeviceNumber(u32::try_from(self.usages.len() - 1).unwrap_or(u32::MAX))
        });
        self.numbers.insert(device.clone(), number);
        number
    }

    pub(super) fn deregister(&mut self, device: &DeviceId) {
        let Some(number) = self.number_of(device) else { return debug_assert!(false, "{device:?} is not registered") };
        let Some(usage) = self.usage_mut(number) else { return debug_assert!(false, "{number:?} is unknown") };
        usage.n_registered = usage.n_registered.saturating_sub(1);
        if usage.n_registered == 0 {
            *usage = Usage::default();
            self.consumed.remove(&number.0);
            self.numbers.remove(device);
            self.unused.push(number);
        }
    }

    pub(super) fn number_of(&self, device: &DeviceId) -> Option<DeviceNumber> {
        self.numbers.get(device).copied()
    }

    pub(super) fn add(&mut self, allocation: &Allocation) {
        for result in held(allocation) {
            let number = self.register(&id_of(result));
            let Some(usage) = self.usage_mut(number) else { continue };
            if result.share_id.is_none() {
                usage.n_dedicated += 1;
                continue;
            }
            usage.n_shares += 1;
            let of_device = self.consumed.entry(number.0).or_default();
            for (name, amount) in &result.consumed_capacity {
                let consumed = of_device.entry(name.clone()).or_default();
                *consumed = &*consumed + amount;
            }
        }
    }

    /// Undoes one [`InUse::add`] of the same allocation.
    pub(super) fn remove(&mut self, allocation: &Allocation) {
        for result in held(allocation) {
            let id = id_of(result);
            let Some(number) = self.number_of(&id) else { continue };
            if result.share_id.is_none() {
                if let Some(usage) = self.usage_mut(number) {
                    usage.n_dedicated = usage.n_dedicated.saturating_sub(1);
                }
            } else {
                self.remove_share(number, result);
            }
            self.deregister(&id);
        }
    }

    fn remove_share(&mut self, number: DeviceNumber, result: &DeviceResult) {
        let Some(usage) = self.usage_mut(number) else { return debug_assert!(false, "{number:?} is unknown") };
        usage.n_shares = usage.n_shares.saturating_sub(1);
        if usage.n_shares == 0 {
            self.consumed.remove(&number.0);
            return;
        }
        let Some(of_device) = self.consumed.get_mut(&number.0) else { return debug_assert!(false, "no share") };
        for (name, amount) in &result.consumed_capacity {
            if let Some(consumed) = of_device.get_mut(name) {
                *consumed = &*consumed - amount;
            }
        }
    }

    pub(super) fn is_dedicated(&self, device: DeviceNumber) -> bool {
        self.usage(device).n_dedicated > 0
    }

    /// Whether the device has shares.
    pub(super) fn is_shared(&self, device: DeviceNumber) -> bool {
        self.usage(device).n_shares > 0
    }

    /// Whether at least one claim holds the device.
    pub(super) fn is_held(&self, device: DeviceNumber) -> bool {
        let usage = self.usage(device);
        usage.n_dedicated > 0 || usage.n_shares > 0
    }

    pub(super) fn consumed(&self, device: DeviceNumber, capacity: &str) -> Option<&Quantity> {
        self.consumed.get(&device.0)?.get(capacity)
    }

    fn usage(&self, device: DeviceNumber) -> Usage {
        self.usages.get(device.0 as usize).copied().unwrap_or_default()
    }

    fn usage_mut(&mut self, device: DeviceNumber) -> Option<&mut Usage> {
        self.usages.get_mut(device.0 as usize)
    }
}

fn held(allocation: &Allocation) -> impl Iterator<Item = &DeviceResult> {
    allocation.devices.results.iter().filter(|result| result.admin_access != Some(true))
}

fn id_of(result: &DeviceResult) -> DeviceId {
    DeviceId::new(&result.driver, &result.pool, &result.device)
}
