//! A cluster that can change from one state to any other.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{Pod, api};
use berth_testing::TestCluster;
use serde_json::Value;

use crate::generate::{ClusterObjects, objects::Kind};

/// The objects, and the scheduler's cache of them.
#[derive(Debug)]
pub struct ChangingCluster {
    pub cluster: TestCluster,
    objects: ClusterObjects,
}

/// Decodes a pod in the same way as the API server's JSON.
#[must_use]
pub fn decode_pod(pod: &Value) -> api::Pod {
    serde_json::from_value(pod.clone()).unwrap_or_else(|error| panic!("{error}: {pod}"))
}

#[must_use]
pub fn decode_node(node: &Value) -> api::Node {
    serde_json::from_value(node.clone()).unwrap_or_else(|error| panic!("{error}: {node}"))
}

impl ChangingCluster {
    /// An empty cluster, which reuses the number of a symbol for another string as soon as possible. A replica that
    /// missed more than `log_capacity` changes is sent everything.
    #[must_use]
    pub fn new(log_capacity: usize) -> Self {
        let mut cluster = TestCluster::with_log_capacity(log_capacity);
        cluster.free_symbols_eagerly();
        Self { cluster, objects: ClusterObjects::default() }
    }

    /// A cluster that only ever had the state of `other`. Rows and slots keep their order, and nothing else is taken
    /// over.
    #[must_use]
    pub fn rebuilt(other: &Self) -> Self {
        let mut rebuilt = Self::new(1 << 15);
        let table = other.cluster.table();
        for node in table.nodes().iter() {
            let name = other.cluster.node_name(node);
            rebuilt.set_node(name, &other.objects.nodes[name]);
        }
        let mut uids: Vec<&str> = table.pods().iter().map(|(_, pod, _)| &*pod.uid).collect();
        uids.extend(
            other.objects.pods.keys().map(String::as_str).filter(|uid| !uids.contains(uid)).collect::<Vec<_>>(),
        );
        for uid in uids {
            rebuilt.set_pod(uid, &other.objects.pods[uid]);
        }
        for (key, object) in &other.objects.others {
            rebuilt.set_object(key, object);
        }
        rebuilt.cluster.settle();
        rebuilt
    }

    /// Changes the objects that differ, and nothing else.
    pub fn become_state(&mut self, target: &ClusterObjects) {
        let gone = |old: &BTreeMap<String, Value>, new: &BTreeMap<String, Value>| -> Vec<String> {
            old.keys().filter(|key| !new.contains_key(*key)).cloned().collect()
        };
        // Nodes are removed while pods are on them, and are added before or after the pods.
        for name in gone(&self.objects.nodes, &target.nodes) {
            self.remove_node(&name);
        }
        for uid in gone(&self.objects.pods, &target.pods) {
            self.remove_pod(&uid);
        }
        let unwanted = self.objects.others.keys().filter(|key| !target.others.contains_key(*key));
        for key in unwanted.cloned().collect::<Vec<_>>() {
            self.remove_object(&key);
        }
        for (uid, pod) in &target.pods {
            if self.objects.pods.get(uid) != Some(pod) {
                self.set_pod(uid, pod);
            }
        }
        for (name, node) in &target.nodes {
            if self.objects.nodes.get(name) != Some(node) {
                self.set_node(name, node);
            }
        }
        for (key, object) in &target.others {
            if self.objects.others.get(key) != Some(object) {
                self.set_object(key, object);
            }
        }
        self.cluster.settle();
    }

    #[must_use]
    pub fn objects(&self) -> &ClusterObjects {
        &self.objects
    }

    fn set_node(&mut self, name: &str, node: &Value) {
        self.cluster.set_node(&decode_node(node));
        self.objects.nodes.insert(name.to_owned(), node.clone());
    }

    fn remove_node(&mut self, name: &str) {
        self.cluster.remove_node(name);
        self.objects.nodes.remove(name);
    }

    fn set_pod(&mut self, uid: &str, pod: &Value) {
        self.cluster.set_pod(&decode_pod(pod)).unwrap_or_else(|error| panic!("{error}: {pod}"));
        self.objects.pods.insert(uid.to_owned(), pod.clone());
    }

    fn remove_pod(&mut self, uid: &str) {
        self.cluster.remove_pod(uid);
        self.objects.pods.remove(uid);
    }

    fn set_object(&mut self, key: &(Kind, String, String), object: &Value) {
        self.cluster.set_object(object);
        self.objects.others.insert(key.clone(), object.clone());
    }

    fn remove_object(&mut self, key: &(Kind, String, String)) {
        if let Some(object) = self.objects.others.remove(key) {
            self.cluster.remove_object(&object);
        }
    }

    /// The pod in the form that plugins see.
    pub fn intern(&mut self, pod: &Value) -> Arc<Pod> {
        Arc::new(self.cluster.intern(&decode_pod(pod)))
    }
}
