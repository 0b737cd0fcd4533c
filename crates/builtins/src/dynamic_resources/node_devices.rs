//! The devices that each node can use, prepared for the search, with the answers of the requests' selectors about them.
//!
//! The devices are kept until a slice of one of the pools changes. If a slice selects nodes by label, a change of the
//! node's labels also ends this.

use std::sync::Arc;

use berth_model::{ClusterTable, Features, Sym};
use rustc_hash::FxHashMap;

use super::{
    cel::{DeviceKey, SelectionId},
    device_id::PoolId,
    in_use::DeviceNumber,
    pools::{self, PoolState},
    slices::{ChangedNodes, NodeView, PlacementError, SliceDevice, SliceTable},
};
use crate::symbol_lookup::SymbolSweeps;

/// The number of selections with stored results for one node. A new one replaces the oldest. A handful of classes is
/// usual.
const MAX_SELECTIONS: usize = 16;

/// The devices in the slices for one node. The position of a device in [`NodeDevices::devices`] is called its location.
#[derive(Debug, Default)]
pub(super) struct NodeDevices {
    /// The devices of all usable pools, in the order of the search.
    pub(super) devices: Arc<[NodeDevice]>,
    /// The other pools, in order.
    pub(super) unusable: Vec<UnusablePool>,
    pub(super) selection_results: SelectionResults,
}

/// A pool with devices that the search leaves out.
#[derive(Debug)]
pub(super) struct UnusablePool {
    pub(super) id: PoolId,
    pub(super) state: PoolState,
    /// The location of the first device of the pools that come later.
    pub(super) location: usize,
}

/// A device, with the facts that the search asks for most often.
#[derive(Debug)]
pub(super) struct NodeDevice {
    pub(super) device: Arc<SliceDevice>,
    pub(super) key: DeviceKey,
    pub(super) number: DeviceNumber,
    pub(super) is_shareable: bool,
    pub(super) is_tainted: bool,
    pub(super) consumes_counters: bool,
    /// Whether the device has binding conditions.
    pub(super) needs_binding: bool,
    /// Whether the device is for the node. A slice with a separate node selection for each device also has devices for
    /// other nodes. No request gets them here, but selectors are evaluated for them, and an error of a selector ends the
    /// search, as in kube-scheduler.
    pub(super) is_for_node: bool,
}

/// The answer of a request's selectors and tolerations about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suitability {
    Suits,
    /// The selectors accept the device, but the request does not tolerate a taint.
    Untolerated,
    Unselected,
}

/// Suitabilities by selection and location; `None` is unknown.
#[derive(Debug, Default)]
pub(super) struct SelectionResults {
    of_selections: Vec<(SelectionId, Box<[Option<Suitability>]>)>,
    n_forgotten: usize,
}

/// The devices of nodes by the name of the node.
#[derive(Debug, Default)]
pub(super) struct NodeDevicesCache {
    of_nodes: FxHashMap<Box<str>, CachedNode>,
    sweeps: SymbolSweeps,
}

#[derive(Debug)]
struct CachedNode {
    /// The labels of the node when its devices were found. They are empty if no slice selects nodes by label.
    labels: Box<[(Sym, Sym)]>,
    node_devices: NodeDevices,
}

impl NodeDevices {
    /// # Errors
    /// A node selector of a slice cannot be evaluated.
    pub(super) fn new(slices: &SliceTable, features: Features, node: NodeView<'_>) -> Result<Self, PlacementError> {
        let (mut devices, mut unusable) = (Vec::new(), Vec::new());
        for pool in pools::gather(slices, features, node)? {
            if pool.state == PoolState::Usable {
                devices.extend(pool.devices.iter().map(|device| NodeDevice::new(device, node)));
            } else {
                unusable.push(UnusablePool { id: pool.id.clone(), state: pool.state, location: devices.len() });
            }
        }
        Ok(Self { devices: devices.into(), unusable, selection_results: SelectionResults::default() })
    }
}

impl NodeDevice {
    fn new(device: &Arc<SliceDevice>, node: NodeView<'_>) -> Self {
        Self {
            device: Arc::clone(device),
            key: device.key,
            number: device.number,
            is_shareable: device.device.is_shareable(),
            is_tainted: !device.device.taints.is_empty(),
            consumes_counters: !device.device.consumes_counters.is_empty(),
            needs_binding: !device.device.binding_conditions.is_empty(),
            is_for_node: device.is_usable_on(node),
        }
    }
}

impl SelectionResults {
    /// The results for a selection, for each of the node's `n_devices` devices.
    pub(super) fn of(&mut self, selection: SelectionId, n_devices: usize) -> &mut [Option<Suitability>] {
        let known = self.of_selections.iter().position(|(it, _)| *it == selection);
        let position = known.unwrap_or_else(|| {
            let unknown = (selection, vec![None; n_devices].into_boxed_slice());
            if self.of_selections.len() < MAX_SELECTIONS {
                self.of_selections.push(unknown);
                return self.of_selections.len() - 1;
            }
            let oldest = self.n_forgotten % MAX_SELECTIONS;
            self.n_forgotten += 1;
            if let Some(known) = self.of_selections.get_mut(oldest) {
                *known = unknown;
            }
            oldest
        });
        self.of_selections.get_mut(position).map(|(_, answers)| &mut **answers).unwrap_or_default()
    }
}

impl NodeDevicesCache {
    /// The devices of the node called `name`. `make` finds the devices if they are not known. `labels` are the node's
    /// labels if a slice selects nodes by label; otherwise `labels` is empty.
    pub(super) fn of<'a>(
        &'a mut self,
        name: &str,
        labels: &[(Sym, Sym)],
        make: impl FnOnce() -> Result<NodeDevices, PlacementError>,
    ) -> Result<&'a mut NodeDevices, PlacementError> {
        let is_known = self.of_nodes.get(name).is_some_and(|known| *known.labels == *labels);
        if !is_known {
            let node = CachedNode { labels: labels.into(), node_devices: make()? };
            self.of_nodes.insert(name.into(), node);
        }
        #[expect(clippy::expect_used, reason = "the node is there, or was inserted just now")]
        let node = self.of_nodes.get_mut(name).expect("the node is in the cache");
        Ok(&mut node.node_devices)
    }

    pub(super) fn forget(&mut self, changed: &ChangedNodes) {
        if changed.is_everywhere {
            self.of_nodes.clear();
        }
        for node in &changed.nodes {
            self.of_nodes.remove(&**node);
        }
    }

    /// Forgets nodes if their labels may have other texts by now. Empties the cache if it holds far more nodes than
    /// exist, because it does not learn about removed nodes.
    pub(super) fn limit(&mut self, table: &ClusterTable) {
        if self.sweeps.has_changed(&table.symbols) {
            self.of_nodes.retain(|_, known| known.labels.is_empty());
        }
        if self.of_nodes.len() > table.n_nodes().saturating_mul(2).max(16) {
            self.of_nodes.clear();
        }
    }
}
