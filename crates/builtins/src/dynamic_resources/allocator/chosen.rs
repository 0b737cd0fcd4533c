//! The devices that a search chose. The choice holds references while the search runs. A kept choice holds no
//! references.

use std::collections::BTreeMap;

use berth_model::quantity::Quantity;

use super::alternative::Alternative;
use crate::dynamic_resources::node_devices::NodeDevice;

/// A device for a request.
#[derive(Debug)]
pub(super) struct ChosenDevice<'p> {
    pub(super) alternative: &'p Alternative,
    pub(super) location: usize,
    pub(super) device: &'p NodeDevice,
    /// The amounts of the device's capacities that the request uses, if the device is shared.
    pub(super) consumed: BTreeMap<String, Quantity>,
}

/// A [`ChosenDevice`] that outlives the search.
#[derive(Clone, Debug)]
pub(in crate::dynamic_resources) struct PickedDevice {
    /// The ordinal of the alternative.
    ordinal: usize,
    location: usize,
    consumed: BTreeMap<String, Quantity>,
}

impl From<ChosenDevice<'_>> for PickedDevice {
    fn from(chosen: ChosenDevice<'_>) -> Self {
        let ChosenDevice { alternative, location, consumed, .. } = chosen;
        Self { ordinal: alternative.ordinal, location, consumed }
    }
}

impl PickedDevice {
    /// The device in the form of a search among `devices`. The search has these alternatives by their ordinals.
    pub(super) fn chosen<'p>(
        &self,
        alternative: impl FnOnce(usize) -> Option<&'p Alternative>,
        devices: &'p [NodeDevice],
    ) -> Option<ChosenDevice<'p>> {
        let (alternative, device) = alternative(self.ordinal).zip(devices.get(self.location))?;
        Some(ChosenDevice { alternative, location: self.location, device, consumed: self.consumed.clone() })
    }
}
