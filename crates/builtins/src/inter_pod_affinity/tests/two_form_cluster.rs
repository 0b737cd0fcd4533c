//! A cluster in two forms: as the cluster table that the plugin reads, and as API objects for the naive implementation.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{ClusterTable, Delta, NodeIdx, ObjectChange, PodIdx, api, intern};
use serde_json::{Value, json};

/// Nodes and pods by slot.
#[derive(Clone, Debug, Default)]
pub(super) struct TwoFormCluster {
    pub(super) nodes: BTreeMap<u32, api::StringMap>,
    /// Labels of namespaces.
    pub(super) namespaces: BTreeMap<String, api::StringMap>,
    pub(super) pods: BTreeMap<u32, (api::Pod, u32)>,
    pub(super) table: ClusterTable,
}

pub(super) fn labels(pairs: &[(&str, &str)]) -> api::StringMap {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A pod with `spec.affinity`.
pub(super) fn pod(namespace: &str, labels: &[(&str, &str)], affinity: &Value) -> api::Pod {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    let metadata = json!({ "name": "p", "namespace": namespace, "labels": labels });
    serde_json::from_value(json!({ "metadata": metadata, "spec": { "affinity": affinity } })).unwrap()
}

impl TwoFormCluster {
    pub(super) fn set_node(&mut self, node: u32, labels: api::StringMap) {
        let mut interned: Vec<_> = labels
            .iter()
            .map(|(key, value)| (self.table.symbols.intern(key), self.table.symbols.intern(value)))
            .collect();
        interned.sort_unstable();
        self.table.add_node(NodeIdx(node));
        self.table.set_labels(NodeIdx(node), &interned);
        self.nodes.insert(node, labels);
    }

    /// Removes the node and its pods.
    pub(super) fn remove_node(&mut self, node: u32) {
        let gone: Vec<u32> = self.pods.iter().filter(|(_, (_, on))| *on == node).map(|(slot, _)| *slot).collect();
        gone.into_iter().for_each(|slot| self.remove(slot));
        self.table.remove_node(NodeIdx(node));
        self.nodes.remove(&node);
    }

    pub(super) fn place(&mut self, slot: u32, pod: api::Pod, node: u32) {
        let interned = intern::pod(&pod, &mut self.table.symbols);
        self.table.pods_mut().place(PodIdx(slot), Arc::new(interned), NodeIdx(node));
        self.pods.insert(slot, (pod, node));
    }

    pub(super) fn remove(&mut self, slot: u32) {
        self.table.pods_mut().remove(PodIdx(slot));
        self.pods.remove(&slot);
    }

    /// `None` deletes the namespace.
    pub(super) fn set_namespace(&mut self, name: &str, labels: Option<api::StringMap>) {
        let json = labels.as_ref().map(|labels| json!({ "metadata": { "name": name, "labels": labels } }).to_string());
        let change = ObjectChange {
            api_version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
            json: json.map(|json| Arc::from(json.as_bytes())),
        };
        self.table.apply(&Delta { objects: vec![change], ..Delta::default() });
        match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels),
            None => self.namespaces.remove(name),
        };
    }

    pub(super) fn intern(&mut self, pod: &api::Pod) -> berth_model::Pod {
        intern::pod(pod, &mut self.table.symbols)
    }
}
