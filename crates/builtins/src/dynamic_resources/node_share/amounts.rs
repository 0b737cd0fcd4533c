//! The amounts that the devices of one claim take from the resources of their node.

use std::collections::BTreeMap;

use berth_framework::Status;
use berth_model::{
    Feature, Features,
    api::{NodeAllocatableClaimStatus, NodeAllocatableMapping, NodeAllocatableOverhead, ResourceList},
    quantity::Quantity,
};

use crate::dynamic_resources::objects::{
    Device, DeviceOverhead, DeviceResult, DirectMapping, ResourceClaim, ResourceMapping,
};

/// The sums over the devices of a claim, by resource.
pub(super) struct ClaimAmounts<'a> {
    claim: &'a ResourceClaim,
    features: Features,
    mapped: ResourceList,
    overhead: BTreeMap<String, DeviceOverhead>,
}

impl<'a> ClaimAmounts<'a> {
    pub(super) fn new(claim: &'a ResourceClaim, features: Features) -> Self {
        Self { claim, features, mapped: ResourceList::new(), overhead: BTreeMap::new() }
    }

    /// Adds what the device of an allocation takes.
    ///
    /// # Errors
    /// The device is not on the node any more, or the amount depends on a capacity although the allocation has none.
    pub(super) fn add(&mut self, result: &DeviceResult, device: Option<&Device>) -> Result<(), Status> {
        let Some(device) = device else {
            let DeviceResult { driver, pool, device, .. } = result;
            let of_device = self.subject(result);
            return Err(Status::error(format!(
                "{of_device}, driver {driver}: device {device} not found in pool {pool} for driver {driver}"
            )));
        };
        if !self.features.has(Feature::DevicesMayHaveOverhead) {
            for (resource, mapping) in &device.node_allocatable_resource_mappings {
                if let Some(amount) = self.amount_in_1_36(resource, mapping, result)? {
                    add(&mut self.mapped, resource, &amount);
                }
            }
            return Ok(());
        }
        for (name, resource) in &device.node_allocatable_resources {
            if let Some(mapping) = &resource.mapping
                && let Some(amount) = self.amount_in_1_37(name, mapping, result)?
            {
                add(&mut self.mapped, name, &amount);
            }
            if let Some(overhead) = &resource.overhead {
                self.add_overhead(name, overhead);
            }
        }
        Ok(())
    }

    /// The amount of a mapping of Kubernetes 1.36; `None` if the allocation consumes nothing of the mapping's capacity. A
    /// mapping without key and multiplier takes nothing, but counts as a mapping.
    fn amount_in_1_36(
        &self,
        resource: &str,
        mapping: &ResourceMapping,
        result: &DeviceResult,
    ) -> Result<Option<Quantity>, Status> {
        let multiplier = mapping.allocation_multiplier.as_ref();
        let Some(key) = mapping.capacity_key.as_deref().filter(|key| !key.is_empty()) else {
            return Ok(Some(multiplier.cloned().unwrap_or_default()));
        };
        self.require_capacity(key, "NodeAllocatableResourceMappings", resource, result)?;
        let consumed = result.consumed_capacity.get(key);
        Ok(consumed.map(|consumed| times(consumed, multiplier)))
    }

    /// The amount of a mapping of Kubernetes 1.37; `None` if it says none.
    fn amount_in_1_37(
        &self,
        resource: &str,
        mapping: &DirectMapping,
        result: &DeviceResult,
    ) -> Result<Option<Quantity>, Status> {
        let Some(key) = mapping.capacity_key.as_deref().filter(|key| !key.is_empty()) else {
            return Ok(mapping.device_multiplier.clone());
        };
        self.require_capacity(key, "NodeAllocatableResources", resource, result)?;
        let consumed = consumed_by_name(result, key);
        Ok(consumed.map(|consumed| times(consumed, mapping.capacity_multiplier.as_ref())))
    }

    fn require_capacity(&self, key: &str, field: &str, resource: &str, result: &DeviceResult) -> Result<(), Status> {
        if !result.consumed_capacity.is_empty() {
            return Ok(());
        }
        let of_device = self.subject(result);
        Err(Status::error(format!(
            "{of_device}: ConsumedCapacity is nil, but Capacity key '{key}' is set in {field} for resource {resource}"
        )))
    }

    fn subject(&self, result: &DeviceResult) -> String {
        let metadata = &self.claim.metadata;
        format!("claim {}/{}, device {}", metadata.namespace, metadata.name, result.device)
    }

    fn add_overhead(&mut self, resource: &str, more: &DeviceOverhead) {
        if *more == DeviceOverhead::default() {
            return;
        }
        let sum = self.overhead.entry(resource.to_owned()).or_default();
        for (sum, more) in [(&mut sum.per_pod, &more.per_pod), (&mut sum.per_container, &more.per_container)] {
            if let Some(more) = more {
                *sum = Some(sum.as_ref().map_or_else(|| more.clone(), |sum| sum + more));
            }
        }
    }

    /// The entry of the pod's status; `None` if the devices take nothing. `containers` use the claim.
    pub(super) fn into_status(self, containers: Vec<String>) -> Option<NodeAllocatableClaimStatus> {
        let Self { claim, features, mapped, overhead } = self;
        if mapped.is_empty() && overhead.is_empty() {
            return None;
        }
        let mut status = NodeAllocatableClaimStatus {
            resource_claim_name: claim.metadata.name.clone(),
            containers,
            ..NodeAllocatableClaimStatus::default()
        };
        if features.has(Feature::DevicesMayHaveOverhead) {
            let mapping = |(name, quantity)| NodeAllocatableMapping { name, quantity };
            status.mapping = mapped.into_iter().map(mapping).collect();
        } else {
            status.resources = mapped;
        }
        let overhead = overhead.into_iter().map(|(name, DeviceOverhead { per_pod, per_container })| {
            NodeAllocatableOverhead { name, per_pod, per_container }
        });
        status.overhead = overhead.collect();
        Some(status)
    }
}

/// The consumed amount of a capacity. The driver's name is the default domain of the names of capacities.
fn consumed_by_name<'a>(result: &'a DeviceResult, key: &str) -> Option<&'a Quantity> {
    let consumed = &result.consumed_capacity;
    let in_other_form = || match key.split_once('/') {
        Some((domain, name)) if domain == result.driver => consumed.get(name),
        Some(_) => None,
        None => consumed.get(&format!("{}/{key}", result.driver)),
    };
    consumed.get(key).or_else(in_other_form)
}

fn times(amount: &Quantity, multiplier: Option<&Quantity>) -> Quantity {
    multiplier.map_or_else(|| amount.clone(), |multiplier| amount * multiplier)
}

fn add(sums: &mut ResourceList, resource: &str, amount: &Quantity) {
    let sum = sums.entry(resource.to_owned()).or_default();
    *sum = &*sum + amount;
}
