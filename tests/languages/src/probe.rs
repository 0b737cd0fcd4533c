//! A cluster that uses every column, and the form in which a probe shows what it sees.
//!
//! The probes (`probes/`) are plugins that reject every node. The reason contains all columns of the node and the pod,
//! in the form of [`dump`]. For the node `bare`, it also contains all nodes, all pods, and the pods of which the plugin
//! got events. Any difference between the replica and the scheduler's table is therefore visible.

use anyhow::{Context, Result};
use berth_author::CaseStep;
use berth_model::{ClusterTable, NodeIdx, Pod, Sym, pod::TaintEffect};

const NODES: &str = include_str!("probe.yaml");

/// Two generations of nodes, each with a pod to place.
///
/// # Errors
/// The nodes can't be read.
pub fn awkward_cluster() -> Result<Vec<CaseStep>> {
    serde_saphyr::from_str(NODES).context("in probe.yaml")
}

/// The text of a probe about a node: its columns one after the other, each followed by `;`.
#[must_use]
pub fn dump(table: &ClusterTable, node: NodeIdx, pod: &Pod) -> String {
    let text = |sym: Sym| table.symbols.text(sym).to_owned();
    let list = |items: Vec<String>| items.join(",");
    let gpu = table.symbols.lookup("example.com/gpu").unwrap_or(Sym::NONE);
    let amounts = |table: &berth_model::cluster_table::ResourceTable| {
        list([Sym::CPU, Sym::MEMORY, Sym::PODS, gpu].map(|name| table.get(name, node).to_string()).into())
    };
    let taints = &table.taint_sets()[table.taint_set_id(node) as usize];
    let taint = |taint: &berth_model::pod::Taint| {
        let effect = match taint.effect {
            TaintEffect::NoSchedule => "NoSchedule",
            TaintEffect::PreferNoSchedule => "PreferNoSchedule",
            TaintEffect::NoExecute => "NoExecute",
        };
        format!("{}={}:{effect}", text(taint.key), text(taint.value))
    };
    let image = |name: &Sym| format!("{}={}", text(*name), table.images().get(*name).map_or(0, |image| image.size));
    let ports = table.host_ports(node).iter();
    let annotations = table.annotations(node);
    let is_asked = |(key, _): &(&String, &String)| ["example.com/empty", "example.com/note"].contains(&key.as_str());
    let placed = table.pods().on(node);
    let pod_name = |pod: &Pod| format!("{}/{}", text(pod.namespace), pod.name);
    let pod_labels = pod.labels.iter().map(|(key, value)| format!("{}={}", text(*key), text(*value)));
    let mut columns = vec![
        text(table.name(node)),
        u8::from(table.unschedulable().contains(node)).to_string(),
        list(table.labels().of(node).iter().map(|(key, value)| format!("{}={}", text(*key), text(*value))).collect()),
        list(taints.iter().map(taint).collect()),
        amounts(table.allocatable()),
        amounts(table.requested()),
        format!("{},{}", at(table.non_zero_cpu(), node), at(table.non_zero_memory(), node)),
        at(table.pod_counts(), node).to_string(),
        list(table.images().of(node).iter().map(image).collect()),
        list(ports.map(|it| format!("{}/{}/{}", text(it.address), text(it.protocol), it.port)).collect()),
        list(table.declared_features(node).iter().map(|name| text(*name)).collect()),
        format!("{}/{}", text(pod.namespace), pod.name),
        list(pod_labels.collect()),
        list(annotations.into_iter().flatten().filter(is_asked).map(|(key, value)| format!("{key}={value}")).collect()),
        format!("{},{},{}", pod.priority, pod.requests.milli_cpu, pod.requests.memory),
        list(placed.map(|(_, pod)| pod_name(pod)).collect()),
    ];
    if text(table.name(node)) == "bare" {
        let placement = |pod: &Pod, node| format!("{}@{}", pod_name(pod), text(table.name(node)));
        let placements = list(table.pods().iter().map(|(_, pod, node)| placement(pod, node)).collect());
        let nodes = list(table.nodes().iter().map(|node| text(table.name(node))).collect());
        columns.extend([nodes, placements.clone(), placements]);
    }
    columns.into_iter().map(|column| column + ";").collect()
}

fn at(column: &[i64], node: NodeIdx) -> i64 {
    column.get(node.index()).copied().unwrap_or(0)
}
