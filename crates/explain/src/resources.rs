//! The requests of a pod compared with the resources of nodes.

use berth_model::{ClusterTable, NodeIdx, NodeSet, Pod, Sym, pod::Resources};
use serde::{Deserialize, Serialize};

/// A resource of which a node has less left than the pod requests. CPU is counted in thousandths, and memory in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lack {
    /// The name, such as `cpu`; `pods` is the number of pods that the node accepts.
    pub resource: String,
    /// The amount that the pod requests.
    pub requested: i64,
    /// The amount that is left on the node. It is negative if the requests on the node exceed the node's amount.
    pub free: i64,
    /// The amount that is missing.
    pub missing: i64,
}

/// The pod's request for a resource, and the amounts that nodes have of it. CPU is counted in thousandths, and memory
/// in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSum {
    /// The name of the resource.
    pub resource: String,
    /// The amount that the pod requests.
    pub requested: i64,
    /// The largest amount that a node has, used or not.
    pub largest_node: i64,
    /// The largest amount that is left on a node.
    pub largest_free: i64,
    /// The amount that is left on all nodes which no other rule refuses.
    pub total_free: i64,
}

/// The pod's requests by resource, including 1 of `pods`.
fn requests(pod: &Pod) -> impl Iterator<Item = (Sym, i64)> + '_ {
    let Resources { milli_cpu, memory, ephemeral_storage, scalars } = &pod.requests;
    let usual =
        [(Sym::CPU, *milli_cpu), (Sym::MEMORY, *memory), (Sym::EPHEMERAL_STORAGE, *ephemeral_storage), (Sym::PODS, 1)];
    usual.into_iter().chain(scalars.iter().copied()).filter(|(_, amount)| *amount > 0)
}

fn free(table: &ClusterTable, resource: Sym, node: NodeIdx) -> i64 {
    let used = if resource == Sym::PODS {
        table.pod_counts().get(node.index()).copied().unwrap_or(0)
    } else {
        table.requested().get(resource, node)
    };
    table.allocatable().get(resource, node).saturating_sub(used)
}

/// The resources that the node lacks.
pub(crate) fn lacks(table: &ClusterTable, pod: &Pod, node: NodeIdx) -> Vec<Lack> {
    let lack = |(resource, requested): (Sym, i64)| {
        let free = free(table, resource, node);
        (requested > free).then(|| Lack {
            resource: table.symbols.text(resource).to_owned(),
            requested,
            free,
            missing: requested.saturating_sub(free),
        })
    };
    requests(pod).filter_map(lack).collect()
}

/// The sum of the amounts that the node lacks, each as a share of the pod's request.
#[expect(clippy::cast_precision_loss, reason = "nodes are compared roughly")]
pub(crate) fn missing_share(table: &ClusterTable, pod: &Pod, node: NodeIdx) -> f64 {
    let shares = requests(pod).map(|(resource, requested)| {
        let missing = requested.saturating_sub(free(table, resource, node)).max(0);
        missing as f64 / requested as f64
    });
    shares.sum()
}

/// The resources that the node lacks, with the amounts that are left there.
pub(crate) fn shortages(table: &ClusterTable, pod: &Pod, node: NodeIdx) -> Vec<(Sym, i64)> {
    let left = requests(pod).map(|(resource, requested)| (resource, requested, free(table, resource, node)));
    left.filter(|(_, requested, free)| requested > free).map(|(resource, _, free)| (resource, free)).collect()
}

/// Changes the pod so that it requests this amount of a resource.
pub(crate) fn set_request(pod: &mut Pod, resource: Sym, amount: i64) {
    let Resources { milli_cpu, memory, ephemeral_storage, scalars } = &mut pod.requests;
    match resource {
        Sym::CPU => *milli_cpu = amount,
        Sym::MEMORY => *memory = amount,
        Sym::EPHEMERAL_STORAGE => *ephemeral_storage = amount,
        _ => scalars.iter_mut().filter(|(name, _)| *name == resource).for_each(|(_, value)| *value = amount),
    }
}

/// The sums for each resource that the pod requests. `candidates` are the nodes whose remaining amounts count in the
/// totals.
pub(crate) fn sums(table: &ClusterTable, pod: &Pod, candidates: &NodeSet) -> Vec<ResourceSum> {
    let sum = |(resource, requested): (Sym, i64)| {
        let of_nodes = || table.nodes().iter();
        ResourceSum {
            resource: table.symbols.text(resource).to_owned(),
            requested,
            largest_node: of_nodes().map(|node| table.allocatable().get(resource, node)).max().unwrap_or(0),
            largest_free: of_nodes().map(|node| free(table, resource, node)).max().unwrap_or(0),
            total_free: candidates.iter().map(|node| free(table, resource, node).max(0)).fold(0, i64::saturating_add),
        }
    };
    requests(pod).map(sum).collect()
}

/// An amount with its unit: `300m` of CPU, `1Gi` of memory.
#[must_use]
pub fn amount(resource: &str, value: i64) -> String {
    match resource {
        "cpu" if value % 1000 == 0 => (value / 1000).to_string(),
        "cpu" => format!("{value}m"),
        "memory" | "ephemeral-storage" => bytes(value),
        _ if resource.starts_with("hugepages-") => bytes(value),
        _ => value.to_string(),
    }
}

/// The amount in the largest unit in which it is at least one, cut to one digit after the point.
fn bytes(value: i64) -> String {
    const UNITS: [(&str, i64); 4] = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let Some((unit, size)) = UNITS.into_iter().find(|(_, size)| value.abs() >= *size) else { return value.to_string() };
    let tenths = i128::from(value) * 10 / i128::from(size);
    if tenths % 10 == 0 {
        return format!("{}{unit}", tenths / 10);
    }
    let sign = if tenths < 0 { "-" } else { "" };
    format!("{sign}{}.{}{unit}", tenths.abs() / 10, tenths.abs() % 10)
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn amounts_have_the_units_that_manifests_have() {
        for (resource, value, expected) in [
            ("cpu", 300, "300m"),
            ("cpu", -2000, "-2"),
            ("memory", 1 << 30, "1Gi"),
            ("memory", (1 << 30) + (1 << 29), "1.5Gi"),
            ("memory", -(1 << 19), "-512Ki"),
            ("memory", 12, "12"),
            ("nvidia.com/gpu", 2, "2"),
        ] {
            assert_eq!(amount(resource, value), expected);
        }
    }
}
