//! The test cluster. The cluster takes objects in the form of the API server, and provides the table that plugins see.

use std::{collections::BTreeMap, sync::Arc};

use berth_cache::{Cache, Inconsistency};
use berth_framework::{Call, CycleId, Plugin, Status, run::NominatedPods};
use berth_model::{ClusterTable, Features, Node, NodeIdx, ObjectKey, Pod, PodUid, Sym, ThinVec, Time, api, intern};
use serde_json::Value;

use crate::answers::{self, Answers};

/// Nodes, pods on nodes, pods that are nominated to nodes, and other objects.
#[derive(Debug, Default)]
pub struct TestCluster {
    cache: Cache,
    /// The pods without a node, by uid.
    pending: BTreeMap<PodUid, Arc<Pod>>,
    n_cycles: u64,
    /// The time at which calls are made.
    now: Time,
    features: Features,
    /// The number of pods that got their uid from [`Self::place`].
    n_anonymous: u32,
}

impl TestCluster {
    /// A cluster that sends everything to a replica which missed more than `log_capacity` changes.
    #[must_use]
    pub fn with_log_capacity(log_capacity: usize) -> Self {
        Self { cache: Cache::with_log_capacity(log_capacity), ..Self::default() }
    }

    /// Adds a node, or changes the node of the same name. Returns its row. New nodes get rows from 0 on in the order in
    /// which they are added, until a node is removed.
    pub fn set_node(&mut self, node: &api::Node) -> NodeIdx {
        let node = self.intern_node(node);
        self.set_interned_node(node)
    }

    /// Sets a node as [`Self::set_node`] does, but in the form that plugins see. The node only has a name and the
    /// values that `edit` sets.
    pub fn edit_node(&mut self, name: &str, edit: impl FnOnce(&mut Node)) -> NodeIdx {
        let mut node = Node { name: self.sym(name), ..Node::default() };
        edit(&mut node);
        self.set_interned_node(node)
    }

    fn set_interned_node(&mut self, node: Node) -> NodeIdx {
        let name = node.name;
        self.cache.set_node(node);
        #[expect(clippy::expect_used, reason = "the cache gives every node that is set a row")]
        self.table().find(name).expect("the node was entered the line before")
    }

    /// Removes a node, and returns whether it existed. Its pods stay, and count again if the node comes back.
    pub fn remove_node(&mut self, name: &str) -> bool {
        let name = self.table().symbols.lookup(name);
        name.is_some_and(|name| self.cache.remove_node(name).is_some())
    }

    /// Makes the cluster free symbols as soon as they are unused, and not only when many symbols are unused.
    pub fn free_symbols_eagerly(&mut self) {
        self.cache.symbols_mut().free_eagerly();
    }

    /// Adds a pod, or changes the pod of the same uid. A pod without `spec.nodeName` is pending. Such a pod matters to
    /// other pods only if it is nominated to a node.
    ///
    /// # Errors
    /// The cache refuses a pod on a node, for example because its uid is missing.
    pub fn set_pod(&mut self, pod: &api::Pod) -> Result<(), Inconsistency> {
        let pod = Arc::new(self.intern(pod));
        if pod.node_name.is_none() {
            self.pending.insert(pod.uid.clone(), pod);
            return Ok(());
        }
        self.pending.remove(&pod.uid);
        self.cache.add_pod(pod).map(drop)
    }

    /// Places an interned pod on a node, and removes an earlier pod of the same uid. A pod without a uid gets a uid.
    /// Returns the uid of the pod.
    pub fn place(&mut self, node: NodeIdx, mut pod: Pod) -> PodUid {
        if pod.uid.is_empty() {
            self.n_anonymous += 1;
            pod.uid = PodUid::from(format!("anonymous-{}", self.n_anonymous).as_str());
        }
        self.remove_pod(&pod.uid);
        pod.node_name = self.table().name(node);
        let uid = pod.uid.clone();
        #[expect(clippy::expect_used, reason = "the cache refuses nothing but pods without a uid")]
        self.cache.add_pod(Arc::new(pod)).expect("the pod has a uid");
        uid
    }

    /// Removes a pod, and returns whether a pod with this uid was on a node or pending.
    pub fn remove_pod(&mut self, uid: &str) -> bool {
        let was_pending = self.pending.remove(uid).is_some();
        self.cache.remove_pod(uid).is_some() || was_pending
    }

    /// Adds an object of another kind, or changes it.
    pub fn set_object(&mut self, object: &Value) {
        self.cache.set_object(ObjectKey::of(object), Some(object.to_string().into_bytes().into()));
    }

    /// Sets the features by which the requests of pods that are added later are counted. The default is the features of
    /// the oldest release.
    pub fn set_features(&mut self, features: Features) {
        self.features = features;
    }

    /// Sets the time of later calls. The default is in 1970.
    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// Removes the object with the same kind, namespace and name. Returns whether it existed.
    pub fn remove_object(&mut self, object: &Value) -> bool {
        self.cache.set_object(ObjectKey::of(object), None).is_some()
    }

    /// Converts the pod to the form that plugins see, without adding it to the cluster.
    pub fn intern(&mut self, pod: &api::Pod) -> Pod {
        self.cache.free_symbols(|_| false);
        intern::pod(pod, self.features, self.cache.symbols_mut())
    }

    /// Converts the node to the form that plugins see, without adding it to the cluster.
    pub fn intern_node(&mut self, node: &api::Node) -> Node {
        self.cache.free_symbols(|_| false);
        intern::node(node, self.cache.symbols_mut())
    }

    /// The symbol of a string, for objects that are built in the form that plugins see.
    pub fn sym(&mut self, text: &str) -> Sym {
        self.cache.symbols_mut().intern(text)
    }

    /// Labels in the order in which nodes and pods keep them.
    pub fn labels(&mut self, labels: &[(&str, &str)]) -> ThinVec<(Sym, Sym)> {
        let mut labels: ThinVec<_> = labels.iter().map(|(key, value)| (self.sym(key), self.sym(value))).collect();
        labels.sort_unstable();
        labels
    }

    /// Settles the order of nodes. This must be called after the last change of nodes and before the order is read.
    pub fn settle(&mut self) {
        self.cache.settle();
    }

    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The cache, for changes for which this type has no methods.
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

    /// The nominations of pending pods that matter to `pod`.
    #[must_use]
    pub fn nominated_pods(&self, pod: &Pod) -> NominatedPods<'_> {
        NominatedPods::new(self.table(), pod, self.pending.values().map(|other| (other.nominated_node_name, other)))
    }

    /// The data that every plugin gets in cycle number `cycle`, which is about `pod`.
    #[must_use]
    pub fn call<'a>(&'a self, cycle: u64, pod: &'a Pod) -> Call<'a> {
        Call::new(CycleId(cycle), self.now, pod, self.table())
    }

    /// Updates a plugin's replica of the cluster. Native plugins have no replica.
    ///
    /// # Errors
    /// The plugin fails.
    pub fn sync(&mut self, plugin: &mut dyn Plugin) -> Result<(), Status> {
        self.settle();
        plugin.sync(self.cache())
    }

    /// Runs `work` in its own cycle, and ends the cycle. The replicas are not updated: call [`Self::sync`] before.
    pub fn in_cycle<R>(
        &mut self,
        plugin: &mut dyn Plugin,
        pod: &Pod,
        work: impl FnOnce(&mut dyn Plugin, &Call<'_>) -> R,
    ) -> R {
        self.n_cycles += 1;
        let call = self.call(self.n_cycles, pod);
        let result = work(plugin, &call);
        plugin.end_cycle(call.cycle);
        result
    }

    /// Calls PreFilter, Filter, PreScore, Score and Normalize over all nodes, in a separate cycle.
    ///
    /// # Errors
    /// The plugin fails, or the answers of `filter`, `node_to_status` and `dry_run` about a node differ.
    pub fn ask(&mut self, plugin: &mut dyn Plugin, pod: &Pod) -> Result<Answers, Status> {
        self.sync(plugin)?;
        self.in_cycle(plugin, pod, answers::ask)
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
    fn pods_without_a_uid_are_told_apart() {
        let mut cluster = TestCluster::default();
        let [a, b] = ["a", "b"].map(|name| cluster.edit_node(name, |_| ()));
        let first = cluster.place(a, Pod::default());
        cluster.place(a, Pod::default());
        assert_eq!(cluster.table().pods().on(a).count(), 2);
        cluster.place(b, Pod { uid: first, ..Pod::default() });
        assert_eq!([a, b].map(|node| cluster.table().pods().on(node).count()), [1, 1], "it moved");
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
