//! The result of a simulation, in a form that programs read.

use std::collections::BTreeMap;

use berth_model::api;
use serde::Serialize;

use crate::{
    cluster::Cluster,
    outcome::{Eviction, Placed, PodOutcome},
    utilization::{NodeUse, Utilization, node_uses},
};

/// The version of the output.
pub const API_VERSION: &str = "berth.dev/v1alpha1";

/// The placement of a cluster's pods, and its effect on the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `Simulation`.
    pub kind: &'static str,
    /// The numbers of the simulation.
    pub summary: Summary,
    /// The pods that waited for a node, in their order.
    pub pods: Vec<PodOutcome>,
    /// The pods that were evicted for other pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evictions: Vec<Eviction>,
    /// The requests on the nodes, before and after the simulation.
    pub utilization: BeforeAndAfter,
    /// The parts of the input that have no effect, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The numbers of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The number of nodes in the cluster.
    pub nodes: usize,
    /// The number of pods that had a node before.
    pub pods_on_nodes: usize,
    /// The number of pods that got a node.
    pub placed: usize,
    /// The number of pods that stay pending.
    pub pending: usize,
    /// The number of pods that were evicted for other pods.
    pub evicted: usize,
    /// The number of nodes that got pods.
    pub nodes_used: usize,
}

/// The requests on a cluster's nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeAndAfter {
    /// Utilization by the pods that had a node before.
    pub before: Utilization,
    /// Utilization with the pods that got a node, and without the evicted pods.
    pub after: Utilization,
}

impl Report {
    /// The report about the pods of this cluster.
    #[must_use]
    pub fn new(cluster: &Cluster, placed: Placed) -> Self {
        let before = Utilization::of(&uses_before(cluster));
        let after = Utilization::of(&uses_after(cluster, &placed));
        let mut used: Vec<&str> = placed.pods.iter().filter_map(|pod| pod.node.as_deref()).collect();
        let n_placed = used.len();
        used.sort_unstable();
        used.dedup();
        let summary = Summary {
            nodes: cluster.nodes().len(),
            pods_on_nodes: cluster.pods().iter().filter(|pod| !pod.is_pending()).count(),
            placed: n_placed,
            pending: placed.pods.len() - n_placed,
            evicted: placed.evictions.len(),
            nodes_used: used.len(),
        };
        let Placed { pods, evictions } = placed;
        Self {
            api_version: API_VERSION,
            kind: "Simulation",
            summary,
            pods,
            evictions,
            utilization: BeforeAndAfter { before, after },
            warnings: cluster.warnings().to_vec(),
        }
    }
}

/// The requests of the pods that had a node before the simulation.
#[must_use]
pub fn uses_before(cluster: &Cluster) -> Vec<NodeUse<'_>> {
    let pods = cluster.pods().iter().map(|pod| (&*pod.pod, pod.pod.spec.node_name.as_str()));
    node_uses(nodes(cluster), pods)
}

/// The requests of the pods that have a node after the simulation.
#[must_use]
pub fn uses_after<'a>(cluster: &'a Cluster, placed: &Placed) -> Vec<NodeUse<'a>> {
    let key = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
    let got: BTreeMap<(String, String), &str> =
        placed.pods.iter().filter_map(|pod| Some((key(&pod.namespace, &pod.name), pod.node.as_deref()?))).collect();
    let gone: BTreeMap<(String, String), ()> =
        placed.evictions.iter().map(|pod| (key(&pod.namespace, &pod.name), ())).collect();
    let pods = cluster.pods().iter().filter_map(|pod| {
        let metadata = &pod.pod.metadata;
        let key = key(&metadata.namespace, &metadata.name);
        let there = Some(pod.pod.spec.node_name.as_str()).filter(|node| !node.is_empty() && !gone.contains_key(&key));
        let node = got.get(&key).copied().or(there)?;
        Some((&*pod.pod, node.to_owned()))
    });
    let pods: Vec<(&api::Pod, String)> = pods.collect();
    node_uses(nodes(cluster), pods.iter().map(|(pod, node)| (*pod, node.as_str())))
}

fn nodes(cluster: &Cluster) -> impl Iterator<Item = &api::Node> {
    cluster.nodes().iter().map(|node| &*node.node)
}
