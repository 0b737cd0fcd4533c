//! One attempt at one pod: what PreFilter found out about its claims, and what each node can do for them.

use std::{collections::BTreeSet, sync::Arc};

use berth_framework::{Call, CycleId, Status};
use berth_model::{ClusterTable, NodeIdx, Sym, api::StringMap, selector::NodeMatcher};

use super::{
    allocator::{self, AllocationError, Devices, Inventory, Offer, Plan},
    cluster::{Cluster, text_of},
    extended::{ExtendedResources, Needs, claim_for},
    layouts::Layout,
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
    /// One for each set of extended resources that nodes miss; as a rule there is one.
    wishes: Vec<Wish>,
    verdicts: Vec<Option<Verdict>>,
    /// The rejection that most nodes get, made once.
    no_devices: Arc<Status>,
    /// Positions in [`Attempt::existing`] of allocated claims that some node could not use.
    pub(super) unavailable: BTreeSet<usize>,
}

#[derive(Debug)]
pub(super) struct ClaimOfPod {
    pub(super) claim: Arc<ResourceClaim>,
    matcher: Option<NodeMatcher>,
}

/// What is asked of a node.
#[derive(Debug)]
struct Wish {
    /// Positions of the extended resources that the node misses.
    missing: Vec<usize>,
    needs: Needs,
    /// For each claim without an allocation, in order; the claim for extended resources last. `None` without any.
    plan: Option<Plan>,
}

/// What one node can do.
#[derive(Debug)]
struct Verdict {
    /// `None`: the node is fine.
    rejection: Option<Arc<Status>>,
    found: Option<Found>,
}

#[derive(Debug)]
struct Found {
    wish_idx: usize,
    /// `None` if nothing was to be allocated.
    devices: Option<Devices>,
}

/// The allocations that a node has for a pod.
#[derive(Debug, Default)]
pub(super) struct Answer<'a> {
    /// For each claim without an allocation, in order; the claim for extended resources last.
    pub(super) allocations: Vec<Allocation>,
    pub(super) needs: Option<&'a Needs>,
}

/// A node as an attempt looks at it.
#[derive(Clone, Copy)]
struct Node<'a> {
    table: &'a ClusterTable,
    name: &'a str,
    /// Left out when no slice goes by labels.
    labels: &'a [(Sym, Sym)],
}

impl ClaimOfPod {
    pub(super) fn new(claim: Arc<ResourceClaim>) -> Self {
        let allocation = claim.status.allocation.as_ref();
        let matcher = allocation.and_then(|it| it.node_selector.as_ref()).map(NodeSelector::matcher);
        Self { claim, matcher }
    }

    /// Whether the node can use the devices that the claim has. One without an allocation has nothing against any.
    fn is_available_on(&self, name: &str, labels: &StringMap) -> Result<bool, String> {
        let Some(allocation) = &self.claim.status.allocation else { return Ok(true) };
        let matches = self.matcher.as_ref().map_or(Ok(true), |matcher| matcher.matches(name, labels));
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
        Self {
            cycle,
            claims,
            extended,
            existing,
            wishes: Vec::new(),
            verdicts: Vec::new(),
            no_devices: Arc::new(Status::unresolvable("cannot allocate all claims")),
            unavailable: BTreeSet::new(),
        }
    }

    /// All claims that exist: those that the pod names, then the one for its extended resources.
    pub(super) fn existing(&self) -> impl Iterator<Item = &ClaimOfPod> {
        self.claims.iter().chain(&self.existing)
    }

    pub(super) fn unallocated(&self) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        self.claims.iter().map(|it| &it.claim).filter(|claim| claim.status.allocation.is_none())
    }

    fn found(&self, node: NodeIdx) -> Option<&Found> {
        self.verdicts.get(node.index())?.as_ref()?.found.as_ref()
    }

    /// Which alternatives the node has for the requests that have some.
    pub(super) fn choices(&self, node: NodeIdx) -> &[usize] {
        let devices = self.found(node).and_then(|found| found.devices.as_ref());
        devices.map(|devices| devices.choices.as_slice()).unwrap_or_default()
    }

    /// What the node was found to have.
    pub(super) fn answer(&self, node: NodeIdx, node_name: &str) -> Answer<'_> {
        let Some(found) = self.found(node) else { return Answer::default() };
        let Some(wish) = self.wishes.get(found.wish_idx) else { return Answer::default() };
        let devices = found.devices.as_ref().zip(wish.plan.as_ref());
        let allocations = devices.map(|(devices, plan)| devices.allocations(plan, node_name)).unwrap_or_default();
        Answer { allocations, needs: Some(&wish.needs) }
    }

    /// Found out once for a node and attempt. `None`: the node is fine.
    pub(super) fn rejection(
        &mut self,
        cluster: &mut Cluster,
        call: &Call<'_>,
        node: NodeIdx,
        max_steps: u64,
    ) -> Option<Arc<Status>> {
        if let Some(Some(verdict)) = self.verdicts.get(node.index()) {
            return verdict.rejection.clone();
        }
        let mut verdict = Verdict { rejection: None, found: None };
        if let Err(status) = self.judge(cluster, call, node, max_steps, &mut verdict.found) {
            verdict.rejection = Some(status);
        }
        let rejection = verdict.rejection.clone();
        if self.verdicts.len() <= node.index() {
            let n_nodes = call.table.n_nodes().max(node.index() + 1);
            self.verdicts.resize_with(n_nodes, || None);
        }
        if let Some(slot) = self.verdicts.get_mut(node.index()) {
            *slot = Some(verdict);
        }
        rejection
    }

    fn judge(
        &mut self,
        cluster: &mut Cluster,
        call: &Call<'_>,
        node_idx: NodeIdx,
        max_steps: u64,
        found: &mut Option<Found>,
    ) -> Result<(), Arc<Status>> {
        let table = call.table;
        let mut missing = Vec::new();
        if let Some(extended) = &self.extended {
            let no_way = || Status::unresolvable("cannot fit resource");
            missing = extended.missing_on(table, node_idx).ok_or_else(no_way)?;
            if extended.existing.as_ref().is_some_and(|it| it.status.allocation.is_none()) {
                return Err(Status::unresolvable("cannot schedule extended resource claim").into());
            }
        }
        let labels = table.labels().of(node_idx);
        let name = table.symbols.text(table.name(node_idx));
        let is_available = self.note_unavailable(name, || text_of(labels, &table.symbols))?;
        let labels = if cluster.slices.has_shared_slices() { labels } else { &[] };
        let wish_idx = self.wish(cluster, call, missing);
        let node = Node { table, name, labels };
        *found = Some(Found { wish_idx, devices: self.devices(cluster, wish_idx, node, max_steps)? });
        if is_available {
            return Ok(());
        }
        Err(Status::unresolvable("resourceclaim not available on the node").into())
    }

    /// Whether the node can use all claims that are allocated.
    fn note_unavailable(&mut self, name: &str, labels: impl FnOnce() -> StringMap) -> Result<bool, Status> {
        if self.existing().all(|it| it.claim.status.allocation.is_none()) {
            return Ok(true);
        }
        let labels = if self.existing().any(|it| it.matcher.is_some()) { labels() } else { StringMap::new() };
        let mut unavailable = Vec::new();
        for (position, claim) in self.existing().enumerate() {
            if !claim.is_available_on(name, &labels).map_err(Status::error)? {
                unavailable.push(position);
            }
        }
        let is_available = unavailable.is_empty();
        self.unavailable.extend(unavailable);
        Ok(is_available)
    }

    /// Position of what is asked of a node that misses these extended resources.
    fn wish(&mut self, cluster: &mut Cluster, call: &Call<'_>, missing: Vec<usize>) -> usize {
        if let Some(known) = self.wishes.iter().position(|wish| wish.missing == missing) {
            return known;
        }
        let symbols = &call.table.symbols;
        let needs = self.extended.as_ref().map(|extended| extended.needs(call.pod, symbols, &missing));
        let needs = needs.unwrap_or_default();
        let makes_claim = !needs.requests.is_empty() && self.existing.is_none();
        let made = makes_claim.then(|| Arc::new(claim_for(call.pod, symbols.text(call.pod.namespace), &needs)));
        let claims: Vec<Arc<ResourceClaim>> = self.unallocated().cloned().chain(made).collect();
        let plan = (!claims.is_empty()).then(|| Plan::new(&cluster.classes, &mut cluster.selectors, claims));
        self.wishes.push(Wish { missing, needs, plan });
        self.wishes.len() - 1
    }

    fn devices(
        &self,
        cluster: &mut Cluster,
        wish_idx: usize,
        node: Node<'_>,
        max_steps: u64,
    ) -> Result<Option<Devices>, Arc<Status>> {
        let Some(plan) = self.wishes.get(wish_idx).and_then(|wish| wish.plan.as_ref()) else { return Ok(None) };
        let Cluster { slices, claims, selectors, layouts, .. } = cluster;
        let make = || {
            let labels = text_of(node.labels, &node.table.symbols);
            Layout::new(slices, NodeView { name: node.name, labels: &labels })
        };
        let layout = layouts.of(node.name, node.labels, make).map_err(Status::error)?;
        let inventory = Inventory { slices, in_use: claims.in_use() };
        match allocator::allocate(&inventory, selectors, plan, layout, max_steps) {
            Ok(Offer::Devices(devices)) => Ok(Some(devices)),
            Ok(Offer::Nothing) => Err(Arc::clone(&self.no_devices)),
            Ok(Offer::NothingWithoutInvalid(pool)) => {
                Err(Status::unresolvable(format!("invalid resource pools were encountered: {pool}")).into())
            }
            Err(error @ AllocationError::TimedOut) => Err(Status::error(format!("node {}: {error}", node.name)).into()),
            Err(error @ AllocationError::Failed(_)) => Err(Status::error(error.to_string()).into()),
        }
    }
}
