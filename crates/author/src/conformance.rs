//! What the contract asks of every plugin, tried out: `berth plugin verify`.
//!
//! Lengths, ranges and subsets of answers are checked by whoever calls a component, so here they show as failures of the
//! call. What is left are properties over several calls.

use berth_framework::{Call, CycleId, PluginFactory, Point, Status};
use berth_model::{NodeSet, Pod, api};
use serde::{Deserialize as _, Serialize};

use crate::{
    answers::Answers,
    random::{Random, node, node_name, pod},
    trial::Trial,
};

/// One property, and whether the plugin has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// In words: `the same question gets the same answer`.
    pub property: &'static str,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Passed,
    /// The plugin does not implement what the property is about.
    NotApplicable,
    /// What went wrong, and where.
    Failed(String),
}

type Property = fn(&dyn PluginFactory, &str, u64) -> Result<bool, String>;

/// Each answers whether it applied.
const PROPERTIES: [(&str, Property); 7] = [
    ("answers about an empty cluster", empty_cluster),
    ("answers about 5,000 nodes within the limits", huge_cluster),
    ("the same question gets the same answer", repeats_itself),
    ("a replica that was fed deltas answers like a fresh one", follows_deltas),
    ("the verdict about a node does not depend on what else is asked", batches_agree),
    ("normalised scores lie between 0 and 100", scores_in_range),
    ("many cycles may be open at a time", interleaved_cycles),
];

/// Tries every property with arguments (`pluginConfig` as JSON) and a seed.
#[must_use]
pub fn conformance(factory: &dyn PluginFactory, args: &str, seed: u64) -> Vec<Check> {
    let check = |(property, holds): (&'static str, Property)| {
        let outcome = match holds(factory, args, seed) {
            Ok(true) => Outcome::Passed,
            Ok(false) => Outcome::NotApplicable,
            Err(reason) => Outcome::Failed(reason),
        };
        Check { property, outcome }
    };
    PROPERTIES.into_iter().map(check).collect()
}

fn empty_cluster(factory: &dyn PluginFactory, args: &str, seed: u64) -> Result<bool, String> {
    let mut scene = Scene::new(factory, args, seed, 0)?;
    scene.ask_about_new_pod()?;
    Ok(true)
}

fn huge_cluster(factory: &dyn PluginFactory, args: &str, seed: u64) -> Result<bool, String> {
    let mut scene = Scene::new(factory, args, seed, 5000)?;
    for _ in 0..3 {
        scene.ask_about_new_pod()?;
    }
    Ok(true)
}

fn repeats_itself(factory: &dyn PluginFactory, args: &str, seed: u64) -> Result<bool, String> {
    let mut scene = Scene::new(factory, args, seed, 40)?;
    for _ in 0..20 {
        let pod = scene.new_pod()?;
        let (first, second) = (scene.ask(&pod)?, scene.ask(&pod)?);
        same("the second answer", &second, &first)?;
    }
    Ok(true)
}

fn follows_deltas(factory: &dyn PluginFactory, args: &str, seed: u64) -> Result<bool, String> {
    let mut scene = Scene::new(factory, args, seed, 20)?;
    for round in 0..30 {
        scene.change(5)?;
        let pod = scene.new_pod()?;
        let followed = scene.ask(&pod)?;
        if round % 5 == 4 {
            let fresh = scene.trial.ask_fresh(factory, args, &pod)?;
            same("the replica that was fed deltas", &followed, &fresh)?;
        }
    }
    Ok(true)
}

fn batches_agree(factory: &dyn PluginFactory, args: &str, seed: u64) -> Result<bool, String> {
    if !factory.points().contains(Point::Filter) {
        return Ok(false);
    }
    let mut scene = Scene::new(factory, args, seed, 60)?;
    for _ in 0..10 {
        let pod = scene.new_pod()?;
        scene.trial.sync().map_err(failed)?;
        let all = scene.trial.cluster().table().nodes().clone();
        let whole = scene.survivors(&pod, &all)?;
        for part in parts(&all) {
            let mut expected = whole.clone();
            expected.intersect(&part);
            let given = scene.survivors(&pod, &part)?;
            if given != expected {
                return Err(format!(
                    "of {} nodes {} pass, in a larger batch {}",
                    part.len(),
                    given.len(),
                    expected.len()
                ));
            }
        }
    }
    Ok(true)
}

fn scores_in_range(factory: &dyn PluginFactory, args: &str, seed: u64) -> Result<bool, String> {
    if !factory.points().contains(Point::Score) {
        return Ok(false);
    }
    let mut scene = Scene::new(factory, args, seed, 40)?;
    for _ in 0..30 {
        scene.change(3)?;
        let pod = scene.new_pod()?;
        let answers = scene.ask(&pod)?;
        if let Some((node, score)) = answers.scores.iter().find(|(_, score)| !(0..=100).contains(*score)) {
            return Err(format!("{node} scores {score}"));
        }
    }
    Ok(true)
}

/// Pods wait for their binding while others are scheduled.
fn interleaved_cycles(factory: &dyn PluginFactory, args: &str, seed: u64) -> Result<bool, String> {
    if !factory.points().contains(Point::Filter) {
        return Ok(false);
    }
    let mut scene = Scene::new(factory, args, seed, 20)?;
    let all = scene.trial.cluster().table().nodes().clone();
    let pods: Vec<Pod> = (0..8).map(|_| scene.new_pod()).collect::<Result<_, _>>()?;
    let alone: Vec<NodeSet> = pods.iter().map(|pod| scene.survivors(pod, &all)).collect::<Result<_, _>>()?;
    scene.trial.sync().map_err(failed)?;
    let (plugin, cluster) = scene.trial.parts();
    let calls: Vec<_> = (1000u64..)
        .zip(&pods)
        .map(|(cycle, pod)| Call { cycle: CycleId(cycle), pod, table: cluster.table() })
        .collect();
    for (call, expected) in calls.iter().zip(&alone) {
        let mut given = all.clone();
        let passes = match plugin.pre_filter().map(|point| point.pre_filter(call)) {
            None | Some(Ok(_)) => true,
            Some(Err(_)) => false,
        };
        if passes {
            let Some(point) = plugin.filter() else { return Ok(false) };
            point.filter(call, &mut given).map_err(failed)?;
            if given != *expected {
                return Err(format!("{} nodes pass beside open cycles, {} alone", given.len(), expected.len()));
            }
        }
    }
    calls.iter().for_each(|call| plugin.end_cycle(call.cycle));
    Ok(true)
}

/// A random cluster and the plugin.
struct Scene {
    trial: Trial,
    random: Random,
    n_nodes: u64,
    n_pods: u64,
    /// Uids of the pods on nodes.
    placed: Vec<String>,
}

impl Scene {
    fn new(factory: &dyn PluginFactory, args: &str, seed: u64, n_nodes: u64) -> Result<Self, String> {
        let trial = Trial::new(factory, args)?;
        let mut scene = Self { trial, random: Random::new(seed), n_nodes, n_pods: 0, placed: Vec::new() };
        for number in 0..n_nodes {
            scene.set_node(number)?;
        }
        for _ in 0..n_nodes.min(500) * 2 {
            scene.place_pod()?;
        }
        Ok(scene)
    }

    fn set_node(&mut self, number: u64) -> Result<(), String> {
        let node = node(&mut self.random, number);
        self.trial.set_node(&api::Node::deserialize(&node).map_err(|error| error.to_string())?);
        self.trial.set_object(&node);
        Ok(())
    }

    fn place_pod(&mut self) -> Result<(), String> {
        let node = node_name(self.random.below(self.n_nodes));
        self.n_pods += 1;
        let pod = pod(&mut self.random, self.n_pods, Some(&node));
        self.placed.push(format!("uid-{}", self.n_pods));
        self.trial.set_pod(&api::Pod::deserialize(&pod).map_err(|error| error.to_string())?)
    }

    /// Some random changes of the cluster.
    fn change(&mut self, n_changes: u64) -> Result<(), String> {
        for _ in 0..n_changes {
            let number = self.random.below(self.n_nodes);
            match self.random.below(6) {
                0 | 1 => self.set_node(number)?,
                2 => drop(self.trial.remove_node(&node_name(number))),
                3 if !self.placed.is_empty() => {
                    let at = usize::try_from(self.random.below(self.placed.len() as u64)).unwrap_or(0);
                    let uid = self.placed.swap_remove(at);
                    self.trial.remove_pod(&uid);
                }
                _ => self.place_pod()?,
            }
        }
        Ok(())
    }

    fn new_pod(&mut self) -> Result<Pod, String> {
        self.n_pods += 1;
        let json = pod(&mut self.random, self.n_pods, None);
        let mut pod = api::Pod::deserialize(&json).map_err(|error| error.to_string())?;
        pod.json = Some(json.to_string().into_bytes().into());
        Ok(self.trial.intern(&pod))
    }

    fn ask(&mut self, pod: &Pod) -> Result<Answers, String> {
        self.trial.ask(pod).map_err(failed)
    }

    fn ask_about_new_pod(&mut self) -> Result<(), String> {
        let pod = self.new_pod()?;
        self.ask(&pod).map(drop)
    }

    fn survivors(&mut self, pod: &Pod, candidates: &NodeSet) -> Result<NodeSet, String> {
        let mut nodes = candidates.clone();
        self.trial.in_cycle(pod, |plugin, call| {
            match plugin.pre_filter().map(|point| point.pre_filter(call)) {
                Some(Err(status)) if status == Status::skip() || status.code.is_rejected() => return Ok(()),
                Some(Err(status)) => return Err(failed(status)),
                Some(Ok(_)) | None => {}
            }
            let Some(point) = plugin.filter() else { return Ok(()) };
            point.filter(call, &mut nodes).map_err(failed)
        })?;
        Ok(nodes)
    }
}

/// Every second node, every third, and each alone for a few.
fn parts(all: &NodeSet) -> Vec<NodeSet> {
    let every = |step: usize| all.iter().step_by(step).collect::<NodeSet>();
    let single = all.iter().take(3).map(|node| NodeSet::from_iter([node]));
    [every(2), every(3)].into_iter().chain(single).collect()
}

fn same(what: &str, given: &Answers, expected: &Answers) -> Result<(), String> {
    let differences = given.differences(expected);
    if differences.is_empty() { Ok(()) } else { Err(format!("{what} differs: {}", differences.join("; "))) }
}

fn failed(status: Status) -> String {
    status.message()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(factory: &dyn PluginFactory) -> Vec<Check> {
        let checks = conformance(factory, "null", 1);
        checks.into_iter().filter(|check| matches!(check.outcome, Outcome::Failed(_))).collect()
    }

    #[test]
    fn the_built_in_plugins_conform() {
        for factory in berth_builtins::factories() {
            assert_eq!(failures(&*factory), [], "{}", factory.manifest().name);
        }
    }
}
