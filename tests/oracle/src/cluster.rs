//! From the recorded objects to a cache, the pending pod and the pods that are nominated somewhere.

use std::{collections::BTreeSet, sync::Arc};

use berth_cache::Cache;
use berth_framework::run::NominatedPods;
use berth_model::{ObjectKey, Pod, intern};
use serde_json::Value;

use crate::case::Case;

/// What the scheduler knows when the cycle starts.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) cache: Cache,
    pub(crate) pod: Pod,
    /// Unbound pods with a nomination.
    nominated: Vec<Arc<Pod>>,
}

impl Cluster {
    pub(crate) fn build(case: &Case) -> Result<Self, String> {
        let mut cache = Cache::new();
        for node in &case.objects.nodes {
            let node = intern::node(node, cache.symbols_mut());
            cache.set_node(node);
        }
        let mut nominated = Vec::new();
        // The watch of a real scheduler leaves out pods that have ended.
        let is_alive = |phase: &str| !matches!(phase, "Succeeded" | "Failed");
        for api_pod in case.objects.pods.iter().filter(|pod| is_alive(&pod.status.phase)) {
            let pod = Arc::new(intern::pod(api_pod, cache.symbols_mut()));
            if !pod.node_name.is_none() {
                cache.add_pod(pod).map_err(|error| error.to_string())?;
            } else if !pod.nominated_node_name.is_none() {
                nominated.push(pod);
            }
        }
        for object in case.objects.others.values().flatten() {
            let (key, json) = whole(object);
            cache.set_object(key, Some(json));
        }
        let pod = intern::pod(&case.pod, cache.symbols_mut());
        cache.settle();
        Ok(Self { cache, pod, nominated })
    }

    /// The nominations of other pods, as they are for the pending one.
    pub(crate) fn nominated_pods(&self) -> NominatedPods<'_> {
        let nominations = self.nominated.iter().map(|pod| (pod.nominated_node_name, pod));
        NominatedPods::new(self.cache.table(), &self.pod, nominations)
    }

    /// Names of nodes to which any pod is nominated, the pending one included, whatever its priority.
    pub(crate) fn nominated_nodes(&self) -> BTreeSet<&str> {
        let pods = self.nominated.iter().map(|pod| &**pod).chain([&self.pod]);
        pods.map(|pod| self.cache.table().symbols.text(pod.nominated_node_name)).collect()
    }
}

/// An object as the cache takes it.
fn whole(object: &Value) -> (ObjectKey, Arc<[u8]>) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let key = ObjectKey {
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
    };
    (key, Arc::from(object.to_string().into_bytes()))
}
