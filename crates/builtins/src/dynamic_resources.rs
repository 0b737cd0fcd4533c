//! DynamicResources: devices for pods, by structured parameters (KEP-4381).
//!
//! A pod refers to ResourceClaims, a claim requests devices of DeviceClasses, and drivers publish devices in
//! ResourceSlices. Filter searches each node for devices ([`allocator`]), Reserve holds the devices that were found, and
//! PreBind writes the allocations into the claims ([`reservation`]). Devices may take resources of their node
//! ([`node_share`]). [`dra_cache`] holds claims, slices and classes, [`attempt`] the state of the current cycle.
//!
//! Differences from kube-scheduler: the number of steps limits the search on a node, and the time of the call limits
//! the search on all nodes. If Unreserve comes before the watch shows the claim that PreBind made for extended
//! resources, this claim stays until PostFilter deletes it in the pod's next attempt.
//!
//! Each profile has its own instance. The instances share their allocations in flight as facts
//! ([`berth_framework::ShareFacts`]), as all profiles of kube-scheduler share one `SharedDRAManager`.

mod allocator;
mod args;
mod attempt;
mod capacity;
mod cel;
mod claim_table;
mod class_devices;
mod device_id;
mod dra_cache;
mod extended;
mod hints;
mod in_use;
mod node_devices;
mod node_share;
mod objects;
mod pod_claims;
mod pools;
mod reservation;
mod slices;
mod stable_allocator;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_framework::{
    Call, ClusterEvent, ConfigureError, CycleId, DryRun, DryRunCase, Effect, EndCycle, Fact, Failure, Filter, Follow,
    HintCall, Normalize, Permission, PostFilter, PostFilterOutcome, PreBind, PreBindPreFlight, PreEnqueue, PreFilter,
    PreFlight, QueueingHint, RejectedNodes, Reserve, RestoreError, Score, ShareFacts, Sign, State, Status, Verb,
};
use berth_model::{ClusterTable, Column, Feature, NodeIdx, NodeSet, Pod};
use serde::{Deserialize, Serialize};

use self::{
    args::{DynamicResourcesArgs, RawArgs},
    attempt::{AllocationAttempt, ClaimOfPod, NodeAllocations},
    claim_table::{DeviceHolder, InFlight},
    dra_cache::{DraCache, IN_FLIGHT},
    extended::ExtendedResources,
    node_share::{RequestChange, SharePod},
    reservation::{ClaimReservation, Reservations, WriteTime},
};
pub(crate) use self::{
    class_devices::{ClassDevices, DeviceColumns, OBJECTS as DEVICE_OBJECTS},
    dra_cache::DEVICE_CLASS_PREFIX,
};
use crate::{
    built_in::{BuiltIn, Descriptor, Objects, Rule, StaticKind, plugin},
    case_walk::CaseWalk,
    node_check::{check_each, dry_run_each},
    normalize::normalize,
};

/// The number of alternatives that the API server allows in a request.
const MAX_ALTERNATIVES: i64 = 8;

/// Finds devices for the claims of pods.
#[derive(Debug)]
pub struct DynamicResources {
    args: DynamicResourcesArgs,
    cache: DraCache,
    /// The last cycle that reached PreFilter.
    reached: Option<CycleId>,
    attempt: Option<AllocationAttempt>,
    reservations: Reservations,
    /// The amounts that the pods' devices take from the resources of their nodes. The scheduler has not taken over
    /// these amounts yet.
    shares: Vec<Fact>,
}

impl BuiltIn for DynamicResources {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "DynamicResources",
        columns: &[Column::Name, Column::Labels, Column::Allocatable],
        objects: &[
            StaticKind::new(objects::API_VERSION, "ResourceClaim"),
            StaticKind::new(objects::API_VERSION, "ResourceSlice"),
            StaticKind::new(objects::API_VERSION, "DeviceClass"),
            // Each release reads one version of DeviceTaintRules, if the feature gate DRADeviceTaintRules is on.
            StaticKind::new(objects::BETA_API_VERSION, "DeviceTaintRule"),
            StaticKind::new(objects::API_VERSION, "DeviceTaintRule"),
            IN_FLIGHT,
        ],
        events_to_register: &[
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL | ClusterEvent::UPDATE_NODE_ALLOCATABLE),
            ("resource.k8s.io/ResourceClaim", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("Pod", ClusterEvent::UPDATE_POD_GENERATED_RESOURCE_CLAIM),
            ("resource.k8s.io/DeviceClass", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("resource.k8s.io/ResourceSlice", ClusterEvent::ADD | ClusterEvent::UPDATE),
        ],
        effects: &[Permission::Wait, Permission::Event],
        rules: &[
            Rule { api_group: "", kind: "Pod/status", verbs: &[Verb::Patch], objects: Objects::Pod },
            Rule {
                api_group: "resource.k8s.io",
                kind: "ResourceClaim",
                verbs: &[Verb::Patch, Verb::Create, Verb::Delete],
                objects: Objects::Claims,
            },
            Rule {
                api_group: "resource.k8s.io",
                kind: "ResourceClaim/status",
                verbs: &[Verb::Patch],
                objects: Objects::Claims,
            },
        ],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let (raw, features): (RawArgs, _) = crate::args::parse_with_features(Self::NAME, args)?;
        let args = DynamicResourcesArgs::new(raw, features).map_err(ConfigureError::new)?;
        Ok(Self {
            args,
            cache: DraCache::new(features),
            reached: None,
            attempt: None,
            reservations: Reservations::new(),
            shares: Vec::new(),
        })
    }
}

plugin!(
    DynamicResources: PreEnqueue, PreFilter, Filter, PostFilter, Score, Normalize, Reserve, PreBindPreFlight, PreBind,
    QueueingHint, Sign;
    EndCycle, Follow, Reuse, ShareFacts, State
);

impl Follow for DynamicResources {
    fn follow(&mut self, table: &ClusterTable) {
        self.cache.refresh(table.objects());
    }
}

impl EndCycle for DynamicResources {
    fn end_cycle(&mut self, cycle: CycleId) {
        self.reservations.remove(&cycle);
        if self.attempt.as_ref().is_some_and(|attempt| attempt.cycle == cycle) {
            self.attempt = None;
        }
    }
}

impl DynamicResources {
    /// The state of the current cycle, and the cache; `None` if the pod needs no devices.
    fn parts(&mut self, call: &Call<'_>) -> Option<(&mut AllocationAttempt, &mut DraCache)> {
        let attempt = self.attempt.as_mut().filter(|attempt| attempt.cycle == call.cycle)?;
        Some((attempt, &mut self.cache))
    }

    fn check(&mut self, call: &Call<'_>, node: NodeIdx) -> Status {
        status(self.rejection(call, node))
    }

    fn rejection(&mut self, call: &Call<'_>, node: NodeIdx) -> Option<Arc<Status>> {
        let (attempt, cache) = self.parts(call)?;
        attempt.rejection(cache, call, node, &RequestChange::default())
    }

    /// The pod, as far as its share of a node depends on it; `None` without the gate. The scheduler does not keep the JSON
    /// of a pod that has a node, and the claims of such a pod are reserved for it. If such a pod is explained, its share
    /// is left out.
    ///
    /// # Errors
    /// A pending pod is not kept as JSON.
    fn share_pod(
        &self,
        pod: &Pod,
        claims: &[Arc<objects::ResourceClaim>],
        extended: Option<&ExtendedResources>,
    ) -> Result<Option<SharePod>, Status> {
        if !self.args.features.has(Feature::DRANodeAllocatableResources) {
            return Ok(None);
        }
        let of_extended = extended.map(|extended| extended.existing.as_ref());
        let mut claims = claims.iter().map(Some).chain(of_extended);
        if pod.json.is_none() && claims.all(|claim| claim.is_some_and(|claim| claim.is_reserved_for(&pod.uid))) {
            return Ok(None);
        }
        SharePod::new(pod, self.args.features).map(Some)
    }

    /// Rejects a claim that another pod is about to allocate. If it is unknown whether the other pod's write succeeded,
    /// that allocation is dropped, and this pod may allocate the claim.
    fn require_not_in_flight(&mut self, claim: &objects::ResourceClaim) -> Result<(), Status> {
        let holder = DeviceHolder::Claim(claim.metadata.uid.clone());
        match self.cache.claims.in_flight(&holder) {
            None => Ok(()),
            Some(in_flight) if in_flight.is_doubtful => {
                self.cache.claims.unreserve(&holder);
                Ok(())
            }
            Some(_) => {
                let (namespace, name) = (&claim.metadata.namespace, &claim.metadata.name);
                let text = format!("resource claim {namespace}/{name} is in the process of being allocated");
                Err(Status::unresolvable(text))
            }
        }
    }
}

fn status(rejection: Option<Arc<Status>>) -> Status {
    rejection.map_or_else(Status::success, |rejection| Status::clone(&rejection))
}

impl PreEnqueue for DynamicResources {
    /// Requires that all claims exist, as `PreEnqueue` of kube-scheduler's plugin does.
    fn pre_enqueue(&mut self, pod: &Pod, table: &ClusterTable) -> Status {
        if pod.resource_claims.is_empty() {
            return Status::success();
        }
        self.cache.refresh(table.objects());
        pod_claims::resolve(pod, &table.symbols, &self.cache.claims).err().unwrap_or_else(Status::success)
    }
}

impl PreFilter for DynamicResources {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        self.reached = Some(call.cycle);
        self.attempt = None;
        self.cache.selectors.free_unused(call.now);
        if call.pod.resource_claims.is_empty() && call.pod.extended_requests.is_empty() {
            return Err(Status::skip());
        }
        self.cache.refresh(call.table.objects());
        self.cache.devices_by_node.limit(call.table);
        let claims = pod_claims::resolve(call.pod, &call.table.symbols, &self.cache.claims)?;
        let serves_extended = self.args.features.has(Feature::DRAExtendedResource);
        let extended = if serves_extended { ExtendedResources::of(call.pod, call.table, &self.cache) } else { None };
        if claims.is_empty() && extended.is_none() {
            return Err(Status::skip());
        }
        for claim in claims.iter().filter(|claim| claim.status.allocation.is_none()) {
            self.require_not_in_flight(claim)?;
            pod_claims::check_requests(claim, &self.cache, self.args.features)?;
        }
        // An allocation in flight for the pod itself is from an earlier attempt.
        self.cache.claims.unreserve(&DeviceHolder::ExtendedResourcesOf { pod_uid: call.pod.uid.to_string() });
        let share_pod = self.share_pod(call.pod, &claims, extended.as_ref())?;
        let claims = claims.into_iter().map(ClaimOfPod::new).collect();
        self.attempt = Some(AllocationAttempt::new(call.cycle, claims, extended, share_pod, self.args));
        Ok(None)
    }
}

impl Filter for DynamicResources {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        let mut rejected = NodeSet::default();
        for node in candidates.iter() {
            let Some(status) = self.rejection(call, node) else { continue };
            if !status.code.is_rejected() {
                return Err(Status::clone(&status));
            }
            rejected.insert(node);
        }
        candidates.subtract(&rejected);
        Ok(())
    }

    fn node_to_status(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        Ok(check_each(rejected, |node| self.check(call, node)))
    }

    /// The removed and added pods change only the amounts that are free for devices to take from the node's resources.
    /// The devices themselves are held by claims, which a dry run does not change.
    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        match self.parts(call) {
            Some((attempt, cache)) if attempt.compares_requests() => {
                let (mut walk, mut change) = (CaseWalk::new(pods), RequestChange::default());
                let check = |case| {
                    walk.step(case, |pod, sign| change.add(pod, sign));
                    status(attempt.rejection(cache, call, case.node, &change))
                };
                Ok(cases.iter().map(check).collect())
            }
            Some(_) | None => Ok(dry_run_each(cases, |node| self.check(call, node))),
        }
    }
}

impl PostFilter for DynamicResources {
    /// Deallocates a claim that no other pod uses and that some node cannot use, since other devices may suit this pod.
    fn post_filter(
        &mut self,
        call: &Call<'_>,
        _failure: &Failure<'_>,
        _dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        // If another plugin's PreFilter rejected the pod, kube-scheduler does not find this plugin's cycle state, and fails.
        if self.reached != Some(call.cycle) {
            return Err(Status::error("not found"));
        }
        let answer = |reason: &str, effects: Vec<Effect>| {
            Ok(PostFilterOutcome { status: Status::unschedulable(reason), nominate: None, effects })
        };
        let Some((attempt, _)) = self.parts(call) else { return answer("no new claims to deallocate", Vec::new()) };
        for (position, claim) in attempt.claims.iter().enumerate() {
            let mut users = claim.claim.status.reserved_for.iter();
            if attempt.unavailable.contains(&position) && users.all(|user| *user.uid == *call.pod.uid) {
                let effects = vec![reservation::deallocation(&claim.claim)];
                return answer("deallocation of ResourceClaim completed", effects);
            }
        }
        match attempt.extended.as_ref().and_then(|extended| extended.existing.as_ref()) {
            Some(made) => answer("deletion of ResourceClaim completed", reservation::deletion(made)),
            None => answer("still not schedulable", Vec::new()),
        }
    }
}

impl Score for DynamicResources {
    /// Nodes that can serve more preferred alternatives get higher scores.
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        let has_alternatives = self.args.features.has(Feature::DRAPrioritizedList);
        let Some((attempt, _)) = self.parts(call).filter(|_| has_alternatives) else {
            scores.resize(scores.len() + nodes.len(), 0);
            return Ok(());
        };
        for node in nodes.iter() {
            let ranks = attempt.choices(node);
            scores.push(ranks.map(|rank| MAX_ALTERNATIVES - i64::try_from(rank).unwrap_or(MAX_ALTERNATIVES)).sum());
        }
        Ok(())
    }

    fn common_score(&mut self, call: &Call<'_>, _nodes: &NodeSet) -> Option<i64> {
        self.parts(call).is_none().then_some(0)
    }
}

impl Normalize for DynamicResources {
    fn normalize(&mut self, _call: &Call<'_>, _nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status> {
        normalize(scores, false);
        Ok(())
    }
}

impl Reserve for DynamicResources {
    fn reserve(&mut self, call: &Call<'_>, node: NodeIdx) -> Status {
        if self.reservations.contains_key(&call.cycle) {
            return Status::success();
        }
        let Some((attempt, cache)) = self.parts(call) else {
            // Reserve may be called for a pod after PreFilter ran in another instance, if a snapshot was restored.
            let is_unknown = !call.pod.resource_claims.is_empty();
            return if is_unknown { Status::error("claim allocation not found for node") } else { Status::success() };
        };
        let NodeAllocations { allocations, extended_claim } =
            attempt.allocations_on(node, call.table.symbols.text(call.table.name(node)));
        let mut allocations = allocations.into_iter();
        let mut reservation = ClaimReservation::new(call);
        reservation.has_no_mappings = attempt.makes_empty_claim(node);
        reservation.node_claims = attempt.claims_for_status(node);
        if allocations.len() < attempt.unallocated().count() {
            return Status::error("claim allocation not found for node");
        }
        for ClaimOfPod { claim, .. } in attempt.existing() {
            let is_new = claim.status.allocation.is_none();
            let allocation = if is_new { allocations.next() } else { None };
            reservation.take(&mut cache.claims, claim, allocation);
        }
        if let Some((allocation, extended_claim)) = allocations.next().zip(extended_claim) {
            reservation.take_extended(&mut cache.claims, extended_claim, allocation);
        }
        self.shares.extend(reservation.node_share());
        self.reservations.insert(call.cycle, reservation);
        Status::success()
    }

    fn unreserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Vec<Effect> {
        // A fact that this instance shared would hold the devices again if it were read after they are given back.
        self.cache.refresh(call.table.objects());
        let reservation = self.reservations.remove(&call.cycle);
        match &reservation {
            Some(reservation) => reservation.undo(&mut self.cache.claims),
            None => self.cache.claims.unreserve_all_of(&call.pod.uid),
        }
        reservation::releases(call, &mut self.cache.claims, reservation.as_ref())
    }
}

impl PreBindPreFlight for DynamicResources {
    /// A pod without claims needs no PreBind.
    fn pre_bind_pre_flight(&mut self, call: &Call<'_>, _node: NodeIdx) -> Result<PreFlight, Status> {
        if !self.reservations.contains_key(&call.cycle) {
            return Err(Status::skip());
        }
        Ok(PreFlight { allow_parallel: true })
    }
}

impl PreBind for DynamicResources {
    fn pre_bind(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<Vec<Effect>, Status> {
        self.cache.refresh(call.table.objects());
        let is_reserved = self.reservations.contains_key(&call.cycle);
        if !is_reserved && self.cache.claims.holds_devices_for(&call.pod.uid) {
            // The devices were reserved by an instance that was lost, and the pod must not be bound without them.
            return Err(Status::error("claim allocation not found for node"));
        }
        let name = call.table.symbols.text(call.table.name(node));
        let at = WriteTime {
            now: call.now,
            binding_timeout: self.args.binding_timeout,
            waits: self.args.waits_for_devices(),
        };
        reservation::pre_bind(&mut self.reservations, call.cycle, &mut self.cache.claims, name, at)
    }
}

impl QueueingHint for DynamicResources {
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        self.cache.refresh(call.table.objects());
        hints::may_help(call, &self.cache.claims)
    }
}

impl Sign for DynamicResources {
    /// A pod with claims has no signature, because the next pod gets other devices. Nor has a pod with extended
    /// resources, with or without devices that back them.
    fn sign(&mut self, pod: &Pod) -> Option<String> {
        (pod.resource_claims.is_empty() && pod.extended_requests.is_empty()).then(String::new)
    }
}

impl ShareFacts for DynamicResources {
    fn take_facts(&mut self) -> Vec<Fact> {
        let mut facts = self.cache.claims.take_facts();
        facts.append(&mut self.shares);
        facts
    }
}

/// The state that another instance takes over, because the API server does not show it yet.
#[derive(Debug, Deserialize, Serialize)]
struct Snapshot {
    in_flight: Vec<(DeviceHolder, InFlight)>,
    reservations: Vec<(u64, ClaimReservation)>,
    #[serde(default)]
    releasing: BTreeMap<String, BTreeSet<String>>,
}

impl State for DynamicResources {
    fn snapshot(&mut self) -> Vec<u8> {
        let in_flight = self.cache.claims.all_in_flight();
        let state = Snapshot {
            in_flight: in_flight.map(|(holder, in_flight)| (holder.clone(), in_flight.clone())).collect(),
            reservations: self.reservations.iter().map(|(cycle, it)| (cycle.0, it.clone())).collect(),
            releasing: self.cache.claims.releasing().clone(),
        };
        serde_json::to_vec(&state).unwrap_or_default()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        let state: Snapshot = serde_json::from_slice(snapshot).map_err(RestoreError::new)?;
        for (holder, in_flight) in state.in_flight {
            self.cache.claims.restore(holder, in_flight);
        }
        self.cache.claims.restore_releasing(state.releasing);
        let reservations = state.reservations.into_iter();
        self.reservations.extend(reservations.map(|(cycle, reservation)| (CycleId(cycle), reservation)));
        Ok(())
    }
}
