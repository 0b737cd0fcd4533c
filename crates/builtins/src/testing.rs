//! A small cluster for unit tests, and helpers that call a plugin's Filter and Score.

use berth_framework::{Call, CycleId, DryRunCase, Plugin, Status};
use berth_model::{
    ClusterTable, Node, NodeIdx, NodeSet, Pod, Sym, Time,
    pod::{HostPort, NonZero, Resources},
};

/// Nodes in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) table: ClusterTable,
}

impl Cluster {
    pub(crate) fn sym(&mut self, text: &str) -> Sym {
        self.table.symbols.intern(text)
    }

    /// `key=value` pairs, sorted as labels of nodes are.
    pub(crate) fn labels(&mut self, labels: &[(&str, &str)]) -> Vec<(Sym, Sym)> {
        let mut labels: Vec<_> = labels.iter().map(|(key, value)| (self.sym(key), self.sym(value))).collect();
        labels.sort_unstable();
        labels
    }

    pub(crate) fn node(&mut self, name: &str, edit: impl FnOnce(&mut Node)) -> NodeIdx {
        let idx = NodeIdx(u32::try_from(self.table.n_nodes()).unwrap());
        let mut node = Node { name: self.sym(name), ..Node::default() };
        edit(&mut node);
        self.table.set_node(idx, &node);
        idx
    }

    /// Puts a pod that requests `amounts` on `node`.
    pub(crate) fn place(&mut self, node: NodeIdx, amounts: &Resources) {
        let non_zero = NonZero { milli_cpu: amounts.milli_cpu, memory: amounts.memory };
        self.table.add_requested(node, amounts, non_zero, 1);
    }

    pub(crate) fn take_ports(&mut self, node: NodeIdx, ports: &[HostPort]) {
        self.table.set_host_ports(node, ports.to_vec());
    }

    pub(crate) fn pod(&self) -> Pod {
        Pod::default()
    }

    pub(crate) fn call<'a>(&'a self, pod: &'a Pod) -> Call<'a> {
        Call { cycle: CycleId(1), now: Time::default(), pod, table: &self.table }
    }
}

/// The verdict on every node: empty for one that passes. If the plugin has a PreFilter, it runs first. Filter, explain and
/// dry-run must agree.
pub(crate) fn verdicts(plugin: &mut dyn Plugin, cluster: &Cluster, pod: &Pod) -> Vec<String> {
    let call = cluster.call(pod);
    if let Some(point) = plugin.pre_filter() {
        point.pre_filter(&call).unwrap();
    }
    let filter = plugin.filter().unwrap();
    let all = cluster.table.nodes();
    let mut survivors = all.clone();
    filter.filter(&call, &mut survivors).unwrap();
    assert!(survivors.is_subset(all));
    let cases: Vec<DryRunCase> = all.iter().map(|node| DryRunCase { node, ..DryRunCase::default() }).collect();
    let statuses = filter.dry_run(&call, &[], &cases).unwrap();
    let mut rejected = all.clone();
    rejected.subtract(&survivors);
    let explanations = filter.explain(&call, &rejected).unwrap();
    for (node, status) in all.iter().zip(&statuses) {
        assert_eq!(survivors.contains(node), status.is_success(), "filter and dry-run on {node:?}");
        let explained: Vec<&Status> =
            explanations.iter().filter(|it| it.nodes.contains(node)).map(|it| &it.status).collect();
        let expected: Vec<&Status> = Some(status).into_iter().filter(|status| !status.is_success()).collect();
        assert_eq!(explained, expected, "explain and dry-run on {node:?}");
    }
    statuses.iter().map(show).collect()
}

pub(crate) fn show(status: &Status) -> String {
    if status.is_success() { String::new() } else { format!("{}: {}", status.code.as_str(), status.message()) }
}

/// Scores of all nodes before and after normalisation, or the status that PreScore returned.
pub(crate) fn scores(plugin: &mut dyn Plugin, cluster: &Cluster, pod: &Pod) -> Result<(Vec<i64>, Vec<i64>), Status> {
    let call = cluster.call(pod);
    let nodes: NodeSet = cluster.table.nodes().clone();
    if let Some(point) = plugin.pre_score() {
        point.pre_score(&call, &nodes)?;
    }
    let mut raw = Vec::new();
    plugin.score().unwrap().score(&call, &nodes, &mut raw)?;
    let mut normalized = raw.clone();
    if let Some(point) = plugin.normalize() {
        point.normalize(&call, &nodes, &mut normalized)?;
    }
    Ok((raw, normalized))
}
