//! Makes the allocations that are written into the status of the claims.

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
};

/// One for each claim of the plan.
pub(super) fn write(plan: &Plan, picked: &[PickedDevice], devices: &[NodeDevice], node_name: &str) -> Vec<Allocation> {
    let chosen: Vec<ChosenDevice<'_>> = picked.iter().filter_map(|picked| picked.chosen(plan, devices)).collect();
    let claims = plan.claims.iter().enumerate();
    claims.map(|(claim_idx, claim)| of_claim(claim_idx, claim, &chosen, node_name)).collect()
}

/// For each request with alternatives, which one was chosen.
pub(super) fn choices(plan: &Plan, chosen: &[ChosenDevice<'_>]) -> Vec<usize> {
    let requests = plan.claims.iter().flat_map(|claim| &claim.requests);
    let prioritized = requests.filter(|request| request.is_prioritized);
    let first_of = |request: &RequestPlan| {
        chosen.iter().find(|it| request.alternatives.iter().any(|of| of.ordinal == it.alternative.ordinal))
    };
    prioritized.filter_map(first_of).map(|first| first.alternative.rank).collect()
}

fn of_claim(claim_idx: usize, claim: &ClaimPlan, chosen: &[ChosenDevice<'_>], node_name: &str) -> Allocation {
    let chosen: Vec<&ChosenDevice<'_>> = chosen.iter().filter(|it| it.alternative.claim_idx == claim_idx).collect();
    let uid = &claim.claim.metadata.uid;
    let results = chosen.iter().enumerate().map(|(position, it)| device_result(it, uid, position)).collect();
    Allocation {
        devices: AllocatedDevices { results, config: config(claim, &chosen) },
        node_selector: node_selector(&chosen, node_name),
        allocation_timestamp: None,
    }
}

fn device_result(chosen: &ChosenDevice<'_>, claim_uid: &str, position: usize) -> DeviceResult {
    let SliceDevice { id, device, .. } = &*chosen.device.device;
    let wanted = &chosen.alternative.wanted;
    let is_share = device.is_shareable() && !wanted.is_admin();
    DeviceResult {
        request: chosen.alternative.name.clone(),
        driver: id.pool.driver.to_string(),
        pool: id.pool.pool.to_string(),
        device: device.name.clone(),
        admin_access: wanted.admin_access,
        tolerations: wanted.tolerations.clone(),
        binding_conditions: device.binding_conditions.clone(),
        binding_failure_conditions: device.binding_failure_conditions.clone(),
        share_id: is_share.then(|| share_id(claim_uid, &device.name, position)),
        consumed_capacity: if is_share { chosen.consumed.clone() } else { Default::default() },
    }
}

/// A UUID of version 8 (RFC 9562), derived from what makes the share unique, since nothing here is random.
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

/// The configuration of the classes in the order of the requests, then that of the claim for the chosen requests.
fn config(claim: &ClaimPlan, chosen: &[&ChosenDevice<'_>]) -> Vec<AllocatedConfig> {
    let write = |config: &ClaimConfig, source: &str, requests: Vec<String>| AllocatedConfig {
        source: source.to_owned(),
        requests,
        opaque: config.opaque.clone(),
    };
    let mut written = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (request_idx, request) in claim.requests.iter().enumerate() {
        let Some(first) = chosen.iter().find(|it| it.alternative.request_idx == request_idx) else { continue };
        let name = &first.alternative.name;
        names.extend([name.as_str(), request.name.as_str()]);
        let of_class = first.alternative.class.iter().flat_map(|class| &class.spec.config);
        written.extend(of_class.map(|config| write(config, "FromClass", vec![name.clone()])));
    }
    for config in &claim.claim.spec.devices.config {
        if config.requests.is_empty() || config.requests.iter().any(|name| names.contains(&name.as_str())) {
            written.push(write(config, "FromClaim", config.requests.clone()));
        }
    }
    written
}

/// The nodes where all the devices can be used.
fn node_selector(chosen: &[&ChosenDevice<'_>], node_name: &str) -> Option<NodeSelector> {
    let mut term = NodeSelectorTerm::default();
    for chosen in chosen {
        let device = &chosen.device.device;
        let terms = match &*device.placement {
            Placement::Node(_) => return Some(only(node_name)),
            _ if device.device.binds_to_node == Some(true) => return Some(only(node_name)),
            Placement::Selected { terms, .. } => terms,
            Placement::Nowhere | Placement::Everywhere => continue,
        };
        // The API server accepts selectors of one term here.
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
        if !requirements.contains(requirement) {
            requirements.push(requirement.clone());
        }
    }
}
