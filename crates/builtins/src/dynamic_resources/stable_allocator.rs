//! kube-scheduler has several allocators. The first one that knows all features that are on decides (`NewAllocator` in
//! `k8s.io/dynamic-resource-allocation/structured/allocator.go`).

use berth_model::{Feature, Features};

/// Whether kube-scheduler's allocator called `stable` decides. It knows neither capacity of devices, `distinctAttribute`
/// and `bindsToNode`, nor that pools with binding conditions come last.
pub(super) fn is_in_use(features: Features) -> bool {
    let has_binding_conditions =
        features.has(Feature::DRADeviceBindingConditions) && features.has(Feature::DRAResourceClaimDeviceStatus);
    let others = [Feature::DRAConsumableCapacity, Feature::DRAListTypeAttributes];
    !has_binding_conditions && !others.into_iter().any(|gate| features.has(gate))
}
