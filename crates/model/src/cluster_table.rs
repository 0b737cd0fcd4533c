//! The node table, which plugins read in the host and in every replica.
//!
//! Columns are indexed by [`NodeIdx`]. A slot without a node contains zeros. The host's cache writes rows through the `set_*` methods,
//! and a guest's replica through [`ClusterTable::apply`]. Both read through the same accessors, so a rule works in the same way in both
//! places.

mod resource_table;
mod row_journal;

use std::sync::Arc;

use rustc_hash::FxHashMap;

pub use self::resource_table::ResourceTable;
use self::row_journal::RowJournal;
use crate::{
    api::StringMap,
    delta::{ColumnChange, ColumnData, Delta, PlacedPod, Usage},
    label_table::LabelTable,
    node::Node,
    node_set::{NodeIdx, NodeSet},
    object_table::ObjectTable,
    pod::{HostPort, NonZero, Resources, Taint},
    pod_table::PodTable,
    symbols::{Sym, Symbols},
    taint_sets::{TaintSetId, TaintSets},
};

/// The images of each node, and the nodes of each image.
#[derive(Clone, Debug, Default)]
pub struct ImageTable {
    by_name: FxHashMap<Sym, Image>,
    rows: Vec<Box<[Sym]>>,
}

/// An image name with the nodes that have it.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// The size in bytes, as reported by the first node with the name.
    pub size: i64,
    /// The nodes that have the image.
    pub nodes: NodeSet,
    /// The number of nodes that have the image.
    pub n_nodes: usize,
}

impl ImageTable {
    /// The image of this name, if a node holds it.
    #[must_use]
    pub fn get(&self, name: Sym) -> Option<&Image> {
        self.by_name.get(&name)
    }

    /// The image names of `node`.
    #[must_use]
    pub fn of(&self, node: NodeIdx) -> &[Sym] {
        self.rows.get(node.index()).map_or(&[], |names| names)
    }

    fn set(&mut self, node: NodeIdx, names: &[Sym]) {
        if node.index() >= self.rows.len() {
            self.rows.resize(node.index() + 1, Box::default());
        }
        let old = std::mem::replace(&mut self.rows[node.index()], names.into());
        for name in old.iter().filter(|name| !names.contains(name)) {
            if let Some(image) = self.by_name.get_mut(name)
                && image.nodes.contains(node)
            {
                image.nodes.remove(node);
                image.n_nodes -= 1;
                if image.n_nodes == 0 {
                    self.by_name.remove(name);
                }
            }
        }
        for name in names {
            let image = self.by_name.entry(*name).or_default();
            if !image.nodes.contains(node) {
                image.nodes.insert(node);
                image.n_nodes += 1;
            }
        }
    }
}

/// The node table and the symbols that it uses.
#[derive(Clone, Debug, Default)]
pub struct ClusterTable {
    /// The strings behind all symbols of the table and of pods.
    pub symbols: Symbols,
    symbols_position: u64,
    generation: u64,
    place_version: u64,
    row_journal: RowJournal,
    live: NodeSet,
    n_nodes: usize,
    names: Vec<Sym>,
    by_name: FxHashMap<Sym, NodeIdx>,
    unschedulable: NodeSet,
    labels: LabelTable,
    /// The id of each node's taint set.
    taint_set_ids: Vec<u32>,
    taint_sets: TaintSets,
    tainted: NodeSet,
    allocatable: ResourceTable,
    requested: ResourceTable,
    non_zero_cpu: Vec<i64>,
    non_zero_memory: Vec<i64>,
    pod_counts: Vec<i64>,
    images: ImageTable,
    host_ports: Vec<Vec<HostPort>>,
    declared_features: Vec<Box<[Sym]>>,
    annotations: Vec<Arc<StringMap>>,
    pods: PodTable,
    objects: ObjectTable,
}

impl ClusterTable {
    /// The generation of the last change.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// A number that grows when a node comes or goes, or its name or labels change. An answer of a node selector holds
    /// as long as the number stays the same.
    #[must_use]
    pub fn place_version(&self) -> u64 {
        self.place_version
    }

    /// The end of the journal of rows; see [`Self::rows_since`].
    #[must_use]
    pub fn row_position(&self) -> u64 {
        self.row_journal.position()
    }

    /// The rows that were written in any column after `position`. A row may be listed several times. The result is
    /// `None` if the journal no longer reaches back to `position`. An answer that depends on one row only holds until
    /// that row is listed.
    #[must_use]
    pub fn rows_since(&self, position: u64) -> Option<impl Iterator<Item = NodeIdx>> {
        self.row_journal.since(position)
    }

    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> &NodeSet {
        &self.live
    }

    /// The [`Delta::symbols_position`] of the last delta, in a replica.
    #[must_use]
    pub fn symbols_position(&self) -> u64 {
        self.symbols_position
    }

    /// The number of nodes.
    #[must_use]
    pub fn n_nodes(&self) -> usize {
        self.n_nodes
    }

    #[must_use]
    pub fn name(&self, node: NodeIdx) -> Sym {
        self.names.get(node.index()).copied().unwrap_or_default()
    }

    /// The node with this name.
    #[must_use]
    pub fn find(&self, name: Sym) -> Option<NodeIdx> {
        self.by_name.get(&name).copied()
    }

    /// Nodes with `spec.unschedulable`.
    #[must_use]
    pub fn unschedulable(&self) -> &NodeSet {
        &self.unschedulable
    }

    #[must_use]
    pub fn labels(&self) -> &LabelTable {
        &self.labels
    }

    /// The id of the node's taint set. A rule evaluates each distinct set once.
    #[must_use]
    pub fn taint_set_id(&self, node: NodeIdx) -> u32 {
        self.taint_set_ids.get(node.index()).copied().unwrap_or(0)
    }

    /// Every taint set by id. Id 0 is the empty set and may be missing in the list.
    #[must_use]
    pub fn taint_sets(&self) -> &[Vec<Taint>] {
        self.taint_sets.all()
    }

    /// The nodes with taints. All other nodes have the empty set.
    #[must_use]
    pub fn tainted(&self) -> &NodeSet {
        &self.tainted
    }

    /// `status.allocatable`. The resource `pods` is one of the columns.
    #[must_use]
    pub fn allocatable(&self) -> &ResourceTable {
        &self.allocatable
    }

    /// The total requests of the pods on each node.
    #[must_use]
    pub fn requested(&self) -> &ResourceTable {
        &self.requested
    }

    /// The requested milli-CPU, with 100m for each container without a request.
    #[must_use]
    pub fn non_zero_cpu(&self) -> &[i64] {
        &self.non_zero_cpu
    }

    /// The requested bytes of memory, with 200 MiB for each container without a request.
    #[must_use]
    pub fn non_zero_memory(&self) -> &[i64] {
        &self.non_zero_memory
    }

    /// The number of pods on each node.
    #[must_use]
    pub fn pod_counts(&self) -> &[i64] {
        &self.pod_counts
    }

    /// Images by name and by node.
    #[must_use]
    pub fn images(&self) -> &ImageTable {
        &self.images
    }

    /// Host ports in use at `node`.
    #[must_use]
    pub fn host_ports(&self, node: NodeIdx) -> &[HostPort] {
        self.host_ports.get(node.index()).map_or(&[], |ports| ports)
    }

    /// `status.declaredFeatures` of `node`.
    #[must_use]
    pub fn declared_features(&self, node: NodeIdx) -> &[Sym] {
        self.declared_features.get(node.index()).map_or(&[], |features| features)
    }
}

impl ClusterTable {
    /// `metadata.annotations` of `node`. A replica has only annotations whose keys its manifest names.
    #[must_use]
    pub fn annotations(&self, node: NodeIdx) -> Option<&StringMap> {
        self.annotations.get(node.index()).map(|annotations| &**annotations)
    }

    /// Pods on nodes.
    #[must_use]
    pub fn pods(&self) -> &PodTable {
        &self.pods
    }

    /// The pods, for changes by the owner of the table.
    pub fn pods_mut(&mut self) -> &mut PodTable {
        &mut self.pods
    }

    /// The objects, for changes by the owner of the table.
    pub fn objects_mut(&mut self) -> &mut ObjectTable {
        &mut self.objects
    }

    /// Objects of the kinds that the plugin asked for.
    #[must_use]
    pub fn objects(&self) -> &ObjectTable {
        &self.objects
    }
}

/// Methods that write rows, for the owner of the table.
impl ClusterTable {
    pub fn set_generation(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// Adds a row for a node.
    pub fn add_node(&mut self, node: NodeIdx) {
        self.row_journal.record(node);
        if !self.live.contains(node) {
            self.live.insert(node);
            self.n_nodes += 1;
            self.place_version += 1;
        }
    }

    /// Adds a row for a node, or writes the row again, with all values from the node's own object. Only tables without
    /// replicas may use this method, because the call does not report which columns changed.
    pub fn set_node(&mut self, idx: NodeIdx, node: &Node) {
        self.add_node(idx);
        self.set_name(idx, node.name);
        self.set_unschedulable(idx, node.unschedulable);
        self.set_labels(idx, &node.labels);
        self.set_taints(idx, &node.taints);
        self.set_allocatable(idx, &node.allocatable, node.allowed_pods);
        self.set_images(idx, &node.images);
        self.set_declared_features(idx, &node.declared_features);
        self.set_annotations(idx, Arc::clone(&node.annotations));
    }

    /// Empties the row, so that another node can get its slot.
    pub fn remove_node(&mut self, node: NodeIdx) {
        self.row_journal.record(node);
        if !self.live.contains(node) {
            return;
        }
        self.live.remove(node);
        self.n_nodes -= 1;
        self.place_version += 1;
        self.set_name(node, Sym::NONE);
        self.unschedulable.remove(node);
        self.labels.set(node, &[]);
        self.taint_sets.leave(self.taint_set_id(node));
        self.set_taint_set(node, 0);
        self.allocatable.set_row(node, &Resources::default());
        self.requested.set_row(node, &Resources::default());
        put(&mut self.non_zero_cpu, node, 0);
        put(&mut self.non_zero_memory, node, 0);
        put(&mut self.pod_counts, node, 0);
        self.images.set(node, &[]);
        put(&mut self.host_ports, node, Vec::new());
        put(&mut self.declared_features, node, Box::default());
        put(&mut self.annotations, node, Arc::default());
    }

    /// Sets the name of a node's row.
    pub fn set_name(&mut self, node: NodeIdx, name: Sym) {
        self.row_journal.record(node);
        let old = self.name(node);
        self.place_version += u64::from(old != name);
        if self.by_name.get(&old) == Some(&node) {
            self.by_name.remove(&old);
        }
        put(&mut self.names, node, name);
        if !name.is_none() {
            self.by_name.insert(name, node);
        }
    }

    /// Sets `spec.unschedulable`.
    pub fn set_unschedulable(&mut self, node: NodeIdx, unschedulable: bool) {
        self.row_journal.record(node);
        if unschedulable {
            self.unschedulable.insert(node);
        } else {
            self.unschedulable.remove(node);
        }
    }

    /// Replaces a node's labels.
    pub fn set_labels(&mut self, node: NodeIdx, labels: &[(Sym, Sym)]) {
        if self.labels.of(node) != labels {
            self.labels.set(node, labels);
            self.place_version += 1;
            self.row_journal.record(node);
        }
    }

    /// Gives `node` the set of exactly these taints, in this order. A set that no node has any more is deleted, and another set gets its
    /// id.
    pub fn set_taints(&mut self, node: NodeIdx, taints: &[Taint]) -> TaintSetId {
        self.row_journal.record(node);
        self.taint_sets.leave(self.taint_set_id(node));
        let id = self.taint_sets.join(taints);
        self.set_taint_set(node, id.id);
        id
    }

    fn set_taint_set(&mut self, node: NodeIdx, id: u32) {
        put(&mut self.taint_set_ids, node, id);
        if id == 0 {
            self.tainted.remove(node);
        } else {
            self.tainted.insert(node);
        }
    }

    /// Replaces the resources that a node has for pods.
    pub fn set_allocatable(&mut self, node: NodeIdx, amounts: &Resources, allowed_pods: i64) {
        self.row_journal.record(node);
        self.allocatable.set_row(node, amounts);
        self.allocatable.set(Sym::PODS, node, allowed_pods);
    }

    /// Adds a pod's requests to `node`, or subtracts them when `sign` is -1. A sum never exceeds the largest `i64`; see
    /// [`Self::is_saturated`].
    pub fn add_requested(&mut self, node: NodeIdx, amounts: &Resources, non_zero: NonZero, sign: i64) {
        self.row_journal.record(node);
        self.requested.add_row(node, amounts, sign);
        let cpu = at(&self.non_zero_cpu, node).saturating_add(non_zero.milli_cpu.saturating_mul(sign));
        put(&mut self.non_zero_cpu, node, cpu);
        let memory = at(&self.non_zero_memory, node).saturating_add(non_zero.memory.saturating_mul(sign));
        put(&mut self.non_zero_memory, node, memory);
        let pods = at(&self.pod_counts, node) + sign;
        put(&mut self.pod_counts, node, pods);
    }

    /// Sets new values of the usage of a node by its pods.
    pub fn set_usage(&mut self, usage: &Usage) {
        let node = usage.node;
        self.row_journal.record(node);
        if let Some(requested) = &usage.requested {
            self.requested.set_row(node, requested);
        }
        if let Some(non_zero) = usage.non_zero_requested {
            put(&mut self.non_zero_cpu, node, non_zero.milli_cpu);
            put(&mut self.non_zero_memory, node, non_zero.memory);
        }
        if let Some(count) = usage.pod_count {
            put(&mut self.pod_counts, node, count);
        }
    }

    /// Whether some sum of `node` has reached the largest `i64`. Such a sum may have lost a part of the requests, so
    /// nothing can be subtracted from it. The caller must compute the sum again, after [`Self::clear_requested`].
    #[must_use]
    pub fn is_saturated(&self, node: NodeIdx) -> bool {
        let sums = [at(&self.non_zero_cpu, node), at(&self.non_zero_memory, node)];
        sums.contains(&i64::MAX) || self.requested.names().any(|name| self.requested.get(name, node) == i64::MAX)
    }

    /// Sets the requests of the pods on `node` to zero, as if the node had no pods.
    pub fn clear_requested(&mut self, node: NodeIdx) {
        self.row_journal.record(node);
        self.requested.clear_row(node);
        for column in [&mut self.non_zero_cpu, &mut self.non_zero_memory, &mut self.pod_counts] {
            put(column, node, 0);
        }
    }

    /// Replaces a node's images. The first node that reports an image determines the image's size, until no node has
    /// the image. If a node reports a name with several sizes, the first size counts.
    pub fn set_images(&mut self, node: NodeIdx, images: &[(Sym, i64)]) {
        self.row_journal.record(node);
        let names: Vec<Sym> = images.iter().map(|(name, _)| *name).collect();
        self.images.set(node, &names);
        for (name, size) in images.iter().rev() {
            if let Some(image) = self.images.by_name.get_mut(name)
                && image.n_nodes == 1
                && image.nodes.contains(node)
            {
                image.size = *size;
            }
        }
    }

    /// Replaces the ports in use on a node.
    pub fn set_host_ports(&mut self, node: NodeIdx, ports: Vec<HostPort>) {
        self.row_journal.record(node);
        put(&mut self.host_ports, node, ports);
    }

    /// Replaces a node's declared features.
    pub fn set_declared_features(&mut self, node: NodeIdx, features: &[Sym]) {
        self.row_journal.record(node);
        put(&mut self.declared_features, node, features.into());
    }

    /// Replaces a node's annotations.
    pub fn set_annotations(&mut self, node: NodeIdx, annotations: Arc<StringMap>) {
        self.row_journal.record(node);
        put(&mut self.annotations, node, annotations);
    }
}

/// Methods that follow another table, for replicas.
impl ClusterTable {
    /// Updates this replica to `delta.generation`.
    pub fn apply(&mut self, delta: &Delta) {
        for (sym, text) in &delta.symbols {
            self.symbols.announce(*sym, text);
        }
        if delta.full {
            self.forget();
        }
        for &pod in &delta.pods_removed {
            self.pods.remove(pod);
        }
        for &node in &delta.removed {
            self.remove_node(node);
        }
        for &node in &delta.added {
            self.add_node(node);
        }
        for (id, taints) in &delta.taint_sets {
            self.taint_sets.announce(*id, taints);
        }
        for change in &delta.columns {
            self.apply_column(change);
        }
        for (name, size) in &delta.image_sizes {
            if let Some(image) = self.images.by_name.get_mut(name) {
                image.size = *size;
            }
        }
        for PlacedPod { idx, node, pod } in &delta.pods_placed {
            self.pods.place(*idx, Arc::clone(pod), *node);
        }
        for object in &delta.objects {
            self.objects.apply(object);
        }
        (self.generation, self.symbols_position) = (delta.generation, delta.symbols_position);
    }

    /// Empties everything except the symbols. Journals and versions continue to count, so that followers of the table
    /// notice the change.
    fn forget(&mut self) {
        let (symbols, mut pods) = (std::mem::take(&mut self.symbols), std::mem::take(&mut self.pods));
        let (mut objects, mut labels) = (std::mem::take(&mut self.objects), std::mem::take(&mut self.labels));
        pods.clear();
        objects.clear();
        labels.clear();
        let place_version = self.place_version + 1;
        let mut row_journal = std::mem::take(&mut self.row_journal);
        row_journal.overrun();
        *self = Self { symbols, pods, objects, labels, place_version, row_journal, ..Self::default() };
    }

    fn apply_column(&mut self, change: &ColumnChange) {
        let rows = &change.rows;
        rows.iter().for_each(|row| self.row_journal.record(*row));
        match &change.data {
            ColumnData::Name(names) => {
                rows.iter().zip(names).for_each(|(&row, &name)| self.set_name(row, name));
            }
            ColumnData::Unschedulable(flags) => {
                rows.iter().zip(flags).for_each(|(&row, &flag)| self.set_unschedulable(row, flag));
            }
            ColumnData::Labels(lists) => {
                rows.iter().zip(lists.iter()).for_each(|(&row, labels)| self.set_labels(row, labels));
            }
            ColumnData::Taints(ids) => rows.iter().zip(ids).for_each(|(&row, &id)| self.set_taint_set(row, id)),
            ColumnData::Allocatable(data) => self.allocatable.apply(rows, data),
            ColumnData::Requested(data) => self.requested.apply(rows, data),
            ColumnData::NonZeroRequested { milli_cpu, memory } => {
                put_all(&mut self.non_zero_cpu, rows, milli_cpu);
                put_all(&mut self.non_zero_memory, rows, memory);
            }
            ColumnData::PodCount(counts) => put_all(&mut self.pod_counts, rows, counts),
            ColumnData::Images(lists) => {
                rows.iter().zip(lists.iter()).for_each(|(&row, names)| self.images.set(row, names));
            }
            ColumnData::HostPorts(lists) => {
                rows.iter().zip(lists.iter()).for_each(|(&row, ports)| put(&mut self.host_ports, row, ports.to_vec()));
            }
            ColumnData::DeclaredFeatures(lists) => {
                rows.iter().zip(lists.iter()).for_each(|(&row, features)| self.set_declared_features(row, features));
            }
            ColumnData::Annotations(maps) => {
                rows.iter()
                    .zip(maps)
                    .for_each(|(&row, annotations)| self.set_annotations(row, Arc::clone(annotations)));
            }
        }
    }
}

/// The value of `column` at `node`. A column may be shorter than the table; a node beyond its end has the value 0.
#[must_use]
pub fn at(column: &[i64], node: NodeIdx) -> i64 {
    column.get(node.index()).copied().unwrap_or(0)
}

fn put<T: Default + Clone>(column: &mut Vec<T>, node: NodeIdx, value: T) {
    if node.index() >= column.len() {
        column.resize(node.index() + 1, T::default());
    }
    column[node.index()] = value;
}

fn put_all<T: Default + Clone>(column: &mut Vec<T>, nodes: &[NodeIdx], values: &[T]) {
    for (&node, value) in nodes.iter().zip(values) {
        put(column, node, value.clone());
    }
}
