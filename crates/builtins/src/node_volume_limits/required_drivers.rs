//! The drivers that a node must have for pods with volumes of these drivers. Such a driver has a `CSIDriver` that sets
//! `preventPodSchedulingIfMissing`.

use berth_model::{ClusterTable, NodeIdx, NodeSet, ObjectView};
use rustc_hash::FxHashMap;

use crate::storage::{self, CsiDriver, CsiNode};

/// The nodes with the driver in their `CSINode`, by driver.
#[derive(Debug)]
pub(super) struct RequiredDrivers {
    drivers: ObjectView<CsiDriver>,
    csi_nodes: ObjectView<CsiNode>,
    version: Option<(u64, u64)>,
    installed: FxHashMap<String, NodeSet>,
    /// The nodes with a `CSINode`.
    with_csi_node: NodeSet,
}

impl RequiredDrivers {
    pub(super) fn new() -> Self {
        Self {
            drivers: storage::CSI_DRIVER.view(),
            csi_nodes: storage::CSI_NODE.view(),
            version: None,
            installed: FxHashMap::default(),
            with_csi_node: NodeSet::default(),
        }
    }

    pub(super) fn follow(&mut self, table: &ClusterTable) {
        self.drivers.refresh(table.objects());
        self.csi_nodes.refresh(table.objects());
        let version = Some((self.csi_nodes.version(), table.place_version()));
        if self.version == version {
            return;
        }
        self.version = version;
        self.installed.clear();
        self.with_csi_node.clear();
        for (_, name, csi_node) in self.csi_nodes.iter() {
            let Some(node) = table.symbols.lookup(name).and_then(|name| table.find(name)) else { continue };
            self.with_csi_node.insert(node);
            for driver in &csi_node.spec.drivers {
                self.installed.entry(driver.name.clone()).or_default().insert(node);
            }
        }
    }

    pub(super) fn has_csi_node(&self, node: NodeIdx) -> bool {
        self.with_csi_node.contains(node)
    }

    /// Whether the node must have the driver, and lacks it.
    pub(super) fn is_missing(&self, driver: &str, node: NodeIdx) -> bool {
        let object = self.drivers.get("", driver);
        object.is_some_and(|object| object.spec.prevent_pod_scheduling_if_missing == Some(true))
            && self.installed.get(driver).is_none_or(|nodes| !nodes.contains(node))
    }
}
