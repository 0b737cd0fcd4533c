//! The cache itself: what it holds, and how to look at it.

use std::sync::Arc;

use berth_model::{ClusterTable, Columns, Node, NodeIdx, Pod, PodIdx, PodUid, Sym, Symbols};
use rustc_hash::FxHashMap;

use crate::{change_log::ChangeLog, objects::Objects, pods::CachedPod, zones::Zones};

/// Nodes, pods on them, assumed pods, and the objects that plugins ask for.
#[derive(Debug)]
pub struct Cache {
    pub(crate) table: ClusterTable,
    pub(crate) log: ChangeLog,
    pub(crate) nodes: FxHashMap<Sym, CachedNode>,
    pub(crate) pods: FxHashMap<PodUid, CachedPod>,
    pub(crate) n_assumed: usize,
    /// Slots that no node holds, below the highest one ever used.
    pub(crate) free: Vec<NodeIdx>,
    pub(crate) n_slots: u32,
    /// Pod slots that no pod holds, below the highest one ever used.
    pub(crate) free_pod_slots: Vec<PodIdx>,
    pub(crate) n_pod_slots: u32,
    pub(crate) zones: Zones,
    pub(crate) objects: Objects,
}

/// What is known under a node's name. Without a row it is a ghost: pods refer to it, but the node itself is not there.
#[derive(Debug, Default)]
pub struct CachedNode {
    pub(crate) row: Option<(NodeIdx, Node)>,
    /// Uids of the pods on it.
    pub(crate) pods: Vec<PodUid>,
}

impl CachedNode {
    /// Its slot and facts; `None` for a ghost.
    #[must_use]
    pub fn row(&self) -> Option<(NodeIdx, &Node)> {
        self.row.as_ref().map(|(idx, node)| (*idx, node))
    }
}

/// How much the cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    pub nodes: usize,
    /// Assumed ones among them.
    pub pods: usize,
    pub assumed_pods: usize,
}

/// How many changes a replica may miss before it is sent everything.
const LOG_CAPACITY: usize = 1 << 15;

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    #[must_use]
    pub fn new() -> Self {
        Self::with_log_capacity(LOG_CAPACITY)
    }

    /// A cache that remembers only so many changes.
    #[must_use]
    pub fn with_log_capacity(capacity: usize) -> Self {
        let mut table = ClusterTable::default();
        let zones = Zones::new(&mut table.symbols);
        Self {
            table,
            log: ChangeLog::new(capacity),
            nodes: FxHashMap::default(),
            pods: FxHashMap::default(),
            n_assumed: 0,
            free: Vec::new(),
            n_slots: 0,
            free_pod_slots: Vec::new(),
            n_pod_slots: 0,
            zones,
            objects: Objects::default(),
        }
    }

    /// The node table as it is at this moment.
    #[must_use]
    pub fn table(&self) -> &ClusterTable {
        &self.table
    }

    /// Where API objects are interned on their way in.
    pub fn symbols_mut(&mut self) -> &mut Symbols {
        &mut self.table.symbols
    }

    /// Brings [`Self::order`] up to date. Cheap when no node came or went.
    pub fn settle(&mut self) {
        self.zones.settle();
    }

    /// All nodes, one of each zone in turn. As of the last [`Self::settle`].
    #[must_use]
    pub fn order(&self) -> &[NodeIdx] {
        self.zones.order()
    }

    #[must_use]
    pub fn node(&self, name: Sym) -> Option<&CachedNode> {
        self.nodes.get(&name)
    }

    /// A pod on a node, or assumed to be.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<&CachedPod> {
        self.pods.get(uid)
    }

    /// The pods on the node called `name`, assumed ones included.
    pub fn pods_on(&self, name: Sym) -> impl Iterator<Item = &Arc<Pod>> {
        let uids = self.nodes.get(&name).map_or(&[][..], |node| &node.pods);
        uids.iter().filter_map(|uid| self.pods.get(uid)).map(CachedPod::pod)
    }

    #[must_use]
    pub fn sizes(&self) -> Sizes {
        Sizes { nodes: self.table.n_nodes(), pods: self.pods.len(), assumed_pods: self.n_assumed }
    }

    pub(crate) fn record_row(&mut self, node: NodeIdx, columns: Columns) {
        if !columns.is_empty() {
            let generation = self.log.record_columns(node, columns);
            self.table.set_generation(generation);
        }
    }
}
