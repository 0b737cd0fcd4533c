//! The cluster: objects go in as the API server has them, and come out as the table that plugins see.

use std::{collections::BTreeMap, sync::Arc};

use berth_cache::{Cache, Inconsistency};
use berth_framework::{Call, CycleId, run::NominatedPods};
use berth_model::{ClusterTable, Node, NodeIdx, ObjectKey, Pod, PodUid, Time, api, intern};
use serde_json::Value;

/// Nodes, pods on them, pods that are nominated to them, and other objects.
#[derive(Debug, Default)]
pub struct TestCluster {
    cache: Cache,
    /// Pods without a node, by uid.
    pending: BTreeMap<PodUid, Arc<Pod>>,
}

impl TestCluster {
    /// A replica of this cluster that missed more than `log_capacity` changes is sent everything.
    #[must_use]
    pub fn with_log_capacity(log_capacity: usize) -> Self {
        Self { cache: Cache::with_log_capacity(log_capacity), pending: BTreeMap::new() }
    }

    /// Enters a node, or changes the one of its name.
    pub fn set_node(&mut self, node: &api::Node) {
        let node = intern::node(node, self.cache.symbols_mut());
        self.cache.set_node(node);
    }

    /// Whether there was such a node. Pods on it stay, and count again if it comes back.
    pub fn remove_node(&mut self, name: &str) -> bool {
        let name = self.cache.symbols_mut().intern(name);
        self.cache.remove_node(name).is_some()
    }

    /// Enters a pod, or changes the one of its uid. A pod without `spec.nodeName` is pending; it matters to others if it is
    /// nominated to a node.
    ///
    /// # Errors
    /// What the cache has against a pod on a node, a missing uid say.
    pub fn set_pod(&mut self, pod: &api::Pod) -> Result<(), Inconsistency> {
        let pod = Arc::new(self.intern(pod));
        if pod.node_name.is_none() {
            self.pending.insert(pod.uid.clone(), pod);
            return Ok(());
        }
        self.pending.remove(&pod.uid);
        self.cache.add_pod(pod).map(drop)
    }

    /// Whether there was a pod with this uid, on a node or pending.
    pub fn remove_pod(&mut self, uid: &str) -> bool {
        let was_pending = self.pending.remove(uid).is_some();
        self.cache.remove_pod(uid).is_some() || was_pending
    }

    /// Enters an object of another kind, or changes it.
    pub fn set_object(&mut self, object: &Value) {
        self.cache.set_object(ObjectKey::of(object), Some(object.to_string().into_bytes().into()));
    }

    /// Takes out the object with the same kind, namespace and name. Whether it was there.
    pub fn remove_object(&mut self, object: &Value) -> bool {
        self.cache.set_object(ObjectKey::of(object), None).is_some()
    }

    /// The pod as plugins see it; it does not enter the cluster.
    pub fn intern(&mut self, pod: &api::Pod) -> Pod {
        intern::pod(pod, self.cache.symbols_mut())
    }

    /// The node as plugins see it; it does not enter the cluster.
    pub fn intern_node(&mut self, node: &api::Node) -> Node {
        intern::node(node, self.cache.symbols_mut())
    }

    /// Must come after the last node came or went and before the order of nodes is read.
    pub fn settle(&mut self) {
        self.cache.settle();
    }

    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// For changes that the methods here do not know.
    pub fn cache_mut(&mut self) -> &mut Cache {
        &mut self.cache
    }

    #[must_use]
    pub fn table(&self) -> &ClusterTable {
        self.cache.table()
    }

    /// The row of a node.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<NodeIdx> {
        let table = self.table();
        table.find(table.symbols.lookup(name)?)
    }

    /// The name of the node in a row.
    #[must_use]
    pub fn node_name(&self, node: NodeIdx) -> &str {
        let table = self.table();
        table.symbols.text(table.name(node))
    }

    /// The pods without a node, in the order of their uids.
    pub fn pending_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pending.values()
    }

    /// The nominations of pending pods, as they are for `pod`.
    #[must_use]
    pub fn nominated_pods(&self, pod: &Pod) -> NominatedPods<'_> {
        NominatedPods::new(self.table(), pod, self.pending.values().map(|other| (other.nominated_node_name, other)))
    }

    /// What every plugin hears in cycle number `cycle` of `pod`.
    #[must_use]
    pub fn call<'a>(&'a self, cycle: u64, pod: &'a Pod) -> Call<'a> {
        Call { cycle: CycleId(cycle), now: Time::default(), pod, table: self.table() }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::Sym;

    use super::*;
    use crate::{node, pod};

    #[test]
    fn pods_are_where_their_objects_say() {
        let mut cluster = TestCluster::default();
        cluster.set_node(&node("a").allocatable("cpu", "4").taint("k", "v", "NoSchedule").build());
        cluster.set_pod(&pod("placed").on("a").request("cpu", "1").build()).unwrap();
        cluster.set_pod(&pod("waiting").nominated_to("a").priority(5).build()).unwrap();
        let a = cluster.node("a").unwrap();
        assert_eq!(cluster.node_name(a), "a");
        assert_eq!(cluster.table().requested().get(Sym::CPU, a), 1000);
        let own = cluster.intern(&pod("own").priority(5).build());
        assert_eq!(cluster.nominated_pods(&own).cases().len(), 1);
        let urgent = cluster.intern(&pod("urgent").priority(6).build());
        assert!(cluster.nominated_pods(&urgent).cases().is_empty());
        cluster.set_pod(&pod("waiting").on("a").build()).unwrap();
        assert!(cluster.pending_pods().next().is_none(), "it has its node");
        assert!(cluster.remove_pod("waiting") && !cluster.remove_pod("waiting"));
        assert!(cluster.set_pod(&pod("").on("a").build()).is_err(), "a pod on a node has a uid");
    }

    #[test]
    fn objects_are_known_by_what_they_say_of_themselves() {
        let mut cluster = TestCluster::default();
        let class = serde_json::json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}});
        cluster.set_object(&class);
        assert!(cluster.cache().object(&ObjectKey::of(&class)).is_some());
        assert!(cluster.remove_object(&class) && !cluster.remove_object(&class));
    }
}
