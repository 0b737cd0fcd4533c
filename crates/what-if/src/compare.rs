//! Compares two configurations on one cluster: the pods that they place differently, and the plugins that cause the
//! differences.

use std::collections::{BTreeMap, BTreeSet};

use berth_framework::{
    PluginIdx,
    run::{Decision, NodeVerdict},
};
use berth_model::ClusterTable;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::{
    outcome::{Placed, PodOutcome, RefusalReason},
    report::API_VERSION,
};

/// The results of two configurations on one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `Comparison`.
    pub kind: &'static str,
    /// The number of pods that both configurations place on the same node or refuse.
    pub alike: usize,
    /// The pods that get different nodes, or get a node from only one configuration.
    pub moved: Vec<MovedPod>,
    /// The number of differing pods for each plugin that causes the difference.
    pub by_plugin: BTreeMap<String, usize>,
}

/// A pod that two configurations place differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MovedPod {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The result for the pod with the first configuration.
    pub first: Side,
    /// The result for the pod with the second configuration.
    pub second: Side,
    /// The plugin with the largest difference between its answers about the two nodes. It is absent if no plugin's
    /// answers differ, for example because earlier pods took other nodes, or because one configuration has no profile for
    /// the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
}

/// The result for a pod with one of the two configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// The node that the pod gets; absent if the pod stays pending.
    pub node: Option<String>,
    /// The reason why the pod stays pending; absent if the pod gets a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusalReason>,
    /// The answers of the plugins about the pod's own node, and about its node with the other configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<NodeAnswer>,
}

/// The answers of the plugins about one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAnswer {
    /// The name of the node.
    pub node: String,
    /// The plugin that rejects the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected_by: Option<String>,
    /// The weighted score of each plugin, if the node passed and there was a choice.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, i64>,
}

/// The namespace and name of a pod.
type PodKey = (String, String);

/// The nodes for which a run must record the plugins' answers, by pod.
#[derive(Clone, Debug, Default)]
pub struct Questions(FxHashMap<PodKey, BTreeSet<String>>);

/// The answers of the plugins, by pod.
#[derive(Clone, Debug, Default)]
pub struct Answers(FxHashMap<PodKey, Vec<NodeAnswer>>);

impl Questions {
    /// The questions about the pods that the two runs place differently. They cover both nodes of each pod.
    #[must_use]
    pub fn between(first: &Placed, second: &Placed) -> Self {
        let pairs = pairs(first, second).filter(|(first, second)| first.node != second.node);
        let questions = pairs.map(|(first, second)| {
            let nodes = [&first.node, &second.node].into_iter().flatten().cloned().collect();
            ((first.namespace.clone(), first.name.clone()), nodes)
        });
        Self(questions.collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records the answers in a decision about the nodes of the questions.
    pub(crate) fn answer(
        &self,
        pod: &PodOutcome,
        decision: &Decision,
        table: &ClusterTable,
        plugin_name: impl Fn(PluginIdx) -> Option<String>,
        answers: &mut Answers,
    ) {
        let key = (pod.namespace.clone(), pod.name.clone());
        let Some(nodes) = self.0.get(&key) else { return };
        let answer = nodes.iter().filter_map(|node| NodeAnswer::of(decision, node, table, &plugin_name));
        answers.0.insert(key, answer.collect());
    }
}

impl NodeAnswer {
    /// The answers about one node; `None` if the cluster has no node of this name.
    fn of(
        decision: &Decision,
        node: &str,
        table: &ClusterTable,
        plugin_name: impl Fn(PluginIdx) -> Option<String>,
    ) -> Option<Self> {
        let idx = table.symbols.lookup(node).and_then(|name| table.find(name))?;
        let mut answer = Self { node: node.to_owned(), rejected_by: None, scores: BTreeMap::new() };
        if let NodeVerdict::Rejected { plugin, .. } = decision.verdict(idx) {
            answer.rejected_by = plugin_name(plugin);
        }
        let findings = &decision.findings;
        if let Some(place) = findings.feasible().iter().position(|other| other == idx) {
            for scores in findings.plugin_scores() {
                if let (Some(plugin), Some(score)) = (plugin_name(scores.plugin), scores.weighted().nth(place)) {
                    answer.scores.insert(plugin, score);
                }
            }
        }
        Some(answer)
    }
}

impl Comparison {
    /// Compares two runs. `answers` are the plugins' answers in each run about the nodes of the questions.
    #[must_use]
    pub fn new(first: &Placed, second: &Placed, answers: [Answers; 2]) -> Self {
        let [mut of_first, mut of_second] = answers;
        let (mut alike, mut moved) = (0, Vec::new());
        for (one, other) in pairs(first, second) {
            if one.node == other.node {
                alike += 1;
                continue;
            }
            let key = (one.namespace.clone(), one.name.clone());
            let side = |pod: &PodOutcome, answers: &mut Answers| Side {
                node: pod.node.clone(),
                refusal: pod.refusal.as_ref().map(|refusal| refusal.reason),
                answers: answers.0.remove(&key).unwrap_or_default(),
            };
            let (first, second) = (side(one, &mut of_first), side(other, &mut of_second));
            let plugin = plugin_that_differs(&first, &second);
            let (namespace, name) = (one.namespace.clone(), one.name.clone());
            moved.push(MovedPod { namespace, name, first, second, plugin });
        }
        let mut by_plugin = BTreeMap::new();
        for plugin in moved.iter().filter_map(|pod| pod.plugin.clone()) {
            *by_plugin.entry(plugin).or_default() += 1;
        }
        Self { api_version: API_VERSION, kind: "Comparison", alike, moved, by_plugin }
    }
}

/// The result for each pod with the first configuration, and the result with the second configuration.
fn pairs<'a>(first: &'a Placed, second: &'a Placed) -> impl Iterator<Item = (&'a PodOutcome, &'a PodOutcome)> {
    let others: FxHashMap<(&str, &str), &PodOutcome> =
        second.pods.iter().map(|pod| ((pod.namespace.as_str(), pod.name.as_str()), pod)).collect();
    first.pods.iter().filter_map(move |pod| Some((pod, *others.get(&(pod.namespace.as_str(), pod.name.as_str()))?)))
}

/// The plugin that causes the difference. This is the plugin that rejects the other configuration's node. If no plugin
/// rejects this node, it is the plugin with the largest difference in its preference between the two nodes.
fn plugin_that_differs(first: &Side, second: &Side) -> Option<String> {
    let rejects = |by: &Side, node: &Option<String>| {
        let node = node.as_ref()?;
        by.answers.iter().find(|answer| answer.node == *node)?.rejected_by.clone()
    };
    if let Some(plugin) = rejects(second, &first.node).or_else(|| rejects(first, &second.node)) {
        return Some(plugin);
    }
    let (one, other) = (first.node.as_ref()?, second.node.as_ref()?);
    let advantage = |side: &Side| -> BTreeMap<String, i64> {
        let scores =
            |node: &String| side.answers.iter().find(|answer| answer.node == *node).map(|answer| &answer.scores);
        let (Some(one), Some(other)) = (scores(one), scores(other)) else { return BTreeMap::new() };
        let of = |scores: &BTreeMap<String, i64>, plugin: &String| scores.get(plugin).copied().unwrap_or(0);
        one.keys().chain(other.keys()).map(|plugin| (plugin.clone(), of(one, plugin) - of(other, plugin))).collect()
    };
    let (before, after) = (advantage(first), advantage(second));
    let difference = |plugin: &&String| {
        let of = |map: &BTreeMap<String, i64>| map.get(*plugin).copied().unwrap_or(0);
        of(&before).abs_diff(of(&after))
    };
    let plugins: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let most = plugins.into_iter().max_by_key(difference)?;
    (difference(&most) > 0).then(|| most.clone())
}
