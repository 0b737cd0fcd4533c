//! The answer for one group of nodes: how many new nodes are needed, and for which pods.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::api;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::NodeGroup;
use crate::{
    cluster::{Cluster, ClusterNode},
    outcome::PodOutcome,
    utilization::requested,
};

/// The result for one group of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupAnswer {
    /// The name in the request.
    pub name: String,
    /// The smallest number of additional nodes with which as many pods are placed as with the maximum.
    pub nodes: usize,
    /// The number of pods that are then placed, on nodes of the group and on other nodes.
    pub placed: usize,
    /// The additional nodes that get pods of the question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub new_nodes: Vec<NewNode>,
    /// The pods that then get no node.
    pub pending: Vec<PodOutcome>,
}

/// A node that does not exist yet, as a requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewNode {
    /// The name in this answer. The real node may have another name.
    pub name: String,
    /// The pods of the question on this node.
    pub pods: Vec<AskedPod>,
    /// The sum of the requests of these pods by resource, as quantities. Pods of DaemonSets are not included.
    pub requests: BTreeMap<String, String>,
}

/// A pod of the question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedPod {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl NodeGroupAnswer {
    /// The answer that `nodes` nodes like `template` are enough. `outcomes` are the results for the pods of the question
    /// with these nodes.
    pub(super) fn new(
        group: &NodeGroup,
        nodes: usize,
        template: &ClusterNode,
        question: &Cluster,
        outcomes: Vec<PodOutcome>,
    ) -> Self {
        let new_nodes = new_nodes(nodes, template, question, &outcomes);
        let n_all = outcomes.len();
        let pending: Vec<PodOutcome> = outcomes.into_iter().filter(|pod| pod.node.is_none()).collect();
        Self { name: group.name.clone(), nodes, placed: n_all - pending.len(), new_nodes, pending }
    }
}

fn new_nodes(n: usize, template: &ClusterNode, question: &Cluster, outcomes: &[PodOutcome]) -> Vec<NewNode> {
    let names: BTreeSet<String> = (1..=n).map(|number| template.name_of_copy(number)).collect();
    let mut on_nodes: BTreeMap<&str, Vec<&PodOutcome>> = BTreeMap::new();
    for pod in outcomes {
        if let Some(node) = pod.node.as_deref().filter(|node| names.contains(*node)) {
            on_nodes.entry(node).or_default().push(pod);
        }
    }
    let asked = question.pods().iter().map(|pod| (key(&pod.pod), &*pod.pod));
    let asked: FxHashMap<(&str, &str), &api::Pod> = asked.collect();
    let node = |(name, pods): (&str, Vec<&PodOutcome>)| NewNode {
        name: name.to_owned(),
        requests: requested(pods.iter().filter_map(|pod| asked.get(&(&*pod.namespace, &*pod.name)).copied())),
        pods: pods.iter().map(|pod| AskedPod { namespace: pod.namespace.clone(), name: pod.name.clone() }).collect(),
    };
    on_nodes.into_iter().map(node).collect()
}

fn key(pod: &api::Pod) -> (&str, &str) {
    (&pod.metadata.namespace, &pod.metadata.name)
}
