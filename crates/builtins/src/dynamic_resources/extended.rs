//! Extended resources that are backed by devices (KEP-5004): a pod requests `example.com/gpu: 2`, a DeviceClass maps that
//! name to its devices, and the scheduler creates the ResourceClaim.
//!
//! If a node's allocatable has the resource, a device plugin serves it there and NodeResourcesFit counts it. It becomes
//! a claim only on other nodes, so the claim differs from node to node.

use std::sync::Arc;

use berth_model::{
    ClusterTable, NodeIdx, Pod, Sym, Symbols,
    pod::{ContainerKind, ExtendedRequest},
};
use serde::{Deserialize, Serialize};

use super::{
    dra_cache::DraCache,
    objects::{DeviceRequest, ResourceClaim, SubRequest},
};

/// The name that messages use for a claim that does not exist yet.
pub(super) const UNNAMED: &str = "<extended-resources>";

/// The extended resources of a pod; devices can stand for at least one of these resources.
#[derive(Debug)]
pub(super) struct ExtendedResources {
    /// Resources, each with the DeviceClass that maps to it; `None` if no class does.
    resources: Vec<(Sym, Option<String>)>,
    /// The claim that an earlier attempt made.
    pub(super) existing: Option<Arc<ResourceClaim>>,
    /// Whether that claim cannot be used again: it has no allocation, or another scheduler made it.
    pub(super) is_left_over: bool,
}

/// The claim for a pod's extended resources on one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ExtendedClaim {
    pub(super) requests: Vec<DeviceRequest>,
    pub(super) mappings: Vec<RequestMapping>,
}

/// An entry of `pod.status.extendedResourceClaimStatus.requestMappings`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestMapping {
    pub(super) container_name: String,
    pub(super) resource_name: String,
    pub(super) request_name: String,
}

impl ExtendedResources {
    /// `None` if no DeviceClass maps to a resource of the pod.
    pub(super) fn of(pod: &Pod, table: &ClusterTable, cache: &DraCache) -> Option<Self> {
        let mut names: Vec<Sym> = pod.extended_requests.iter().map(|request| request.resource).collect();
        names.sort_unstable_by_key(|name| table.symbols.text(*name));
        names.dedup();
        let class_of = |name: Sym| cache.class_of(table.symbols.text(name)).map(str::to_owned);
        let resources: Vec<(Sym, Option<String>)> = names.into_iter().map(|name| (name, class_of(name))).collect();
        if resources.iter().all(|(_, class)| class.is_none()) {
            return None;
        }
        let existing = cache.claims.extended_of(&pod.uid).cloned();
        let is_usable = |claim: &Arc<ResourceClaim>| {
            claim.status.allocation.is_some() && cache.claims.is_made_here(claim)
                || claim.spec.devices.requests.is_empty()
        };
        let is_left_over = existing.as_ref().is_some_and(|claim| !is_usable(claim));
        Some(Self { resources, existing, is_left_over })
    }

    /// Positions of the resources that are not in the node's allocatable; `None` if a resource exists for which no
    /// device can stand.
    pub(super) fn missing_on(&self, table: &ClusterTable, node: NodeIdx) -> Option<Vec<usize>> {
        let mut missing = Vec::new();
        for (position, (resource, class)) in self.resources.iter().enumerate() {
            if table.allocatable().get(*resource, node) <= 0 {
                class.as_ref()?;
                missing.push(position);
            }
        }
        Some(missing)
    }

    /// The claim for a node that lacks the resources at these positions.
    pub(super) fn claim_on(&self, pod: &Pod, symbols: &Symbols, missing: &[usize]) -> ExtendedClaim {
        let mut claim = ExtendedClaim::default();
        for (resource, class) in missing.iter().filter_map(|position| self.resources.get(*position)) {
            let class = class.as_deref().unwrap_or_default();
            add_requests(&mut claim, pod, *resource, symbols.text(*resource), class);
        }
        claim.requests.sort_by(|left, right| left.name.cmp(&right.name));
        claim
    }
}

/// Regular containers and sidecars get separate devices. Other init containers end before later containers start, so
/// they use the devices of the later containers. If the largest init container needs more, the difference is requested
/// in addition.
fn add_requests(claim: &mut ExtendedClaim, pod: &Pod, resource: Sym, name: &str, class: &str) {
    let of_resource = || pod.extended_requests.iter().filter(|request| request.resource == resource);
    let (init, lasting): (Vec<_>, Vec<_>) = of_resource().partition(|request| request.kind == ContainerKind::Init);
    for request in &lasting {
        claim.requests.push(device_request(request, class, request.amount));
        claim.mappings.push(mapping(request, name, request));
    }
    let later = |init: &ExtendedRequest| -> Vec<&ExtendedRequest> {
        let position = init.container_idx;
        lasting.iter().copied().filter(|it| it.kind == ContainerKind::Regular || it.container_idx > position).collect()
    };
    let missing = |init: &ExtendedRequest| {
        let shared: i64 = later(init).iter().map(|request| request.amount).fold(0, i64::saturating_add);
        init.amount.saturating_sub(shared)
    };
    let mut largest: Option<&ExtendedRequest> = None;
    for request in init.iter().copied().filter(|request| missing(request) > 0) {
        if largest.is_none_or(|known| missing(request) > missing(known)) {
            largest = Some(request);
        }
    }
    claim.requests.extend(largest.map(|request| device_request(request, class, missing(request))));
    for request in init {
        let mut left = request.amount;
        for shared in later(request).into_iter().chain(largest) {
            if left > 0 {
                claim.mappings.push(mapping(request, name, shared));
                left = left.saturating_sub(shared.amount);
            }
        }
    }
}

fn name_of(request: &ExtendedRequest) -> String {
    format!("container-{}-request-{}", request.container_idx, request.request_idx)
}

fn device_request(request: &ExtendedRequest, class: &str, count: i64) -> DeviceRequest {
    let exactly = SubRequest {
        device_class_name: class.to_owned(),
        allocation_mode: "ExactCount".to_owned(),
        count,
        ..SubRequest::default()
    };
    DeviceRequest { name: name_of(request), exactly: Some(exactly), first_available: Vec::new() }
}

fn mapping(request: &ExtendedRequest, resource: &str, device_request: &ExtendedRequest) -> RequestMapping {
    RequestMapping {
        container_name: request.container_name.to_string(),
        resource_name: resource.to_owned(),
        request_name: name_of(device_request),
    }
}

/// The new claim, in the form for the allocator.
pub(super) fn claim_for(pod: &Pod, namespace: &str, extended_claim: &ExtendedClaim) -> ResourceClaim {
    let mut claim = ResourceClaim::default();
    claim.metadata.name = UNNAMED.to_owned();
    claim.metadata.namespace = namespace.to_owned();
    // No object has this uid. It makes the ids of device shares unique.
    claim.metadata.uid = format!("extended-resources-of-{}", pod.uid);
    claim.spec.devices.requests.clone_from(&extended_claim.requests);
    claim
}
