//! VolumeBinding: bound volumes must be usable from the node, and unbound claims must find a volume there, or one must
//! be made.
//!
//! Filter decides for all nodes at once ([`matching`]). Reserve takes the volumes chosen for one node ([`shelf`] and
//! [`claims`] remember that until the API server does), PreBind writes the choice down and waits until the volume
//! controller has followed it ([`reservation`]).

mod claims;
mod matching;
mod provisioning;
mod reservation;
mod shelf;
mod version;

use berth_framework::{
    Call, ClusterEvent, ConfigureError, CycleId, DryRunCase, Effect, Explanation, Filter, Point, PreBind, PreFilter,
    PreScore, Reserve, Score, Status,
};
use berth_model::{ClusterTable, Column, NodeIdx, NodeSet, Pod};
use rustc_hash::FxHashMap;
use serde::Deserialize;

use self::{
    claims::{Claims, PodClaims},
    matching::{Choices, Matching, Verdicts},
    provisioning::Provisioning,
    reservation::{Progress, Reservation},
    shelf::Shelf,
};
use crate::{
    args,
    built_in::{BuiltIn, Card, plugin},
    node_check::{dry_run_each, explain_each},
    storage,
};

/// Provisioning a volume may take ten minutes.
const BIND_TIMEOUT_SECONDS: i64 = 600;

/// Finds volumes for claims.
#[derive(Debug)]
pub struct VolumeBinding {
    bind_timeout_ms: u64,
    claims: Claims,
    shelf: Shelf,
    provisioning: Provisioning,
    current: Option<Current>,
    /// Pods between Reserve and the end of their cycle that took something.
    reservations: FxHashMap<CycleId, Reservation>,
}

/// The pod that is looking for a node.
#[derive(Debug)]
struct Current {
    cycle: CycleId,
    claims: PodClaims,
    /// Worked out when the first node is asked about.
    verdicts: Option<Verdicts>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct VolumeBindingArgs {
    bind_timeout_seconds: Option<i64>,
    /// Belongs to the feature StorageCapacityScoring, which is off.
    shape: Option<Vec<serde::de::IgnoredAny>>,
}

impl BuiltIn for VolumeBinding {
    const CARD: Card = Card {
        name: "VolumeBinding",
        points: &[
            Point::PreFilter,
            Point::Filter,
            Point::PreScore,
            Point::Score,
            Point::Reserve,
            Point::PreBind,
            Point::Sign,
        ],
        columns: &[Column::Name, Column::Labels],
        objects: &[storage::CLAIM, storage::VOLUME, storage::CLASS, storage::CSI_DRIVER, storage::CAPACITY],
        requeue: &[
            ("storage.k8s.io/StorageClass", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("PersistentVolumeClaim", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("PersistentVolume", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL),
            ("storage.k8s.io/CSINode", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("storage.k8s.io/CSIDriver", ClusterEvent::UPDATE),
            ("storage.k8s.io/CSIStorageCapacity", ClusterEvent::ADD | ClusterEvent::UPDATE),
        ],
        ..Card::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let args: VolumeBindingArgs = args::parse(Self::NAME, args)?;
        let seconds = args.bind_timeout_seconds.unwrap_or(BIND_TIMEOUT_SECONDS);
        let invalid = || {
            format!(
                "bindTimeoutSeconds: Invalid value: {seconds}: invalid BindTimeoutSeconds, should not be a negative value"
            )
        };
        let seconds = u64::try_from(seconds).map_err(|_| invalid())?;
        if args.shape.is_some_and(|shape| !shape.is_empty()) {
            return Err(
                "shape: Forbidden: cannot be set while the feature StorageCapacityScoring is off, remove it".into()
            );
        }
        Ok(Self {
            bind_timeout_ms: seconds.saturating_mul(1000),
            claims: Claims::new(),
            shelf: Shelf::new(),
            provisioning: Provisioning::new(),
            current: None,
            reservations: FxHashMap::default(),
        })
    }
}

plugin!(VolumeBinding {
    pre_filter: PreFilter,
    filter: Filter,
    pre_score: PreScore,
    score: Score,
    reserve: Reserve,
    pre_bind: PreBind, sign: Sign }
fn follow(&mut self, table: &ClusterTable) {
    self.claims.follow(table);
    self.shelf.follow(table);
    self.provisioning.follow(table);
}

fn end_cycle(&mut self, cycle: CycleId) {
    self.give_back(cycle);
    if self.current.as_ref().is_some_and(|current| current.cycle == cycle) {
        self.current = None;
    }
});

impl VolumeBinding {
    /// Makes sure that there are verdicts on all nodes.
    fn judge(&mut self, call: &Call<'_>) {
        let Some(current) = self.current.as_mut().filter(|current| current.verdicts.is_none()) else { return };
        let matching = Matching::new(&mut self.shelf, &mut self.provisioning, call.table, None);
        current.verdicts = Some(matching.run(&current.claims, call.table.nodes()));
    }

    fn verdicts(&self) -> Option<&Verdicts> {
        self.current.as_ref().and_then(|current| current.verdicts.as_ref())
    }

    fn check(&self, node: NodeIdx) -> Status {
        let Some(verdicts) = self.verdicts() else { return Status::success() };
        if let Some((_, text)) = verdicts.failed.as_ref().filter(|(nodes, _)| nodes.contains(node)) {
            return Status::error(text);
        }
        if !verdicts.rejected.contains(node) {
            return Status::success();
        }
        Status::new(berth_framework::Code::UnschedulableAndUnresolvable, verdicts.reasons(node))
    }

    /// What the pod's unbound claims get on the node; `None` if it cannot go there or has no such claims.
    fn choose(&mut self, call: &Call<'_>, node: NodeIdx) -> Option<Choices> {
        let current = self.current.as_ref().filter(|current| current.cycle == call.cycle)?;
        let mut choices = Choices::default();
        let matching = Matching::new(&mut self.shelf, &mut self.provisioning, call.table, Some(&mut choices));
        let verdicts = matching.run(&current.claims, &[node].into_iter().collect());
        let passes = verdicts.rejected.is_empty() && verdicts.failed.is_none();
        (passes && !current.claims.delayed.is_empty()).then_some(choices)
    }

    fn give_back(&mut self, cycle: CycleId) {
        if let Some(reservation) = self.reservations.remove(&cycle) {
            reservation.give_back(&mut self.shelf, &mut self.claims);
        }
    }
}

impl PreFilter for VolumeBinding {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        self.current = None;
        berth_framework::Plugin::follow(self, call.table);
        let claims = self.claims.of_pod(call, &self.provisioning.classes)?;
        self.current = Some(Current { cycle: call.cycle, claims, verdicts: None });
        Ok(None)
    }
}

impl Filter for VolumeBinding {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        self.judge(call);
        let Some(verdicts) = self.verdicts() else { return Ok(()) };
        if let Some((nodes, text)) = &verdicts.failed {
            let mut asked = candidates.clone();
            asked.intersect(nodes);
            if !asked.is_empty() {
                return Err(Status::error(text));
            }
        }
        candidates.subtract(&verdicts.rejected);
        Ok(())
    }

    fn explain(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<Explanation>, Status> {
        self.judge(call);
        Ok(explain_each(rejected, |node| self.check(node)))
    }

    fn dry_run(&mut self, call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        self.judge(call);
        Ok(dry_run_each(cases, |node| self.check(node)))
    }
}

/// Scoring by capacity belongs to the feature StorageCapacityScoring, which is off.
impl PreScore for VolumeBinding {
    fn pre_score(&mut self, _call: &Call<'_>, _nodes: &NodeSet) -> Result<(), Status> {
        Err(Status::skip())
    }
}

impl Score for VolumeBinding {
    fn score(&mut self, _call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        scores.extend(nodes.iter().map(|_| 0));
        Ok(())
    }
}

impl Reserve for VolumeBinding {
    fn reserve(&mut self, call: &Call<'_>, node: NodeIdx) -> Status {
        self.give_back(call.cycle);
        if let Some(choices) = self.choose(call, node) {
            let name = call.table.symbols.text(call.table.name(node));
            let reservation = Reservation::take(name, choices, &mut self.shelf, &mut self.claims);
            self.reservations.insert(call.cycle, reservation);
        }
        Status::success()
    }

    fn unreserve(&mut self, call: &Call<'_>, _node: NodeIdx) {
        self.give_back(call.cycle);
    }
}

impl PreBind for VolumeBinding {
    fn pre_bind(&mut self, call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        berth_framework::Plugin::follow(self, call.table);
        let Some(reservation) = self.reservations.get_mut(&call.cycle) else { return Err(Status::skip()) };
        let mut effects = reservation.take_patches();
        if effects.is_empty() {
            match reservation.progress(call.table, &mut self.shelf, &self.claims) {
                Ok(Progress::Done) => return Ok(effects),
                Ok(Progress::Waiting) => {}
                Err(text) => return Err(Status::error(format!("binding volumes: {text}"))),
            }
        }
        effects.push(reservation.wait(self.bind_timeout_ms, &self.claims));
        Ok(effects)
    }
}

#[cfg(test)]
mod tests;
