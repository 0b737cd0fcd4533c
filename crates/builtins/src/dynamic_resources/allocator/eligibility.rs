//! The devices that a request may have. The answer depends on the devices that claims hold and on the devices that the
//! search has chosen so far.

use std::collections::BTreeMap;

use berth_model::{Feature, quantity::Quantity};

use super::{Inventory, alternative::Alternative, chosen::ChosenDevice};
use crate::dynamic_resources::{
    capacity::consumption,
    node_devices::NodeDevice,
    objects::{DeviceTaint, DeviceToleration},
};

/// Whether the request tolerates all taints with the effect `NoSchedule` or `NoExecute`; the rules are the rules for
/// pods.
pub(super) fn tolerates(tolerations: &[DeviceToleration], taints: &[DeviceTaint]) -> bool {
    let is_enforced = |taint: &&DeviceTaint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    taints.iter().filter(is_enforced).all(|taint| tolerations.iter().any(|it| tolerates_taint(it, taint)))
}

fn tolerates_taint(toleration: &DeviceToleration, taint: &DeviceTaint) -> bool {
    let is_addressed = (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key);
    is_addressed
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value == taint.value,
            "Exists" => true,
            _ => false,
        }
}

/// Whether several requests may each have a share of the device.
pub(super) fn is_shareable(inventory: &Inventory<'_>, device: &NodeDevice) -> bool {
    device.is_shareable && inventory.features.has(Feature::DRAConsumableCapacity)
}

/// Whether a claim holds the device, or the search has chosen it already. A request with `adminAccess` is refused only
/// devices that its own claim has chosen, and no device with shares.
pub(super) fn is_taken(
    inventory: &Inventory<'_>,
    chosen: &[ChosenDevice<'_>],
    alternative: &Alternative,
    device: &NodeDevice,
) -> bool {
    let is_shareable = is_shareable(inventory, device);
    let mut same = chosen.iter().filter(|it| it.device.key == device.key && !is_shareable);
    if alternative.wanted.is_admin() {
        return same.any(|it| it.alternative.claim_idx == alternative.claim_idx);
    }
    let is_held = if is_shareable {
        inventory.in_use.is_dedicated(device.number)
    } else {
        inventory.in_use.is_held(device.number)
    };
    is_held || same.next().is_some()
}

/// The amounts of the device's capacities that the request consumes; `None` if too little is left. The amounts are
/// empty for a device that cannot be shared.
pub(super) fn capacity_for(
    inventory: &Inventory<'_>,
    chosen: &[ChosenDevice<'_>],
    alternative: &Alternative,
    device: &NodeDevice,
) -> Option<BTreeMap<String, Quantity>> {
    let is_shared = is_shareable(inventory, device);
    let has_none = !inventory.features.has(Feature::DRAConsumableCapacity);
    if has_none || !is_shared && alternative.wanted.capacity.is_none() {
        return Some(BTreeMap::new());
    }
    let consumed = consumption(&alternative.wanted, &device.device.device, inventory.features)?;
    if !is_shared {
        return Some(BTreeMap::new());
    }
    for (name, amount) in &consumed {
        let mut total = amount.clone();
        if let Some(held) = inventory.in_use.consumed(device.number, name) {
            total = &total + held;
        }
        for other in chosen.iter().filter(|it| it.device.key == device.key) {
            if let Some(taken) = other.consumed.get(name) {
                total = &total + taken;
            }
        }
        if device.device.device.capacity.get(name).is_none_or(|capacity| total > capacity.value) {
            return None;
        }
    }
    Some(consumed)
}

/// Whether the device already has a share. Its counters are taken only once.
pub(super) fn has_share(inventory: &Inventory<'_>, chosen: &[ChosenDevice<'_>], device: &NodeDevice) -> bool {
    is_shareable(inventory, device)
        && (inventory.in_use.is_shared(device.number) || chosen.iter().any(|it| it.device.key == device.key))
}
