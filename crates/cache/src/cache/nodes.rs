//! Additions, changes and removals of nodes.

use std::sync::Arc;

use berth_model::{Column, Columns, Node, NodeIdx, PodUid, Sym};

use super::{Cache, CachedNode};

impl Cache {
    /// Adds a node, or updates the known node of this name. Only columns whose values differ are written. Returns the
    /// previous state of the node.
    pub fn set_node(&mut self, node: Node) -> Option<Node> {
        let name = node.name;
        self.changed.nodes.note(&name);
        if let Some((idx, known)) = self.nodes.get_mut(&name).and_then(|entry| entry.row.as_mut()) {
            let idx = *idx;
            let old = std::mem::replace(known, node.clone());
            self.write_changes(idx, &old, &node);
            return Some(old);
        }
        let idx = NodeIdx(self.rows.take());
        let entry = self.nodes.entry(name).or_default();
        entry.row = Some((idx, node.clone()));
        let pods = entry.pods.clone();
        self.write_new(idx, &node, &pods);
        None
    }

    /// Removes a node. The pods on the node stay in the cache, and count again if the node comes back.
    pub fn remove_node(&mut self, name: Sym) -> Option<Node> {
        let entry = self.nodes.get_mut(&name)?;
        let (idx, node) = entry.row.take()?;
        self.changed.nodes.note(&name);
        let pods = entry.pods.clone();
        if entry.pods.is_empty() {
            self.nodes.remove(&name);
        }
        self.zones.remove(idx, &node.labels);
        pods.iter().for_each(|uid| self.unlist(uid));
        self.table.remove_node(idx);
        let generation = self.log.record_removed(idx);
        self.table.set_generation(generation);
        self.rows.free(idx.0);
        Some(node)
    }

    fn write_new(&mut self, idx: NodeIdx, node: &Node, pods: &[PodUid]) {
        self.table.add_node(idx);
        let generation = self.log.record_added(idx);
        self.table.set_generation(generation);
        self.table.set_name(idx, node.name);
        for column in Column::ALL {
            self.write_column(idx, column, node);
        }
        for pod in pods.iter().filter_map(|uid| self.pods.get(uid)) {
            let pod = pod.pod();
            self.table.add_requested(idx, &pod.placed_requests, pod.placed_non_zero, 1);
        }
        self.write_host_ports(idx, pods);
        pods.iter().for_each(|uid| self.list(uid, idx));
        self.zones.add(idx, &node.labels);
        self.record_row(idx, Columns::all());
    }

    fn write_changes(&mut self, idx: NodeIdx, old: &Node, new: &Node) {
        let mut columns = Columns::NONE;
        for column in Column::ALL {
            if differs(column, old, new) {
                self.write_column(idx, column, new);
                columns.insert(column);
            }
        }
        self.zones.relabel(idx, &old.labels, &new.labels);
        self.record_row(idx, columns);
    }

    /// Writes a column that depends only on the node's own object. The other columns depend on pods and do not change.
    fn write_column(&mut self, idx: NodeIdx, column: Column, node: &Node) {
        match column {
            Column::Unschedulable => self.table.set_unschedulable(idx, node.unschedulable),
            Column::Labels => self.table.set_labels(idx, &node.labels),
            Column::Taints => {
                let set = self.table.set_taints(idx, &node.taints);
                if set.is_new {
                    self.log.note_taint_set(set.id);
                }
            }
            Column::Allocatable => self.table.set_allocatable(idx, &node.allocatable, node.allowed_pods),
            Column::Images => self.table.set_images(idx, &node.images),
            Column::DeclaredFeatures => self.table.set_declared_features(idx, &node.declared_features),
            Column::Annotations => self.table.set_annotations(idx, Arc::clone(&node.annotations)),
            Column::Name | Column::Requested | Column::NonZeroRequested | Column::PodCount | Column::HostPorts => {}
        }
    }

    /// Writes the ports of all pods on a node. The ports are collected from all pods each time, because two pods may
    /// use one port, and one of the two may leave.
    pub(super) fn write_host_ports(&mut self, idx: NodeIdx, pods: &[PodUid]) {
        let mut ports: Vec<_> =
            pods.iter().filter_map(|uid| self.pods.get(uid)).flat_map(|pod| pod.pod().host_ports.clone()).collect();
        ports.sort_unstable_by_key(|port| (port.port, port.protocol, port.address));
        ports.dedup();
        self.table.set_host_ports(idx, ports);
    }
}

impl CachedNode {
    pub(super) fn idx(&self) -> Option<NodeIdx> {
        self.row.as_ref().map(|(idx, _)| *idx)
    }
}

fn differs(column: Column, old: &Node, new: &Node) -> bool {
    match column {
        Column::Unschedulable => old.unschedulable != new.unschedulable,
        Column::Labels => old.labels != new.labels,
        Column::Taints => old.taints != new.taints,
        Column::Allocatable => old.allocatable != new.allocatable || old.allowed_pods != new.allowed_pods,
        Column::Images => old.images != new.images,
        Column::DeclaredFeatures => old.declared_features != new.declared_features,
        Column::Annotations => old.annotations != new.annotations,
        Column::Name | Column::Requested | Column::NonZeroRequested | Column::PodCount | Column::HostPorts => false,
    }
}
