//! A cluster in the scheduler's cache that changes from one state to any other.

use std::{collections::BTreeMap, sync::Arc};

use berth_cache::Cache;
use berth_framework::run::NominatedPods;
use berth_model::{NodeIdx, ObjectKey, Pod, api, intern};
use serde_json::Value;

use crate::generate::{ClusterObjects, objects::Kind, text};

/// The objects, and what the cache makes of them.
#[derive(Debug)]
pub struct World {
    pub cache: Cache,
    objects: ClusterObjects,
    /// Pods without a node that are nominated to one, by uid.
    nominated: BTreeMap<String, Arc<Pod>>,
}

/// As the API server's JSON is decoded.
#[must_use]
pub fn decode_pod(pod: &Value) -> api::Pod {
    serde_json::from_value(pod.clone()).unwrap_or_else(|error| panic!("{error}: {pod}"))
}

#[must_use]
pub fn decode_node(node: &Value) -> api::Node {
    serde_json::from_value(node.clone()).unwrap_or_else(|error| panic!("{error}: {node}"))
}

/// How the cache names an object.
#[must_use]
pub fn object_key(object: &Value) -> ObjectKey {
    ObjectKey {
        api_version: text(object, "/apiVersion"),
        kind: text(object, "/kind"),
        namespace: text(object, "/metadata/namespace"),
        name: text(object, "/metadata/name"),
    }
}

#[must_use]
pub fn bytes(object: &Value) -> Arc<[u8]> {
    Arc::from(object.to_string().into_bytes())
}

impl World {
    /// An empty cluster. A replica that missed more than `log_capacity` changes is sent everything.
    #[must_use]
    pub fn new(log_capacity: usize) -> Self {
        let cache = Cache::with_log_capacity(log_capacity);
        Self { cache, objects: ClusterObjects::default(), nominated: BTreeMap::new() }
    }

    /// A world that only ever saw the state in which `other` is. Rows and slots keep their order, nothing else is taken over.
    #[must_use]
    pub fn recount(other: &World) -> Self {
        let mut world = Self::new(1 << 15);
        let table = other.cache.table();
        for node in table.nodes().iter() {
            let name = table.symbols.text(table.name(node));
            world.set_node(name, &other.objects.nodes[name]);
        }
        let mut uids: Vec<&str> = table.pods().iter().map(|(_, pod, _)| &*pod.uid).collect();
        uids.extend(
            other.objects.pods.keys().map(String::as_str).filter(|uid| !uids.contains(uid)).collect::<Vec<_>>(),
        );
        for uid in uids {
            world.set_pod(uid, &other.objects.pods[uid]);
        }
        for (key, object) in &other.objects.others {
            world.set_object(key, object);
        }
        world.cache.settle();
        world
    }

    /// Changes what differs, and nothing else.
    pub fn become_state(&mut self, target: &ClusterObjects) {
        let gone = |old: &BTreeMap<String, Value>, new: &BTreeMap<String, Value>| -> Vec<String> {
            old.keys().filter(|key| !new.contains_key(*key)).cloned().collect()
        };
        // Nodes go while pods are on them, and come back before or after.
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
        self.cache.settle();
    }

    #[must_use]
    pub fn objects(&self) -> &ClusterObjects {
        &self.objects
    }

    fn set_node(&mut self, name: &str, node: &Value) {
        let interned = intern::node(&decode_node(node), self.cache.symbols_mut());
        self.cache.set_node(interned);
        self.objects.nodes.insert(name.to_owned(), node.clone());
    }

    fn remove_node(&mut self, name: &str) {
        let sym = self.cache.symbols_mut().intern(name);
        self.cache.remove_node(sym);
        self.objects.nodes.remove(name);
    }

    fn set_pod(&mut self, uid: &str, pod: &Value) {
        let interned = Arc::new(intern::pod(&decode_pod(pod), self.cache.symbols_mut()));
        if interned.node_name.is_none() {
            self.nominated.insert(uid.to_owned(), interned);
        } else {
            self.nominated.remove(uid);
            self.cache.add_pod(interned).unwrap_or_else(|error| panic!("{error}: {pod}"));
        }
        self.objects.pods.insert(uid.to_owned(), pod.clone());
    }

    fn remove_pod(&mut self, uid: &str) {
        self.cache.remove_pod(uid);
        self.nominated.remove(uid);
        self.objects.pods.remove(uid);
    }

    fn set_object(&mut self, key: &(Kind, String, String), object: &Value) {
        self.cache.set_object(object_key(object), Some(bytes(object)));
        self.objects.others.insert(key.clone(), object.clone());
    }

    fn remove_object(&mut self, key: &(Kind, String, String)) {
        if let Some(object) = self.objects.others.remove(key) {
            self.cache.set_object(object_key(&object), None);
        }
    }

    /// The pod as plugins see it.
    pub fn intern(&mut self, pod: &Value) -> Arc<Pod> {
        Arc::new(intern::pod(&decode_pod(pod), self.cache.symbols_mut()))
    }

    /// The nominations as they are for `pod`.
    pub(crate) fn nominated_pods(&self, pod: &Pod) -> NominatedPods<'_> {
        let nominations = self.nominated.values().map(|pod| (pod.nominated_node_name, pod));
        NominatedPods::new(self.cache.table(), pod, nominations)
    }

    pub(crate) fn node_name(&self, node: NodeIdx) -> String {
        let table = self.cache.table();
        table.symbols.text(table.name(node)).to_owned()
    }
}
