//! VolumeBinding: a bound volume must be usable from the node. Each unbound claim needs an available volume that is
//! usable from the node, or a volume that can be provisioned.
//!
//! Filter decides for all nodes at once ([`matching`]). Reserve chooses the volumes for one node; [`volumes`] and
//! [`claims`] assume the choice until the API server shows it. PreBind writes the choice and waits until the
//! PersistentVolume controller has bound the claims ([`reservation`]).

mod claims;
mod hints;
mod matching;
mod provisioning;
mod reservation;
mod scoring;
mod version;
mod volumes;

use berth_framework::{
    Call, ClusterEvent, ConfigureError, CycleId, DryRunCase, Effect, EndCycle, Filter, Follow, HintCall, Permission,
    PreBind, PreBindPreFlight, PreFilter, PreFlight, PreScore, QueueingHint, RejectedNodes, Reserve, Score, Status,
    Verb,
};
use berth_model::{ClusterTable, Column, Feature, Features, NodeIdx, NodeSet, Pod};
use rustc_hash::FxHashMap;
use serde::Deserialize;

use self::{
    claims::{Claims, PodClaims},
    matching::{Matching, NodeRejections, PodVolumes},
    provisioning::Provisioning,
    reservation::{BindingProgress, VolumeReservation},
    scoring::CapacityScoring,
    volumes::Volumes,
};
use crate::{
    args,
    built_in::{BuiltIn, Descriptor, Objects, Rule, plugin},
    node_check::{check_each, dry_run_each},
    storage,
    utilization_shape::{PointArgs, ShapeError},
};

/// The default of `bindTimeoutSeconds`.
const BIND_TIMEOUT_SECONDS: i64 = 600;

/// Finds volumes for the claims of pods.
#[derive(Debug)]
pub struct VolumeBinding {
    bind_timeout_ms: u64,
    claims: Claims,
    volumes: Volumes,
    provisioning: Provisioning,
    /// The scoring by capacity. `None` without the gate StorageCapacityScoring.
    scoring: Option<CapacityScoring>,
    current: Option<CurrentPod>,
    /// The reservations of the pods between Reserve and the end of their cycle.
    reservations: FxHashMap<CycleId, VolumeReservation>,
}

/// The pod that is looking for a node.
#[derive(Debug)]
struct CurrentPod {
    cycle: CycleId,
    claims: PodClaims,
    /// The rejections, which are computed with the first node.
    rejections: Option<NodeRejections>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct VolumeBindingArgs {
    bind_timeout_seconds: Option<i64>,
    /// The arg of the gate StorageCapacityScoring.
    shape: Option<Vec<PointArgs>>,
}

/// A value that the plugin refuses.
#[derive(Debug, thiserror::Error)]
enum InvalidArgs {
    #[error("bindTimeoutSeconds: Invalid value: {0}: invalid BindTimeoutSeconds, should not be a negative value")]
    BindTimeout(i64),
    #[error("shape: Forbidden: unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring")]
    ShapeWithoutGate,
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl VolumeBindingArgs {
    fn bind_timeout_ms(&self) -> Result<u64, InvalidArgs> {
        let seconds = self.bind_timeout_seconds.unwrap_or(BIND_TIMEOUT_SECONDS);
        let seconds = u64::try_from(seconds).map_err(|_| InvalidArgs::BindTimeout(seconds))?;
        Ok(seconds.saturating_mul(1000))
    }

    fn scoring(&self, features: Features) -> Result<Option<CapacityScoring>, InvalidArgs> {
        let points = self.shape.as_deref().unwrap_or_default();
        if features.has(Feature::StorageCapacityScoring) {
            return Ok(Some(CapacityScoring::new(points)?));
        }
        if points.is_empty() { Ok(None) } else { Err(InvalidArgs::ShapeWithoutGate) }
    }
}

impl BuiltIn for VolumeBinding {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "VolumeBinding",
        columns: &[Column::Name, Column::Labels],
        objects: &[
            storage::CLAIM,
            storage::VOLUME,
            storage::CLASS,
            storage::CSI_NODE,
            storage::CSI_DRIVER,
            storage::CAPACITY,
        ],
        events_to_register: &[
            ("storage.k8s.io/StorageClass", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("PersistentVolumeClaim", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("PersistentVolume", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL),
            ("storage.k8s.io/CSINode", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("storage.k8s.io/CSIDriver", ClusterEvent::UPDATE),
            ("storage.k8s.io/CSIStorageCapacity", ClusterEvent::ADD | ClusterEvent::UPDATE),
        ],
        effects: &[Permission::Wait],
        rules: &[
            Rule { api_group: "", kind: "PersistentVolumeClaim", verbs: &[Verb::Patch], objects: Objects::Claims },
            Rule { api_group: "", kind: "PersistentVolume", verbs: &[Verb::Patch], objects: Objects::Any },
        ],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let (args, features): (VolumeBindingArgs, _) = args::parse_with_features(Self::NAME, args)?;
        Ok(Self {
            scoring: args.scoring(features).map_err(ConfigureError::new)?,
            bind_timeout_ms: args.bind_timeout_ms().map_err(ConfigureError::new)?,
            claims: Claims::new(),
            volumes: Volumes::new(),
            provisioning: Provisioning::new(),
            current: None,
            reservations: FxHashMap::default(),
        })
    }
}

plugin!(
    VolumeBinding: PreFilter, Filter, PreScore, Score, Reserve, PreBindPreFlight, PreBind, QueueingHint, Sign;
    EndCycle, Follow, Reuse
);

impl QueueingHint for VolumeBinding {
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        hints::may_help(call)
    }
}

impl Follow for VolumeBinding {
    fn follow(&mut self, table: &ClusterTable) {
        self.claims.follow(table);
        self.volumes.follow(table);
        self.provisioning.follow(table);
    }
}

impl EndCycle for VolumeBinding {
    fn end_cycle(&mut self, cycle: CycleId) {
        self.undo_reservation(cycle);
        if self.current.as_ref().is_some_and(|current| current.cycle == cycle) {
            self.current = None;
        }
    }
}

impl VolumeBinding {
    /// Matches volumes for all nodes, unless it has already done so.
    fn match_volumes(&mut self, call: &Call<'_>) {
        let Some(current) = self.current.as_mut().filter(|current| current.rejections.is_none()) else { return };
        let matching = Matching::new(&mut self.volumes, &mut self.provisioning, call.table, None);
        current.rejections = Some(matching.run(&current.claims, call.table.nodes()));
    }

    fn rejections(&self) -> Option<&NodeRejections> {
        self.current.as_ref().and_then(|current| current.rejections.as_ref())
    }

    fn check(&self, node: NodeIdx) -> Status {
        let Some(rejections) = self.rejections() else { return Status::success() };
        if let Some((_, error)) = rejections.failed.as_ref().filter(|(nodes, _)| nodes.contains(node)) {
            return Status::error(error.to_string());
        }
        if !rejections.rejected.contains(node) {
            return Status::success();
        }
        Status::new(berth_framework::Code::UnschedulableAndUnresolvable, rejections.reasons(node))
    }

    /// The volumes for the pod's unbound claims on the node; `None` if the node is rejected or there are no such claims.
    fn choose(&mut self, call: &Call<'_>, node: NodeIdx) -> Option<PodVolumes> {
        let current = self.current.as_ref().filter(|current| current.cycle == call.cycle)?;
        let mut pod_volumes = PodVolumes::default();
        let matching = Matching::new(&mut self.volumes, &mut self.provisioning, call.table, Some(&mut pod_volumes));
        let rejections = matching.run(&current.claims, &[node].into_iter().collect());
        let passes = rejections.rejected.is_empty() && rejections.failed.is_none();
        (passes && !current.claims.delayed.is_empty()).then_some(pod_volumes)
    }

    /// Whether scores depend on the pod's claims.
    fn scores_claims(&self, call: &Call<'_>) -> bool {
        let current = self.current.as_ref().filter(|current| current.cycle == call.cycle);
        self.scoring.is_some() && current.is_some_and(|current| !current.claims.delayed.is_empty())
    }

    fn undo_reservation(&mut self, cycle: CycleId) {
        if let Some(reservation) = self.reservations.remove(&cycle) {
            reservation.undo(&mut self.volumes, &mut self.claims);
        }
    }
}

impl PreFilter for VolumeBinding {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        self.current = None;
        Follow::follow(self, call.table);
        let claims = self.claims.of_pod(call, &self.provisioning.classes)?;
        self.current = Some(CurrentPod { cycle: call.cycle, claims, rejections: None });
        Ok(None)
    }
}

impl Filter for VolumeBinding {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        self.match_volumes(call);
        let Some(rejections) = self.rejections() else { return Ok(()) };
        if let Some((nodes, error)) = &rejections.failed {
            let mut asked = candidates.clone();
            asked.intersect(nodes);
            if !asked.is_empty() {
                return Err(Status::error(error.to_string()));
            }
        }
        candidates.subtract(&rejections.rejected);
        Ok(())
    }

    fn node_to_status(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        self.match_volumes(call);
        Ok(check_each(rejected, |node| self.check(node)))
    }

    fn dry_run(&mut self, call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        self.match_volumes(call);
        Ok(dry_run_each(cases, |node| self.check(node)))
    }
}

impl PreScore for VolumeBinding {
    /// Skips scoring without the gate StorageCapacityScoring.
    fn pre_score(&mut self, _call: &Call<'_>, _nodes: &NodeSet) -> Result<(), Status> {
        if self.scoring.is_some() { Ok(()) } else { Err(Status::skip()) }
    }
}

impl Score for VolumeBinding {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        for node in nodes.iter() {
            let chosen = if self.scores_claims(call) { self.choose(call, node) } else { None };
            let scoring = self.scoring.as_ref().zip(chosen);
            let table = call.table;
            scores.push(
                scoring.map_or(0, |(scoring, chosen)| scoring.score(&chosen, &mut self.provisioning, table, node)),
            );
        }
        Ok(())
    }

    fn common_score(&mut self, call: &Call<'_>, _nodes: &NodeSet) -> Option<i64> {
        (!self.scores_claims(call)).then_some(0)
    }
}

impl Reserve for VolumeBinding {
    fn reserve(&mut self, call: &Call<'_>, node: NodeIdx) -> Status {
        self.undo_reservation(call.cycle);
        if let Some(pod_volumes) = self.choose(call, node) {
            let name = call.table.symbols.text(call.table.name(node));
            let reservation = VolumeReservation::take(name, pod_volumes, &mut self.volumes, &mut self.claims);
            self.reservations.insert(call.cycle, reservation);
        }
        Status::success()
    }

    /// kube-scheduler's plugin writes nothing here either: a claim keeps the volume that PreBind gave it.
    fn unreserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Vec<Effect> {
        self.undo_reservation(call.cycle);
        Vec::new()
    }
}

impl PreBindPreFlight for VolumeBinding {
    /// A pod needs no PreBind if all its claims are bound.
    fn pre_bind_pre_flight(&mut self, call: &Call<'_>, _node: NodeIdx) -> Result<PreFlight, Status> {
        if !self.reservations.contains_key(&call.cycle) {
            return Err(Status::skip());
        }
        Ok(PreFlight { allow_parallel: true })
    }
}

impl PreBind for VolumeBinding {
    fn pre_bind(&mut self, call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        Follow::follow(self, call.table);
        let Some(reservation) = self.reservations.get_mut(&call.cycle) else { return Err(Status::skip()) };
        let mut effects = reservation.take_patches();
        if effects.is_empty() {
            match reservation.progress(call.table, &mut self.volumes, &self.claims) {
                Ok(BindingProgress::Done) => return Ok(effects),
                Ok(BindingProgress::Waiting) => {}
                Err(error) => return Err(Status::error(format!("binding volumes: {error}"))),
            }
        }
        effects.push(reservation.wait(self.bind_timeout_ms, &self.claims));
        Ok(effects)
    }
}

#[cfg(test)]
mod tests;
