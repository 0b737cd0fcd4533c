//! Makes the allocations that are written into the status of the claims.

use std::collections::BTreeSet;

use berth_model::{Feature, Features};

use super::{
    chosen::{ChosenDevice, PickedDevice},
    plan::{ClaimPlan, Plan, RequestPlan},
};
use crate::dynamic_resources::{
    node_devices::NodeDevice,
    objects::{
        AllocatedConfig, AllocatedDevices, Allocation, ClaimConfig, DeviceResult, NodeSelector,
        NodeSelectorRequirement, NodeSelectorTerm,
    },
    slices::{Placement, SliceDevice},
    stable_allocator,
};

/// An allocation for each claim of the plan.
pub(super) fn write(
    features: Features,
    plan: &Plan,
    picked: &[PickedDevice],
    devices: &[NodeDevice],
    node_name: &str,
) -> Vec<Allocation> {
    let of_plan = |ordinal| plan.alternative(ordinal);
    let chosen: Vec<ChosenDevice<'_>> = picked.iter().filter_map(|picked| picked.chosen(of_plan, devices)).collect();
    let of_claim = |claim_idx, claim: &ClaimPlan| {
        let of_claim = chosen.iter().filter(|it| it.alternative.claim_idx == claim_idx);
        write_claim(features, claim, &of_claim.collect::<Vec<_>>(), node_name)
    };
    plan.claims.iter().enumerate().map(|(claim_idx, claim)| of_claim(claim_idx, claim)).collect()
}

/// The chosen alternative of each request with alternatives.
pub(super) fn choices(plan: &Plan, chosen: &[ChosenDevice<'_>]) -> Vec<usize> {
    let requests = plan.claims.iter().flat_map(|claim| &claim.requests);
    let prioritized = requests.filter(|request| request.is_prioritized);
    let first_of = |request: &RequestPlan| {
        chosen.iter().find(|it| request.alternatives.iter().any(|of| of.ordinal == it.alternative.ordinal))
    };
    prioritized.filter_map(first_of).map(|first| first.alternative.rank).collect()
}

fn write_claim(features: Features, claim: &ClaimPlan, chosen: &[&ChosenDevice<'_>], node_name: &str) -> Allocation {
    let uid = &claim.claim.metadata.uid;
    let results = chosen.iter().enumerate().map(|(position, it)| device_result(features, it, uid, position)).collect();
    Allocation {
        devices: AllocatedDevices { results, config: config(features, claim, chosen) },
        node_selector: node_selector(features, chosen, node_name),
        allocation_timestamp: None,
    }
}

fn device_result(features: Features, chosen: &ChosenDevice<'_>, claim_uid: &str, position: usize) -> DeviceResult {
    let SliceDevice { id, device, .. } = &*chosen.device.device;
    let wanted = &chosen.alternative.wanted;
    let is_share = device.is_shareable() && features.has(Feature::DRAConsumableCapacity);
    DeviceResult {
        request: chosen.alternative.name.clone(),
        driver: id.pool.driver.to_string(),
        pool: id.pool.pool.to_string(),
        device: device.name.clone(),
        admin_access: wanted.admin_access.filter(|is_admin| *is_admin),
        tolerations: wanted.tolerations.clone(),
        binding_conditions: device.binding_conditions.clone(),
        binding_failure_conditions: device.binding_failure_conditions.clone(),
        share_id: is_share.then(|| share_id(claim_uid, &device.name, position)),
        consumed_capacity: chosen.consumed.clone(),
    }
}

/// A UUID of version 8 (RFC 9562). It is derived from the values that make the share unique, since plugins have no
/// random numbers.
fn share_id(claim_uid: &str, device: &str, position: usize) -> String {
    let text = format!("{claim_uid}/{device}/{position}");
    let hash = |offset: u64| {
        text.bytes().fold(offset, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    };
    let (high, low) = (hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15));
    let (time, version) = (high >> 16, high & 0x0fff);
    let variant = (low >> 48) & 0x3fff | 0x8000;
    let node = low & 0xffff_ffff_ffff;
    format!("{:08x}-{:04x}-8{version:03x}-{variant:04x}-{node:012x}", time >> 16, time & 0xffff)
}

/// The configuration of the classes in the order of the requests, each class once. The claim's configuration for the
/// chosen requests follows. Kubernetes 1.36 repeats an entry of the claim for each of its requests.
fn config(features: Features, claim: &ClaimPlan, chosen: &[&ChosenDevice<'_>]) -> Vec<AllocatedConfig> {
    let is_once = features.has(Feature::AllocatedConfigOnce);
    let mut written: Vec<AllocatedConfig> = Vec::new();
    // The positions of the entries of a class.
    let mut of_classes: Vec<(&str, std::ops::Range<usize>)> = Vec::new();
    let mut names: Vec<(&str, &str)> = Vec::new();
    for (request_idx, request) in claim.requests.iter().enumerate() {
        let Some(first) = chosen.iter().find(|it| it.alternative.request_idx == request_idx) else { continue };
        let name = &first.alternative.name;
        names.push((&request.name, name));
        let Some(class) = &first.alternative.class else { continue };
        if let Some((_, known)) = of_classes.iter().find(|(of_class, _)| *of_class == class.metadata.name) {
            written.iter_mut().take(known.end).skip(known.start).for_each(|config| config.requests.push(name.clone()));
            continue;
        }
        let start = written.len();
        let configs = class.spec.config.iter();
        written.extend(configs.map(|config| allocated_config(config, "FromClass", vec![name.clone()])));
        of_classes.push((&class.metadata.name, start..written.len()));
    }
    for config in &claim.claim.spec.devices.config {
        let is_for = |(request, chosen): &&(&str, &str)| config.requests.iter().any(|it| it == request || it == chosen);
        let n_matches = if config.requests.is_empty() { 1 } else { names.iter().filter(is_for).count() };
        let n_entries = if is_once { n_matches.min(1) } else { n_matches };
        let entry = allocated_config(config, "FromClaim", config.requests.clone());
        written.extend(std::iter::repeat_n(entry, n_entries));
    }
    if is_once {
        let n_requests = claim.requests.len();
        written.iter_mut().filter(|config| config.requests.len() == n_requests).for_each(|it| it.requests.clear());
    }
    written
}

fn allocated_config(config: &ClaimConfig, source: &str, requests: Vec<String>) -> AllocatedConfig {
    AllocatedConfig { source: source.to_owned(), requests, opaque: config.opaque.clone() }
}

/// The nodes where all the devices can be used.
fn node_selector(features: Features, chosen: &[&ChosenDevice<'_>], node_name: &str) -> Option<NodeSelector> {
    let knows_binding = !stable_allocator::is_in_use(features);
    let mut term = NodeSelectorTerm::default();
    for chosen in chosen {
        let device = &chosen.device.device;
        let terms = match &*device.placement {
            Placement::Node(_) => return Some(only(node_name)),
            _ if knows_binding && device.device.binds_to_node == Some(true) => return Some(only(node_name)),
            Placement::Selected { terms, .. } => terms,
            Placement::Nowhere | Placement::Everywhere => continue,
        };
        // The API server accepts only selectors of one term in this field.
        for of_device in terms.iter().take(1) {
            extend(&mut term.match_expressions, &of_device.match_expressions);
            extend(&mut term.match_fields, &of_device.match_fields);
        }
    }
    (term != NodeSelectorTerm::default()).then(|| NodeSelector { node_selector_terms: vec![term] })
}

fn only(node_name: &str) -> NodeSelector {
    let requirement = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: vec![node_name.to_owned()],
    };
    let term = NodeSelectorTerm { match_fields: vec![requirement], ..NodeSelectorTerm::default() };
    NodeSelector { node_selector_terms: vec![term] }
}

fn extend(requirements: &mut Vec<NodeSelectorRequirement>, more: &[NodeSelectorRequirement]) {
    for requirement in more {
        if !requirements.iter().any(|known| is_same(known, requirement)) {
            requirements.push(requirement.clone());
        }
    }
}

/// Whether both have the same key, operator and values, in any order.
fn is_same(left: &NodeSelectorRequirement, right: &NodeSelectorRequirement) -> bool {
    let values = |it: &NodeSelectorRequirement| -> BTreeSet<String> { it.values.iter().cloned().collect() };
    left.key == right.key && left.operator == right.operator && values(left) == values(right)
}
