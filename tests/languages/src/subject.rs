//! A configured instance of a plugin, asked about a cluster as the scheduler asks.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, ensure};
use berth_cache::Cache;
use berth_framework::{Call, CycleId, DryRunCase, Plugin, PluginFactory, Status};
use berth_model::{NodeIdx, NodeSet, Pod, intern};
use berth_wasm_host::{Binary, ComponentFactory, Engine, EngineOptions};

use crate::cases::{Answers, Case, Rejection, Suite};

/// Loads a component under the scheduler's own limits.
///
/// # Errors
/// Why the host refuses it.
pub fn load(name: &str, component: Vec<u8>) -> Result<ComponentFactory> {
    let engine = Engine::new(EngineOptions::default())?;
    Ok(engine.load(&Binary::new(name, component))?)
}

/// An instance, and the cluster that it follows.
#[derive(Debug)]
pub struct Subject {
    plugin: Box<dyn Plugin>,
    pub cache: Cache,
    n_cycles: u64,
}

impl Subject {
    /// # Errors
    /// The plugin's own words, when it refuses the arguments.
    pub fn new(factory: &ComponentFactory, args: &str) -> Result<Self, String> {
        Ok(Self { plugin: factory.build(args)?, cache: Cache::new(), n_cycles: 0 })
    }

    /// Filters, explains, dry-runs, scores and normalises, in one cycle.
    ///
    /// # Errors
    /// When the plugin fails, or its answers don't go together.
    pub fn ask(&mut self, pod: &Pod) -> Result<Answers> {
        self.n_cycles += 1;
        self.cache.settle();
        self.plugin.sync(&self.cache).map_err(failed)?;
        let snapshot = self.cache.snapshot();
        let call = Call { cycle: CycleId(self.n_cycles), pod, snapshot };
        let mut passed = snapshot.nodes().clone();
        let mut answers = Answers::default();
        if let Some(filter) = self.plugin.filter() {
            filter.filter(&call, &mut passed).map_err(failed)?;
            let mut rejected = snapshot.nodes().clone();
            rejected.subtract(&passed);
            let statuses = explained(filter.explain(&call, &rejected).map_err(failed)?);
            ensure!(statuses.keys().copied().eq(rejected.iter()), "explained {statuses:?}, rejected {rejected:?}");
            // With no pods taken away or added, a dry run is the filter once more.
            let cases: Vec<DryRunCase> =
                snapshot.nodes().iter().map(|node| DryRunCase { node, ..DryRunCase::default() }).collect();
            let tried = filter.dry_run(&call, &[], &cases).map_err(failed)?;
            for (case, status) in cases.iter().zip(tried) {
                let expected = statuses.get(&case.node).cloned().unwrap_or_else(Status::success);
                ensure!(status == expected, "dry run of {}: {status:?}, not {expected:?}", case.node.0);
            }
            let name = |node: NodeIdx| snapshot.symbols.text(snapshot.name(node)).to_owned();
            answers.rejected = statuses
                .into_iter()
                .map(|(node, Status { code, reasons })| {
                    (name(node), Rejection { code: code.as_str().to_owned(), reasons })
                })
                .collect();
        }
        let scores = score(&mut *self.plugin, &call, &passed)?;
        for (node, score) in passed.iter().zip(scores) {
            answers.scores.insert(snapshot.symbols.text(snapshot.name(node)).to_owned(), score);
        }
        self.plugin.end_cycle(call.cycle);
        Ok(answers)
    }

    /// What Filter says about one node with some of its pods taken away and others added.
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn dry_run(&mut self, pod: &Pod, node: NodeIdx, minus: &[&Pod], plus: &[&Pod]) -> Result<Status> {
        self.n_cycles += 1;
        self.plugin.sync(&self.cache).map_err(failed)?;
        let call = Call { cycle: CycleId(self.n_cycles), pod, snapshot: self.cache.snapshot() };
        let (n_minus, n_plus) = (u32::try_from(minus.len())?, u32::try_from(plus.len())?);
        let case = DryRunCase { node, minus: (0..n_minus).collect(), plus: (n_minus..n_minus + n_plus).collect() };
        let filter = self.plugin.filter().context("no filter")?;
        let statuses = filter.dry_run(&call, &[minus, plus].concat(), &[case]).map_err(failed)?;
        self.plugin.end_cycle(call.cycle);
        statuses.into_iter().next().context("no status")
    }
}

fn explained(explanations: Vec<berth_framework::Explanation>) -> BTreeMap<NodeIdx, Status> {
    let mut statuses = BTreeMap::new();
    for explanation in explanations {
        statuses.extend(explanation.nodes.iter().map(|node| (node, explanation.status.clone())));
    }
    statuses
}

fn score(plugin: &mut dyn Plugin, call: &Call<'_>, nodes: &NodeSet) -> Result<Vec<i64>> {
    let mut scores = Vec::new();
    if let Some(point) = plugin.score() {
        point.score(call, nodes, &mut scores).map_err(failed)?;
    }
    if let Some(point) = plugin.normalize() {
        point.normalize(call, nodes, &mut scores).map_err(failed)?;
    }
    Ok(scores)
}

fn failed(status: Status) -> anyhow::Error {
    anyhow!("{}: {}", status.code.as_str(), status.message())
}

impl Suite {
    /// Compares a component's answers with the expected ones.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, factory: &ComponentFactory) -> Result<()> {
        self.cases.iter().try_for_each(|case| case.check(factory).with_context(|| case.name.clone()))
    }
}

impl Case {
    fn check(&self, factory: &ComponentFactory) -> Result<()> {
        let mut subject = match (Subject::new(factory, &self.args.to_string()), &self.refused) {
            (Ok(subject), None) => subject,
            (Err(error), Some(expected)) if error == *expected => return Ok(()),
            (outcome, expected) => {
                return Err(anyhow!("configured with {:?}, expected {expected:?}", outcome.err()));
            }
        };
        for (index, step) in self.steps.iter().enumerate() {
            for name in &step.gone {
                let name = subject.cache.symbols_mut().intern(name);
                subject.cache.remove_node(name).context("a node leaves that is not there")?;
            }
            for node in &step.nodes {
                let node = intern::node(node, subject.cache.symbols_mut());
                subject.cache.set_node(node);
            }
            for pod in &step.pods {
                let pod = intern::pod(pod, subject.cache.symbols_mut());
                subject.cache.add_pod(pod.into())?;
            }
            let pod = intern::pod(&self.pod, subject.cache.symbols_mut());
            let answers = subject.ask(&pod)?;
            ensure!(answers == step.expect, "step {index}: {answers:#?}, expected {:#?}", step.expect);
        }
        Ok(())
    }
}
