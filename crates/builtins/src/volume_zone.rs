//! VolumeZone: a pod goes where the zone and region labels of its bound volumes allow.

use std::collections::BTreeSet;

use berth_framework::{Call, ClusterEvent, ConfigureError, DryRunCase, Explanation, Filter, Point, PreFilter, Status};
use berth_model::{ClusterTable, Column, NodeIdx, NodeSet, ObjectView, Pod, Sym};

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Card, plugin},
    node_check::{dry_run_each, explain_each, pass_or},
    storage::{self, PersistentVolume, PersistentVolumeClaim, StorageClass},
};

/// Each label with the one that took its place; the newer ones stand for themselves.
const LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// Between the zones of a volume that is in several.
const SEPARATOR: &str = "__";

/// Compares labels of bound volumes with labels of nodes.
#[derive(Debug)]
pub struct VolumeZone {
    claims: ObjectView<PersistentVolumeClaim>,
    volumes: ObjectView<PersistentVolume>,
    classes: ObjectView<StorageClass>,
    /// What the volumes of the cycle's pod ask for.
    wanted: Vec<Topology>,
    /// The nodes that cannot serve it, for these [`Topology`]s and this version of nodes.
    rejected: NodeSet,
    computed_for: Option<(Vec<Topology>, u64)>,
}

/// A label of a volume, and the values that a node may have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Topology {
    label: &'static str,
    successor: &'static str,
    values: BTreeSet<String>,
}

impl BuiltIn for VolumeZone {
    const CARD: Card = Card {
        name: "VolumeZone",
        points: &[Point::PreFilter, Point::Filter, Point::Sign],
        columns: &[Column::Name, Column::Labels],
        objects: &[storage::CLAIM, storage::VOLUME, storage::CLASS],
        requeue: &[
            ("storage.k8s.io/StorageClass", ClusterEvent::ADD),
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL),
            ("PersistentVolumeClaim", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("PersistentVolume", ClusterEvent::ADD | ClusterEvent::UPDATE),
        ],
        ..Card::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self {
            claims: storage::view(storage::CLAIM),
            volumes: storage::view(storage::VOLUME),
            classes: storage::view(storage::CLASS),
            wanted: Vec::new(),
            rejected: NodeSet::default(),
            computed_for: None,
        })
    }
}

plugin!(VolumeZone { pre_filter: PreFilter, filter: Filter, sign: Sign });

impl VolumeZone {
    /// The volume behind a claim; `None` for one that will be bound where the pod goes.
    fn volume_of(&self, namespace: &str, claim: &str) -> Result<Option<&PersistentVolume>, String> {
        if claim.is_empty() {
            return Err("PersistentVolumeClaim had no name".to_owned());
        }
        let Some(object) = self.claims.get(namespace, claim) else { return Err(storage::claim_not_found(claim)) };
        let volume = &object.spec.volume_name;
        if !volume.is_empty() {
            let found = self.volumes.get("", volume);
            return found.map(|found| Some(&**found)).ok_or_else(|| format!("persistentvolume {volume:?} not found"));
        }
        let class = object.class();
        if class.is_empty() {
            return Err("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
        }
        match self.classes.get("", class) {
            None => Err(format!("storageclass.storage.k8s.io {class:?} not found")),
            Some(found) if found.volume_binding_mode.is_none() => {
                Err(format!("VolumeBindingMode not set for StorageClass {class:?}"))
            }
            Some(found) if found.waits_for_consumer() => Ok(None),
            Some(_) => Err("PersistentVolume had no name".to_owned()),
        }
    }

    fn judge(&mut self, table: &ClusterTable) {
        let version = table.place_version();
        if self.computed_for.as_ref().is_some_and(|(wanted, known)| *known == version && *wanted == self.wanted) {
            return;
        }
        let column = |key: &str| table.labels().column(table.symbols.lookup(key)?);
        let zones = LABELS.map(|(label, _)| column(label));
        let has_zone = |node: NodeIdx| zones.iter().flatten().any(|zone| zone.get(node).is_some());
        self.rejected.clear();
        for topology in &self.wanted {
            let (label, successor) = (column(topology.label), column(topology.successor));
            let values: Vec<Sym> = topology.values.iter().filter_map(|value| table.symbols.lookup(value)).collect();
            for node in table.nodes().iter() {
                let found = label.and_then(|column| column.get(node));
                let found = found.or_else(|| successor.and_then(|column| column.get(node)));
                if found.is_none_or(|value| !values.contains(&value)) && has_zone(node) {
                    self.rejected.insert(node);
                }
            }
        }
        self.computed_for = Some((self.wanted.clone(), version));
    }

    fn check(&self, node: NodeIdx) -> Status {
        pass_or(!self.rejected.contains(node), || Status::unresolvable("node(s) had no available volume zone"))
    }
}

fn topologies(volume: &PersistentVolume) -> impl Iterator<Item = Topology> {
    LABELS.into_iter().filter_map(|(label, successor)| {
        let values = values(volume.metadata.labels.get(label)?)?;
        Some(Topology { label, successor, values })
    })
}

/// `None` if one of the values is empty: such a label does not count.
fn values(text: &str) -> Option<BTreeSet<String>> {
    let values = text.split(SEPARATOR).map(|value| value.trim().to_owned());
    values.map(|value| (!value.is_empty()).then_some(value)).collect()
}

impl PreFilter for VolumeZone {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        let objects = call.table.objects();
        self.claims.refresh(objects);
        self.volumes.refresh(objects);
        self.classes.refresh(objects);
        let mut wanted = Vec::new();
        for claim in storage::named_claims(call.pod) {
            let namespace = storage::namespace(call.pod, &call.table.symbols);
            let volume = self.volume_of(namespace, claim).map_err(Status::unresolvable)?;
            wanted.extend(volume.into_iter().flat_map(topologies));
        }
        self.wanted = wanted;
        if self.wanted.is_empty() {
            return Err(Status::skip());
        }
        self.judge(call.table);
        Ok(None)
    }
}

impl Filter for VolumeZone {
    fn filter(&mut self, _call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        candidates.subtract(&self.rejected);
        Ok(())
    }

    fn explain(&mut self, _call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<Explanation>, Status> {
        Ok(explain_each(rejected, |node| self.check(node)))
    }

    fn dry_run(&mut self, _call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(dry_run_each(cases, |node| self.check(node)))
    }
}

#[cfg(test)]
mod tests;
