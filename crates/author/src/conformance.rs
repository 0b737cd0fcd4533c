//! Checks whether a plugin fulfils the contract of every plugin: `berth plugin verify`.
//!
//! The caller of a component checks the length, range and subset of each answer, so mistakes in one answer appear as
//! failed calls. The properties of this module concern several calls.

use berth_framework::{PluginFactory, Point, Status, run::MAX_SCORE};
use berth_model::{NodeSet, ObjectKey, Pod, api};
use berth_testing::TestCluster;
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};

use crate::{
    answers::PluginAnswers,
    case_uids::{with_uid, with_uid_of_pod},
    every_point::call_every_point,
    full_cluster::{FullCluster, Unobserved},
    harness::{HarnessError, PluginHarness},
    random::{Random, node, node_name, pod},
    situation::Situation,
};

/// One property that the contract requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConformanceCheck {
    /// The property in words: `the same question gets the same answer`.
    pub property: &'static str,
    /// Whether the plugin has the property.
    pub outcome: CheckOutcome,
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    /// The plugin has the property.
    Passed,
    /// The plugin does not implement the points that the property is about.
    NotApplicable,
    /// A call failed during the check. The failure is reported once, under another property.
    Unchecked,
    /// The plugin lacks the property. The text describes the failure and its place.
    Failed(String),
}

/// A violation of the contract. Only its text is shown.
#[derive(Debug, thiserror::Error)]
enum Violation {
    /// The plugin could not be called, or a call failed.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    #[error("the second answer differs: {}", first(.0))]
    DifferentAnswers(Vec<String>),
    #[error("the replica differs from a fresh one after a delta with {}: {}", .delta.join(", "), first(.differences))]
    DifferentReplica { delta: Vec<String>, differences: Vec<String> },
    #[error(
        "{node} {} in a batch of {n_asked} nodes, but {} in a batch of {n_all}",
        verdict(*.passes), verdict(!.passes)
    )]
    DependsOnBatch { node: String, passes: bool, n_asked: usize, n_all: usize },
    #[error("{node} scores {score}")]
    ScoreOutOfRange { node: String, score: i64 },
    #[error("{node} {} while other cycles are open, but {} alone", verdict(*.passes), verdict(!.passes))]
    DependsOnOtherCycles { node: String, passes: bool },
}

fn verdict(passes: bool) -> &'static str {
    if passes { "passes" } else { "is rejected" }
}

/// The first differences, because one mistake may appear at every node.
fn first(differences: &[String]) -> String {
    const SHOWN: usize = 5;
    let (shown, others) = differences.split_at(differences.len().min(SHOWN));
    let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    shown.join("; ") + &more
}

impl From<Status> for Violation {
    fn from(status: Status) -> Self {
        HarnessError::Call(status).into()
    }
}

type Holds = fn(&dyn PluginFactory, &Situation, u64) -> Result<bool, Violation>;

/// A property, with the function that checks it.
struct Property {
    name: &'static str,
    /// Checks the property. Returns whether it applies to the plugin.
    holds: Holds,
    faults: FaultHeading,
}

/// The property under which a fault in a check is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FaultHeading {
    /// The property at [`NO_FAULTS`].
    NoFaults,
    /// The checked property itself, if only a cluster of the size of this property causes the fault.
    Own,
}

/// The index of the first property.
const NO_FAULTS: usize = 0;

const PROPERTIES: [Property; 8] = [
    Property::new("each exported extension point answers without a fault", answers_at_every_point),
    Property::of_size("answers about an empty cluster", empty_cluster),
    Property::of_size("answers about 5,000 nodes with 50,000 pods within the limits", huge_cluster),
    Property::new("the same question gets the same answer", repeats_itself),
    Property::new("a replica updated by deltas answers like a new replica", follows_deltas),
    Property::new("the verdict on a node does not depend on the other nodes of the batch", batches_agree),
    Property::new("normalised scores lie between 0 and 100", scores_in_range),
    Property::new("many cycles may be open at a time", interleaved_cycles),
];

impl Property {
    const fn new(name: &'static str, holds: Holds) -> Self {
        Self { name, holds, faults: FaultHeading::NoFaults }
    }

    const fn of_size(name: &'static str, holds: Holds) -> Self {
        Self { name, holds, faults: FaultHeading::Own }
    }
}

/// Checks every property in a situation, on random clusters that the seed determines. A fault is reported once: under
/// the first property, or under the property of an empty or a huge cluster if only that cluster causes it.
///
/// # Errors
/// The plugin refuses its arguments or cannot be started, or an object of the situation is invalid.
pub fn conformance(
    factory: &dyn PluginFactory,
    situation: &Situation,
    seed: u64,
) -> Result<Vec<ConformanceCheck>, HarnessError> {
    situation.enter(&mut PluginHarness::new(factory, situation.args())?)?;
    let mut outcomes = [const { CheckOutcome::NotApplicable }; PROPERTIES.len()];
    let mut fault = None;
    for heading in [FaultHeading::NoFaults, FaultHeading::Own] {
        let checked = PROPERTIES.iter().zip(&mut outcomes).filter(|(property, _)| property.faults == heading);
        for (property, outcome) in checked {
            *outcome = match (property.holds)(factory, situation, seed) {
                Ok(true) => CheckOutcome::Passed,
                Ok(false) => CheckOutcome::NotApplicable,
                Err(Violation::Harness(_)) if fault.is_some() => CheckOutcome::Unchecked,
                Err(Violation::Harness(error)) if heading == FaultHeading::NoFaults => {
                    fault = Some(error.to_string());
                    CheckOutcome::Unchecked
                }
                Err(violation) => CheckOutcome::Failed(violation.to_string()),
            };
        }
    }
    if let (Some(reason), Some(outcome)) = (fault, outcomes.get_mut(NO_FAULTS)) {
        *outcome = CheckOutcome::Failed(reason);
    }
    let checks = PROPERTIES.iter().zip(outcomes);
    Ok(checks.map(|(Property { name: property, .. }, outcome)| ConformanceCheck { property, outcome }).collect())
}

/// Calls the points with several pods, since pods differ in the points that they reach.
fn answers_at_every_point(factory: &dyn PluginFactory, situation: &Situation, seed: u64) -> Result<bool, Violation> {
    let mut random_cluster = RandomCluster::new(factory, situation, seed, 3)?;
    let json = |object: &Value| (ObjectKey::of(object), with_uid_of_pod(object).to_string().into_bytes());
    let others: Vec<(ObjectKey, Vec<u8>)> = situation.objects().iter().map(json).collect();
    for number in 0..8 {
        let pod = random_cluster.new_pod()?;
        let placed = random_cluster.placed_pod(number)?;
        call_every_point(&mut random_cluster.harness, &pod, &placed, &others)?;
    }
    Ok(true)
}

fn empty_cluster(factory: &dyn PluginFactory, situation: &Situation, seed: u64) -> Result<bool, Violation> {
    let mut random_cluster = RandomCluster::new(factory, situation, seed, 0)?;
    random_cluster.ask_about_new_pod()?;
    Ok(true)
}

fn huge_cluster(factory: &dyn PluginFactory, situation: &Situation, seed: u64) -> Result<bool, Violation> {
    let mut cluster = FullCluster::new(factory, situation, seed, 5000)?;
    cluster.ask(&mut Unobserved)?;
    // Also dry runs, which `bench` does not time.
    for _ in 0..3 {
        let pod = cluster.next_pod()?;
        cluster.harness.ask(&pod)?;
    }
    Ok(true)
}

fn repeats_itself(factory: &dyn PluginFactory, situation: &Situation, seed: u64) -> Result<bool, Violation> {
    let mut random_cluster = RandomCluster::new(factory, situation, seed, 40)?;
    for _ in 0..20 {
        let pod = random_cluster.new_pod()?;
        let (first, second) = (random_cluster.ask(&pod)?, random_cluster.ask(&pod)?);
        let differences = second.changes(&first);
        if !differences.is_empty() {
            return Err(Violation::DifferentAnswers(differences));
        }
    }
    Ok(true)
}

/// Compares every fifth round. After a difference, every round is compared, which finds the delta that causes the
/// difference.
fn follows_deltas(factory: &dyn PluginFactory, situation: &Situation, seed: u64) -> Result<bool, Violation> {
    match follows_deltas_every(5, factory, situation, seed) {
        Err(late @ Violation::DifferentReplica { .. }) => {
            Err(follows_deltas_every(1, factory, situation, seed).err().unwrap_or(late))
        }
        outcome => outcome.map(|()| true),
    }
}

fn follows_deltas_every(
    n_rounds: usize,
    factory: &dyn PluginFactory,
    situation: &Situation,
    seed: u64,
) -> Result<(), Violation> {
    let mut random_cluster = RandomCluster::new(factory, situation, seed, 20)?;
    for round in 1..=30 {
        let delta = random_cluster.change(5)?;
        let pod = random_cluster.new_pod()?;
        let followed = random_cluster.ask(&pod)?;
        if round % n_rounds == 0 {
            let fresh = random_cluster.harness.ask_fresh(factory, situation.args(), &pod)?;
            let differences = followed.changes(&fresh);
            if !differences.is_empty() {
                return Err(Violation::DifferentReplica { delta, differences });
            }
        }
    }
    Ok(())
}

fn batches_agree(factory: &dyn PluginFactory, situation: &Situation, seed: u64) -> Result<bool, Violation> {
    if !factory.points().contains(Point::Filter) {
        return Ok(false);
    }
    let mut random_cluster = RandomCluster::new(factory, situation, seed, 60)?;
    for _ in 0..10 {
        let pod = random_cluster.new_pod()?;
        random_cluster.harness.sync()?;
        let all = random_cluster.harness.cluster().table().nodes().clone();
        let whole = random_cluster.survivors(&pod, &all)?;
        for part in parts(&all) {
            let mut expected = whole.clone();
            expected.intersect(&part);
            let given = random_cluster.survivors(&pod, &part)?;
            if let Some((node, passes)) = first_difference(random_cluster.harness.cluster(), &given, &expected) {
                return Err(Violation::DependsOnBatch { node, passes, n_asked: part.len(), n_all: all.len() });
            }
        }
    }
    Ok(true)
}

fn scores_in_range(factory: &dyn PluginFactory, situation: &Situation, seed: u64) -> Result<bool, Violation> {
    if !factory.points().contains(Point::Score) {
        return Ok(false);
    }
    let mut random_cluster = RandomCluster::new(factory, situation, seed, 40)?;
    for _ in 0..30 {
        random_cluster.change(3)?;
        let pod = random_cluster.new_pod()?;
        let answers = random_cluster.ask(&pod)?;
        if let Some((node, score)) = answers.scores.iter().find(|(_, score)| !(0..=MAX_SCORE).contains(*score)) {
            return Err(Violation::ScoreOutOfRange { node: node.clone(), score: *score });
        }
    }
    Ok(true)
}

/// Pods wait for their binding while other pods are scheduled.
fn interleaved_cycles(factory: &dyn PluginFactory, situation: &Situation, seed: u64) -> Result<bool, Violation> {
    if !factory.points().contains(Point::Filter) {
        return Ok(false);
    }
    let mut random_cluster = RandomCluster::new(factory, situation, seed, 20)?;
    let all = random_cluster.harness.cluster().table().nodes().clone();
    let pods: Vec<Pod> = (0..8).map(|_| random_cluster.new_pod()).collect::<Result<_, _>>()?;
    random_cluster.harness.sync()?;
    let alone: Vec<NodeSet> = pods.iter().map(|pod| random_cluster.survivors(pod, &all)).collect::<Result<_, _>>()?;
    let (plugin, cluster) = random_cluster.harness.parts();
    let calls: Vec<_> = (1000u64..).zip(&pods).map(|(cycle, pod)| cluster.call(cycle, pod)).collect();
    for (call, expected) in calls.iter().zip(&alone) {
        let mut given = all.clone();
        let passes = match plugin.pre_filter().map(|point| point.pre_filter(call)) {
            None | Some(Ok(_)) => true,
            Some(Err(_)) => false,
        };
        if passes {
            let Some(point) = plugin.filter() else { return Ok(false) };
            point.filter(call, &mut given)?;
            if let Some((node, passes)) = first_difference(cluster, &given, expected) {
                return Err(Violation::DependsOnOtherCycles { node, passes });
            }
        }
    }
    calls.iter().for_each(|call| plugin.end_cycle(call.cycle));
    Ok(true)
}

/// The plugin with a random cluster.
struct RandomCluster<'s> {
    situation: &'s Situation,
    harness: PluginHarness,
    random: Random,
    n_nodes: u64,
    n_pods: u64,
    /// The pods on nodes.
    placed: Vec<Value>,
}

impl<'s> RandomCluster<'s> {
    /// A cluster with `n_nodes` random nodes. A cluster without nodes stays empty: the situation's objects are also
    /// left out.
    fn new(
        factory: &dyn PluginFactory,
        situation: &'s Situation,
        seed: u64,
        n_nodes: u64,
    ) -> Result<Self, HarnessError> {
        let mut harness = PluginHarness::new(factory, situation.args())?;
        if n_nodes > 0 {
            situation.enter(&mut harness)?;
        }
        let random = Random::new(seed);
        let mut cluster = Self { situation, harness, random, n_nodes, n_pods: 0, placed: Vec::new() };
        for number in 0..n_nodes {
            cluster.set_node(number)?;
        }
        for _ in 0..n_nodes.min(500) * 2 {
            cluster.place_pod()?;
        }
        Ok(cluster)
    }

    fn set_node(&mut self, number: u64) -> Result<String, HarnessError> {
        let node = node(&mut self.random, number);
        let there = self.harness.cluster().node(&node_name(number)).is_some();
        self.harness.set_node(&api::Node::deserialize(&node)?);
        self.harness.set_object(&node);
        Ok(format!("Node {} {}", node_name(number), if there { "changed" } else { "added" }))
    }

    fn place_pod(&mut self) -> Result<String, HarnessError> {
        let node = node_name(self.random.below(self.n_nodes));
        self.n_pods += 1;
        let pod = pod(&mut self.random, self.n_pods, Some(&node));
        let told = format!("{} added to {node}", title(&pod));
        self.harness.set_pod(&api::Pod::deserialize(&pod)?)?;
        // A plugin may also see pods as objects, in any state.
        self.harness.set_object(&pod);
        self.placed.push(pod);
        Ok(told)
    }

    /// Makes some random changes to the cluster, and returns a text for each: `Node node-3 removed`.
    fn change(&mut self, n_changes: u64) -> Result<Vec<String>, HarnessError> {
        let mut changes = Vec::new();
        for _ in 0..n_changes {
            changes.extend(self.change_one()?);
        }
        Ok(changes)
    }

    /// Makes one random change. `None` means that the chosen change has no effect.
    fn change_one(&mut self) -> Result<Option<String>, HarnessError> {
        let objects = self.situation.objects();
        let number = self.random.below(self.n_nodes);
        Ok(match self.random.below(if objects.is_empty() { 6 } else { 8 }) {
            0 | 1 => Some(self.set_node(number)?),
            2 => {
                let name = node_name(number);
                let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
                self.harness.cluster_mut().remove_object(&object);
                self.harness.remove_node(&name).then(|| format!("Node {name} removed"))
            }
            3 if !self.placed.is_empty() => {
                let at = usize::try_from(self.random.below(self.placed.len() as u64)).unwrap_or(0);
                let pod = self.placed.swap_remove(at);
                self.harness.cluster_mut().remove_object(&pod);
                let was_there = self.harness.remove_pod(pod["metadata"]["uid"].as_str().unwrap_or_default());
                was_there.then(|| format!("{} removed", title(&pod)))
            }
            // An object is removed, or comes back.
            6 | 7 => {
                let at = usize::try_from(self.random.below(objects.len() as u64)).unwrap_or(0);
                objects.get(at).map(|object| {
                    let is_gone = self.harness.cluster_mut().remove_object(object);
                    if !is_gone {
                        self.harness.set_object(object);
                    }
                    format!("{} {}", title(object), if is_gone { "removed" } else { "added" })
                })
            }
            _ => Some(self.place_pod()?),
        })
    }

    /// A new pod to place. Every second pod comes from the situation, if the situation has pods.
    fn new_pod(&mut self) -> Result<Pod, HarnessError> {
        self.n_pods += 1;
        let own = self.situation.pending(self.n_pods / 2).filter(|_| self.n_pods.is_multiple_of(2));
        let json = own.unwrap_or_else(|| pod(&mut self.random, self.n_pods, None));
        let mut pod = api::Pod::deserialize(&json)?;
        pod.json = Some(json.to_string().into_bytes().into());
        Ok(self.harness.intern(&pod))
    }

    /// A pod on a node, for events about it. Every second pod comes from the situation, if the situation has such pods.
    fn placed_pod(&mut self, number: usize) -> Result<Pod, HarnessError> {
        let own = self.situation.placed(number / 2).filter(|_| number.is_multiple_of(2));
        let json = own.or_else(|| self.placed.first()).map(with_uid).unwrap_or_default();
        Ok(self.harness.intern(&api::Pod::deserialize(&json)?))
    }

    fn ask(&mut self, pod: &Pod) -> Result<PluginAnswers, Status> {
        self.harness.ask(pod)
    }

    fn ask_about_new_pod(&mut self) -> Result<(), HarnessError> {
        let pod = self.new_pod()?;
        self.ask(&pod)?;
        Ok(())
    }

    fn survivors(&mut self, pod: &Pod, candidates: &NodeSet) -> Result<NodeSet, Status> {
        let mut nodes = candidates.clone();
        self.harness.in_cycle(pod, |plugin, call| {
            match plugin.pre_filter().map(|point| point.pre_filter(call)) {
                Some(Err(status)) if status == Status::skip() || status.code.is_rejected() => return Ok(()),
                Some(Err(status)) => return Err(status),
                Some(Ok(_)) | None => {}
            }
            let Some(point) = plugin.filter() else { return Ok(()) };
            point.filter(call, &mut nodes)
        })?;
        Ok(nodes)
    }
}

/// Every second node, every third node, and each of the first three nodes alone.
fn parts(all: &NodeSet) -> Vec<NodeSet> {
    let every = |step: usize| all.iter().step_by(step).collect::<NodeSet>();
    let single = all.iter().take(3).map(|node| NodeSet::from_iter([node]));
    [every(2), every(3)].into_iter().chain(single).collect()
}

/// A node that is in only one of the sets, and whether the set is `given`.
fn first_difference(cluster: &TestCluster, given: &NodeSet, expected: &NodeSet) -> Option<(String, bool)> {
    let mut either = given.clone();
    either.union(expected);
    let node = either.iter().find(|node| given.contains(*node) != expected.contains(*node))?;
    Some((cluster.node_name(node).to_owned(), given.contains(node)))
}

/// The title of an object, such as `Pod default/web`.
fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
    let [namespace, name] = ["namespace", "name"].map(|key| text(&metadata[key]));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

#[cfg(test)]
mod tests {
    use berth_model::NodeIdx;

    use super::*;

    fn failures(factory: &dyn PluginFactory) -> Vec<ConformanceCheck> {
        let checks = conformance(factory, &Situation::of_args("null"), 1).unwrap();
        checks.into_iter().filter(|check| matches!(check.outcome, CheckOutcome::Failed(_))).collect()
    }

    #[test]
    fn a_difference_is_told_by_the_node() {
        let mut cluster = TestCluster::default();
        for n in 0..70 {
            cluster.set_node(&berth_testing::node(&format!("node-{n}")).build());
        }
        let all = cluster.table().nodes();
        let mut others = all.clone();
        others.remove(NodeIdx(3));
        assert_eq!(first_difference(&cluster, all, &others), Some(("node-3".to_owned(), true)));
        assert_eq!(first_difference(&cluster, &others, all), Some(("node-3".to_owned(), false)));
        let violation = Violation::DependsOnBatch { node: "node-3".to_owned(), passes: false, n_asked: 2, n_all: 70 };
        assert_eq!(violation.to_string(), "node-3 is rejected in a batch of 2 nodes, but passes in a batch of 70");
    }

    /// Some plugins take seconds, so the plugins are examined in parallel.
    #[test]
    fn the_built_in_plugins_conform() {
        std::thread::scope(|scope| {
            for factory in berth_builtins::factories() {
                scope.spawn(move || assert_eq!(failures(&*factory), [], "{}", factory.manifest().name));
            }
        });
    }
}
