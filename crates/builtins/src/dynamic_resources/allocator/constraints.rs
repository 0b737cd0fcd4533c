//! The constraints of a claim, and the attributes of the devices that the search has chosen for it.

use std::collections::BTreeMap;

use berth_model::{Feature, Features};

use super::alternative::Alternative;
use crate::dynamic_resources::{
    objects::{Attribute, DeviceConstraint, ResourceClaim},
    slices::SliceDevice,
};

/// The constraints of one claim.
#[derive(Debug)]
pub(super) struct ClaimConstraints<'p>(Vec<ConstraintState<'p>>);

#[derive(Debug)]
struct ConstraintState<'p> {
    constraint: &'p DeviceConstraint,
    seen: SeenAttributes<'p>,
}

/// The attributes that are compared with the attributes of a further device.
#[derive(Debug)]
enum SeenAttributes<'p> {
    /// All values must be equal. The first value is kept, with the number of devices.
    Equal { first: Option<&'p Attribute>, n_devices: usize },
    /// All values must differ.
    Distinct(Vec<&'p Attribute>),
    /// All values must differ, as in Kubernetes 1.36. Release 1.36 keeps the last device of each request, and forgets
    /// the request when the request gives one of its devices back.
    DistinctByRequest { last: BTreeMap<usize, &'p Attribute>, n_devices: usize },
}

impl<'p> ClaimConstraints<'p> {
    pub(super) fn new(claim: &'p ResourceClaim, features: Features) -> Self {
        let constraints = claim.spec.devices.constraints.iter();
        Self(constraints.map(|constraint| ConstraintState::new(constraint, features)).collect())
    }

    /// Adds a device for a request. `false` means that a constraint forbids the device, and then no constraint counts
    /// it.
    pub(super) fn add(&mut self, alternative: &Alternative, device: &'p SliceDevice) -> bool {
        for position in 0..self.0.len() {
            let Some(state) = self.0.get_mut(position) else { break };
            if !state.add(alternative, device) {
                self.0.iter_mut().take(position).for_each(|state| state.remove(alternative));
                return false;
            }
        }
        true
    }

    /// Removes the device that was added last, which was for this request.
    pub(super) fn remove(&mut self, alternative: &Alternative) {
        self.0.iter_mut().for_each(|state| state.remove(alternative));
    }
}

impl<'p> ConstraintState<'p> {
    fn new(constraint: &'p DeviceConstraint, features: Features) -> Self {
        let seen = if constraint.match_attribute.is_some() {
            SeenAttributes::Equal { first: None, n_devices: 0 }
        } else if features.has(Feature::DistinctAmongAllDevices) {
            SeenAttributes::Distinct(Vec::new())
        } else {
            SeenAttributes::DistinctByRequest { last: BTreeMap::new(), n_devices: 0 }
        };
        Self { constraint, seen }
    }

    /// Whether the device meets the constraint. The constraint then counts the device. A device that the constraint
    /// does not concern meets the constraint.
    fn add(&mut self, alternative: &Alternative, device: &'p SliceDevice) -> bool {
        if !self.applies_to(alternative) {
            return true;
        }
        let name = self.constraint.match_attribute.as_ref().or(self.constraint.distinct_attribute.as_ref());
        let Some(value) = name.and_then(|name| attribute(device, name)) else { return false };
        // The first device may have a list, because its value is compared with no other value.
        let differs = |other: &Attribute| value.is_scalar() && other != value;
        match &mut self.seen {
            SeenAttributes::Equal { first, n_devices } => {
                if *n_devices == 0 {
                    *first = Some(value);
                } else if !value.is_scalar() || *first != Some(value) {
                    return false;
                }
                *n_devices += 1;
            }
            SeenAttributes::Distinct(seen) => {
                if !seen.iter().copied().all(differs) {
                    return false;
                }
                seen.push(value);
            }
            SeenAttributes::DistinctByRequest { last, n_devices } => {
                if *n_devices > 0 && !last.values().copied().all(differs) {
                    return false;
                }
                last.insert(alternative.request_idx, value);
                *n_devices += 1;
            }
        }
        true
    }

    fn remove(&mut self, alternative: &Alternative) {
        if !self.applies_to(alternative) {
            return;
        }
        match &mut self.seen {
            SeenAttributes::Equal { n_devices, .. } => *n_devices = n_devices.saturating_sub(1),
            SeenAttributes::Distinct(seen) => drop(seen.pop()),
            SeenAttributes::DistinctByRequest { last, n_devices } => {
                last.remove(&alternative.request_idx);
                *n_devices = n_devices.saturating_sub(1);
            }
        }
    }

    /// The name of a request also stands for its sub-requests.
    fn applies_to(&self, alternative: &Alternative) -> bool {
        let name = &alternative.name;
        let request = name.split_once('/').map_or(name.as_str(), |(request, _)| request);
        let requests = &self.constraint.requests;
        requests.is_empty() || requests.iter().any(|it| it == name || it == request)
    }
}

/// The attribute with this qualified name. The driver may have published it without its own domain.
fn attribute<'p>(device: &'p SliceDevice, name: &str) -> Option<&'p Attribute> {
    let attributes = &device.device.attributes;
    attributes.get(name).or_else(|| {
        let (domain, bare) = name.split_once('/')?;
        attributes.get(bare).filter(|_| *domain == *device.id.pool.driver)
    })
}
