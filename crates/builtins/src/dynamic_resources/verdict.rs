//! One attempt at one pod: what PreFilter found out about its claims, and what each node can do for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_framework::{Call, CycleId, Status};
use berth_model::{NodeIdx, api::StringMap, selector::NodeMatcher};

use super::{
    allocator::{self, Allocated, AllocationError, Inventory, Offer},
    cluster::{Cluster, labels_of},
    extended::{ExtendedResources, Needs, claim_for},
    objects::{Allocation, DeviceResult, DeviceStatus, NodeSelector, ResourceClaim},
    slices::NodeView,
};

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) cycle: CycleId,
    /// The claims that the pod names.
    pub(super) claims: Vec<ClaimOfPod>,
    pub(super) extended: Option<ExtendedResources>,
    /// The claim that an earlier attempt made for the extended resources.
    existing: Option<ClaimOfPod>,
    verdicts: BTreeMap<NodeIdx, Verdict>,
    /// Positions in [`Attempt::existing`] of allocated claims that some node could not use.
    pub(super) unavailable: BTreeSet<usize>,
}

#[derive(Debug)]
pub(super) struct ClaimOfPod {
    pub(super) claim: Arc<ResourceClaim>,
    matcher: Option<NodeMatcher>,
}

/// What one node can do.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) status: Status,
    /// For each claim without an allocation, in order; the claim for extended resources last.
    pub(super) allocated: Vec<Allocated>,
    pub(super) needs: Needs,
}

impl ClaimOfPod {
    pub(super) fn new(claim: Arc<ResourceClaim>) -> Self {
        let allocation = claim.status.allocation.as_ref();
        let matcher = allocation.and_then(|it| it.node_selector.as_ref()).map(NodeSelector::matcher);
        Self { claim, matcher }
    }

    /// Whether the node can use the devices that the claim has. One without an allocation has nothing against any.
    fn is_available_on(&self, node: NodeView<'_>) -> Result<bool, String> {
        let Some(allocation) = &self.claim.status.allocation else { return Ok(true) };
        let matches = self.matcher.as_ref().map_or(Ok(true), |matcher| matcher.matches(node.name, node.labels));
        Ok(matches.map_err(|error| error.to_string())? && failed_condition(&self.claim, allocation).is_none())
    }
}

/// The result and the status of a device that will not get ready.
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

/// Whether all devices of the claim report what was to be waited for.
pub(super) fn is_ready(claim: &ResourceClaim, allocation: &Allocation) -> bool {
    allocation.devices.results.iter().all(|result| {
        let conditions = status_of(claim, result).map(|status| status.conditions.as_slice()).unwrap_or_default();
        let is_true = |kind: &String| conditions.iter().any(|it| it.kind == *kind && it.status == "True");
        result.binding_conditions.iter().all(is_true)
    })
}

fn status_of<'a>(claim: &'a ResourceClaim, result: &DeviceResult) -> Option<&'a DeviceStatus> {
    claim.status.devices.iter().find(|status| {
        status.driver == result.driver
            && status.pool == result.pool
            && status.device == result.device
            && status.share_id == result.share_id
    })
}

impl Attempt {
    pub(super) fn new(cycle: CycleId, claims: Vec<ClaimOfPod>, extended: Option<ExtendedResources>) -> Self {
        let existing = extended.as_ref().and_then(|it| it.existing.clone()).map(ClaimOfPod::new);
        Self { cycle, claims, extended, existing, verdicts: BTreeMap::new(), unavailable: BTreeSet::new() }
    }

    /// All claims that exist: those that the pod names, then the one for its extended resources.
    pub(super) fn existing(&self) -> impl Iterator<Item = &ClaimOfPod> {
        self.claims.iter().chain(&self.existing)
    }

    pub(super) fn unallocated(&self) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        self.claims.iter().map(|it| &it.claim).filter(|claim| claim.status.allocation.is_none())
    }

    pub(super) fn known_verdict(&self, node: NodeIdx) -> Option<&Verdict> {
        self.verdicts.get(&node)
    }

    /// Found out once for a node and attempt.
    pub(super) fn status(&mut self, cluster: &mut Cluster, call: &Call<'_>, node: NodeIdx, max_steps: u64) -> Status {
        if let Some(verdict) = self.verdicts.get(&node) {
            return verdict.status.clone();
        }
        let mut verdict = Verdict { status: Status::success(), allocated: Vec::new(), needs: Needs::default() };
        if let Err(status) = self.judge(cluster, call, node, max_steps, &mut verdict) {
            verdict.status = status;
        }
        let status = verdict.status.clone();
        self.verdicts.insert(node, verdict);
        status
    }

    fn judge(
        &mut self,
        cluster: &mut Cluster,
        call: &Call<'_>,
        node: NodeIdx,
        max_steps: u64,
        verdict: &mut Verdict,
    ) -> Result<(), Status> {
        let snapshot = call.snapshot;
        if let Some(extended) = &self.extended {
            let no_way = || Status::unresolvable("cannot fit resource");
            verdict.needs = extended.needs_on(call.pod, snapshot, node).ok_or_else(no_way)?;
            if extended.existing.as_ref().is_some_and(|it| it.status.allocation.is_none()) {
                return Err(Status::unresolvable("cannot schedule extended resource claim"));
            }
        }
        let needs_labels = cluster.slices.has_shared_slices() || self.existing().any(|it| it.matcher.is_some());
        let labels = if needs_labels { labels_of(snapshot, node) } else { StringMap::new() };
        let view = NodeView { name: snapshot.symbols.text(snapshot.name(node)), labels: &labels };
        let is_available = self.note_unavailable(view)?;
        verdict.allocated = self.allocate(cluster, call, view, max_steps, &verdict.needs)?;
        if is_available {
            return Ok(());
        }
        Err(Status::unresolvable("resourceclaim not available on the node"))
    }

    /// Whether the node can use all claims that are allocated.
    fn note_unavailable(&mut self, node: NodeView<'_>) -> Result<bool, Status> {
        let mut unavailable = Vec::new();
        for (position, claim) in self.existing().enumerate() {
            if !claim.is_available_on(node).map_err(Status::error)? {
                unavailable.push(position);
            }
        }
        let is_available = unavailable.is_empty();
        self.unavailable.extend(unavailable);
        Ok(is_available)
    }

    fn allocate(
        &self,
        cluster: &mut Cluster,
        call: &Call<'_>,
        node: NodeView<'_>,
        max_steps: u64,
        needs: &Needs,
    ) -> Result<Vec<Allocated>, Status> {
        let makes_claim = !needs.requests.is_empty() && self.existing.is_none();
        let made = makes_claim.then(|| claim_for(call.pod, call.snapshot.symbols.text(call.pod.namespace), needs));
        let claims: Vec<&ResourceClaim> = self.unallocated().map(Arc::as_ref).chain(&made).collect();
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let Cluster { slices, classes, claims: table, selectors, .. } = cluster;
        let inventory = Inventory { slices, classes, in_use: table.in_use() };
        match allocator::allocate(&inventory, selectors, &claims, node, max_steps) {
            Ok(Offer::Allocated(allocated)) => Ok(allocated),
            Ok(Offer::Nothing) => Err(Status::unresolvable("cannot allocate all claims")),
            Ok(Offer::NothingWithoutInvalid(pool)) => {
                Err(Status::unresolvable(format!("invalid resource pools were encountered: {pool}")))
            }
            Err(error @ AllocationError::TimedOut) => Err(Status::error(format!("node {}: {error}", node.name))),
            Err(error @ AllocationError::Failed(_)) => Err(Status::error(error.to_string())),
        }
    }
}
