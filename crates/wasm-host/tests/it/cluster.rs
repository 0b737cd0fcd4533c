//! A few nodes and a pod, for plugins to be asked about.

use std::time::Duration;

use berth_framework::{Call, CycleId, DeltaSource, Needs, Plugin, PluginFactory, Status};
use berth_model::{ClusterTable, ColumnChange, ColumnData, Delta, NodeIdx, NodeSet, Pod, Sym, Time};
use berth_test_guests::Behavior;
use berth_wasm_host::{Binary, ComponentFactory, Engine, EngineOptions, Limits};

/// Limits under which a test of them ends soon, and a busy machine passes.
pub(crate) fn engine() -> Engine {
    let call_timeout = Duration::from_millis(500);
    let limits = Limits { call_timeout, configure_timeout: call_timeout, memory_bytes: 96 << 20, ..Limits::default() };
    Engine::new(EngineOptions { limits, ..EngineOptions::default() }).unwrap()
}

pub(crate) fn by_priority(engine: &Engine) -> ComponentFactory {
    engine.load(&Binary::new("ByPriority", berth_test_guests::by_priority().unwrap())).unwrap()
}

/// A cluster whose nodes are rows 0 to `n_nodes` and never change after generation 1.
pub(crate) struct Cluster {
    table: ClusterTable,
}

impl Cluster {
    pub(crate) fn new(n_nodes: u32) -> Self {
        let mut table = ClusterTable::default();
        table.set_generation(1);
        for row in 0..n_nodes {
            let name = table.symbols.intern(&format!("node-{row}"));
            table.add_node(NodeIdx(row));
            table.set_name(NodeIdx(row), name);
        }
        Self { table }
    }

    pub(crate) fn nodes(&self) -> &NodeSet {
        self.table.nodes()
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
        plugin.sync(self)?;
        let mut candidates = self.nodes().clone();
        plugin.filter().unwrap().filter(&call, &mut candidates)?;
        assert_eq!(&candidates, self.nodes());
        let mut scores = Vec::new();
        plugin.score().unwrap().score(&call, &candidates, &mut scores)?;
        plugin.end_cycle(call.cycle);
        Ok(scores)
    }

    pub(crate) fn call<'a>(&'a self, cycle: u64, pod: &'a Pod) -> Call<'a> {
        Call { cycle: CycleId(cycle), now: Time::default(), pod, table: &self.table }
    }
}

impl DeltaSource for Cluster {
    fn delta_since(&self, needs: &Needs, generation: u64, n_symbols: usize) -> Delta {
        assert!(needs.columns.contains(berth_model::Column::Name));
        let symbols = self.table.symbols.since(n_symbols).map(|(sym, text)| (sym, text.to_owned())).collect();
        let delta = Delta { generation: self.generation(), symbols, ..Delta::default() };
        if generation == self.generation() {
            return delta;
        }
        let rows: Vec<NodeIdx> = self.nodes().iter().collect();
        let names: Vec<Sym> = rows.iter().map(|&row| self.table.name(row)).collect();
        let columns = vec![ColumnChange { rows: rows.clone(), data: ColumnData::Name(names) }];
        Delta { full: true, added: rows, columns, ..delta }
    }

    fn generation(&self) -> u64 {
        self.table.generation()
    }
}

/// A configured instance.
pub(crate) fn build(factory: &ComponentFactory) -> Box<dyn Plugin> {
    factory.build("null").unwrap()
}
