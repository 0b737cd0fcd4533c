//! The number of volumes of each driver that can be attached to a node, from its `CSINode`.

use berth_model::{ClusterTable, NodeIdx, NodeSet, ObjectView};
use rustc_hash::FxHashMap;

use super::volume_id::Driver;
use crate::storage::{self, CsiNode};

/// Limits by driver and node. They are read again when a `CSINode` or a node has changed, which is rare.
#[derive(Debug)]
pub(super) struct Limits {
    csi_nodes: ObjectView<CsiNode>,
    version: Option<(u64, u64)>,
    by_driver: FxHashMap<String, Vec<Option<i64>>>,
    /// Nodes with a limit of at least one driver.
    limited: NodeSet,
    /// The nodes where each in-tree plugin was migrated to its CSI driver, according to their `CSINode`s.
    migrated: FxHashMap<String, NodeSet>,
}

impl Limits {
    pub(super) fn new() -> Self {
        Self {
            csi_nodes: storage::CSI_NODE.view(),
            version: None,
            by_driver: FxHashMap::default(),
            limited: NodeSet::default(),
            migrated: FxHashMap::default(),
        }
    }

    pub(super) fn follow(&mut self, table: &ClusterTable) {
        self.csi_nodes.refresh(table.objects());
        let version = Some((self.csi_nodes.version(), table.place_version()));
        if self.version == version {
            return;
        }
        self.version = version;
        self.by_driver.clear();
        self.limited.clear();
        self.migrated.clear();
        for (_, name, csi_node) in self.csi_nodes.iter() {
            let Some(node) = table.symbols.lookup(name).and_then(|name| table.find(name)) else { continue };
            for plugin in csi_node.migrated_plugins() {
                self.migrated.entry(plugin.to_owned()).or_default().insert(node);
            }
            for driver in &csi_node.spec.drivers {
                let Some(count) = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count) else {
                    continue;
                };
                let column = self.by_driver.entry(driver.name.clone()).or_default();
                if node.index() >= column.len() {
                    column.resize(node.index() + 1, None);
                }
                if let Some(limit) = column.get_mut(node.index()) {
                    *limit = Some(count);
                }
                self.limited.insert(node);
            }
        }
    }

    pub(super) fn has_any(&self, node: NodeIdx) -> bool {
        self.limited.contains(node)
    }

    pub(super) fn of(&self, driver: &str, node: NodeIdx) -> Option<i64> {
        self.column(driver).get(node.index()).copied().flatten()
    }

    /// The driver's limits by node. The list is shorter than the table if the last nodes have no limit.
    pub(super) fn column(&self, driver: &str) -> &[Option<i64>] {
        self.by_driver.get(driver).map_or(&[], |column| column)
    }

    /// Whether volumes of the driver count on the node.
    pub(super) fn is_in_use(&self, driver: &Driver, node: NodeIdx) -> bool {
        driver.migrated.is_none_or(|plugin| self.migrated.get(plugin).is_some_and(|nodes| nodes.contains(node)))
    }
}
