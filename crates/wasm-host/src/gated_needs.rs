//! Needs that a built-in component has only with a feature gate.
//!
//! A component describes its needs before it gets its args, so its manifest has no needs that depend on a gate. They
//! would cost time with the gate off. The host adds them. It does so only for this program's own components and copies of
//! them, because the operator has not granted them to others.

use std::sync::Arc;

use berth_framework::Manifest;
use berth_model::{Column, Columns, Feature, Features};

use crate::component::LoadedComponent;

/// The component with the needs that belong to the gates in `args`.
pub(crate) fn with_gated_needs(component: &Arc<LoadedComponent>, args: &str) -> Arc<LoadedComponent> {
    let manifest = &component.manifest;
    let compares_requests = Features::in_args(args).has(Feature::DRANodeAllocatableResources);
    if manifest.name != "DynamicResources" || !compares_requests {
        return Arc::clone(component);
    }
    // The pod's JSON says which containers use the devices, and the column what the other pods of the node request.
    let mut needs = manifest.needs.clone();
    needs.pod_json = true;
    Columns::insert(&mut needs.columns, Column::Requested);
    let manifest = Manifest { needs, ..manifest.clone() };
    Arc::new(LoadedComponent { manifest, ..LoadedComponent::clone(component) })
}
