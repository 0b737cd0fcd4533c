//! DynamicResources: devices for pods, by structured parameters (KEP-4381).
//!
//! A pod names ResourceClaims; a claim asks for devices of classes; drivers publish devices in ResourceSlices. Filter
//! searches each node for devices ([`allocator`]), Reserve holds what was found, and PreBind writes it into the claims
//! ([`reservation`]).
//! What the plugin knows of claims, slices and classes is in [`cluster`], what it thinks of the pod at hand in
//! [`verdict`].
//!
//! Different from kube-scheduler: PreEnqueue sees nothing but the pod, so a claim that is missing or not the pod's is
//! found out in PreFilter. There is no clock: the search is bounded by steps, and `allocationTimestamp` stays unset. Unreserve can't
//! write, so a reservation that was written stays in the claim until the pod is scheduled or PostFilter takes it back.
//! Each profile has its own instance, and two profiles do not see what the other has in flight.

mod allocator;
mod arguments;
mod capacity;
mod cel;
mod claim_state;
mod cluster;
mod extended;
mod hints;
mod in_use;
mod layouts;
mod objects;
mod pod_claims;
mod pools;
mod reservation;
mod slices;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

use berth_framework::{
    Call, ClusterEvent, ConfigureError, CycleId, DryRun, DryRunCase, Effect, Explanation, Failure, Filter, Normalize,
    Point, PostFilter, PostFilterOutcome, PreBind, PreEnqueue, PreFilter, QueueingHint, Reserve, RestoreError, Score,
    Sign, State, Status,
};
use berth_model::{ClusterTable, Column, NodeIdx, NodeSet, Pod};
use serde::{Deserialize, Serialize};

use self::{
    arguments::Arguments,
    claim_state::{Holder, InFlight},
    cluster::Cluster,
    extended::ExtendedResources,
    reservation::{Reservation, Reservations},
    verdict::{Answer, Attempt, ClaimOfPod},
};
use crate::{
    built_in::{BuiltIn, Card, plugin},
    node_check::{dry_run_each, explain_each},
    normalize::normalize,
};

/// Alternatives that a request can have.
const MAX_ALTERNATIVES: i64 = 8;

/// Finds devices for the claims of pods.
#[derive(Debug)]
pub struct DynamicResources {
    arguments: Arguments,
    cluster: Cluster,
    /// The last cycle that reached PreFilter.
    reached: Option<CycleId>,
    attempt: Option<Attempt>,
    reservations: Reservations,
}

impl BuiltIn for DynamicResources {
    const CARD: Card = Card {
        name: "DynamicResources",
        points: &[
            Point::PreEnqueue,
            Point::PreFilter,
            Point::Filter,
            Point::PostFilter,
            Point::Score,
            Point::Normalize,
            Point::Reserve,
            Point::PreBind,
            Point::QueueingHint,
            Point::Sign,
        ],
        columns: &[Column::Name, Column::Labels, Column::Allocatable],
        objects: &[
            (objects::API_VERSION, "ResourceClaim"),
            (objects::API_VERSION, "ResourceSlice"),
            (objects::API_VERSION, "DeviceClass"),
        ],
        requeue: &[
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL | ClusterEvent::UPDATE_NODE_ALLOCATABLE),
            ("Node", ClusterEvent::UPDATE_NODE_TAINT),
            ("resource.k8s.io/ResourceClaim", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("Pod", ClusterEvent::UPDATE_POD_GENERATED_RESOURCE_CLAIM),
            ("resource.k8s.io/DeviceClass", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("resource.k8s.io/ResourceSlice", ClusterEvent::ADD | ClusterEvent::UPDATE),
        ],
        ..Card::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let arguments = Arguments::parse(Self::NAME, args)?;
        Ok(Self {
            arguments,
            cluster: Cluster::default(),
            reached: None,
            attempt: None,
            reservations: Reservations::new(),
        })
    }
}

plugin!(DynamicResources {
    pre_enqueue: PreEnqueue,
    pre_filter: PreFilter,
    filter: Filter,
    post_filter: PostFilter,
    score: Score,
    normalize: Normalize,
    reserve: Reserve,
    pre_bind: PreBind,
    queueing_hint: QueueingHint,
    sign: Sign,
    state: State,
}
fn follow(&mut self, table: &ClusterTable) {
    self.cluster.refresh(table.objects());
}

fn end_cycle(&mut self, cycle: CycleId) {
    self.reservations.remove(&cycle);
    if self.attempt.as_ref().is_some_and(|attempt| attempt.cycle == cycle) {
        self.attempt = None;
    }
});

impl DynamicResources {
    /// What PreFilter found out in this cycle, and the cluster; `None` if the pod has nothing to do with devices.
    fn parts(&mut self, call: &Call<'_>) -> Option<(&mut Attempt, &mut Cluster)> {
        let attempt = self.attempt.as_mut().filter(|attempt| attempt.cycle == call.cycle)?;
        Some((attempt, &mut self.cluster))
    }

    fn check(&mut self, call: &Call<'_>, node: NodeIdx) -> Status {
        self.rejection(call, node).map_or_else(Status::success, |rejection| Status::clone(&rejection))
    }

    fn rejection(&mut self, call: &Call<'_>, node: NodeIdx) -> Option<Arc<Status>> {
        let max_steps = self.arguments.max_steps;
        let (attempt, cluster) = self.parts(call)?;
        attempt.rejection(cluster, call, node, max_steps)
    }

    /// A claim that another pod is about to allocate can't be had; one that may or may not have been allocated can.
    fn require_not_in_flight(&mut self, claim: &objects::ResourceClaim) -> Result<(), Status> {
        let holder = Holder::Claim(claim.metadata.uid.clone());
        match self.cluster.claims.in_flight(&holder) {
            None => Ok(()),
            Some(in_flight) if in_flight.is_doubtful => {
                self.cluster.claims.unreserve(&holder);
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

impl PreEnqueue for DynamicResources {
    fn pre_enqueue(&mut self, pod: &Pod) -> Status {
        if pod_claims::are_generated(pod) { Status::success() } else { pod_claims::not_generated(&pod.name) }
    }
}

impl PreFilter for DynamicResources {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        self.reached = Some(call.cycle);
        self.attempt = None;
        if call.pod.resource_claims.is_empty() && call.pod.extended_requests.is_empty() {
            return Err(Status::skip());
        }
        self.cluster.refresh(call.table.objects());
        self.cluster.layouts.bound(call.table.n_nodes());
        let claims = pod_claims::resolve(call.pod, &call.table.symbols, &self.cluster.claims)?;
        let extended = ExtendedResources::of(call.pod, call.table, &self.cluster);
        if claims.is_empty() && extended.is_none() {
            return Err(Status::skip());
        }
        for claim in claims.iter().filter(|claim| claim.status.allocation.is_none()) {
            self.require_not_in_flight(claim)?;
            pod_claims::check_requests(claim, &self.cluster)?;
        }
        // What the pod itself left in flight belongs to an attempt that is over.
        self.cluster.claims.unreserve(&Holder::ExtendedResourcesOf { pod_uid: call.pod.uid.to_string() });
        let claims = claims.into_iter().map(ClaimOfPod::new).collect();
        self.attempt = Some(Attempt::new(call.cycle, claims, extended));
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

    fn explain(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<Explanation>, Status> {
        Ok(explain_each(rejected, |node| self.check(call, node)))
    }

    /// Pods that come and go change nothing: claims hold devices, not pods.
    fn dry_run(&mut self, call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(dry_run_each(cases, |node| self.check(call, node)))
    }
}

impl PostFilter for DynamicResources {
    /// A claim that only this pod could use and that keeps it from every node is worth giving up.
    fn post_filter(
        &mut self,
        call: &Call<'_>,
        _failure: &Failure<'_>,
        _dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        // An earlier plugin's PreFilter turned the pod down: kube-scheduler misses this plugin's state then, and says so.
        if self.reached != Some(call.cycle) {
            return Err(Status::error("not found"));
        }
        let answer = |reason: &str, effects: Vec<Effect>| {
            Ok(PostFilterOutcome { status: Status::unschedulable(reason), nominate: None, effects })
        };
        let Some((attempt, _)) = self.parts(call) else { return answer("no new claims to deallocate", Vec::new()) };
        if let Some(made) = attempt.extended.as_ref().and_then(|extended| extended.existing.as_ref()) {
            let keeps_away = made.status.allocation.is_none() || attempt.unavailable.contains(&attempt.claims.len());
            if keeps_away {
                return answer("deletion of ResourceClaim completed", reservation::deletion(made));
            }
        }
        for (position, claim) in attempt.existing().enumerate() {
            let mut users = claim.claim.status.reserved_for.iter();
            if attempt.unavailable.contains(&position) && users.all(|user| *user.uid == *call.pod.uid) {
                let effects = vec![reservation::deallocation(&claim.claim)];
                return answer("deallocation of ResourceClaim completed", effects);
            }
        }
        answer("still not schedulable", Vec::new())
    }
}

impl Score for DynamicResources {
    /// The more a request's alternative is preferred, the better the node.
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        let Some((attempt, _)) = self.parts(call) else {
            scores.resize(scores.len() + nodes.len(), 0);
            return Ok(());
        };
        for node in nodes.iter() {
            let ranks = attempt.choices(node).iter();
            scores.push(ranks.map(|rank| MAX_ALTERNATIVES - i64::try_from(*rank).unwrap_or(MAX_ALTERNATIVES)).sum());
        }
        Ok(())
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
        let Some((attempt, cluster)) = self.parts(call) else {
            // A binary that took over is told of pods that it never saw.
            let is_strange = !call.pod.resource_claims.is_empty();
            return if is_strange { Status::error("claim allocation not found for node") } else { Status::success() };
        };
        let Answer { allocations, needs } = attempt.answer(node, call.table.symbols.text(call.table.name(node)));
        let mut allocations = allocations.into_iter();
        let mut reservation = Reservation::new(call);
        if allocations.len() < attempt.unallocated().count() {
            return Status::error("claim allocation not found for node");
        }
        for ClaimOfPod { claim, .. } in attempt.existing() {
            let is_new = claim.status.allocation.is_none();
            let allocation = if is_new { allocations.next() } else { None };
            reservation.take(&mut cluster.claims, claim, allocation);
        }
        if let Some((allocation, needs)) = allocations.next().zip(needs) {
            reservation.take_extended(&mut cluster.claims, needs, allocation);
        }
        self.reservations.insert(call.cycle, reservation);
        Status::success()
    }

    fn unreserve(&mut self, call: &Call<'_>, _node: NodeIdx) {
        if let Some(reservation) = self.reservations.remove(&call.cycle) {
            reservation.give_back(&mut self.cluster.claims);
        }
    }
}

impl PreBind for DynamicResources {
    fn pre_bind(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<Vec<Effect>, Status> {
        self.cluster.refresh(call.table.objects());
        let name = call.table.symbols.text(call.table.name(node));
        let timeout = self.arguments.binding_timeout;
        reservation::pre_bind(&mut self.reservations, call.cycle, &self.cluster.claims, name, timeout)
    }
}

impl QueueingHint for DynamicResources {
    fn queueing_hint(&mut self, pod: &Pod, event: &ClusterEvent, old: Option<&[u8]>, new: Option<&[u8]>) -> bool {
        hints::is_worth_it(pod, event, old, new)
    }
}

impl Sign for DynamicResources {
    /// The next pod gets other devices. Which resources devices stand for is not asked here.
    fn sign(&mut self, pod: &Pod) -> Option<String> {
        (pod.resource_claims.is_empty() && pod.extended_requests.is_empty()).then(String::new)
    }
}

/// What the next binary must know: nothing of it is in the API server yet.
#[derive(Debug, Deserialize, Serialize)]
struct Handover {
    in_flight: Vec<(Holder, InFlight)>,
    reservations: Vec<(u64, Reservation)>,
}

impl State for DynamicResources {
    fn snapshot(&mut self) -> Vec<u8> {
        let in_flight = self.cluster.claims.all_in_flight();
        let handover = Handover {
            in_flight: in_flight.map(|(holder, in_flight)| (holder.clone(), in_flight.clone())).collect(),
            reservations: self.reservations.iter().map(|(cycle, it)| (cycle.0, it.clone())).collect(),
        };
        serde_json::to_vec(&handover).unwrap_or_default()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        let handover: Handover = serde_json::from_slice(snapshot).map_err(RestoreError::new)?;
        for (holder, in_flight) in handover.in_flight {
            self.cluster.claims.restore(holder, in_flight);
        }
        let reservations = handover.reservations.into_iter();
        self.reservations.extend(reservations.map(|(cycle, reservation)| (CycleId(cycle), reservation)));
        Ok(())
    }
}
