//! VolumeZone: a pod may run only on nodes in the zones and regions that the labels of its bound volumes name.

use std::collections::BTreeSet;

use berth_framework::{
    Call, ClusterEvent, ConfigureError, DryRunCase, EventSubject, Filter, Follow, HintCall, PreFilter, QueueingHint,
    RejectedNodes, Status,
};
use berth_model::{ClusterTable, Column, NodeIdx, NodeSet, ObjectView, Pod, Sym};

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Descriptor, plugin},
    hints,
    node_check::{check_each, dry_run_each, pass_or},
    storage::{self, ClaimError, NoBindingMode, PersistentVolume, PersistentVolumeClaim, StorageClass},
};

/// The zone and region labels of volumes. Each label comes with the newer label that a node may have instead.
const LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// The separator between zones in the label of a volume in several zones.
const SEPARATOR: &str = "__";

/// Compares labels of bound volumes with labels of nodes.
#[derive(Debug)]
pub struct VolumeZone {
    claims: ObjectView<PersistentVolumeClaim>,
    volumes: ObjectView<PersistentVolume>,
    classes: ObjectView<StorageClass>,
    /// The requirements of the volumes of the cycle's pod.
    required: Vec<VolumeTopology>,
    /// The nodes that do not meet the requirements.
    rejected: NodeSet,
    /// The requirements, and the version of nodes and labels, for which `rejected` was computed.
    computed_for: Option<(Vec<VolumeTopology>, u64)>,
}

/// A label of a volume, and the values that a node may have for it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct VolumeTopology {
    label: &'static str,
    /// The label that counts on nodes without `label`.
    newer_label: &'static str,
    values: BTreeSet<String>,
}

impl BuiltIn for VolumeZone {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "VolumeZone",
        columns: &[Column::Name, Column::Labels],
        objects: &[storage::CLAIM, storage::VOLUME, storage::CLASS],
        events_to_register: &[
            ("storage.k8s.io/StorageClass", ClusterEvent::ADD),
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL),
            ("PersistentVolumeClaim", ClusterEvent::ADD | ClusterEvent::UPDATE),
            ("PersistentVolume", ClusterEvent::ADD | ClusterEvent::UPDATE),
        ],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self {
            claims: storage::CLAIM.view(),
            volumes: storage::VOLUME.view(),
            classes: storage::CLASS.view(),
            required: Vec::new(),
            rejected: NodeSet::default(),
            computed_for: None,
        })
    }
}

plugin!(VolumeZone: PreFilter, Filter, QueueingHint, Sign; Follow, Reuse);

impl Follow for VolumeZone {
    /// Decodes changed objects in this hook, because decoding the claims and volumes of a large cluster takes longer
    /// than a call about one pod may.
    fn follow(&mut self, table: &ClusterTable) {
        let objects = table.objects();
        self.claims.refresh(objects);
        self.volumes.refresh(objects);
        self.classes.refresh(objects);
    }
}

/// The reason why the volume of a claim is unknown.
#[derive(Debug, thiserror::Error)]
enum VolumeError {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("persistentvolume {0:?} not found")]
    VolumeNotFound(String),
    #[error("PersistentVolumeClaim had no pv name and storageClass name")]
    NoClass,
    #[error("storageclass.storage.k8s.io {0:?} not found")]
    ClassNotFound(String),
    #[error(transparent)]
    NoBindingMode(#[from] NoBindingMode),
    /// The claim is not bound, although it should be bound at this time.
    #[error("PersistentVolume had no name")]
    Unbound,
}

impl VolumeZone {
    /// The volume of a claim. `None` for a claim that is bound only after the pod has a node.
    fn volume_of(&self, namespace: &str, name: &str) -> Result<Option<&PersistentVolume>, VolumeError> {
        if name.is_empty() {
            return Err(ClaimError::NoName.into());
        }
        let claim = self.claims.get(namespace, name).ok_or_else(|| ClaimError::not_found(name))?;
        let volume = &claim.spec.volume_name;
        if !volume.is_empty() {
            let found = self.volumes.get("", volume);
            return Ok(Some(found.ok_or_else(|| VolumeError::VolumeNotFound(volume.clone()))?));
        }
        let class_name = claim.class();
        if class_name.is_empty() {
            return Err(VolumeError::NoClass);
        }
        let class = self.classes.get("", class_name);
        let class = class.ok_or_else(|| VolumeError::ClassNotFound(class_name.to_owned()))?;
        if class.waits_for_consumer(class_name)? { Ok(None) } else { Err(VolumeError::Unbound) }
    }

    /// Finds the rejected nodes, unless they are known already.
    fn find_rejected(&mut self, table: &ClusterTable) {
        let version = table.place_version();
        if self.computed_for.as_ref().is_some_and(|(required, known)| *known == version && *required == self.required) {
            return;
        }
        let column = |key: &str| table.labels().column(table.symbols.lookup(key)?);
        let zones = LABELS.map(|(label, _)| column(label));
        let has_zone = |node: NodeIdx| zones.iter().flatten().any(|zone| zone.get(node).is_some());
        self.rejected.clear();
        for topology in &self.required {
            let (label, newer_label) = (column(topology.label), column(topology.newer_label));
            let values: Vec<Sym> = topology.values.iter().filter_map(|value| table.symbols.lookup(value)).collect();
            for node in table.nodes().iter() {
                let found = label.and_then(|column| column.get(node));
                let found = found.or_else(|| newer_label.and_then(|column| column.get(node)));
                if found.is_none_or(|value| !values.contains(&value)) && has_zone(node) {
                    self.rejected.insert(node);
                }
            }
        }
        self.computed_for = Some((self.required.clone(), version));
    }

    fn check(&self, node: NodeIdx) -> Status {
        pass_or(!self.rejected.contains(node), || Status::unresolvable("node(s) had no available volume zone"))
    }
}

fn topologies(volume: &PersistentVolume) -> impl Iterator<Item = VolumeTopology> {
    LABELS.into_iter().filter_map(|(label, newer_label)| {
        let values = values(volume.metadata.labels.get(label)?)?;
        Some(VolumeTopology { label, newer_label, values })
    })
}

/// The zones in the value of a label. `None` if a zone is empty, because a label with an empty zone is ignored.
fn values(text: &str) -> Option<BTreeSet<String>> {
    let values = text.split(SEPARATOR).map(|value| value.trim().to_owned());
    values.map(|value| (!value.is_empty()).then_some(value)).collect()
}

impl PreFilter for VolumeZone {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        self.follow(call.table);
        let mut required = Vec::new();
        for claim in storage::named_claims(call.pod) {
            let namespace = storage::namespace(call.pod, &call.table.symbols);
            let volume = self.volume_of(namespace, claim).map_err(|error| Status::unresolvable(error.to_string()))?;
            required.extend(volume.into_iter().flat_map(topologies));
        }
        self.required = required;
        if self.required.is_empty() {
            return Err(Status::skip());
        }
        self.find_rejected(call.table);
        Ok(None)
    }
}

impl Filter for VolumeZone {
    fn filter(&mut self, _call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        candidates.subtract(&self.rejected);
        Ok(())
    }

    fn node_to_status(&mut self, _call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        Ok(check_each(rejected, |node| self.check(node)))
    }

    fn dry_run(&mut self, _call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(dry_run_each(cases, |node| self.check(node)))
    }
}

impl QueueingHint for VolumeZone {
    /// Whether the event is about a StorageClass with `WaitForFirstConsumer`, about one of the pod's claims, or about a
    /// change of a volume's zones or regions.
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        let EventSubject::Object { key, old, new } = call.subject else { return true };
        match key.kind.as_str() {
            "StorageClass" => {
                let class: Option<StorageClass> = hints::decoded(new);
                class.is_none_or(|class| class.waits_for_consumer(&key.name).unwrap_or(false))
            }
            "PersistentVolumeClaim" => hints::names_claim(call.pod, key, &call.table.symbols),
            "PersistentVolume" => {
                let [old, new] = [old, new].map(hints::decoded::<PersistentVolume>);
                old.zip(new).is_none_or(|(old, new)| !topologies(&old).eq(topologies(&new)))
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests;
