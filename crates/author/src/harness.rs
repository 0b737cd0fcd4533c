//! A configured plugin, and a cluster in memory that the plugin follows. The plugin is called in the same way as by the
//! scheduler.

use berth_framework::{
    BuildError, Call, DryRunCase, Effect, Grants, Needs, Plugin, PluginFactory, RejectedNodes, Status,
};
use berth_model::{NodeIdx, ObjectKey, Pod, Time, api};
use berth_testing::{Inconsistency, TestCluster};
use serde_json::Value;

use crate::{
    answers::PluginAnswers,
    ignored::own_key,
    placing::{self, Answering, Target},
    waiting_pods::{HeldAt, WaitingPod, WaitingPods},
};

/// One instance of a plugin, with a separate cluster.
#[derive(Debug)]
pub struct PluginHarness {
    plugin: Box<dyn Plugin>,
    cluster: TestCluster,
    waiting: WaitingPods,
    /// The pods whose wait ended with effects of Unreserve.
    undone: Vec<(WaitingPod, Vec<Effect>)>,
}

/// The reason why a plugin gives no answers about a cluster.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// The plugin has no instance: it refuses its arguments, or cannot be started.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A call failed.
    #[error("{}", .0.message())]
    Call(Status),
    /// An object does not have the form of its kind.
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
    /// Builds an instance with these arguments (`pluginConfig` as JSON), with an empty cluster.
    ///
    /// # Errors
    /// [`HarnessError::Build`]: the plugin refuses the arguments or cannot be started.
    pub fn new(factory: &dyn PluginFactory, args: &str) -> Result<Self, HarnessError> {
        let plugin = factory.build(args)?;
        Ok(Self { plugin, cluster: TestCluster::default(), waiting: WaitingPods::default(), undone: Vec::new() })
    }

    /// The answers of a new instance that sees this cluster for the first time.
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

    /// Adds a node, or replaces the node of this name.
    pub fn set_node(&mut self, node: &api::Node) {
        self.cluster.set_node(node);
    }

    /// Removes a node. Returns whether the cluster had it. A pod that waits for this node is rejected.
    pub fn remove_node(&mut self, name: &str) -> bool {
        if let Some(node) = self.cluster.node(name) {
            for uid in self.waiting.on(node) {
                self.remove_pod(&uid);
            }
        }
        self.cluster.remove_node(name)
    }

    /// Sets the time. A pod that the plugin has held for too long is rejected.
    pub(crate) fn set_now(&mut self, now: Time) {
        self.cluster.set_now(now);
        for uid in self.waiting.late(now) {
            self.remove_pod(&uid);
        }
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

    /// Removes the pod with this uid. Returns whether the cluster had it. A pod that waits is unreserved first.
    pub fn remove_pod(&mut self, uid: &str) -> bool {
        self.give_back(uid);
        self.cluster.remove_pod(uid)
    }

    /// Adds or replaces an object of another kind than Node and Pod.
    pub fn set_object(&mut self, object: &Value) {
        self.cluster.set_object(object);
    }

    /// The pod as plugins see it, with its names in this cluster's symbols.
    pub fn intern(&mut self, pod: &api::Pod) -> Pod {
        self.cluster.intern(pod)
    }

    /// The cluster that the plugin follows.
    #[must_use]
    pub fn cluster(&self) -> &TestCluster {
        &self.cluster
    }

    /// The cluster, for changes for which this type has no methods.
    pub fn cluster_mut(&mut self) -> &mut TestCluster {
        &mut self.cluster
    }

    /// The plugin, for calls outside a scheduling cycle.
    pub fn plugin(&mut self) -> &mut dyn Plugin {
        &mut *self.plugin
    }

    /// The answer of Filter about one node without some of its pods and with other pods.
    ///
    /// # Errors
    /// The node does not exist, the plugin fails, or the plugin has no Filter.
    pub fn dry_run(&mut self, pod: &Pod, node: &str, minus: &[&Pod], plus: &[&Pod]) -> Result<Status, Status> {
        self.sync()?;
        let node = self.cluster.node(node).ok_or_else(|| Status::error(format!("unknown node {node}")))?;
        let pods = [minus, plus].concat();
        let indices = |pods: std::ops::Range<usize>| pods.filter_map(|at| u32::try_from(at).ok()).collect();
        let case = DryRunCase { node, minus: indices(0..minus.len()), plus: indices(minus.len()..pods.len()) };
        let statuses = self.in_cycle(pod, |plugin, call| match plugin.filter() {
            Some(point) => point.dry_run(call, &pods, &[case]),
            None => Err(Status::error("the plugin does not filter")),
        })?;
        statuses.into_iter().next().ok_or_else(|| Status::error("the plugin returned no status for the node"))
    }

    /// The pods that wait at Permit or PreBind.
    pub(crate) fn waiting(&mut self) -> &mut WaitingPods {
        &mut self.waiting
    }

    /// Ends the attempt of a pod that waits. A pod that does not wait is ignored.
    fn give_back(&mut self, uid: &str) {
        let Some(waiting) = self.waiting.take(uid) else { return };
        let call = self.cluster.call(waiting.cycle, &waiting.pod);
        let effects = placing::ask_unreserve(&mut *self.plugin, &call, waiting.node);
        self.plugin.end_cycle(call.cycle);
        if !effects.is_empty() {
            self.undone.push((waiting, effects));
        }
    }

    /// The answers of Unreserve about pods whose wait ended since the last call, by uid. Unreserve without effects is
    /// left out.
    pub(crate) fn take_undone(&mut self, grants: &Grants) -> Vec<(String, PluginAnswers)> {
        let needs = &self.plugin.manifest().needs;
        let mut all = Vec::new();
        for (waiting, effects) in self.undone.drain(..) {
            let mut answers = PluginAnswers::default();
            let call = self.cluster.call(waiting.cycle, &waiting.pod);
            let mut answering = Answering { answers: &mut answers, grants };
            answering.undone(needs, &call, &effects);
            all.push((waiting.pod.uid.to_string(), answers));
        }
        all
    }

    /// Takes a pod that waits at Permit through the later points. Returns the answers of these points; `None` if the
    /// pod does not wait at Permit.
    ///
    /// # Errors
    /// The plugin fails.
    pub(crate) fn release(&mut self, uid: &str, grants: &Grants) -> Result<Option<PluginAnswers>, Status> {
        if self.waiting.held_at(uid) != Some(HeldAt::Permit) {
            return Ok(None);
        }
        let Some(waiting) = self.waiting.take(uid) else { return Ok(None) };
        self.sync()?;
        let mut answers = PluginAnswers::default();
        let call = self.cluster.call(waiting.cycle, &waiting.pod);
        let mut answering = Answering { answers: &mut answers, grants };
        let held_at = placing::go_on(&mut *self.plugin, &call, waiting.node, &mut answering);
        self.hold_or_end(waiting, held_at, &answers);
        Ok(Some(answers))
    }

    /// Changes a pod that waits. Returns the name of its node; `None` if the pod does not wait.
    pub(crate) fn change_waiting(&mut self, pod: Pod) -> Option<String> {
        let waiting = self.waiting.get_mut(pod.uid.as_str())?;
        (waiting.pod, waiting.is_changed) = (pod, true);
        Some(self.cluster.node_name(waiting.node).to_owned())
    }

    /// Asks again the point that holds the pod, and takes the pod through the later points if the plugin releases the
    /// pod. Returns the answers; `None` if the pod does not wait.
    ///
    /// # Errors
    /// The plugin fails.
    pub(crate) fn ask_again(&mut self, uid: &str, grants: &Grants) -> Result<Option<PluginAnswers>, Status> {
        let Some(waiting) = self.waiting.take(uid) else { return Ok(None) };
        self.sync()?;
        let mut answers = PluginAnswers::default();
        let call = self.cluster.call(waiting.cycle, &waiting.pod);
        if waiting.is_changed
            && let Some(hosted) = self.plugin.hosted()
        {
            hosted.pod_changed(&call)?;
        }
        let mut answering = Answering { answers: &mut answers, grants };
        let held_at = match waiting.held_at {
            HeldAt::Permit => placing::permit_again(&mut *self.plugin, &call, waiting.node, &mut answering),
            HeldAt::PreBind => placing::pre_bind_again(&mut *self.plugin, &call, waiting.node, &mut answering),
        };
        self.hold_or_end(waiting, held_at, &answers);
        Ok(Some(answers))
    }

    /// Keeps the cycle of a pod open that the plugin holds, or ends the cycle.
    fn hold_or_end(&mut self, mut waiting: WaitingPod, held_at: Option<HeldAt>, answers: &PluginAnswers) {
        let call = self.cluster.call(waiting.cycle, &waiting.pod);
        let (now, cycle, own) = (call.now, call.cycle, own_key(&call));
        if let Some(held_at) = held_at {
            hold(&mut waiting, held_at, answers, now, &self.plugin.manifest().needs, &own);
            self.waiting.insert(waiting);
        } else {
            self.plugin.end_cycle(cycle);
        }
    }

    /// The plugin, and the cluster that it follows.
    pub(crate) fn parts(&mut self) -> (&mut dyn Plugin, &TestCluster) {
        (&mut *self.plugin, &self.cluster)
    }

    /// Brings the plugin's replica up to date with the cluster.
    ///
    /// # Errors
    /// The plugin fails.
    pub fn sync(&mut self) -> Result<(), Status> {
        self.cluster.sync(&mut *self.plugin)
    }

    /// Runs `work` with the plugin in a separate scheduling cycle. The replica is not updated: call [`Self::sync`]
    /// before.
    pub fn in_cycle<R>(&mut self, pod: &Pod, work: impl FnOnce(&mut dyn Plugin, &Call<'_>) -> R) -> R {
        self.cluster.in_cycle(&mut *self.plugin, pod, work)
    }

    /// Calls PreEnqueue, and the points of a cycle from PreFilter to normalised scores, over all nodes.
    ///
    /// # Errors
    /// The plugin fails.
    pub fn ask(&mut self, pod: &Pod) -> Result<PluginAnswers, Status> {
        self.sync()?;
        match self.held_back(pod) {
            Some(status) => Ok(PluginAnswers { pre_enqueue: Some(status.into()), ..PluginAnswers::default() }),
            None => Ok(self.cluster.ask(&mut *self.plugin, pod)?.into()),
        }
    }

    /// Asks as [`Self::ask`] does, and continues the cycle: PostFilter if no node passed, or the points from Reserve on
    /// if the pod goes to a node. Other plugins have rejected the nodes of `by_others`. The answers record effects beyond
    /// `grants`. A pod that stays at Permit or PreBind is among [`Self::waiting`] afterwards.
    ///
    /// # Errors
    /// The plugin fails.
    pub(crate) fn decide(
        &mut self,
        pod: &Pod,
        target: Option<Target>,
        by_others: &[RejectedNodes],
        grants: &Grants,
    ) -> Result<PluginAnswers, Status> {
        self.sync()?;
        if let Some(status) = self.held_back(pod) {
            return Ok(PluginAnswers { pre_enqueue: Some(status.into()), ..PluginAnswers::default() });
        }
        let cycle = self.waiting.next_cycle();
        let call = self.cluster.call(cycle, pod);
        let plugin = &mut *self.plugin;
        let mut candidates = call.table.nodes().clone();
        by_others.iter().for_each(|rejection| candidates.subtract(&rejection.nodes));
        let decided = berth_testing::ask_about(plugin, &call, candidates).and_then(|about_nodes| {
            let mut answers = PluginAnswers::from(about_nodes.clone());
            let mut answering = Answering { answers: &mut answers, grants };
            let held_at = match target {
                Some(target) => placing::place(plugin, &call, target, &mut answering),
                None => placing::post_filter(plugin, &call, &about_nodes, by_others, &mut answering).map(|()| None)?,
            };
            Ok((answers, held_at))
        });
        if let (Ok((answers, Some(held_at))), Some(Target::Waits(node))) = (&decided, target) {
            let mut waiting = WaitingPod::new(*held_at, cycle, pod.clone(), node);
            hold(&mut waiting, *held_at, answers, call.now, &plugin.manifest().needs, &own_key(&call));
            self.waiting.insert(waiting);
        } else {
            plugin.end_cycle(call.cycle);
        }
        decided.map(|(answers, _)| answers)
    }

    /// The plugin's own words about the pod on each node, or about the pod as a whole for `None`, after the points that
    /// choose a node. Empty if the plugin does not explain its answers.
    ///
    /// # Errors
    /// The plugin fails.
    pub(crate) fn explain(&mut self, pod: &Pod, nodes: &[Option<NodeIdx>]) -> Result<Vec<String>, Status> {
        self.sync()?;
        let cycle = self.waiting.next_cycle();
        let call = self.cluster.call(cycle, pod);
        let plugin = &mut *self.plugin;
        // A plugin may reject the pod or fail the attempt, and say why.
        let _ = berth_testing::ask(plugin, &call);
        let mut words = Vec::new();
        for node in nodes {
            words.extend(plugin.explain().map(|point| point.explain(&call, *node)));
        }
        plugin.end_cycle(call.cycle);
        words.into_iter().collect()
    }

    /// The status with which PreEnqueue keeps the pod back.
    fn held_back(&mut self, pod: &Pod) -> Option<Status> {
        let status = self.plugin.pre_enqueue()?.pre_enqueue(pod, self.cluster.table());
        (!status.is_success()).then_some(status)
    }
}

/// Handles the answer of the point that holds the pod. Effects that were not granted are not carried out. `own` is the
/// pod.
fn hold(waiting: &mut WaitingPod, held_at: HeldAt, answers: &PluginAnswers, now: Time, needs: &Needs, own: &ObjectKey) {
    let answer = match held_at {
        HeldAt::Permit => &answers.permit,
        HeldAt::PreBind => &answers.pre_bind,
    };
    let Some(answer) = answer else { return };
    let effects = if answers.refused.is_empty() { answer.effects.as_slice() } else { &[] };
    waiting.hold(held_at, answer.wait_milliseconds, effects, now, |object| needs.end_wait_for(object, own));
}
