//! The claims and disks that the placed pods use. They are kept up to date by the journal of the pod table.

use std::sync::Arc;

use berth_model::{
    NodeIdx, NodeSet, Pod, PodTable, Sym,
    pod::{Volume, VolumeSource},
};
use rustc_hash::FxHashMap;

/// Claims and disks in use.
#[derive(Debug, Default)]
pub(super) struct Usage {
    position: Option<u64>,
    /// The number of volumes of placed pods that refer to the claim, by its namespace and name.
    claims: FxHashMap<(Sym, Arc<str>), u32>,
    disks: FxHashMap<DiskKey, FxHashMap<NodeIdx, Vec<VolumeSource>>>,
}

/// The identity of a disk. Two volumes conflict only if they have the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum DiskKey {
    GcePersistentDisk(Arc<str>),
    AwsElasticBlockStore(Arc<str>),
    Iscsi(Arc<str>),
    Rbd { pool: Arc<str>, image: Arc<str> },
}

/// The key of a volume; `None` if any number of pods on a node can use the volume.
fn key(source: &VolumeSource) -> Option<DiskKey> {
    match source {
        VolumeSource::GcePersistentDisk { pd_name, .. } => Some(DiskKey::GcePersistentDisk(Arc::clone(pd_name))),
        VolumeSource::AwsElasticBlockStore { volume_id } => Some(DiskKey::AwsElasticBlockStore(Arc::clone(volume_id))),
        VolumeSource::Iscsi { iqn, .. } => Some(DiskKey::Iscsi(Arc::clone(iqn))),
        VolumeSource::Rbd { pool, image, .. } => {
            Some(DiskKey::Rbd { pool: Arc::clone(pool), image: Arc::clone(image) })
        }
        VolumeSource::Claim(_) | VolumeSource::Ephemeral | VolumeSource::Csi { .. } | VolumeSource::InTree { .. } => {
            None
        }
    }
}

/// Whether two volumes with the same [`DiskKey`] cannot be used on one node.
fn conflict(ours: &VolumeSource, theirs: &VolumeSource) -> bool {
    use VolumeSource::{GcePersistentDisk, Iscsi, Rbd};
    match (ours, theirs) {
        (GcePersistentDisk { read_only, .. }, GcePersistentDisk { read_only: other, .. })
        | (Iscsi { read_only, .. }, Iscsi { read_only: other, .. }) => !(*read_only && *other),
        (Rbd { monitors, read_only, .. }, Rbd { monitors: others, read_only: other, .. }) => {
            !(*read_only && *other) && monitors.iter().any(|monitor| others.contains(monitor))
        }
        _ => true,
    }
}

/// The number of pairs of volumes of two pods that conflict.
pub(super) fn conflicts_between(ours: &Pod, theirs: &Pod) -> usize {
    let conflicting = |volume: &Volume| {
        let key = key(&volume.source)?;
        let same = theirs.volumes.iter().filter(|other| self::key(&other.source).as_ref() == Some(&key));
        Some(same.filter(|other| conflict(&volume.source, &other.source)).count())
    };
    ours.volumes.iter().filter_map(conflicting).sum()
}

impl Usage {
    pub(super) fn follow(&mut self, pods: &PodTable) {
        match self.position.and_then(|position| pods.since(position)) {
            Some(changes) => changes.for_each(|change| self.count(&change.pod, change.node, change.sign > 0)),
            None => {
                self.claims.clear();
                self.disks.clear();
                pods.iter().for_each(|(_, pod, node)| self.count(pod, node, true));
            }
        }
        self.position = Some(pods.position());
    }

    fn count(&mut self, pod: &Pod, node: NodeIdx, is_added: bool) {
        for volume in &pod.volumes {
            if let VolumeSource::Claim(name) = &volume.source {
                self.count_claim(pod.namespace, name, is_added);
            } else {
                self.count_disk(volume, node, is_added);
            }
        }
    }

    fn count_claim(&mut self, namespace: Sym, name: &Arc<str>, is_added: bool) {
        let claim = (namespace, Arc::clone(name));
        if is_added {
            *self.claims.entry(claim).or_default() += 1;
        } else if let Some(n_users) = self.claims.get_mut(&claim) {
            *n_users -= 1;
            if *n_users == 0 {
                self.claims.remove(&claim);
            }
        }
    }

    fn count_disk(&mut self, volume: &Volume, node: NodeIdx, is_added: bool) {
        let Some(key) = key(&volume.source) else { return };
        if is_added {
            let on_node = self.disks.entry(key).or_default().entry(node).or_default();
            return on_node.push(volume.source.clone());
        }
        let Some(nodes) = self.disks.get_mut(&key) else { return debug_assert!(false, "no pod used the disk") };
        let Some(on_node) = nodes.get_mut(&node) else { return debug_assert!(false, "no pod here used the disk") };
        if let Some(at) = on_node.iter().position(|source| *source == volume.source) {
            on_node.swap_remove(at);
        }
        if on_node.is_empty() {
            nodes.remove(&node);
        }
        if nodes.is_empty() {
            self.disks.remove(&key);
        }
    }

    pub(super) fn is_claim_used(&self, namespace: Sym, claim: &Arc<str>) -> bool {
        self.claims.contains_key(&(namespace, Arc::clone(claim)))
    }

    /// Adds the nodes with a conflicting disk to `nodes`. Returns whether the pod has any disk that may conflict.
    pub(super) fn block(&self, pod: &Pod, nodes: &mut NodeSet) -> bool {
        let mut has_disks = false;
        for volume in &pod.volumes {
            let Some(key) = key(&volume.source) else { continue };
            has_disks = true;
            for (node, on_node) in self.disks.get(&key).into_iter().flatten() {
                if on_node.iter().any(|source| conflict(&volume.source, source)) {
                    nodes.insert(*node);
                }
            }
        }
        has_disks
    }

    /// The number of pairs of a volume of `pod` and a volume on `node` that conflict.
    pub(super) fn n_conflicts(&self, pod: &Pod, node: NodeIdx) -> usize {
        let conflicts = |volume: &Volume| {
            let on_node = self.disks.get(&key(&volume.source)?)?.get(&node)?;
            Some(on_node.iter().filter(|source| conflict(&volume.source, source)).count())
        };
        pod.volumes.iter().filter_map(conflicts).sum()
    }

    /// The numbers of claims and disks in use.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.claims.len(), self.disks.len())
    }
}
