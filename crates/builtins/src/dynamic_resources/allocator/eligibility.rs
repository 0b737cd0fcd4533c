//! Which devices a request may have: what depends on the request and the device alone, and what depends on the devices
//! that were chosen before.

use std::collections::BTreeMap;

use berth_model::quantity::Quantity;

use super::{
    AllocationError, Inventory,
    plan::{Alternative, ClaimPlan, name_of},
    search::Chosen,
};
use crate::dynamic_resources::{
    capacity::consumption,
    cel::Selectors,
    in_use::DeviceNumber,
    layouts::LaidOut,
    objects::{Attribute, DeviceConstraint, DeviceSelector, DeviceTaint, DeviceToleration, ResourceClaim},
    slices::SliceDevice,
};

/// Whether the selectors of the class and then those of the request want the device.
pub(super) fn is_selected(
    selectors: &mut Selectors,
    claim: &ResourceClaim,
    alternative: &Alternative,
    device: &SliceDevice,
) -> Result<bool, AllocationError> {
    let name_of_class = || format!("class {}", alternative.wanted.device_class_name);
    let selectors_of_class = alternative.class.as_ref().map(|class| &*class.spec.selectors).unwrap_or_default();
    let of_claim = || format!("claim {}", name_of(claim));
    Ok(all_match(selectors, selectors_of_class, device, name_of_class)?
        && all_match(selectors, &alternative.wanted.selectors, device, of_claim)?)
}

fn all_match(
    selectors: &mut Selectors,
    expressions: &[DeviceSelector],
    device: &SliceDevice,
    origin: impl Fn() -> String,
) -> Result<bool, AllocationError> {
    for (at, selector) in expressions.iter().enumerate() {
        let Some(cel) = &selector.cel else {
            return Err(AllocationError::Failed(format!("{}: selector #{at}: unsupported selector type", origin())));
        };
        let verdict = selectors.matches(&cel.expression, &device.id.pool.driver, &device.device, device.key);
        match verdict {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => return Err(AllocationError::Failed(format!("{}: selector #{at}: {error}", origin()))),
        }
    }
    Ok(true)
}

/// A taint that the request does not tolerate keeps it away. Tolerations work as those of pods do.
pub(super) fn tolerates(tolerations: &[DeviceToleration], taints: &[DeviceTaint]) -> bool {
    let keeps_away = |taint: &&DeviceTaint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    taints.iter().filter(keeps_away).all(|taint| tolerations.iter().any(|it| accepts(it, taint)))
}

fn accepts(toleration: &DeviceToleration, taint: &DeviceTaint) -> bool {
    let is_addressed = (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key);
    is_addressed
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value == taint.value,
            "Exists" => true,
            _ => false,
        }
}

/// Whether a claim that holds the device, or one chosen before, stands in the way.
pub(super) fn is_taken(
    inventory: &Inventory<'_>,
    chosen: &[Chosen<'_>],
    alternative: &Alternative,
    device: &LaidOut,
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

/// What the request takes of the device's capacities, if there is as much; empty for a device that is not shared.
pub(super) fn capacity_for(
    inventory: &Inventory<'_>,
    chosen: &[Chosen<'_>],
    alternative: &Alternative,
    device: &LaidOut,
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

/// Whether the counters of the device's pool suffice for it besides all devices in use.
pub(super) fn has_counters(inventory: &Inventory<'_>, chosen: &[Chosen<'_>], device: &LaidOut) -> bool {
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

/// A device takes its counters once, however many share it. Access for administration takes none.
fn holds_counters(inventory: &Inventory<'_>, chosen: &[Chosen<'_>], device: DeviceNumber) -> bool {
    inventory.in_use.is_held(device)
        || chosen.iter().any(|it| it.device.number == device && !it.alternative.wanted.is_admin())
}

/// Whether the claim's constraints bear the device beside those that the claim was given already.
pub(super) fn meets_constraints(
    claim: &ClaimPlan,
    chosen: &[Chosen<'_>],
    alternative: &Alternative,
    device: &SliceDevice,
) -> bool {
    let constraints = claim.claim.spec.devices.constraints.iter();
    constraints.filter(|constraint| concerns(constraint, &alternative.name)).all(|constraint| {
        let of_claim = chosen.iter().filter(|it| it.alternative.claim_idx == alternative.claim_idx);
        let mut others = of_claim.filter(|it| concerns(constraint, &it.alternative.name)).map(|it| &*it.device.device);
        let (name, must_differ) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(name), _) => (name, false),
            (None, Some(name)) => (name, true),
            // A kind of constraint of a newer API: the claim is not to be had for now.
            (None, None) => return false,
        };
        let Some(value) = attribute(device, name) else { return false };
        others.all(|other| (attribute(other, name) == Some(value)) != must_differ)
    })
}

/// A request is meant by its own name, and each of its sub-requests also by the request's.
fn concerns(constraint: &DeviceConstraint, name: &str) -> bool {
    let request = name.split_once('/').map_or(name, |(request, _)| request);
    constraint.requests.is_empty() || constraint.requests.iter().any(|it| it == name || it == request)
}

/// By its full name, or by its bare one within the driver's own domain.
fn attribute<'a>(device: &'a SliceDevice, name: &str) -> Option<&'a Attribute> {
    let attributes = &device.device.attributes;
    attributes.get(name).or_else(|| {
        let (domain, bare) = name.split_once('/')?;
        attributes.get(bare).filter(|_| *domain == *device.id.pool.driver)
    })
}
