//! A configured plugin and a cluster in memory that it follows, called as the scheduler calls it.

use berth_framework::{BuildError, Call, DryRunCase, Explanation, Plugin, PluginFactory, Status};
use berth_model::{NodeIdx, NodeSet, Pod, api};
use berth_testing::{Inconsistency, TestCluster};
use serde_json::Value;

use crate::answers::{PluginAnswers, Rejection};

/// One instance of a plugin, with a cluster of its own.
#[derive(Debug)]
pub struct PluginHarness {
    plugin: Box<dyn Plugin>,
    cluster: TestCluster,
    n_cycles: u64,
}

/// Why a plugin gives no answers about a cluster.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// There is no instance: the plugin refuses its arguments, or cannot be started.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A call failed.
    #[error("{}", .0.message())]
    Call(Status),
    /// An object has another form than its kind.
    #[error(transparent)]
    Object(#[from] serde_json::Error),
    /// A pod cannot be placed on its node.
    #[error(transparent)]
    Pod(#[from] Inconsistency),
}

impl From<Status> for HarnessError {
    fn from(status: Status) -> Self {
        Self::Call(status)
    }
}

impl PluginHarness {
    /// Builds an instance with these arguments (`pluginConfig` as JSON), beside an empty cluster.
    ///
    /// # Errors
    /// [`HarnessError::Build`], when the plugin refuses the arguments or cannot be started.
    pub fn new(factory: &dyn PluginFactory, args: &str) -> Result<Self, HarnessError> {
        Ok(Self { plugin: factory.build(args)?, cluster: TestCluster::default(), n_cycles: 0 })
    }

    /// What an instance answers that sees this cluster for the first time.
    ///
    /// # Errors
    /// The plugin refuses its arguments, or fails.
    pub fn ask_fresh(
        &mut self,
        factory: &dyn PluginFactory,
        args: &str,
        pod: &Pod,
    ) -> Result<PluginAnswers, HarnessError> {
        let old = std::mem::replace(&mut self.plugin, factory.build(args)?);
        let answers = self.ask(pod);
        self.plugin = old;
        Ok(answers?)
    }

    /// Adds a node, or replaces the one of its name.
    pub fn set_node(&mut self, node: &api::Node) {
        self.cluster.set_node(node);
    }

    /// Removes a node. Whether there was one of this name.
    pub fn remove_node(&mut self, name: &str) -> bool {
        self.cluster.remove_node(name)
    }

    /// Puts a pod on the node that its `spec.nodeName` names. A pod without a uid gets `namespace/name` as its uid.
    ///
    /// # Errors
    /// The cluster cannot hold the pod.
    pub fn set_pod(&mut self, pod: &api::Pod) -> Result<(), Inconsistency> {
        let mut pod = pod.clone();
        if pod.metadata.uid.is_empty() {
            pod.metadata.uid = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        }
        self.cluster.set_pod(&pod)
    }

    /// Removes the pod with this uid. Whether there was one.
    pub fn remove_pod(&mut self, uid: &str) -> bool {
        self.cluster.remove_pod(uid)
    }

    /// Adds an object of another kind than Node and Pod, or replaces it.
    pub fn set_object(&mut self, object: &Value) {
        self.cluster.set_object(object);
    }

    /// The pod as plugins see it, its names in this cluster's symbols.
    pub fn intern(&mut self, pod: &api::Pod) -> Pod {
        self.cluster.intern(pod)
    }

    /// The cluster that the plugin follows.
    #[must_use]
    pub fn cluster(&self) -> &TestCluster {
        &self.cluster
    }

    /// The cluster, for changes that the methods here do not make.
    pub fn cluster_mut(&mut self) -> &mut TestCluster {
        &mut self.cluster
    }

    /// The plugin, for calls outside a scheduling cycle.
    pub fn plugin(&mut self) -> &mut dyn Plugin {
        &mut *self.plugin
    }

    /// What Filter says about one node with some of its pods taken away and others added.
    ///
    /// # Errors
    /// There is no such node, the plugin fails, or it does not filter.
    pub fn dry_run(&mut self, pod: &Pod, node: &str, minus: &[&Pod], plus: &[&Pod]) -> Result<Status, Status> {
        self.sync()?;
        let node = self.cluster.node(node).ok_or_else(|| Status::error(format!("no node {node}")))?;
        let pods = [minus, plus].concat();
        let indices = |pods: std::ops::Range<usize>| pods.filter_map(|at| u32::try_from(at).ok()).collect();
        let case = DryRunCase { node, minus: indices(0..minus.len()), plus: indices(minus.len()..pods.len()) };
        let statuses = self.in_cycle(pod, |plugin, call| match plugin.filter() {
            Some(point) => point.dry_run(call, &pods, &[case]),
            None => Err(Status::error("the plugin does not filter")),
        })?;
        statuses.into_iter().next().ok_or_else(|| Status::error("no status for the node"))
    }

    /// The plugin beside the cluster that it follows.
    pub(crate) fn parts(&mut self) -> (&mut dyn Plugin, &TestCluster) {
        (&mut *self.plugin, &self.cluster)
    }

    /// Brings the plugin's replica up to date with the cluster.
    ///
    /// # Errors
    /// The plugin fails.
    pub fn sync(&mut self) -> Result<(), Status> {
        self.cluster.settle();
        self.plugin.sync(self.cluster.cache())
    }

    /// Runs `work` with the plugin in a scheduling cycle of its own. Brings nothing up to date: call [`Self::sync`] before.
    pub fn in_cycle<R>(&mut self, pod: &Pod, work: impl FnOnce(&mut dyn Plugin, &Call<'_>) -> R) -> R {
        self.n_cycles += 1;
        let call = self.cluster.call(self.n_cycles, pod);
        let result = work(&mut *self.plugin, &call);
        self.plugin.end_cycle(call.cycle);
        result
    }

    /// Calls PreEnqueue, and the points of a cycle from PreFilter to normalised scores, over all nodes.
    ///
    /// # Errors
    /// The plugin fails.
    pub fn ask(&mut self, pod: &Pod) -> Result<PluginAnswers, Status> {
        self.sync()?;
        let mut answers = PluginAnswers::default();
        if let Some(point) = self.plugin.pre_enqueue() {
            let status = point.pre_enqueue(pod);
            if !status.is_success() {
                answers.pre_enqueue = Some(status.into());
                return Ok(answers);
            }
        }
        self.in_cycle(pod, |plugin, call| ask_in_cycle(plugin, call, &mut answers))?;
        Ok(answers)
    }
}

fn ask_in_cycle(plugin: &mut dyn Plugin, call: &Call<'_>, answers: &mut PluginAnswers) -> Result<(), Status> {
    let mut passed = call.table.nodes().clone();
    let (filters, restriction) = match plugin.pre_filter().map(|point| point.pre_filter(call)) {
        None => (true, None),
        Some(Ok(restriction)) => (true, restriction),
        Some(Err(status)) if status == Status::skip() => (false, None),
        Some(Err(status)) if status.code.is_rejected() => {
            answers.pre_filter = Some(status.into());
            return Ok(());
        }
        Some(Err(status)) => return Err(status),
    };
    if let Some(names) = restriction {
        let symbols = &call.table.symbols;
        passed.retain(|node| names.iter().any(|name| name == symbols.text(call.table.name(node))));
    }
    if filters {
        answers.rejected = filter(plugin, call, &mut passed)?;
    }
    let scores = score(plugin, call, &passed)?;
    answers.scores = passed.iter().map(|node| name(call, node)).zip(scores).collect();
    Ok(())
}

fn filter(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    nodes: &mut NodeSet,
) -> Result<std::collections::BTreeMap<String, Rejection>, Status> {
    let Some(point) = plugin.filter() else { return Ok(Default::default()) };
    let mut rejected = nodes.clone();
    point.filter(call, nodes)?;
    rejected.subtract(nodes);
    let explanations = if rejected.is_empty() { Vec::new() } else { point.explain(call, &rejected)? };
    covers(call, &explanations, &rejected)?;
    agrees_with_dry_run(plugin, call, nodes, &explanations)?;
    let by_node = explanations.into_iter().flat_map(|Explanation { status, nodes }| {
        nodes.iter().map(|node| (name(call, node), Rejection::from(status.clone()))).collect::<Vec<_>>()
    });
    Ok(by_node.collect())
}

/// `explain` gives a reason for every node that did not pass, and for no other.
fn covers(call: &Call<'_>, explanations: &[Explanation], rejected: &NodeSet) -> Result<(), Status> {
    let explained: NodeSet = explanations.iter().flat_map(|explanation| explanation.nodes.iter()).collect();
    let missing = rejected.iter().find(|node| !explained.contains(*node));
    let extra = explained.iter().find(|node| !rejected.contains(*node));
    match (missing, extra) {
        (Some(node), _) => Err(Status::error(format!("explain has no reason for {}", name(call, node)))),
        (None, Some(node)) => {
            Err(Status::error(format!("explain has a reason for {}, which passed", name(call, node))))
        }
        (None, None) => Ok(()),
    }
}

/// With no pods taken away or added, a dry run is Filter once more.
fn agrees_with_dry_run(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    passed: &NodeSet,
    explanations: &[Explanation],
) -> Result<(), Status> {
    let Some(point) = plugin.filter() else { return Ok(()) };
    let explained = explanations.iter().flat_map(|explanation| {
        explanation.nodes.iter().map(|node| (node, explanation.status.clone())).collect::<Vec<_>>()
    });
    let expected: Vec<(NodeIdx, Status)> =
        passed.iter().map(|node| (node, Status::success())).chain(explained).collect();
    let cases: Vec<DryRunCase> =
        expected.iter().map(|(node, _)| DryRunCase { node: *node, ..DryRunCase::default() }).collect();
    for ((node, expected), tried) in expected.into_iter().zip(point.dry_run(call, &[], &cases)?) {
        if tried != expected {
            let (tried, expected) = (Rejection::from(tried), Rejection::from(expected));
            let node = name(call, node);
            return Err(Status::error(format!("dry-run of {node} says {tried:?} where filter says {expected:?}")));
        }
    }
    Ok(())
}

fn score(plugin: &mut dyn Plugin, call: &Call<'_>, nodes: &NodeSet) -> Result<Vec<i64>, Status> {
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    match plugin.pre_score().map(|point| point.pre_score(call, nodes)) {
        Some(Err(status)) if status == Status::skip() => return Ok(Vec::new()),
        Some(Err(status)) => return Err(status),
        Some(Ok(())) | None => {}
    }
    let mut scores = Vec::new();
    if let Some(point) = plugin.score() {
        point.score(call, nodes, &mut scores)?;
    }
    if let Some(point) = plugin.normalize() {
        point.normalize(call, nodes, &mut scores)?;
    }
    Ok(scores)
}

fn name(call: &Call<'_>, node: NodeIdx) -> String {
    call.table.symbols.text(call.table.name(node)).to_owned()
}
