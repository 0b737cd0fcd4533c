//! The cache itself: its parts, and the methods that read it.

mod delta;
mod follow;
mod nodes;
mod objects;
mod pods;

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{ChangedKeys, ClusterTable, Columns, Node, NodeIdx, ObjectKey, Pod, PodUid, Sym, Symbols};
use rustc_hash::FxHashMap;

pub use self::pods::{Added, Assumed, CachedPod, Inconsistency, Removed};
use crate::{
    change_log::ChangeLog,
    slots::Slots,
    zones::{NodeOrder, Zones},
};

/// The nodes, the pods on them, the assumed pods, and the objects that plugins ask for.
#[derive(Debug)]
pub struct Cache {
    table: ClusterTable,
    log: ChangeLog,
    nodes: FxHashMap<Sym, CachedNode>,
    /// Rows of the table.
    rows: Slots,
    pods: FxHashMap<PodUid, CachedPod>,
    /// Places in the table's list of pods.
    pod_slots: Slots,
    n_assumed: usize,
    zones: Zones,
    objects: BTreeMap<Arc<ObjectKey>, Arc<[u8]>>,
    changed: Changed,
}

/// The changes, for a copy that follows the cache object by object.
#[derive(Debug, Default)]
struct Changed {
    nodes: ChangedKeys<Sym>,
    pods: ChangedKeys<PodUid>,
    objects: ChangedKeys<Arc<ObjectKey>>,
}

/// The entry of the cache for a node's name. If pods refer to a name and no node has the name, the entry has no row.
#[derive(Debug, Default)]
pub struct CachedNode {
    row: Option<(NodeIdx, Node)>,
    /// The uids of the pods on the node.
    pods: Vec<PodUid>,
}

impl CachedNode {
    /// The node's row in the table and its object; `None` if only pods refer to the node.
    #[must_use]
    pub fn row(&self) -> Option<(NodeIdx, &Node)> {
        self.row.as_ref().map(|(idx, node)| (*idx, node))
    }
}

/// The amounts of data in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes, including deleted nodes that still have pods.
    pub nodes: usize,
    /// Pods, including assumed pods.
    pub pods: usize,
    /// Assumed pods.
    pub assumed_pods: usize,
}

/// The number of changes that a replica may miss. A replica that missed more gets all data.
const LOG_CAPACITY: usize = 1 << 15;

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::with_log_capacity(LOG_CAPACITY)
    }

    /// A cache with a change log of `capacity` entries.
    #[must_use]
    pub fn with_log_capacity(capacity: usize) -> Self {
        let mut table = ClusterTable::default();
        table.objects_mut().set_shared();
        let zones = Zones::new(&mut table.symbols);
        Self {
            table,
            log: ChangeLog::new(capacity),
            nodes: FxHashMap::default(),
            rows: Slots::default(),
            pods: FxHashMap::default(),
            pod_slots: Slots::default(),
            n_assumed: 0,
            zones,
            objects: BTreeMap::new(),
            changed: Changed::default(),
        }
    }

    /// The table that plugins read, in its current state.
    #[must_use]
    pub fn table(&self) -> &ClusterTable {
        &self.table
    }

    /// The symbols into which API objects are interned on their way in.
    pub fn symbols_mut(&mut self) -> &mut Symbols {
        &mut self.table.symbols
    }

    /// Frees some of the symbols that no pod and no node uses any more; see [`Symbols::free_unused`]. The names of
    /// nodes that the cache knows always stay. `is_held` says which other symbols must stay, because other parts of the
    /// program use these symbols.
    pub fn free_symbols(&mut self, is_held: impl Fn(Sym) -> bool) {
        let nodes = &self.nodes;
        self.table.symbols.free_unused(|sym| nodes.contains_key(&sym) || is_held(sym));
    }

    /// Brings [`Self::order`] up to date. The call is cheap when no node came or went.
    pub fn settle(&mut self) {
        self.zones.settle();
    }

    /// All nodes, as of the last [`Self::settle`]. The zones alternate in the list.
    #[must_use]
    pub fn order(&self) -> &[NodeIdx] {
        self.zones.order()
    }

    /// The order in which nodes are visited, for [`Self::restore_order`].
    #[must_use]
    pub fn node_order(&self) -> NodeOrder {
        self.zones.node_order()
    }

    /// Restores an order that [`Self::node_order`] returned. Before this call, the caller must undo every addition and
    /// removal of a node since that moment, the last one first. Each node then has the same row as at that moment.
    pub fn restore_order(&mut self, order: NodeOrder) {
        self.zones.restore(order);
    }

    /// The entry of the cache for the name of a node.
    #[must_use]
    pub fn node(&self, name: Sym) -> Option<&CachedNode> {
        self.nodes.get(&name)
    }

    /// A pod that is on a node, or that is assumed to be on a node.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<&CachedPod> {
        self.pods.get(uid)
    }

    /// All pods on nodes, in no particular order. They include assumed pods, and pods whose node has no row.
    pub fn pods(&self) -> impl Iterator<Item = &CachedPod> {
        self.pods.values()
    }

    /// The pods on the node called `name`, including assumed pods.
    pub fn pods_on(&self, name: Sym) -> impl Iterator<Item = &Arc<Pod>> {
        let uids = self.nodes.get(&name).map_or(&[][..], |node| &node.pods);
        uids.iter().filter_map(|uid| self.pods.get(uid)).map(CachedPod::pod)
    }

    /// The amounts of data in the cache.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        Sizes { nodes: self.nodes.len(), pods: self.pods.len(), assumed_pods: self.n_assumed }
    }

    fn record_row(&mut self, node: NodeIdx, columns: Columns) {
        if !columns.is_empty() {
            let generation = self.log.record_columns(node, columns);
            self.table.set_generation(generation);
        }
    }
}
