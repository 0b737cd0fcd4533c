//! A node as it is in the cache.

use std::collections::BTreeMap;

use berth_model::{ClusterTable, Sym};
use berth_scheduler::ClusterView;
use tracing::info;

use super::DumpedPod;

#[derive(Clone, Debug, Default)]
pub(super) struct NodeDump {
    /// Absent for a node that only pods refer to.
    resources: Option<ResourcesDump>,
    pub(super) pods: Vec<DumpedPod>,
    assumed: Vec<DumpedPod>,
    nominated: Vec<DumpedPod>,
}

#[derive(Clone, Debug)]
struct ResourcesDump {
    requested: String,
    allocatable: String,
}

/// All nodes by name.
pub(super) fn all(view: &ClusterView) -> BTreeMap<String, NodeDump> {
    let cache = view.cache();
    let table = cache.table();
    let text = |sym: Sym| table.symbols.text(sym).to_owned();
    let mut nodes: BTreeMap<String, NodeDump> = BTreeMap::new();
    for node in table.nodes().iter() {
        let resources = ResourcesDump {
            requested: format!(
                "{}, pods: {}",
                amounts(table, table.requested().names(), |resource| table.requested().get(resource, node)),
                table.pod_counts().get(node.index()).copied().unwrap_or(0)
            ),
            allocatable: amounts(table, table.allocatable().names(), |resource| {
                table.allocatable().get(resource, node)
            }),
        };
        nodes.entry(text(table.name(node))).or_default().resources = Some(resources);
    }
    for cached in cache.pods() {
        let node = nodes.entry(text(cached.node())).or_default();
        let pod = DumpedPod::of(cached.pod(), table);
        if cached.is_assumed() {
            node.assumed.push(pod.clone());
        }
        node.pods.push(pod);
    }
    for (node, pod) in view.nominated_pods() {
        nodes.entry(text(node)).or_default().nominated.push(DumpedPod::of(pod, table));
    }
    nodes
}

/// Writes `cpu: 1500m, memory: 1024`. CPU is in thousandths; other amounts are in bytes or pieces.
fn amounts(table: &ClusterTable, resources: impl Iterator<Item = Sym>, amount: impl Fn(Sym) -> i64) -> String {
    let mut amounts: Vec<String> = resources
        .map(|resource| {
            let unit = if resource == Sym::CPU { "m" } else { "" };
            format!("{}: {}{unit}", table.symbols.text(resource), amount(resource))
        })
        .collect();
    amounts.sort();
    amounts.join(", ")
}

impl NodeDump {
    #[cfg(test)]
    pub(super) fn known(pods: Vec<DumpedPod>) -> Self {
        let resources = ResourcesDump { requested: String::new(), allocatable: String::new() };
        Self { resources: Some(resources), pods, ..Self::default() }
    }

    /// Whether the cache has the node itself.
    pub(super) fn is_known(&self) -> bool {
        self.resources.is_some()
    }

    pub(super) fn log(&self, node: &str) {
        let resources = self.resources.as_ref();
        info!(
            node,
            deleted = resources.is_none(),
            requested = resources.map_or("", |it| &it.requested),
            allocatable = resources.map_or("", |it| &it.allocatable),
            pods = list(&self.pods),
            assumed_pods = list(&self.assumed),
            nominated_pods = list(&self.nominated),
            "cached node"
        );
    }
}

fn list(pods: &[DumpedPod]) -> String {
    pods.iter().map(DumpedPod::to_string).collect::<Vec<_>>().join(", ")
}
