//! A node in the cache, for a dump.

use std::collections::BTreeMap;

use berth_model::{ClusterTable, Sym};
use berth_scheduler::ClusterView;
use serde::Serialize;
use tracing::info;

use super::DumpedPod;

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeDump {
    /// Absent for a node that only pods refer to.
    resources: Option<ResourcesDump>,
    pub(super) pods: Vec<DumpedPod>,
    assumed: Vec<DumpedPod>,
    nominated: Vec<DumpedPod>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourcesDump {
    requested: Vec<Amount>,
    allocatable: Vec<Amount>,
    pods: i64,
}

/// An amount of a resource. CPU is in thousandths; other amounts are in bytes or pieces.
#[derive(Clone, Debug, Serialize)]
struct Amount {
    resource: String,
    amount: i64,
}

/// All nodes by name.
pub(super) fn all(view: &ClusterView) -> BTreeMap<String, NodeDump> {
    let cache = view.cache();
    let table = cache.table();
    let text = |sym: Sym| table.symbols.text(sym).to_owned();
    let mut nodes: BTreeMap<String, NodeDump> = BTreeMap::new();
    for node in table.nodes().iter() {
        let resources = ResourcesDump {
            requested: amounts(table, table.requested().names(), |resource| table.requested().get(resource, node)),
            allocatable: amounts(table, table.allocatable().names(), |resource| {
                table.allocatable().get(resource, node)
            }),
            pods: table.pod_counts().get(node.index()).copied().unwrap_or(0),
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

/// The amounts by the names of the resources.
fn amounts(table: &ClusterTable, resources: impl Iterator<Item = Sym>, amount: impl Fn(Sym) -> i64) -> Vec<Amount> {
    let of = |resource| Amount { resource: table.symbols.text(resource).to_owned(), amount: amount(resource) };
    let mut amounts: Vec<Amount> = resources.map(of).collect();
    amounts.sort_by(|one, other| one.resource.cmp(&other.resource));
    amounts
}

/// Writes `cpu: 1500m, memory: 1024`.
fn text_of(amounts: &[Amount]) -> String {
    let amounts = amounts.iter().map(|Amount { resource, amount }| {
        let unit = if resource == "cpu" { "m" } else { "" };
        format!("{resource}: {amount}{unit}")
    });
    amounts.collect::<Vec<_>>().join(", ")
}

impl NodeDump {
    #[cfg(test)]
    pub(super) fn known(pods: Vec<DumpedPod>) -> Self {
        Self { resources: Some(ResourcesDump::default()), pods, ..Self::default() }
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
            requested =
                resources.map(|it| format!("{}, pods: {}", text_of(&it.requested), it.pods)).unwrap_or_default(),
            allocatable = resources.map(|it| text_of(&it.allocatable)).unwrap_or_default(),
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
