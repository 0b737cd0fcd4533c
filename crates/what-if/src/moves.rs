//! Simulates pods that leave their nodes: drains, and plans that empty nodes.
//!
//! Pods leave as with `kubectl drain`. A pod is evicted if the PodDisruptionBudgets allow the eviction. The pod's
//! controller creates the pod again, and the scheduler finds a node. The pod counts for its budget again once it has a
//! node.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::{
    budgets::Budgets,
    cluster::{Cluster, ClusterNode, ClusterPod},
    outcome::Refusal,
    place::{Conditions, PlaceError, Placing},
    report::API_VERSION,
};

/// The result of draining nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `Drain`.
    pub kind: &'static str,
    /// The nodes from which all pods left, except the pods that belong to their nodes.
    pub drained: Vec<String>,
    /// The evictions in their order.
    pub moves: Vec<Move>,
    /// The pods that may not be evicted.
    pub blocked: Vec<Blocked>,
}

/// A plan that empties nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Consolidation {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `Consolidation`.
    pub kind: &'static str,
    /// The nodes that are already empty.
    pub empty: Vec<String>,
    /// The nodes to empty, in this order.
    pub steps: Vec<EmptiedNode>,
    /// The number of pods that move.
    pub moves: usize,
    /// The number of nodes that cannot be emptied.
    pub kept: usize,
}

/// A node that a plan empties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EmptiedNode {
    /// The name of the node.
    pub node: String,
    /// The evictions in their order.
    pub moves: Vec<Move>,
}

/// A pod that leaves its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The node that the pod leaves.
    pub from: String,
    /// The node that the pod's replacement gets; absent if the replacement stays pending.
    pub to: Option<String>,
    /// The reason why the replacement stays pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
}

/// A pod that may not be evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The pod's node.
    pub node: String,
    /// The reason.
    pub reason: String,
}

/// A cluster in which pods move.
struct Moving<'a> {
    placing: Placing<'a>,
    budgets: Budgets,
    nodes: FxHashMap<String, ClusterNode>,
    /// The pods that can leave, by node.
    pods: BTreeMap<String, Vec<ClusterPod>>,
}

/// A pod that left, and its replacement.
struct Moved {
    original: ClusterPod,
    replacement: ClusterPod,
    to: Option<String>,
}

/// Drains nodes one after the other, after the pending pods are placed.
///
/// # Errors
/// Fails as [`crate::place`] does.
pub fn drain(cluster: &Cluster, nodes: &[String], conditions: Conditions<'_>) -> Result<Drain, PlaceError> {
    let mut moving = Moving::new(cluster, conditions)?;
    nodes.iter().for_each(|node| moving.cordon(node));
    let mut report =
        Drain { api_version: API_VERSION, kind: "Drain", drained: Vec::new(), moves: Vec::new(), blocked: Vec::new() };
    for node in nodes {
        moving.drain(node, &mut report)?;
        if !moving.has_pods(node) {
            report.drained.push(node.clone());
        }
    }
    Ok(report)
}

/// Searches for nodes that can be emptied, beginning with the nodes that have the fewest pods. A node is emptied if
/// each of its pods may leave and gets another node. No pod is evicted for another pod, and no pod goes to an empty
/// node.
///
/// # Errors
/// Fails as [`crate::place`] does.
pub fn consolidate(cluster: &Cluster, conditions: Conditions<'_>) -> Result<Consolidation, PlaceError> {
    let mut moving = Moving::new(cluster, conditions)?;
    let all: BTreeSet<String> = cluster.nodes().iter().map(|node| node.node.metadata.name.clone()).collect();
    let empty: Vec<String> = all.iter().filter(|node| !moving.has_pods(node)).cloned().collect();
    empty.iter().for_each(|node| moving.cordon(node));
    let mut candidates: Vec<(usize, String)> = moving
        .pods
        .iter()
        .filter(|(node, _)| all.contains(*node))
        .map(|(node, pods)| (pods.len(), node.clone()))
        .collect();
    candidates.sort();
    let mut report =
        Consolidation { api_version: API_VERSION, kind: "Consolidation", empty, steps: Vec::new(), moves: 0, kept: 0 };
    // A node that received pods of other nodes is not emptied, because these pods would move twice.
    let mut receivers = BTreeSet::new();
    for (_, node) in candidates {
        let moves = if receivers.contains(&node) { None } else { moving.try_to_empty(&node)? };
        let Some(moves) = moves else {
            report.kept += 1;
            continue;
        };
        receivers.extend(moves.iter().filter_map(|it| it.to.clone()));
        report.moves += moves.len();
        report.steps.push(EmptiedNode { node, moves });
    }
    Ok(report)
}

impl<'a> Moving<'a> {
    /// Begins with placing the pending pods.
    fn new(cluster: &Cluster, conditions: Conditions<'a>) -> Result<Self, PlaceError> {
        let mut placing = Placing::new(cluster, conditions);
        let mut budgets = Budgets::of(cluster);
        cluster.pending().for_each(|pod| placing.arrive(pod));
        placing.settle()?;
        let mut pods: BTreeMap<String, Vec<ClusterPod>> = BTreeMap::new();
        for pod in cluster.pods() {
            let mut node = Some(pod.pod.spec.node_name.clone()).filter(|node| !node.is_empty());
            if pod.is_pending() {
                node = placing.outcome(&pod.pod.metadata.uid).and_then(|outcome| outcome.node.clone());
                if node.is_some() {
                    budgets.gain(pod);
                }
            }
            let Some(node) = node.filter(|_| !pod.belongs_to_its_node()) else { continue };
            let placed = pod.on(&node);
            pods.entry(node).or_default().push(placed);
        }
        let nodes = cluster.nodes().iter().map(|node| (node.node.metadata.name.clone(), node.clone())).collect();
        Ok(Self { placing, budgets, nodes, pods })
    }

    fn has_pods(&self, node: &str) -> bool {
        self.pods.get(node).is_some_and(|pods| !pods.is_empty())
    }

    fn cordon(&mut self, node: &str) {
        if let Some(node) = self.nodes.get(node) {
            self.placing.change_node(&node.cordoned());
        }
    }

    fn uncordon(&mut self, node: &str) {
        if let Some(node) = self.nodes.get(node) {
            self.placing.change_node(node);
        }
    }

    /// Evicts the pods of a node. Pods that a budget protects come after all other pods.
    fn drain(&mut self, node: &str, report: &mut Drain) -> Result<(), PlaceError> {
        let mut waiting = self.pods.remove(node).unwrap_or_default();
        loop {
            let n_before = waiting.len();
            let mut held = Vec::new();
            for pod in waiting {
                if pod.has_controller() && self.budgets.refusal(&pod).is_none() {
                    let moved = self.evict(pod, false)?;
                    report.moves.push(self.describe(&moved));
                } else {
                    held.push(pod);
                }
            }
            if held.is_empty() || held.len() == n_before {
                report.blocked.extend(held.iter().map(|pod| self.blocked(pod)));
                self.pods.insert(node.to_owned(), held);
                return Ok(());
            }
            waiting = held;
        }
    }

    fn blocked(&self, pod: &ClusterPod) -> Blocked {
        let no_controller = "it has no controller, so nothing would recreate it: kubectl drain requires --force";
        let reason = if pod.has_controller() { self.budgets.refusal(pod) } else { Some(no_controller.to_owned()) };
        Blocked {
            namespace: pod.pod.metadata.namespace.clone(),
            name: pod.pod.metadata.name.clone(),
            node: pod.pod.spec.node_name.clone(),
            reason: reason.unwrap_or_default(),
        }
    }

    /// Evicts the pod, and places its replacement.
    fn evict(&mut self, original: ClusterPod, evicts_none: bool) -> Result<Moved, PlaceError> {
        let mut replacement = original.made_again();
        if evicts_none {
            replacement = replacement.evicting_none();
        }
        self.placing.delete(&original);
        self.budgets.lose(&original);
        self.placing.arrive(&replacement);
        self.placing.settle()?;
        let outcome = self.placing.outcome(&replacement.pod.metadata.uid);
        let to = outcome.and_then(|outcome| outcome.node.clone());
        if let Some(to) = &to {
            self.budgets.gain(&replacement);
            self.pods.entry(to.clone()).or_default().push(replacement.on(to));
        }
        Ok(Moved { original, replacement, to })
    }

    fn describe(&self, moved: &Moved) -> Move {
        let metadata = &moved.original.pod.metadata;
        let outcome = self.placing.outcome(&moved.replacement.pod.metadata.uid);
        Move {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            from: moved.original.pod.spec.node_name.clone(),
            to: moved.to.clone(),
            refusal: outcome.and_then(|outcome| outcome.refusal.clone()),
        }
    }

    /// Makes the moves that empty the node. If one move is impossible, all changes are reverted and the result is
    /// `None`.
    fn try_to_empty(&mut self, node: &str) -> Result<Option<Vec<Move>>, PlaceError> {
        let pods = self.pods.remove(node).unwrap_or_default();
        self.cordon(node);
        let mut moved: Vec<Moved> = Vec::new();
        for pod in &pods {
            let may_leave = pod.has_controller() && self.budgets.refusal(pod).is_none();
            if may_leave {
                moved.push(self.evict(pod.clone(), true)?);
            }
            if !may_leave || moved.last().is_some_and(|last| last.to.is_none()) {
                moved.into_iter().rev().for_each(|moved| self.revert(moved));
                self.pods.insert(node.to_owned(), pods);
                self.uncordon(node);
                self.placing.settle()?;
                return Ok(None);
            }
        }
        Ok(Some(moved.iter().map(|moved| self.describe(moved)).collect()))
    }

    fn revert(&mut self, moved: Moved) {
        let Moved { original, replacement, to } = moved;
        if let Some(to) = to {
            self.budgets.lose(&replacement);
            if let Some(pods) = self.pods.get_mut(&to) {
                pods.retain(|pod| pod.pod.metadata.uid != replacement.pod.metadata.uid);
            }
        }
        self.placing.delete(&replacement);
        self.placing.put_back(&original, &original.pod.spec.node_name);
        self.budgets.gain(&original);
    }
}
