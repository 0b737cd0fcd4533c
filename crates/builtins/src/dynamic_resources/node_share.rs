//! The share of its node's own resources that a pod takes through its devices: CPU, memory and huge pages (KEP-5517).
//!
//! Devices say what they take ([`amounts`]). Filter adds these amounts to the pod's requests and compares the sums with
//! the node, besides NodeResourcesFit, which compares the requests of the spec. PreBind writes the amounts into the pod's
//! status, by which the scheduler counts a pod on a node. The rules are in kube-scheduler's
//! `pkg/scheduler/framework/plugins/dynamicresources/nodeallocatabledynamicresources.go`.

mod amounts;
mod pod_level;

use std::collections::BTreeMap;

use berth_framework::{Code, Status};
use berth_model::{
    ClusterTable, Feature, Features, NodeIdx, Pod, Sym,
    api::{self, NodeAllocatableClaimStatus},
    pod::ClaimName,
    requests::{self, Options, Requests},
};

use self::amounts::ClaimAmounts;
use super::{
    device_id::PoolId,
    objects::{Allocation, Device, DeviceResult, ResourceClaim},
    slices::{NodeView, SliceDevice, SliceTable},
};

/// The pod, as far as its share of a node depends on it.
#[derive(Debug)]
pub(super) struct SharePod {
    object: api::Pod,
    /// Each container with the names of the ResourceClaims that it uses, init containers first.
    containers: Vec<(String, Vec<String>)>,
    features: Features,
}

/// The resources that the pod needs from one node, together with its devices.
#[derive(Debug)]
pub(super) struct NodeShare {
    /// The entries of `status.nodeAllocatableResourceClaimStatuses`.
    pub(super) claims: Vec<NodeAllocatableClaimStatus>,
    demand: Requests,
}

/// The changes to a node's requests that come from the pods that a dry run removes and adds. No sum of requests
/// overflows.
#[derive(Debug, Default)]
pub(super) struct RequestChange(BTreeMap<Sym, i128>);

impl RequestChange {
    /// Adds the requests of a pod. `sign` is 1 for a pod that is added, and -1 for a pod that is removed.
    pub(super) fn add(&mut self, pod: &Pod, sign: i64) {
        let placed = &pod.placed_requests;
        let named = [
            (Sym::CPU, placed.milli_cpu),
            (Sym::MEMORY, placed.memory),
            (Sym::EPHEMERAL_STORAGE, placed.ephemeral_storage),
        ];
        for (name, amount) in named.into_iter().chain(placed.scalars.iter().copied()) {
            *self.0.entry(name).or_default() += i128::from(sign) * i128::from(amount);
        }
    }

    fn of(&self, name: Sym) -> i128 {
        self.0.get(&name).copied().unwrap_or(0)
    }
}

impl SharePod {
    /// # Errors
    /// The scheduler did not keep the pod as JSON.
    pub(super) fn new(pod: &Pod, features: Features) -> Result<Self, Status> {
        let json = pod.json.as_deref().ok_or_else(|| Status::error("the pod is not kept as JSON"))?;
        let object: api::Pod = serde_json::from_slice(json)
            .map_err(|error| Status::error(format!("the JSON of the pod cannot be read: {error}")))?;
        let claim_of = |name: &String| {
            let named = pod.resource_claims.iter().find(|claim| *claim.name == **name)?;
            match &named.claim {
                ClaimName::Known(claim) => Some(claim.to_string()),
                ClaimName::Pending | ClaimName::NotNeeded => None,
            }
        };
        let containers = object.spec.init_containers.iter().chain(&object.spec.containers);
        let claims_of = |container: &api::Container| -> Vec<String> {
            container.resources.claims.iter().filter_map(|claim| claim_of(&claim.name)).collect()
        };
        let containers = containers.map(|container| (container.name.clone(), claims_of(container))).collect();
        Ok(Self { object, containers, features })
    }

    /// Whether the pod's status has amounts of an earlier attempt.
    pub(super) fn has_old_share(&self) -> bool {
        !self.object.status.node_allocatable_resource_claim_statuses.is_empty()
    }

    /// The resources that the pod needs from the node together with the devices of `claims`. `None` if no device of
    /// these claims takes resources of the node.
    ///
    /// # Errors
    /// The pod cannot use the devices, or the amounts that the devices take are unknown.
    pub(super) fn on_node<'a>(
        &self,
        slices: &SliceTable,
        node: NodeView<'_>,
        claims: impl Iterator<Item = (&'a ResourceClaim, &'a Allocation)>,
    ) -> Result<Option<NodeShare>, Status> {
        let mut shares = Vec::new();
        for (claim, allocation) in claims {
            let results = &allocation.devices.results;
            let device = |result| device_of(slices, result).filter(|device| device.is_usable_on(node));
            let devices: Vec<Option<&Device>> =
                results.iter().map(|result| device(result).map(|device| &device.device)).collect();
            if !devices.iter().flatten().any(|device| takes_something(device, self.features)) {
                continue;
            }
            let mut amounts = ClaimAmounts::new(claim, self.features);
            for (result, device) in results.iter().zip(devices) {
                amounts.add(result, device)?;
            }
            shares.extend(amounts.into_status(self.users_of(&claim.metadata.name)));
        }
        if shares.is_empty() {
            return Ok(None);
        }
        shares.sort_by(|left, right| left.resource_claim_name.cmp(&right.resource_claim_name));
        self.share(shares).map(Some)
    }

    /// # Errors
    /// No container uses one of the claims, or the resources of the whole pod do not include what its devices take.
    fn share(&self, claims: Vec<NodeAllocatableClaimStatus>) -> Result<NodeShare, Status> {
        if !self.features.has(Feature::DevicesMayHaveOverhead)
            && let Some(unused) = claims.iter().find(|claim| claim.containers.is_empty())
        {
            return Err(Status::unresolvable(format!(
                "claim {}: node-allocatable resource claim not referenced by any container within the pod",
                unused.resource_claim_name
            )));
        }
        let has_pod_level = self.features.has(Feature::PodLevelResources);
        let claimed = requests::claimed(&claims);
        if has_pod_level {
            pod_level::check(&self.object, &claims, &claimed, self.features)?;
        }
        let options = Options { skip_pod_level: !has_pod_level, claimed, ..Options::default() };
        let demand = Requests::from_list(&requests::pod_requests(&self.object, &options));
        Ok(NodeShare { claims, demand })
    }

    /// The containers that use the claim. A container that names several requests of the claim is listed once.
    fn users_of(&self, claim: &str) -> Vec<String> {
        let users = self.containers.iter().filter(|(_, claims)| claims.iter().any(|name| name == claim));
        users.map(|(container, _)| container.clone()).collect()
    }

    /// The reason why the pod may not use an allocated claim that other pods use; `None` if it may use the claim. In
    /// Kubernetes 1.36, a device that takes resources of its node cannot be shared. From 1.37 on, a device can be
    /// shared if it takes only overhead.
    pub(super) fn sharing_rejection(
        &self,
        slices: &SliceTable,
        claim: &ResourceClaim,
        pod_uid: &str,
    ) -> Option<Status> {
        let users = &claim.status.reserved_for;
        if users.is_empty() || claim.is_reserved_for(pod_uid) {
            return None;
        }
        // A device that is unknown may be a device that cannot be shared.
        let is_exclusive = |result: &DeviceResult| {
            let device = device_of(slices, result);
            device.is_none_or(|device| is_exclusive(&device.device, self.features))
        };
        let allocation = claim.status.allocation.as_ref()?;
        if !allocation.devices.results.iter().any(is_exclusive) {
            return None;
        }
        let name = &claim.metadata.name;
        let why = match users.len() {
            _ if self.features.has(Feature::DevicesMayHaveOverhead) => {
                "has a mapped device and cannot be shared across pods"
            }
            1 => "is already used by another pod",
            _ => "shared by multiple pods",
        };
        Some(Status::unresolvable(format!("node allocatable resource claim {name} {why}")))
    }
}

impl NodeShare {
    /// The rejection of a node that has too little left; `None` if the node has enough. `change` is added to the requests
    /// of the node's pods.
    pub(super) fn shortage(&self, table: &ClusterTable, node: NodeIdx, change: &RequestChange) -> Option<Status> {
        let Requests { milli_cpu, memory, ephemeral_storage, scalars } = &self.demand;
        let named = [("cpu", *milli_cpu), ("memory", *memory), ("ephemeral-storage", *ephemeral_storage)].into_iter();
        let named = named.filter(|(_, amount)| *amount > 0);
        let huge_pages = scalars.iter().filter(|(name, _)| requests::is_huge_page_resource_name(name));
        let (mut reasons, mut code) = (Vec::new(), Code::Unschedulable);
        for (name, amount) in named.chain(huge_pages.map(|(name, amount)| (name.as_str(), *amount))) {
            // No node and no pod has a resource without a symbol.
            let [allocatable, requested] = table.symbols.lookup(name).map_or([0, 0], |name| {
                let requested = i128::from(table.requested().get(name, node)) + change.of(name);
                [i128::from(table.allocatable().get(name, node)), requested]
            });
            let amount = i128::from(amount);
            if amount > allocatable - requested {
                reasons.push(format!("Insufficient {name}"));
                if amount > allocatable {
                    code = Code::UnschedulableAndUnresolvable;
                }
            }
        }
        (!reasons.is_empty()).then_some(Status { code, reasons })
    }
}

fn device_of<'a>(slices: &'a SliceTable, result: &DeviceResult) -> Option<&'a SliceDevice> {
    let pool = PoolId { driver: result.driver.as_str().into(), pool: result.pool.as_str().into() };
    slices.devices_of(&pool).find(|device| device.device.name == result.device)
}

fn takes_something(device: &Device, features: Features) -> bool {
    if features.has(Feature::DevicesMayHaveOverhead) {
        !device.node_allocatable_resources.is_empty()
    } else {
        !device.node_allocatable_resource_mappings.is_empty()
    }
}

/// Whether the device stands for resources of its node, so that pods cannot share it.
fn is_exclusive(device: &Device, features: Features) -> bool {
    if features.has(Feature::DevicesMayHaveOverhead) {
        device.node_allocatable_resources.values().any(|resource| resource.mapping.is_some())
    } else {
        !device.node_allocatable_resource_mappings.is_empty()
    }
}
