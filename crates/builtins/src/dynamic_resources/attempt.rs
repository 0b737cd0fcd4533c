//! One attempt to schedule a pod: the claims that PreFilter found, and the devices of each node for them.

use std::{collections::BTreeSet, sync::Arc};

use berth_framework::{Call, CycleId, Deadline, Status};
use berth_model::{
    ClusterTable, Feature, NodeIdx, Sym, Time,
    api::{NodeAllocatableClaimStatus, StringMap},
    selector::{NodeMatcher, SelectorError},
};

use super::{
    allocator::{self, AllocationOutcome, Devices, Inventory, Plan, SearchLimit},
    args::DynamicResourcesArgs,
    dra_cache::{DraCache, text_of},
    extended::{ExtendedClaim, ExtendedResources, claim_for},
    node_devices::NodeDevices,
    node_share::{NodeShare, RequestChange, SharePod},
    objects::{Allocation, DeviceResult, DeviceStatus, NodeSelector, ResourceClaim},
    slices::NodeView,
};

/// The state of one scheduling cycle, from PreFilter to Reserve.
#[derive(Debug)]
pub(super) struct AllocationAttempt {
    pub(super) cycle: CycleId,
    /// The claims that the pod names.
    pub(super) claims: Vec<ClaimOfPod>,
    pub(super) extended: Option<ExtendedResources>,
    /// The claim that an earlier attempt made for the extended resources.
    existing: Option<ClaimOfPod>,
    /// One entry for each set of extended resources that nodes lack. Usually there is one such set.
    node_requests: Vec<NodeRequest>,
    /// Results by node, for the nodes that were checked.
    results: Vec<Option<NodeResult>>,
    args: DynamicResourcesArgs,
    /// The most frequent rejection, shared by the nodes that get it.
    no_devices: Arc<Status>,
    /// Positions in [`AllocationAttempt::existing`] of allocated claims that some node could not use.
    pub(super) unavailable: BTreeSet<usize>,
    /// The pod; `None` without the gate DRANodeAllocatableResources.
    share_pod: Option<SharePod>,
}

/// A claim of the pod.
#[derive(Debug)]
pub(super) struct ClaimOfPod {
    pub(super) claim: Arc<ResourceClaim>,
    /// The node selector of the claim's allocation.
    matcher: Option<NodeMatcher>,
}

/// The resources that the pod needs from a node.
#[derive(Debug)]
struct NodeRequest {
    /// Positions of the extended resources that the node lacks.
    missing: Vec<usize>,
    extended_claim: ExtendedClaim,
    /// The plan for each claim without an allocation, in order, with the claim for extended resources last. `None`
    /// means that the pod has no claim for extended resources.
    plan: Option<Plan>,
}

/// Whether the pod can run on a node, and the devices for it.
#[derive(Debug)]
struct NodeResult {
    /// `None` if the node passes.
    rejection: Option<Arc<Status>>,
    found: Option<FoundDevices>,
    /// The amounts that the pod takes from the node with these devices; `None` if the devices take nothing. The node
    /// must have these amounts free. If it has not, the node is rejected for this reason, and not with `rejection`.
    share: Option<NodeShare>,
}

/// The devices that the search found on a node.
#[derive(Debug)]
struct FoundDevices {
    node_request_idx: usize,
    /// `None` if nothing was to be allocated.
    devices: Option<Devices>,
}

/// The allocations of a node for a pod.
#[derive(Debug, Default)]
pub(super) struct NodeAllocations<'a> {
    /// An allocation for each claim that had no allocation so far, in order; the claim for extended resources last.
    pub(super) allocations: Vec<Allocation>,
    pub(super) extended_claim: Option<&'a ExtendedClaim>,
}

/// The node for which devices are searched.
#[derive(Clone, Copy)]
struct NodeInfo<'a> {
    table: &'a ClusterTable,
    name: &'a str,
    /// Empty when no slice selects nodes by label.
    labels: &'a [(Sym, Sym)],
}

impl ClaimOfPod {
    pub(super) fn new(claim: Arc<ResourceClaim>) -> Self {
        let allocation = claim.status.allocation.as_ref();
        let matcher = allocation.and_then(|it| it.node_selector.as_ref()).map(NodeSelector::matcher);
        Self { claim, matcher }
    }

    /// Whether the node can use the devices of the claim. A claim without an allocation can be used everywhere. A claim
    /// that was allocated before `deadline` must be ready; without a deadline, the conditions of devices do not matter.
    fn is_available_on(&self, name: &str, labels: &StringMap, deadline: Option<Time>) -> Result<bool, SelectorError> {
        let Some(allocation) = &self.claim.status.allocation else { return Ok(true) };
        let matches = self.matcher.as_ref().map_or(Ok(true), |matcher| matcher.matches(name, labels));
        let Some(deadline) = deadline else { return matches };
        let is_late = || !is_ready(&self.claim, allocation) && was_made_before(allocation, deadline);
        Ok(matches? && failed_condition(&self.claim, allocation).is_none() && !is_late())
    }
}

/// `false` if the allocation has no time.
fn was_made_before(allocation: &Allocation, time: Time) -> bool {
    allocation.allocation_timestamp.as_deref().and_then(Time::from_rfc3339).is_some_and(|made| made < time)
}

/// The first device for which the driver reports a binding failure condition, with the condition (KEP-5007).
pub(super) fn failed_condition<'a>(
    claim: &'a ResourceClaim,
    allocation: &'a Allocation,
) -> Option<(&'a DeviceResult, &'a super::objects::Condition)> {
    allocation.devices.results.iter().find_map(|result| {
        let conditions = &status_of(claim, result)?.conditions;
        let is_failure = |kind: &String| result.binding_failure_conditions.contains(kind);
        let failed = conditions.iter().find(|it| it.status == "True" && is_failure(&it.kind))?;
        Some((result, failed))
    })
}

/// Whether all binding conditions of the claim's devices are true (KEP-5007).
pub(super) fn is_ready(claim: &ResourceClaim, allocation: &Allocation) -> bool {
    allocation.devices.results.iter().all(|result| {
        let conditions = status_of(claim, result).map(|status| status.conditions.as_slice()).unwrap_or_default();
        let is_true = |kind: &String| conditions.iter().any(|it| it.kind == *kind && it.status == "True");
        result.binding_conditions.iter().all(is_true)
    })
}

/// The alternative of each request of an allocated claim, for requests with alternatives.
fn choices_of(claim: &ResourceClaim) -> impl Iterator<Item = usize> {
    let results = claim.status.allocation.iter().flat_map(|allocation| &allocation.devices.results);
    let names: BTreeSet<&str> = results.map(|result| result.request.as_str()).collect();
    let requests = claim.spec.devices.requests.iter().filter(|request| request.exactly.is_none());
    let alternatives =
        requests.flat_map(|request| request.first_available.iter().enumerate().map(move |it| (request, it)));
    let chosen = alternatives.filter(move |(request, (_, alternative))| {
        names.contains(format!("{}/{}", request.name, alternative.name).as_str())
    });
    chosen.map(|(_, (rank, _))| rank)
}

fn status_of<'a>(claim: &'a ResourceClaim, result: &DeviceResult) -> Option<&'a DeviceStatus> {
    claim.status.devices.iter().find(|status| {
        status.driver == result.driver
            && status.pool == result.pool
            && status.device == result.device
            && status.share_id == result.share_id
    })
}

impl NodeResult {
    fn rejection(&self, table: &ClusterTable, node: NodeIdx, change: &RequestChange) -> Option<Arc<Status>> {
        let shortage = self.share.as_ref().and_then(|share| share.shortage(table, node, change));
        shortage.map(Arc::new).or_else(|| self.rejection.clone())
    }
}

impl AllocationAttempt {
    pub(super) fn new(
        cycle: CycleId,
        claims: Vec<ClaimOfPod>,
        extended: Option<ExtendedResources>,
        share_pod: Option<SharePod>,
        args: DynamicResourcesArgs,
    ) -> Self {
        let existing = extended.as_ref().and_then(|it| it.existing.clone()).map(ClaimOfPod::new);
        Self {
            cycle,
            claims,
            extended,
            existing,
            node_requests: Vec::new(),
            results: Vec::new(),
            args,
            no_devices: Arc::new(Status::unresolvable("cannot allocate all claims")),
            unavailable: BTreeSet::new(),
            share_pod,
        }
    }

    /// All existing claims: first the claims that the pod names, then the claim for the pod's extended resources.
    pub(super) fn existing(&self) -> impl Iterator<Item = &ClaimOfPod> {
        self.claims.iter().chain(&self.existing)
    }

    pub(super) fn unallocated(&self) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        self.claims.iter().map(|it| &it.claim).filter(|claim| claim.status.allocation.is_none())
    }

    fn found(&self, node: NodeIdx) -> Option<&FoundDevices> {
        self.results.get(node.index())?.as_ref()?.found.as_ref()
    }

    /// The alternative that the node serves for each request with alternatives, and the alternatives of the claims that
    /// are already allocated. Returns none if the node needs no allocation.
    pub(super) fn choices(&self, node: NodeIdx) -> impl Iterator<Item = usize> {
        let devices = self.found(node).and_then(|found| found.devices.as_ref());
        let is_asked = devices.is_some() || self.makes_empty_claim(node);
        let chosen = devices.map(|devices| devices.choices.as_slice()).unwrap_or_default();
        let allocated = self.existing().filter(move |_| is_asked).flat_map(|it| choices_of(&it.claim));
        chosen.iter().copied().chain(allocated)
    }

    /// The allocations that were found for the node; none if the node was not checked.
    pub(super) fn allocations_on(&self, node: NodeIdx, node_name: &str) -> NodeAllocations<'_> {
        let Some(found) = self.found(node) else { return NodeAllocations::default() };
        let Some(node_request) = self.node_requests.get(found.node_request_idx) else {
            return NodeAllocations::default();
        };
        let devices = found.devices.as_ref().zip(node_request.plan.as_ref());
        let features = self.args.features;
        let allocations =
            devices.map(|(devices, plan)| devices.allocations(features, plan, node_name)).unwrap_or_default();
        NodeAllocations { allocations, extended_claim: Some(&node_request.extended_claim) }
    }

    /// Whether kube-scheduler would make a claim without requests for the pod's extended resources. kube-scheduler
    /// makes such a claim if the node has all of these resources and the pod has claims of its own, and PreBind then
    /// fails.
    pub(super) fn makes_empty_claim(&self, node: NodeIdx) -> bool {
        let node_request = self.found(node).and_then(|found| self.node_requests.get(found.node_request_idx));
        let is_empty = node_request.is_some_and(|node_request| node_request.extended_claim.requests.is_empty());
        self.extended.is_some() && self.existing.is_none() && !self.claims.is_empty() && is_empty
    }

    /// The entries for the pod's `status.nodeAllocatableResourceClaimStatuses` if the pod is placed on the node; `None` if
    /// the status stays as it is.
    pub(super) fn claims_for_status(&self, node: NodeIdx) -> Option<Vec<NodeAllocatableClaimStatus>> {
        let share = self.results.get(node.index()).and_then(|result| result.as_ref()?.share.as_ref());
        let has_old_share = || self.share_pod.as_ref().is_some_and(SharePod::has_old_share);
        share.map(|share| share.claims.clone()).or_else(|| has_old_share().then(Vec::new))
    }

    /// Whether the plugin compares the pod with the requests of a node's pods.
    pub(super) fn compares_requests(&self) -> bool {
        self.share_pod.is_some()
    }

    /// The reason why the pod cannot run on the node; `None` if the pod can run on the node. `change` is added to the
    /// requests of the node's pods. The search for devices runs once for each node.
    pub(super) fn rejection(
        &mut self,
        cache: &mut DraCache,
        call: &Call<'_>,
        node: NodeIdx,
        change: &RequestChange,
    ) -> Option<Arc<Status>> {
        if let Some(Some(result)) = self.results.get(node.index()) {
            return result.rejection(call.table, node, change);
        }
        let mut result = NodeResult { rejection: None, found: None, share: None };
        if let Err(status) = self.evaluate(cache, call, node, &mut result) {
            result.rejection = Some(status);
        }
        let rejection = result.rejection(call.table, node, change);
        if self.results.len() <= node.index() {
            let n_nodes = call.table.n_nodes().max(node.index() + 1);
            self.results.resize_with(n_nodes, || None);
        }
        if let Some(slot) = self.results.get_mut(node.index()) {
            *slot = Some(result);
        }
        rejection
    }

    fn evaluate(
        &mut self,
        cache: &mut DraCache,
        call: &Call<'_>,
        node_idx: NodeIdx,
        result: &mut NodeResult,
    ) -> Result<(), Arc<Status>> {
        let table = call.table;
        let mut missing = Vec::new();
        if let Some(extended) = &self.extended {
            if extended.is_left_over {
                return Err(Status::unresolvable("cannot schedule extended resource claim").into());
            }
            let does_not_fit = || Status::unresolvable("cannot fit resource");
            missing = extended.missing_on(table, node_idx).ok_or_else(does_not_fit)?;
        }
        let labels = table.labels().of(node_idx);
        let name = table.symbols.text(table.name(node_idx));
        let deadline = Time(call.now.0.saturating_sub(self.args.binding_timeout));
        let unavailable = self.unavailable_on(name, || text_of(labels, &table.symbols), deadline)?;
        self.require_unshared(cache, call, NodeInfo { table, name, labels })?;
        let labels = if cache.slices.has_shared_slices() { labels } else { &[] };
        let deadline = if self.args.is_timed { call.deadline } else { Deadline::NEVER };
        let node_request_idx = self.node_request(cache, &Call { deadline, ..*call }, missing);
        let node = NodeInfo { table, name, labels };
        let limit = SearchLimit { steps: self.args.max_steps, deadline };
        let devices = self.devices(cache, node_request_idx, node, limit)?;
        let found = result.found.insert(FoundDevices { node_request_idx, devices });
        result.share = self.share_on(cache, node, found)?;
        if unavailable.is_empty() {
            return Ok(());
        }
        // Only nodes with devices for the pod reach this line, so no claim need be deallocated.
        let is_short = |share: &NodeShare| share.shortage(table, node_idx, &RequestChange::default()).is_some();
        if !result.share.as_ref().is_some_and(is_short) {
            self.unavailable.extend(unavailable);
        }
        Err(Status::unresolvable("resourceclaim not available on the node").into())
    }

    /// # Errors
    /// Another pod uses an allocated claim whose devices pods cannot share (KEP-5517).
    fn require_unshared(&self, cache: &DraCache, call: &Call<'_>, node: NodeInfo<'_>) -> Result<(), Status> {
        let Some(pod) = &self.share_pod else { return Ok(()) };
        let labels = text_of(node.labels, &node.table.symbols);
        for ClaimOfPod { claim, matcher } in self.existing() {
            let matches = matcher.as_ref().map_or(Ok(true), |matcher| matcher.matches(node.name, &labels));
            if !matches.map_err(|error| Status::error(error.to_string()))? {
                continue;
            }
            if let Some(rejection) = pod.sharing_rejection(&cache.slices, claim, &call.pod.uid) {
                return Err(rejection);
            }
        }
        Ok(())
    }

    /// The amounts that the pod takes from the node with the devices that were found for it (KEP-5517). In Kubernetes
    /// 1.36, claims that were allocated before the pod's attempt do not count.
    fn share_on(
        &self,
        cache: &DraCache,
        node: NodeInfo<'_>,
        found: &FoundDevices,
    ) -> Result<Option<NodeShare>, Status> {
        let Some(pod) = &self.share_pod else { return Ok(None) };
        let features = self.args.features;
        let plan = self.node_requests.get(found.node_request_idx).and_then(|node_request| node_request.plan.as_ref());
        let new = found.devices.as_ref().zip(plan);
        let allocations = new.map(|(devices, plan)| devices.allocations(features, plan, node.name));
        let allocations = allocations.unwrap_or_default();
        let new_claims = new.into_iter().flat_map(|(_, plan)| plan.claims()).zip(&allocations);
        let counts_old = features.has(Feature::DevicesMayHaveOverhead);
        let old = self.existing().filter(|_| counts_old).map(|it| &*it.claim);
        let old = old.filter_map(|claim| Some((claim, claim.status.allocation.as_ref()?)));
        let labels = text_of(node.labels, &node.table.symbols);
        pod.on_node(&cache.slices, NodeView { name: node.name, labels: &labels }, old.chain(new_claims))
    }

    /// Positions of the allocated claims that the node cannot use.
    fn unavailable_on(
        &self,
        name: &str,
        labels: impl FnOnce() -> StringMap,
        deadline: Time,
    ) -> Result<Vec<usize>, Status> {
        if self.existing().all(|it| it.claim.status.allocation.is_none()) {
            return Ok(Vec::new());
        }
        let labels = if self.existing().any(|it| it.matcher.is_some()) { labels() } else { StringMap::new() };
        let mut unavailable = Vec::new();
        let deadline = self.args.waits_for_devices().then_some(deadline);
        for (position, claim) in self.existing().enumerate() {
            if !claim.is_available_on(name, &labels, deadline).map_err(|error| Status::error(error.to_string()))? {
                unavailable.push(position);
            }
        }
        Ok(unavailable)
    }

    /// The position of the resources that the pod needs from a node without these extended resources.
    fn node_request(&mut self, cache: &mut DraCache, call: &Call<'_>, missing: Vec<usize>) -> usize {
        if let Some(known) = self.node_requests.iter().position(|node_request| node_request.missing == missing) {
            return known;
        }
        let symbols = &call.table.symbols;
        let extended_claim = self.extended.as_ref().map(|extended| extended.claim_on(call.pod, symbols, &missing));
        let extended_claim = extended_claim.unwrap_or_default();
        let makes_claim = !extended_claim.requests.is_empty() && self.existing.is_none();
        let made =
            makes_claim.then(|| Arc::new(claim_for(call.pod, symbols.text(call.pod.namespace), &extended_claim)));
        let claims: Vec<Arc<ResourceClaim>> = self.unallocated().cloned().chain(made).collect();
        let DraCache { slices, claims: table, selectors, classes, .. } = cache;
        let inventory = Inventory { slices, in_use: table.in_use(), features: self.args.features };
        let plan = (!claims.is_empty()).then(|| Plan::new(&inventory, classes, selectors, claims, call.deadline));
        self.node_requests.push(NodeRequest { missing, extended_claim, plan });
        self.node_requests.len() - 1
    }

    fn devices(
        &mut self,
        cache: &mut DraCache,
        node_request_idx: usize,
        node: NodeInfo<'_>,
        limit: SearchLimit<'_>,
    ) -> Result<Option<Devices>, Arc<Status>> {
        let Some(plan) = self.node_requests.get(node_request_idx).and_then(|node_request| node_request.plan.as_ref())
        else {
            return Ok(None);
        };
        let DraCache { slices, claims, selectors, devices_by_node, .. } = cache;
        let features = self.args.features;
        let make = || {
            let labels = text_of(node.labels, &node.table.symbols);
            NodeDevices::new(slices, features, NodeView { name: node.name, labels: &labels })
        };
        let node_devices = devices_by_node.of(node.name, node.labels, make);
        let node_devices = node_devices.map_err(|error| Status::error(error.to_string()))?;
        let inventory = Inventory { slices, in_use: claims.in_use(), features: self.args.features };
        match allocator::allocate(&inventory, selectors, plan, node_devices, limit) {
            Ok(AllocationOutcome::Devices(devices)) => Ok(Some(devices)),
            Ok(AllocationOutcome::Nothing) => Err(Arc::clone(&self.no_devices)),
            // The message does not name the pool, because nodes with the same reason are counted together in the pod's
            // message.
            Ok(AllocationOutcome::NothingWithInvalidPool) => {
                Err(Status::unresolvable("invalid resource pools were encountered").into())
            }
            Err(error) if error.is_timeout() => {
                let allowed = limit.deadline.allowed().filter(|_| limit.is_over());
                let had = allowed
                    .map_or_else(String::new, |it| format!("; the time limit of the search was {} ms", it.as_millis()));
                Err(Status::error(format!("node {}: {error}{had}", node.name)).into())
            }
            Err(error) => Err(Status::error(error.to_string()).into()),
        }
    }
}
