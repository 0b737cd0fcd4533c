//! The requested share of a cluster, by resource and zone, and the share of the free amounts that pods can use.

use std::collections::BTreeMap;

use berth_model::{
    Features, api,
    quantity::{Format, Quantity},
    requests::{self, Requests, Resizes},
};
use rustc_hash::FxHashMap;
use serde::Serialize;

const ZONE: &str = "topology.kubernetes.io/zone";
const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
const PODS: &str = "pods";

/// The requested share of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Utilization {
    /// The number of nodes.
    pub nodes: usize,
    /// The number of nodes without pods, except pods of DaemonSets.
    pub empty_nodes: usize,
    /// The use of each resource, CPU and memory first.
    pub resources: Vec<ResourceUse>,
    /// Zones by `topology.kubernetes.io/zone`; empty if no node has a zone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneUse>,
    /// The share of the free amounts that a pod with the mean request cannot use; absent if no pod is placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation: Option<Fragmentation>,
    /// The differences between the nodes' requested shares; absent if there are no nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

/// The requested shares of the nodes in per cent. The share of a node is its share of CPU or its share of memory,
/// whichever is larger.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// The share of the emptiest node.
    pub lowest: f64,
    /// The share that half of the nodes do not exceed.
    pub median: f64,
    /// The share of the fullest node.
    pub highest: f64,
}

/// A resource of all nodes together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUse {
    /// The name, such as `cpu`.
    pub resource: String,
    /// The sum that pods may use, as a quantity.
    pub allocatable: String,
    /// The sum that pods on nodes request, as a quantity.
    pub requested: String,
    /// The requested sum as a percentage of the allocatable sum.
    pub percent: f64,
    /// The largest free amount on one node, as a quantity.
    pub largest_free: String,
}

/// The resources of a zone.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneUse {
    /// The name of the zone; empty for nodes without a zone.
    pub zone: String,
    /// The number of nodes in the zone.
    pub nodes: usize,
    /// The use of each resource.
    pub resources: Vec<ResourceUse>,
}

/// The share of the free amounts that cannot be used by a pod with the mean request of all pods on nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fragmentation {
    /// The CPU of that pod, as a quantity.
    pub cpu: String,
    /// The memory of that pod, as a quantity.
    pub memory: String,
    /// The number of pods with this request that would fit if all free amounts were on one node.
    pub fit_in_sum: u64,
    /// The number of pods with this request that fit on the actual nodes.
    pub fit_on_nodes: u64,
    /// The share of `fit_in_sum` that does not fit, in per cent.
    pub percent: f64,
}

/// A node, and the requests on it.
#[derive(Clone, Debug)]
pub struct NodeUse<'a> {
    /// The node.
    pub node: &'a api::Node,
    allocatable: Requests,
    requested: Requests,
    n_allowed: i64,
    n_pods: i64,
    has_pods: bool,
}

/// Sums of amounts. A cluster may have more bytes than fit into 64 bits.
#[derive(Default)]
struct Sums {
    n_nodes: usize,
    /// The allocatable amount, the requested amount, and the largest free amount on one node.
    resources: BTreeMap<String, (i128, i128, i64)>,
}

/// The requests of `pods` on each node. Pods on unknown nodes do not count.
pub fn node_uses<'a, 'p>(
    nodes: impl Iterator<Item = &'a api::Node>,
    pods: impl Iterator<Item = (&'p api::Pod, &'p str)>,
) -> Vec<NodeUse<'a>> {
    let mut uses: Vec<NodeUse<'a>> = nodes.map(NodeUse::new).collect();
    let places: FxHashMap<&str, usize> =
        uses.iter().enumerate().map(|(at, node)| (node.node.metadata.name.as_str(), at)).collect();
    for (pod, node) in pods {
        if let Some(node) = places.get(node).and_then(|at| uses.get_mut(*at)) {
            node.add(pod);
        }
    }
    uses
}

/// The sum of the pods' requests by resource, as quantities. Resources that no pod requests are left out.
pub(crate) fn requested<'p>(pods: impl Iterator<Item = &'p api::Pod>) -> BTreeMap<String, String> {
    let node = api::Node::default();
    let mut all = NodeUse::new(&node);
    pods.for_each(|pod| all.add(pod));
    let amounts = all.resources().map(|resource| (resource, all.amounts(resource).1)).filter(|(_, sum)| *sum > 0);
    amounts.map(|(resource, sum)| (resource.to_owned(), quantity(resource, sum.into()))).collect()
}

impl<'a> NodeUse<'a> {
    fn new(node: &'a api::Node) -> Self {
        let list = &node.status.allocatable;
        Self {
            node,
            allocatable: requests::allocatable(list),
            requested: Requests::default(),
            n_allowed: list.get(PODS).map_or(0, Quantity::value),
            n_pods: 0,
            has_pods: false,
        }
    }

    fn add(&mut self, pod: &api::Pod) {
        let requests = requests::placed_requests(pod, Resizes::of(Features::default()));
        self.requested.milli_cpu = self.requested.milli_cpu.saturating_add(requests.milli_cpu);
        self.requested.memory = self.requested.memory.saturating_add(requests.memory);
        self.requested.ephemeral_storage = self.requested.ephemeral_storage.saturating_add(requests.ephemeral_storage);
        for (name, amount) in requests.scalars {
            let sum = self.requested.scalars.entry(name).or_default();
            *sum = sum.saturating_add(amount);
        }
        self.n_pods += 1;
        self.has_pods |= !is_of_daemon_set(pod);
    }

    /// The allocatable and the requested amount of one resource. CPU is in thousandths.
    #[must_use]
    pub fn amounts(&self, resource: &str) -> (i64, i64) {
        match resource {
            PODS => (self.n_allowed, self.n_pods),
            resource => (self.allocatable.get(resource), self.requested.get(resource)),
        }
    }

    /// The requested share of the allocatable amount, for CPU or memory, whichever is larger; 0 for a node without CPU
    /// and memory.
    #[must_use]
    pub fn share(&self) -> f64 {
        let share = |resource| {
            let (allocatable, requested) = self.amounts(resource);
            if allocatable > 0 { requested as f64 / allocatable as f64 } else { 0.0 }
        };
        share(CPU).max(share(MEMORY))
    }

    /// `topology.kubernetes.io/zone`; empty if the node has no zone.
    #[must_use]
    pub fn zone(&self) -> &'a str {
        self.node.metadata.labels.get(ZONE).map_or("", String::as_str)
    }

    /// Whether the node has no pods, except pods of DaemonSets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_pods
    }

    fn resources(&self) -> impl Iterator<Item = &str> {
        let scalars = self.allocatable.scalars.keys().chain(self.requested.scalars.keys());
        [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].into_iter().chain(scalars.map(String::as_str))
    }

    fn free(&self, resource: &str) -> i64 {
        let (allocatable, requested) = self.amounts(resource);
        allocatable.saturating_sub(requested).max(0)
    }

    /// The number of further pods with these requests that fit, if only CPU, memory and the number of pods count.
    fn n_fitting(&self, milli_cpu: i64, memory: i64) -> i64 {
        n_times(self.free(CPU), milli_cpu).min(n_times(self.free(MEMORY), memory)).min(self.free(PODS))
    }
}

impl Utilization {
    /// The utilization of these nodes.
    #[must_use]
    pub fn of(nodes: &[NodeUse<'_>]) -> Self {
        let mut all = Sums::default();
        let mut zones: BTreeMap<&str, Sums> = BTreeMap::new();
        for node in nodes {
            all.add(node);
            zones.entry(node.zone()).or_default().add(node);
        }
        let has_zones = zones.keys().any(|zone| !zone.is_empty());
        let zone = |(zone, sums): (&str, Sums)| ZoneUse {
            zone: zone.to_owned(),
            nodes: sums.n_nodes,
            resources: sums.resources(),
        };
        Self {
            nodes: nodes.len(),
            empty_nodes: nodes.iter().filter(|node| node.is_empty()).count(),
            resources: all.resources(),
            zones: if has_zones { zones.into_iter().map(zone).collect() } else { Vec::new() },
            fragmentation: fragmentation(nodes),
            spread: spread(nodes),
        }
    }
}

fn spread(nodes: &[NodeUse<'_>]) -> Option<Spread> {
    let mut shares: Vec<f64> = nodes.iter().map(|node| percent(node.share(), 1.0)).collect();
    shares.sort_by(f64::total_cmp);
    let middle = shares.len().saturating_sub(1) / 2;
    Some(Spread { lowest: *shares.first()?, median: *shares.get(middle)?, highest: *shares.last()? })
}

impl Sums {
    fn add(&mut self, node: &NodeUse<'_>) {
        self.n_nodes += 1;
        for resource in node.resources() {
            let (allocatable, requested) = node.amounts(resource);
            if !self.resources.contains_key(resource) {
                self.resources.insert(resource.to_owned(), (0, 0, 0));
            }
            if let Some((all, used, largest)) = self.resources.get_mut(resource) {
                *all += i128::from(allocatable);
                *used += i128::from(requested);
                *largest = (*largest).max(node.free(resource));
            }
        }
    }

    fn resources(self) -> Vec<ResourceUse> {
        let order = |name: &str| [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].iter().position(|it| *it == name).unwrap_or(4);
        let mut resources: Vec<_> =
            self.resources.into_iter().filter(|(_, (all, used, _))| *all > 0 || *used > 0).collect();
        resources.sort_by(|(one, _), (other, _)| (order(one), one).cmp(&(order(other), other)));
        let row = |(resource, (all, used, largest)): (String, (i128, i128, i64))| ResourceUse {
            allocatable: quantity(&resource, all),
            requested: quantity(&resource, used),
            percent: percent(used as f64, all as f64),
            largest_free: quantity(&resource, largest.into()),
            resource,
        };
        resources.into_iter().map(row).collect()
    }
}

fn fragmentation(nodes: &[NodeUse<'_>]) -> Option<Fragmentation> {
    let n_pods: i64 = nodes.iter().map(|node| node.n_pods).sum();
    let mean = |resource: &str| -> Option<i64> {
        let sum: i128 = nodes.iter().map(|node| i128::from(node.amounts(resource).1)).sum();
        i64::try_from(sum.checked_div(n_pods.into())?).ok()
    };
    let (milli_cpu, memory) = (mean(CPU)?, mean(MEMORY)?);
    if milli_cpu == 0 && memory == 0 {
        return None;
    }
    let sum = |resource: &str| -> i64 {
        let sum: i128 = nodes.iter().map(|node| i128::from(node.free(resource))).sum();
        i64::try_from(sum).unwrap_or(i64::MAX)
    };
    let in_sum = n_times(sum(CPU), milli_cpu).min(n_times(sum(MEMORY), memory)).min(sum(PODS));
    let on_nodes: i64 = nodes.iter().map(|node| node.n_fitting(milli_cpu, memory)).fold(0, i64::saturating_add);
    Some(Fragmentation {
        cpu: quantity(CPU, milli_cpu.into()),
        memory: quantity(MEMORY, memory.into()),
        fit_in_sum: u64::try_from(in_sum).unwrap_or(0),
        fit_on_nodes: u64::try_from(on_nodes).unwrap_or(0),
        percent: percent((in_sum - on_nodes).max(0) as f64, in_sum as f64),
    })
}

/// The number of times that an amount fits. If the amount is zero, the number has no limit.
fn n_times(free: i64, amount: i64) -> i64 {
    free.checked_div(amount).unwrap_or(i64::MAX)
}

/// The part as a percentage of the whole, with one digit after the point.
fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole * 1000.0).round() / 10.0 } else { 0.0 }
}

/// An amount in the form of Kubernetes. CPU is given in thousandths.
fn quantity(resource: &str, amount: i128) -> String {
    let amount = i64::try_from(amount).unwrap_or(i64::MAX);
    let quantity = match resource {
        CPU => Quantity::from_milli(amount),
        MEMORY | EPHEMERAL_STORAGE => Quantity::from_units(amount, Format::BinarySi),
        _ => Quantity::from_units(amount, Format::DecimalSi),
    };
    quantity.to_string()
}

fn is_of_daemon_set(pod: &api::Pod) -> bool {
    pod.metadata.owner_references.iter().any(|owner| owner.kind == "DaemonSet")
}

#[cfg(test)]
mod tests {
    use berth_testing::{node, pod};

    use super::*;

    #[test]
    fn amounts_are_summed_by_resource_and_zone() {
        let nodes = [("a", "west", "4"), ("b", "east", "2")].map(|(name, zone, cpu)| {
            node(name)
                .label(ZONE, zone)
                .allocatable("cpu", cpu)
                .allocatable("memory", "8Gi")
                .allocatable("pods", "10")
                .build()
        });
        let pods = [pod("one").request("cpu", "1500m").request("memory", "1Gi").build()];
        let uses = node_uses(nodes.iter(), pods.iter().map(|pod| (pod, "a")));
        let utilization = Utilization::of(&uses);
        assert_eq!((utilization.nodes, utilization.empty_nodes), (2, 1));
        let cpu = &utilization.resources[0];
        let texts = [cpu.resource.as_str(), &cpu.allocatable, &cpu.requested, &cpu.largest_free];
        assert_eq!((texts, cpu.percent), (["cpu", "6", "1500m", "2500m"], 25.0));
        let zones: Vec<_> =
            utilization.zones.iter().map(|zone| (zone.zone.as_str(), zone.resources[0].percent)).collect();
        assert_eq!(zones, [("east", 0.0), ("west", 37.5)]);
        assert_eq!(utilization.spread, Some(Spread { lowest: 0.0, median: 0.0, highest: 37.5 }));
        let fragmentation = utilization.fragmentation.unwrap();
        // The sum of free CPU is 4.5, which is enough for three such pods. Each node has room for only one pod.
        assert_eq!((fragmentation.fit_in_sum, fragmentation.fit_on_nodes, fragmentation.percent), (3, 2, 33.3));
    }
}
