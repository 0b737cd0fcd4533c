//! NodeVolumeLimits: a CSI driver can attach only a limited number of volumes to a node.
//!
//! [`VolumeTracker`] keeps the number of volumes on each node while pods and storage objects change. For most nodes,
//! Filter compares this number with the limit. It checks single volumes only on nodes where one of the pod's volumes is
//! already in use.

mod attached_volumes;
mod attachments;
mod hints;
mod limits;
mod required_drivers;
mod tracker;
mod volume_id;

use berth_framework::{
    Call, ClusterEvent, ConfigureError, DryRunCase, Filter, Follow, HintCall, PreFilter, QueueingHint, RejectedNodes,
    Status,
};
use berth_model::{ClusterTable, Column, Feature, NodeIdx, NodeSet, Pod, cluster_table::at};
use rustc_hash::FxHashMap;

use self::{
    attached_volumes::AttachedVolumes,
    limits::Limits,
    required_drivers::RequiredDrivers,
    tracker::VolumeTracker,
    volume_id::{Driver, VolumeId},
};
use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Descriptor, plugin},
    case_walk::CaseWalk,
    node_check::check_each,
    storage::{self, ClaimError, migration},
};

const TOO_MANY: &str = "node(s) exceed max volume count";

/// Counts attached volumes by driver.
#[derive(Debug)]
pub struct NodeVolumeLimits {
    tracker: VolumeTracker,
    limits: Limits,
    /// The drivers that a node must have. `None` without the gate VolumeLimitScaling.
    required_drivers: Option<RequiredDrivers>,
    /// The volumes that the cycle's pod needs, or the reason why these volumes are unknown.
    wanted: Result<Vec<VolumeId>, Status>,
    /// The wanted volumes that some claim of the pod has from their driver, and not only from the in-tree plugin that
    /// the driver replaced. They are known only with the gate VolumeLimitScaling.
    of_drivers: Vec<VolumeId>,
}

/// The changes of a dry run with other pods on one node.
#[derive(Debug, Default)]
struct DryRunChanges {
    /// The number of additional pods that use each volume. Volumes with the number zero are not in the map.
    held: FxHashMap<VolumeId, i64>,
    /// The reason why a claim of an added pod cannot be counted.
    problem: Option<ClaimError>,
}

impl DryRunChanges {
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
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "NodeVolumeLimits",
        columns: &[Column::Name],
        pods: true,
        objects: &[
            storage::CLAIM,
            storage::VOLUME,
            storage::CLASS,
            storage::CSI_NODE,
            storage::CSI_DRIVER,
            storage::ATTACHMENT,
        ],
        events_to_register: &[
            ("storage.k8s.io/CSINode", ClusterEvent::ADD),
            ("storage.k8s.io/CSINode", ClusterEvent::UPDATE),
            ("Pod", ClusterEvent::DELETE),
            ("PersistentVolumeClaim", ClusterEvent::ADD),
            ("storage.k8s.io/VolumeAttachment", ClusterEvent::DELETE),
        ],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let (NoArgs {}, features) = args::parse_with_features(Self::NAME, args)?;
        let required_drivers = features.has(Feature::VolumeLimitScaling).then(RequiredDrivers::new);
        Ok(Self {
            tracker: VolumeTracker::new(),
            limits: Limits::new(),
            required_drivers,
            wanted: Ok(Vec::new()),
            of_drivers: Vec::new(),
        })
    }
}

plugin!(NodeVolumeLimits: PreFilter, Filter, QueueingHint, Sign; Follow, Reuse);

impl Follow for NodeVolumeLimits {
    fn follow(&mut self, table: &ClusterTable) {
        self.tracker.follow(table);
        self.limits.follow(table);
        if let Some(required) = &mut self.required_drivers {
            required.follow(table);
        }
    }
}

impl PreFilter for NodeVolumeLimits {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        Follow::follow(self, call.table);
        let is_counted = |volume: &berth_model::pod::Volume| {
            storage::claim_name(call.pod, volume).is_some() || migration::may_be_migrated(&volume.source)
        };
        if !call.pod.volumes.iter().any(is_counted) {
            return Err(Status::skip());
        }
        self.wanted = self.tracker.wanted(call.pod, &call.table.symbols);
        if self.required_drivers.is_some() {
            self.of_drivers = self.tracker.of_drivers(call.pod, &call.table.symbols);
        }
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
        let new_volumes = self.new_volumes(wanted);
        let detailed = self.nodes_to_check_in_detail(wanted);
        let mut failure = None;
        let nothing = DryRunChanges::default();
        candidates.retain(|node| {
            if let Some(new_volumes) = &new_volumes
                && !detailed.contains(node)
            {
                if self.missing_driver(wanted, node).is_some() {
                    return false;
                }
                return new_volumes.iter().all(|of_driver| of_driver.is_met(node));
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

    fn node_to_status(&mut self, _call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        let nothing = DryRunChanges::default();
        Ok(check_each(rejected, |node| match &self.wanted {
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
        let volumes: Vec<_> = pods.iter().map(|pod| self.tracker.held_by(pod, symbols)).collect();
        let (mut walk, mut changes) = (CaseWalk::new(&volumes), DryRunChanges::default());
        let check = |case| {
            walk.step(case, |(held, _), sign| held.iter().for_each(|volume| changes.add(volume, sign)));
            let mut problems = case.plus.iter().filter_map(|at| volumes.get(*at as usize)?.1.as_ref());
            changes.problem = problems.next().cloned();
            self.check(wanted, case.node, &changes)
        };
        Ok(cases.iter().map(check).collect())
    }
}

/// The new volumes of one driver, for nodes to which none of these volumes is attached yet.
#[derive(Debug)]
struct NewVolumes<'a> {
    driver: &'a Driver,
    n_new: i64,
    limits: &'a [Option<i64>],
    n_attached: &'a [i64],
}

impl NewVolumes<'_> {
    fn is_met(&self, node: NodeIdx) -> bool {
        let limit = self.limits.get(node.index()).copied().flatten();
        limit.is_none_or(|limit| at(self.n_attached, node) + self.n_new <= limit)
    }
}

impl NodeVolumeLimits {
    /// The wanted volumes by driver. `None` means that a driver replaces an in-tree plugin only on some nodes, so the
    /// volumes that count differ from node to node.
    fn new_volumes<'a>(&'a self, wanted: &'a [VolumeId]) -> Option<Vec<NewVolumes<'a>>> {
        let mut new_volumes: Vec<NewVolumes<'a>> = Vec::new();
        for VolumeId { driver, .. } in wanted {
            if driver.migrated.is_some() || migration::partly_migrated_to(&driver.name).is_some() {
                return None;
            }
            if let Some(of_driver) = new_volumes.iter_mut().find(|of_driver| of_driver.driver == driver) {
                of_driver.n_new += 1;
                continue;
            }
            let (limits, n_attached) = (self.limits.column(&driver.name), self.tracker.attached().column(driver));
            new_volumes.push(NewVolumes { driver, n_new: 1, limits, n_attached });
        }
        Some(new_volumes)
    }

    /// Nodes on which a wanted volume is already in use, or on which counting fails. Volumes on such nodes must be
    /// checked one by one.
    fn nodes_to_check_in_detail(&self, wanted: &[VolumeId]) -> NodeSet {
        let users = wanted.iter().flat_map(|volume| self.tracker.attached().nodes_of(volume));
        users.chain(self.tracker.problem_nodes()).collect()
    }

    /// Whether these volumes can be attached to the node after `changes`.
    fn check(&self, wanted: &[VolumeId], node: NodeIdx, changes: &DryRunChanges) -> Status {
        if let Some(driver) = self.missing_driver(wanted, node) {
            return Status::unschedulable(format!("{driver} CSI driver is not installed on the node"));
        }
        if !self.limits.has_any(node) {
            return Status::success();
        }
        let attached = self.tracker.attached();
        let counts = |volume: &&VolumeId| self.limits.is_in_use(&volume.driver, node);
        if wanted.iter().find(counts).is_none() {
            return Status::success();
        }
        if let Some(problem) = changes.problem.as_ref().or_else(|| self.tracker.problem_at(node)) {
            return Status::error(problem.to_string());
        }
        let is_new = |volume: &&VolumeId| attached.n_pods(volume, node) + changes.more(volume) <= 0;
        for (at, volume) in wanted.iter().enumerate().filter(|(_, volume)| counts(volume)) {
            let of_driver = |other: &&VolumeId| other.driver.name == volume.driver.name && counts(other);
            let is_repetition = wanted.iter().take(at).any(|other| of_driver(&other));
            let Some(limit) = self.limits.of(&volume.driver.name, node).filter(|_| !is_repetition) else { continue };
            let n_new = wanted.iter().filter(of_driver).filter(is_new).count();
            if n_new == 0 {
                continue;
            }
            let n_attached = self.n_attached(&volume.driver, node, changes, attached);
            if n_attached + i64::try_from(n_new).unwrap_or(i64::MAX) > limit {
                return Status::unschedulable(TOO_MANY);
            }
        }
        Status::success()
    }

    /// A driver that the node lacks, although pods with volumes of this driver need it. Volumes of an in-tree plugin are
    /// volumes of a driver only on nodes with a `CSINode`.
    fn missing_driver<'a>(&self, wanted: &'a [VolumeId], node: NodeIdx) -> Option<&'a str> {
        let required = self.required_drivers.as_ref()?;
        let has_csi_node = required.has_csi_node(node);
        let is_counted = |volume: &&VolumeId| {
            self.limits.is_in_use(&volume.driver, node) && (has_csi_node || self.of_drivers.contains(volume))
        };
        let counted = wanted.iter().filter(is_counted);
        counted.map(|volume| &*volume.driver.name).find(|driver| required.is_missing(driver, node))
    }

    /// The number of volumes of the driver on the node, including volumes of the in-tree plugin that it replaced on the
    /// node.
    fn n_attached(&self, driver: &Driver, node: NodeIdx, changes: &DryRunChanges, attached: &AttachedVolumes) -> i64 {
        let is_of_driver = |other: &Driver| other.name == driver.name && self.limits.is_in_use(other, node);
        let mut n_attached = attached.n_attached(driver, node);
        if let Some(migration) = migration::partly_migrated_to(&driver.name) {
            let other = match driver.migrated {
                Some(_) => Driver { name: driver.name.clone(), migrated: None },
                None => Driver { name: driver.name.clone(), migrated: Some(migration.plugin) },
            };
            if is_of_driver(&other) {
                n_attached += attached.n_attached(&other, node);
            }
        }
        for (volume, more) in changes.held.iter().filter(|(volume, _)| is_of_driver(&volume.driver)) {
            let before = attached.n_holders(volume, node);
            n_attached += i64::from(before + more > 0) - i64::from(before > 0);
        }
        n_attached
    }
}

impl QueueingHint for NodeVolumeLimits {
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        hints::may_help(call)
    }
}

#[cfg(test)]
mod tests;
