//! A cluster in two forms: in the form of plugins, and as API objects for the naive implementation.

use std::collections::BTreeMap;

use berth_model::{NodeIdx, Pod, ThinVec, api};
use serde_json::{Value, json};

use crate::testing::TestCluster;

/// The cluster as API objects: nodes by number, pods by slot.
#[derive(Clone, Debug, Default)]
pub(super) struct ApiObjects {
    pub(super) nodes: BTreeMap<u32, api::StringMap>,
    /// Labels of namespaces.
    pub(super) namespaces: BTreeMap<String, api::StringMap>,
    pub(super) pods: BTreeMap<u32, (api::Pod, u32)>,
}

/// Nodes and pods in both forms. Node 3 has the name `n3`.
#[derive(Debug, Default)]
pub(super) struct TwoFormCluster {
    pub(super) objects: ApiObjects,
    pub(super) cluster: TestCluster,
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
        let mut interned: ThinVec<_> =
            labels.iter().map(|(key, value)| (self.cluster.sym(key), self.cluster.sym(value))).collect();
        interned.sort_unstable();
        self.cluster.edit_node(&format!("n{node}"), |node| node.labels = interned);
        self.objects.nodes.insert(node, labels);
    }

    /// Removes the node and its pods.
    pub(super) fn remove_node(&mut self, node: u32) {
        let pods = self.objects.pods.iter();
        let gone: Vec<u32> = pods.filter(|(_, (_, on))| *on == node).map(|(slot, _)| *slot).collect();
        gone.into_iter().for_each(|slot| self.remove(slot));
        self.cluster.remove_node(&format!("n{node}"));
        self.objects.nodes.remove(&node);
    }

    pub(super) fn place(&mut self, slot: u32, pod: api::Pod, node: u32) {
        let interned = Pod { uid: format!("slot-{slot}").into(), ..self.cluster.intern(&pod) };
        self.cluster.place(self.row(node), interned);
        self.objects.pods.insert(slot, (pod, node));
    }

    pub(super) fn remove(&mut self, slot: u32) {
        self.cluster.remove_pod(&format!("slot-{slot}"));
        self.objects.pods.remove(&slot);
    }

    /// The pod in a slot, in the form of plugins.
    pub(super) fn placed(&self, slot: u32) -> &Pod {
        self.cluster.cache().pod(&format!("slot-{slot}")).unwrap().pod()
    }

    /// Sets the labels of a namespace. `None` deletes the namespace.
    pub(super) fn set_namespace(&mut self, name: &str, labels: Option<api::StringMap>) {
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } });
        match labels {
            Some(labels) => {
                self.cluster.set_object(&object);
                self.objects.namespaces.insert(name.to_owned(), labels);
            }
            None => {
                self.cluster.remove_object(&object);
                self.objects.namespaces.remove(name);
            }
        }
    }

    pub(super) fn intern(&mut self, pod: &api::Pod) -> Pod {
        self.cluster.intern(pod)
    }

    /// The row of a node. A node that comes back may get another row.
    pub(super) fn row(&self, node: u32) -> NodeIdx {
        self.cluster.node(&format!("n{node}")).unwrap()
    }

    /// Answers in the order of rows, sorted by the nodes' numbers.
    pub(super) fn by_number<T>(&self, by_row: Vec<T>) -> Vec<T> {
        let mut by_row: BTreeMap<NodeIdx, T> = self.cluster.table().nodes().iter().zip(by_row).collect();
        self.objects.nodes.keys().map(|node| by_row.remove(&self.row(*node)).unwrap()).collect()
    }
}
