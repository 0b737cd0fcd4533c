//! A few nodes and a pod about which plugins are asked.

use std::time::Duration;

use berth_framework::{Call, DeltaSource, Plugin, PluginFactory, Status};
use berth_model::{ClusterTable, NodeIdx, NodeSet, Pod, Time};
use berth_test_guests::Behavior;
use berth_testing::{TestCluster, node};
use berth_wasm_host::{Binary, ComponentFactory, Engine, EngineOptions, Limits};

/// An engine whose limits end a test of them soon, and still suffice on a busy machine.
pub(crate) fn engine() -> Engine {
    let call_timeout = Duration::from_millis(500);
    let limits = Limits { call_timeout, lifecycle_timeout: call_timeout, memory_bytes: 96 << 20, ..Limits::default() };
    Engine::new(EngineOptions { limits, ..EngineOptions::default() }).unwrap()
}

pub(crate) fn by_priority(engine: &Engine) -> ComponentFactory {
    engine.load(&Binary::new("ByPriority", berth_test_guests::by_priority().unwrap())).unwrap()
}

/// A cluster of `n_nodes` nodes that never change.
pub(crate) struct Cluster(TestCluster);

impl Cluster {
    pub(crate) fn new(n_nodes: u32) -> Self {
        let mut cluster = TestCluster::default();
        for row in 0..n_nodes {
            cluster.set_node(&node(&format!("node-{row}")).build());
        }
        cluster.settle();
        Self(cluster)
    }

    /// The cluster at another time.
    pub(crate) fn at(mut self, now: Time) -> Self {
        self.0.set_now(now);
        self
    }

    /// Places a pod on the first node.
    pub(crate) fn place(&mut self, pod: Pod) {
        self.0.place(NodeIdx(0), pod);
    }

    pub(crate) fn add_node(&mut self, name: &str) {
        self.0.set_node(&node(name).build());
        self.0.settle();
    }

    /// Places a pod on the first node and removes it again.
    pub(crate) fn place_and_remove(&mut self, uid: &str, between: impl FnOnce(&Self)) {
        self.place(Pod { uid: uid.into(), ..Pod::default() });
        between(self);
        assert!(self.0.remove_pod(uid));
    }

    pub(crate) fn table(&self) -> &ClusterTable {
        self.0.table()
    }

    pub(crate) fn nodes(&self) -> &NodeSet {
        self.table().nodes()
    }

    /// Filters and scores for a pod that asks for this behavior, as one cycle.
    pub(crate) fn try_cycle(
        &self,
        plugin: &mut dyn Plugin,
        cycle: u64,
        behavior: Behavior,
    ) -> Result<Vec<i64>, Status> {
        let pod = Pod { priority: behavior.priority(), ..Pod::default() };
        let call = self.call(cycle, &pod);
        plugin.sync(self.cache())?;
        let mut candidates = self.nodes().clone();
        plugin.filter().unwrap().filter(&call, &mut candidates)?;
        assert_eq!(&candidates, self.nodes());
        let mut scores = Vec::new();
        plugin.score().unwrap().score(&call, &candidates, &mut scores)?;
        plugin.end_cycle(call.cycle);
        Ok(scores)
    }

    pub(crate) fn call<'a>(&'a self, cycle: u64, pod: &'a Pod) -> Call<'a> {
        self.0.call(cycle, pod)
    }

    /// The source from which plugins are updated.
    pub(crate) fn cache(&self) -> &impl DeltaSource {
        self.0.cache()
    }
}

/// A configured instance.
pub(crate) fn build(factory: &ComponentFactory) -> Box<dyn Plugin> {
    factory.build("null").unwrap()
}
