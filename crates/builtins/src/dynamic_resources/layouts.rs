//! For each node the devices that it can draw on, laid out for the search, and which of them were found to suit whom.
//!
//! A layout stays until a slice of one of its pools changes, or a label of the node while some slice goes by labels.

use std::sync::Arc;

use berth_model::Sym;
use rustc_hash::FxHashMap;

use super::{
    cel::{DeviceKey, SelectionId},
    in_use::DeviceNumber,
    pools::{self, PoolState},
    slices::{Changed, NodeView, PoolId, SliceDevice, SliceTable},
};

/// What requests can ask for at a time before a layout forgets the oldest; a handful of classes is usual.
const MAX_SELECTIONS: usize = 16;

/// The devices of one node. A position in [`Layout::devices`] is a device's location.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// Of all usable pools, in order.
    pub(super) devices: Arc<[LaidOut]>,
    /// The other pools, in order.
    pub(super) unusable: Vec<(PoolId, PoolState)>,
    pub(super) answers: Answers,
}

/// A device, with what the search asks first at hand.
#[derive(Debug)]
pub(super) struct LaidOut {
    pub(super) device: Arc<SliceDevice>,
    pub(super) key: DeviceKey,
    pub(super) number: DeviceNumber,
    pub(super) is_shareable: bool,
    pub(super) is_tainted: bool,
    pub(super) consumes_counters: bool,
}

/// By selection and location whether the device suits, as far as that is known.
#[derive(Debug, Default)]
pub(super) struct Answers {
    of_selections: Vec<(SelectionId, Box<[Option<bool>]>)>,
    n_forgotten: usize,
}

/// Layouts by the name of their node.
#[derive(Debug, Default)]
pub(super) struct LayoutTable {
    of_nodes: FxHashMap<Box<str>, OfNode>,
}

#[derive(Debug)]
struct OfNode {
    /// The labels that it was made for; none if no slice goes by labels.
    labels: Box<[(Sym, Sym)]>,
    layout: Layout,
}

impl Layout {
    /// # Errors
    /// A node selector of a slice that can't be read.
    pub(super) fn new(slices: &SliceTable, node: NodeView<'_>) -> Result<Self, String> {
        let pools = pools::gather(slices, node)?;
        let (usable, unusable): (Vec<_>, Vec<_>) = pools.into_iter().partition(|pool| pool.state == PoolState::Usable);
        Ok(Self {
            devices: usable.iter().flat_map(|pool| &pool.devices).map(|device| LaidOut::new(device)).collect(),
            unusable: unusable.iter().map(|pool| (pool.id.clone(), pool.state)).collect(),
            answers: Answers::default(),
        })
    }
}

impl LaidOut {
    fn new(device: &Arc<SliceDevice>) -> Self {
        Self {
            device: Arc::clone(device),
            key: device.key,
            number: device.number,
            is_shareable: device.device.is_shareable(),
            is_tainted: !device.device.taints.is_empty(),
            consumes_counters: !device.device.consumes_counters.is_empty(),
        }
    }
}

impl Answers {
    /// What is known for the selection of the `n_devices` of the layout.
    pub(super) fn of(&mut self, selection: SelectionId, n_devices: usize) -> &mut [Option<bool>] {
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

impl LayoutTable {
    /// The layout of the node of this name. `labels` are the node's if some slice goes by labels, none otherwise; `make`
    /// makes the layout if it is not there.
    pub(super) fn of<'a>(
        &'a mut self,
        name: &str,
        labels: &[(Sym, Sym)],
        make: impl FnOnce() -> Result<Layout, String>,
    ) -> Result<&'a mut Layout, String> {
        let is_known = self.of_nodes.get(name).is_some_and(|known| *known.labels == *labels);
        if !is_known {
            let of_node = OfNode { labels: labels.into(), layout: make()? };
            self.of_nodes.insert(name.into(), of_node);
        }
        let of_node = self.of_nodes.get_mut(name).map(|known| &mut known.layout);
        of_node.ok_or_else(|| format!("node {name} has no devices"))
    }

    pub(super) fn forget(&mut self, changed: &Changed) {
        if changed.is_everywhere {
            self.of_nodes.clear();
        }
        for node in &changed.nodes {
            self.of_nodes.remove(&**node);
        }
    }

    /// Drops all if they are far more than there are nodes, since nobody says when a node is gone.
    pub(super) fn bound(&mut self, n_nodes: usize) {
        if self.of_nodes.len() > n_nodes.saturating_mul(2).max(16) {
            self.of_nodes.clear();
        }
    }
}
