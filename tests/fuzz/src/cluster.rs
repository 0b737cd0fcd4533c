//! From a JSON document to a cache, the pod at hand and the pods that are nominated somewhere.
//!
//! The document is that of the golden cases: `objects` with a list of objects a kind, `pod`, and `profile`. What does not
//! decode is left out, as the watches leave it out.

use std::sync::Arc;

use berth_cache::Cache;
use berth_framework::run::NominatedPods;
use berth_model::{ObjectKey, Pod, api, intern};
use serde_json::{Value, json};

/// More of each kind only costs time.
const MAX_OBJECTS: usize = 64;

pub(crate) struct Cluster {
    pub(crate) cache: Cache,
    pub(crate) nominated: Vec<Arc<Pod>>,
    /// What the cache took, to be changed later.
    pub(crate) nodes: Vec<api::Node>,
    pub(crate) others: Vec<(ObjectKey, Arc<[u8]>)>,
}

impl Cluster {
    /// `None` when there is no pod.
    pub(crate) fn build(document: &Value) -> Option<(Self, Pod)> {
        let pod: api::Pod = serde_json::from_value(document.get("pod")?.clone()).ok()?;
        let mut cluster = Self { cache: Cache::new(), nominated: Vec::new(), nodes: Vec::new(), others: Vec::new() };
        let objects = document.get("objects").and_then(Value::as_object);
        for (plural, objects) in objects.into_iter().flatten() {
            for object in objects.as_array().into_iter().flatten().take(MAX_OBJECTS) {
                match plural.as_str() {
                    "nodes" => cluster.add_node(object),
                    "pods" => cluster.add_pod(object),
                    _ => cluster.add_other(object),
                }
            }
        }
        cluster.cache.settle();
        let pod = intern::pod(&pod, cluster.cache.symbols_mut());
        Some((cluster, pod))
    }

    fn add_node(&mut self, object: &Value) {
        if let Ok(node) = serde_json::from_value::<api::Node>(object.clone()) {
            let interned = intern::node(&node, self.cache.symbols_mut());
            self.cache.set_node(interned);
            self.nodes.push(node);
        }
    }

    fn add_pod(&mut self, object: &Value) {
        let Ok(pod) = serde_json::from_value::<api::Pod>(object.clone()) else { return };
        let pod = Arc::new(intern::pod(&pod, self.cache.symbols_mut()));
        if pod.node_name.is_none() {
            self.nominated.push(pod);
        } else {
            // One without a uid is refused.
            let _ = self.cache.add_pod(pod);
        }
    }

    fn add_other(&mut self, object: &Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = ObjectKey {
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        };
        let json: Arc<[u8]> = Arc::from(object.to_string().into_bytes());
        self.cache.set_object(key.clone(), Some(Arc::clone(&json)));
        self.others.push((key, json));
    }

    /// The nominations as they are for `pod`.
    pub(crate) fn nominated_pods(&self, pod: &Pod) -> NominatedPods<'_> {
        let nominations = self.nominated.iter().map(|pod| (pod.nominated_node_name, pod));
        NominatedPods::new(self.cache.table(), pod, nominations)
    }
}

/// Two nodes, one with a pod, and a pod that has a bit of everything.
pub(crate) fn small() -> (Cluster, Pod) {
    let node = |name: &str| {
        json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": "a"}},
            "spec": {"taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": "2"},
                "images": [{"names": ["example.com/web:1"], "sizeBytes": 300_000_000}]},
        })
    };
    let selector = json!({"matchLabels": {"app": "web"}});
    let pod = |name: &str, node: &str| {
        json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
            "spec": {
                "nodeName": node, "nodeSelector": {"zone": "a"},
                "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": selector}},
                ]}},
                "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}],
                "containers": [{"name": "main", "image": "example.com/web:1", "ports": [{"hostPort": 80}],
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}}}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
        })
    };
    let objects = json!({"nodes": [node("one"), node("two")], "pods": [pod("placed", "one")]});
    let document = json!({"objects": objects, "pod": pod("incoming", "")});
    Cluster::build(&document).unwrap_or_else(|| unreachable!("the pod above decodes"))
}
