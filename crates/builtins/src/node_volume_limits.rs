//! NodeVolumeLimits: a CSI driver can attach only so many volumes to a node.
//!
//! Which volumes are on which node is kept in a [`Ledger`] that follows pods and storage objects; the rule compares
//! two numbers a node and looks closer only at nodes that hold one of the pod's volumes already.

mod attachments;
mod census;
mod identity;
mod ledger;
mod limits;

use berth_framework::{Call, ClusterEvent, ConfigureError, DryRunCase, Explanation, Filter, Point, PreFilter, Status};
use berth_model::{ClusterTable, Column, NodeIdx, NodeSet, Pod, cluster_table::at};
use rustc_hash::FxHashMap;

use self::{
    census::Census,
    identity::{Driver, VolumeId},
    ledger::Ledger,
    limits::Limits,
};
use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Card, plugin},
    case_walk::CaseWalk,
    node_check::explain_each,
    storage::{self, migration},
};

const TOO_MANY: &str = "node(s) exceed max volume count";

/// Counts attached volumes by driver.
#[derive(Debug)]
pub struct NodeVolumeLimits {
    census: Census,
    limits: Limits,
    /// What the cycle's pod needs attached, or why that is unknown.
    wanted: Result<Vec<VolumeId>, Status>,
}

/// What pods that come and go change about one node.
#[derive(Debug, Default)]
struct Changes {
    /// How many more pods hold the volume; no zeros.
    held: FxHashMap<VolumeId, i64>,
    problem: Option<String>,
}

impl Changes {
    fn add(&mut self, volume: &VolumeId, sign: i64) {
        let more = self.more(volume) + sign;
        if more == 0 {
            self.held.remove(volume);
        } else {
            self.held.insert(volume.clone(), more);
        }
    }

    fn more(&self, volume: &VolumeId) -> i64 {
        self.held.get(volume).copied().unwrap_or(0)
    }
}

impl BuiltIn for NodeVolumeLimits {
    const CARD: Card = Card {
        name: "NodeVolumeLimits",
        points: &[Point::PreFilter, Point::Filter, Point::Sign],
        columns: &[Column::Name],
        pods: true,
        objects: &[storage::CLAIM, storage::VOLUME, storage::CLASS, storage::CSI_NODE, storage::ATTACHMENT],
        requeue: &[
            ("storage.k8s.io/CSINode", ClusterEvent::ADD),
            ("storage.k8s.io/CSINode", ClusterEvent::UPDATE),
            ("Pod", ClusterEvent::DELETE),
            ("PersistentVolumeClaim", ClusterEvent::ADD),
            ("storage.k8s.io/VolumeAttachment", ClusterEvent::DELETE),
        ],
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self { census: Census::new(), limits: Limits::new(), wanted: Ok(Vec::new()) })
    }
}

plugin!(NodeVolumeLimits { pre_filter: PreFilter, filter: Filter, sign: Sign }
fn follow(&mut self, table: &ClusterTable) {
    self.census.follow(table);
    self.limits.follow(table);
});

impl PreFilter for NodeVolumeLimits {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        berth_framework::Plugin::follow(self, call.table);
        let is_counted = |volume: &berth_model::pod::Volume| {
            storage::claim_name(call.pod, volume).is_some() || migration::of_inline(&volume.source).is_some()
        };
        if !call.pod.volumes.iter().any(is_counted) {
            return Err(Status::skip());
        }
        self.wanted = self.census.wanted(call.pod, &call.table.symbols);
        Ok(None)
    }
}

impl Filter for NodeVolumeLimits {
    fn filter(&mut self, _call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        let wanted = match &self.wanted {
            Ok(wanted) => wanted,
            Err(status) if status.code.is_rejected() => {
                candidates.clear();
                return Ok(());
            }
            Err(status) => return Err(status.clone()),
        };
        let demands = self.demands(wanted);
        let closer = self.nodes_to_look_closer_at(wanted);
        let mut failure = None;
        let nothing = Changes::default();
        candidates.retain(|node| {
            if let Some(demands) = &demands
                && !closer.contains(node)
            {
                return demands.iter().all(|demand| demand.is_met(node));
            }
            let status = self.check(wanted, node, &nothing);
            let passes = status.is_success();
            if !passes && !status.code.is_rejected() {
                failure.get_or_insert(status);
            }
            passes
        });
        failure.map_or(Ok(()), Err)
    }

    fn explain(&mut self, _call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<Explanation>, Status> {
        let nothing = Changes::default();
        Ok(explain_each(rejected, |node| match &self.wanted {
            Ok(wanted) => self.check(wanted, node, &nothing),
            Err(status) => status.clone(),
        }))
    }

    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        let wanted = match &self.wanted {
            Ok(wanted) => wanted,
            Err(status) => return Ok(vec![status.clone(); cases.len()]),
        };
        let symbols = &call.table.symbols;
        let volumes: Vec<_> = pods.iter().map(|pod| self.census.held_by(pod, symbols)).collect();
        let (mut walk, mut changes) = (CaseWalk::new(&volumes), Changes::default());
        let check = |case| {
            walk.step(case, |(held, _), sign| held.iter().for_each(|volume| changes.add(volume, sign)));
            let mut problems = case.plus.iter().filter_map(|at| volumes.get(*at as usize)?.1.as_ref());
            changes.problem = problems.next().cloned();
            self.check(wanted, case.node, &changes)
        };
        Ok(cases.iter().map(check).collect())
    }
}

/// So many new volumes of one driver, where none of them is attached yet.
#[derive(Debug)]
struct Demand<'a> {
    driver: &'a Driver,
    n_new: i64,
    limits: &'a [Option<i64>],
    n_attached: &'a [i64],
}

impl Demand<'_> {
    fn is_met(&self, node: NodeIdx) -> bool {
        let limit = self.limits.get(node.index()).copied().flatten();
        limit.is_none_or(|limit| at(self.n_attached, node) + self.n_new <= limit)
    }
}

impl NodeVolumeLimits {
    /// `None` if in-tree volumes have to do with it: what counts then differs from node to node.
    fn demands<'a>(&'a self, wanted: &'a [VolumeId]) -> Option<Vec<Demand<'a>>> {
        let mut demands: Vec<Demand<'a>> = Vec::new();
        for VolumeId { driver, .. } in wanted {
            if driver.migrated.is_some() || migration::of_driver(&driver.name).is_some() {
                return None;
            }
            if let Some(demand) = demands.iter_mut().find(|demand| demand.driver == driver) {
                demand.n_new += 1;
                continue;
            }
            let (limits, n_attached) = (self.limits.column(&driver.name), self.census.ledger().column(driver));
            demands.push(Demand { driver, n_new: 1, limits, n_attached });
        }
        Some(demands)
    }

    /// Where one of the volumes is in use already, or counting fails.
    fn nodes_to_look_closer_at(&self, wanted: &[VolumeId]) -> NodeSet {
        let users = wanted.iter().flat_map(|volume| self.census.ledger().nodes_of(volume));
        users.chain(self.census.problem_nodes()).collect()
    }

    /// May these volumes be attached to the node once the changes happened?
    fn check(&self, wanted: &[VolumeId], node: NodeIdx, changes: &Changes) -> Status {
        if !self.limits.has_any(node) {
            return Status::success();
        }
        let ledger = self.census.ledger();
        let counts = |volume: &&VolumeId| self.limits.is_in_use(&volume.driver, node);
        if wanted.iter().find(counts).is_none() {
            return Status::success();
        }
        if let Some(problem) = changes.problem.as_ref().or_else(|| self.census.problem_at(node)) {
            return Status::error(problem);
        }
        let is_new = |volume: &&VolumeId| ledger.n_pods(volume, node) + changes.more(volume) <= 0;
        for (at, volume) in wanted.iter().enumerate().filter(|(_, volume)| counts(volume)) {
            let of_driver = |other: &&VolumeId| other.driver.name == volume.driver.name && counts(other);
            let is_repetition = wanted.iter().take(at).any(|other| of_driver(&other));
            let Some(limit) = self.limits.of(&volume.driver.name, node).filter(|_| !is_repetition) else { continue };
            let n_new = wanted.iter().filter(of_driver).filter(is_new).count();
            if n_new == 0 {
                continue;
            }
            let n_attached = self.n_attached(&volume.driver, node, changes, ledger);
            if n_attached + i64::try_from(n_new).unwrap_or(i64::MAX) > limit {
                return Status::unschedulable(TOO_MANY);
            }
        }
        Status::success()
    }

    /// Volumes of the driver on the node, in-tree ones that it took over there included.
    fn n_attached(&self, driver: &Driver, node: NodeIdx, changes: &Changes, ledger: &Ledger) -> i64 {
        let is_of_driver = |other: &Driver| other.name == driver.name && self.limits.is_in_use(other, node);
        let mut n_attached = ledger.n_attached(driver, node);
        if let Some(migration) = migration::of_driver(&driver.name) {
            let other = match driver.migrated {
                Some(_) => Driver { name: driver.name.clone(), migrated: None },
                None => Driver { name: driver.name.clone(), migrated: Some(migration.plugin) },
            };
            if is_of_driver(&other) {
                n_attached += ledger.n_attached(&other, node);
            }
        }
        for (volume, more) in changes.held.iter().filter(|(volume, _)| is_of_driver(&volume.driver)) {
            let before = ledger.n_holders(volume, node);
            n_attached += i64::from(before + more > 0) - i64::from(before > 0);
        }
        n_attached
    }
}

#[cfg(test)]
mod tests;
