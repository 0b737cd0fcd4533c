//! Which devices a request may have, given the devices that claims hold and those that the search has chosen so far.

use std::collections::BTreeMap;

use berth_model::quantity::Quantity;

use super::{Inventory, alternative::Alternative, chosen::ChosenDevice};
use crate::dynamic_resources::{
    capacity::consumption,
    in_use::DeviceNumber,
    node_devices::NodeDevice,
    objects::{Attribute, DeviceConstraint, DeviceTaint, DeviceToleration, ResourceClaim},
    slices::SliceDevice,
};

/// Whether the request tolerates all taints with the effect `NoSchedule` or `NoExecute`; the rules are those for pods.
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

/// Whether a claim holds the device, or it was chosen before.
pub(super) fn is_taken(
    inventory: &Inventory<'_>,
    chosen: &[ChosenDevice<'_>],
    alternative: &Alternative,
    device: &NodeDevice,
) -> bool {
    let mut same = chosen.iter().filter(|it| it.device.key == device.key);
    if alternative.wanted.is_admin() {
        return same.any(|it| it.alternative.claim_idx == alternative.claim_idx);
    }
    let is_held = if device.is_shareable {
        inventory.in_use.is_dedicated(device.number)
    } else {
        inventory.in_use.is_held(device.number)
    };
    is_held || same.any(|it| !device.is_shareable || it.alternative.wanted.is_admin())
}

/// How much of the device's capacities the request consumes; `None` if too little is left. Empty for a device that is not
/// shared.
pub(super) fn capacity_for(
    inventory: &Inventory<'_>,
    chosen: &[ChosenDevice<'_>],
    alternative: &Alternative,
    device: &NodeDevice,
) -> Option<BTreeMap<String, Quantity>> {
    let is_shared = device.is_shareable;
    if alternative.wanted.is_admin() || !is_shared && alternative.wanted.capacity.is_none() {
        return Some(BTreeMap::new());
    }
    let consumed = consumption(&alternative.wanted, &device.device.device)?;
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

/// Whether the counters of the device's pool suffice for the device and all devices in use.
pub(super) fn has_counters(inventory: &Inventory<'_>, chosen: &[ChosenDevice<'_>], device: &NodeDevice) -> bool {
    if !device.consumes_counters || holds_counters(inventory, chosen, device.number) {
        return true;
    }
    let device = &*device.device;
    let Some(facts) = inventory.slices.facts(&device.id.pool) else { return false };
    let mut holders: Vec<&SliceDevice> = inventory.slices.devices_of(&device.id.pool).collect();
    holders.retain(|it| holds_counters(inventory, chosen, it.number));
    device.consumes_counters().all(|(set, counter, amount)| {
        let Some(available) = facts.counters.get(set).and_then(|counters| counters.get(counter)) else { return false };
        let taken = holders.iter().flat_map(|it| it.consumes_counters());
        let taken = taken.filter(|(other_set, other, _)| *other_set == set && *other == counter);
        let total = taken.fold(amount.clone(), |total, (_, _, amount)| &total + amount);
        total <= *available
    })
}

/// Whether the device consumes its counters already. A shared device consumes them once; `adminAccess` consumes none.
fn holds_counters(inventory: &Inventory<'_>, chosen: &[ChosenDevice<'_>], device: DeviceNumber) -> bool {
    inventory.in_use.is_held(device)
        || chosen.iter().any(|it| it.device.number == device && !it.alternative.wanted.is_admin())
}

/// Whether the device and those chosen for the claim so far meet the claim's constraints.
pub(super) fn meets_constraints(
    claim: &ResourceClaim,
    chosen: &[ChosenDevice<'_>],
    alternative: &Alternative,
    device: &SliceDevice,
) -> bool {
    let constraints = claim.spec.devices.constraints.iter();
    constraints.filter(|constraint| applies_to(constraint, &alternative.name)).all(|constraint| {
        let of_claim = chosen.iter().filter(|it| it.alternative.claim_idx == alternative.claim_idx);
        let mut others =
            of_claim.filter(|it| applies_to(constraint, &it.alternative.name)).map(|it| &*it.device.device);
        let (name, must_differ) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(name), _) => (name, false),
            (None, Some(name)) => (name, true),
            // A constraint of a newer API version cannot be met.
            (None, None) => return false,
        };
        let Some(value) = attribute(device, name) else { return false };
        others.all(|other| (attribute(other, name) == Some(value)) != must_differ)
    })
}

/// Whether the constraint applies to a request. A sub-request is also listed by the name of its request.
fn applies_to(constraint: &DeviceConstraint, name: &str) -> bool {
    let request = name.split_once('/').map_or(name, |(request, _)| request);
    constraint.requests.is_empty() || constraint.requests.iter().any(|it| it == name || it == request)
}

/// The attribute with this qualified name. The driver may have published it without its own domain.
fn attribute<'a>(device: &'a SliceDevice, name: &str) -> Option<&'a Attribute> {
    let attributes = &device.device.attributes;
    attributes.get(name).or_else(|| {
        let (domain, bare) = name.split_once('/')?;
        attributes.get(bare).filter(|_| *domain == *device.id.pool.driver)
    })
}
