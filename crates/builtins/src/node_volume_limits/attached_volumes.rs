//! The volumes that are attached to each node, and their number by driver.

use berth_model::{NodeIdx, cluster_table::at};
use rustc_hash::FxHashMap;

use super::volume_id::{Driver, VolumeId};

/// The attached volumes of each node. Each volume counts once per node, regardless of the number of pods that use it
/// there, with or without a `VolumeAttachment`.
#[derive(Debug, Default)]
pub(super) struct AttachedVolumes {
    holders: FxHashMap<VolumeId, FxHashMap<NodeIdx, Holders>>,
    /// The number of attached volumes of a driver, by node. The list ends with the last node that has attached volumes.
    n_attached: FxHashMap<Driver, Vec<i64>>,
}

/// The holders of a volume on a node: the number of uses by pods, and the number of `VolumeAttachment`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holders {
    pods: i64,
    attachments: i64,
}

/// A reason for a volume to be attached to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VolumeHolder {
    Pod,
    /// A `VolumeAttachment`.
    Attachment,
}

impl AttachedVolumes {
    /// Counts a holder. `sign` is 1 for a holder that is added, and -1 for a holder that is removed.
    pub(super) fn count(&mut self, volume: &VolumeId, node: NodeIdx, holder: VolumeHolder, sign: i64) {
        let nodes = match self.holders.get_mut(volume) {
            Some(nodes) => nodes,
            None => self.holders.entry(volume.clone()).or_default(),
        };
        let holders = nodes.entry(node).or_default();
        let before = i64::from(holders.pods + holders.attachments > 0);
        match holder {
            VolumeHolder::Pod => holders.pods += sign,
            VolumeHolder::Attachment => holders.attachments += sign,
        }
        let after = i64::from(holders.pods + holders.attachments > 0);
        if *holders == Holders::default() {
            nodes.remove(&node);
        }
        if nodes.is_empty() {
            self.holders.remove(volume);
        }
        if before != after {
            self.attach(&volume.driver, node, after - before);
        }
    }

    fn attach(&mut self, driver: &Driver, node: NodeIdx, change: i64) {
        let column = match self.n_attached.get_mut(driver) {
            Some(column) => column,
            None => self.n_attached.entry(driver.clone()).or_default(),
        };
        if node.index() >= column.len() {
            column.resize(node.index() + 1, 0);
        }
        if let Some(count) = column.get_mut(node.index()) {
            *count += change;
        }
    }

    /// The number of volumes of exactly this driver on the node.
    pub(super) fn n_attached(&self, driver: &Driver, node: NodeIdx) -> i64 {
        at(self.column(driver), node)
    }

    /// The number of attached volumes of this driver, by node. The list ends with the last node that has attached
    /// volumes.
    pub(super) fn column(&self, driver: &Driver) -> &[i64] {
        self.n_attached.get(driver).map_or(&[], |column| column)
    }

    /// The nodes that the volume is attached to.
    pub(super) fn nodes_of(&self, volume: &VolumeId) -> impl Iterator<Item = NodeIdx> {
        self.holders.get(volume).into_iter().flat_map(|nodes| nodes.keys().copied())
    }

    /// The number of uses of this volume by pods on the node.
    pub(super) fn n_pods(&self, volume: &VolumeId, node: NodeIdx) -> i64 {
        self.holders_at(volume, node).pods
    }

    /// The number of pods and attachments that hold the volume at the node.
    pub(super) fn n_holders(&self, volume: &VolumeId, node: NodeIdx) -> i64 {
        let holders = self.holders_at(volume, node);
        holders.pods + holders.attachments
    }

    fn holders_at(&self, volume: &VolumeId, node: NodeIdx) -> Holders {
        self.holders.get(volume).and_then(|nodes| nodes.get(&node)).copied().unwrap_or_default()
    }

    /// All volumes of all nodes with their counts of pods and attachments, sorted, for a comparison with a recount.
    #[cfg(test)]
    pub(super) fn picture(&self) -> Vec<(VolumeId, NodeIdx, i64, i64)> {
        let mut all: Vec<_> = self
            .holders
            .iter()
            .flat_map(|(volume, nodes)| nodes.iter().map(|(node, it)| (volume.clone(), *node, it.pods, it.attachments)))
            .collect();
        all.sort_by(|a, b| (&a.0.handle, a.1).cmp(&(&b.0.handle, b.1)));
        all
    }
}
