//! Lets a scheduler place the pods of a cluster until nothing changes any more.
//!
//! [`Placing`] drives a [`Simulation`] and keeps the cluster that results: pods, nodes, evictions. A waiting pod is
//! given up after [`ATTEMPTS_WITHOUT_PROGRESS`] attempts in which no pod got a node.
//!
//! # Surprises
//! - [`Placing::fork`] marks a moment, and [`Placing::revert`] undoes everything since.
//! - No real time passes. The simulation's clock is set forward past all backoffs, and past the time in the
//!   unschedulable pool after an eviction.

mod followed;

use std::sync::Arc;

use berth_framework::{PluginIdx, Profile};
use berth_model::{Node, Pod, PodUid, TemporarySymbols, Time};
use berth_scheduler::{Action, AttemptOutcome, Event, Notice, PodRequest, Request, SearchState, Settings};
use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde_json::Value;

use crate::{
    api_server::{ApiServerError, Change},
    cluster::{Cluster, ClusterNode, ClusterPod},
    compare::{Answers, Questions},
    outcome::{self, Choice, Eviction, Placed, PodOutcome, Refusal, RefusalReason},
    simulation::Simulation,
};

/// The number of attempts for each waiting pod. If no pod got a node in this many attempts, the remaining pods are
/// given up.
const ATTEMPTS_WITHOUT_PROGRESS: u64 = 3;

/// The number of turns between two checks of the time.
const CHECKED_EVERY: u32 = 64;

/// The order in which the pods that wait for a node arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// All pods are in the queue together, as after a start of the scheduler. The QueueSort plugin of the scheduler
    /// decides which pod is next.
    #[default]
    Together,
    /// The pods arrive one after the other. Each pod is tried, and all backoffs have ended, before the next pod
    /// arrives.
    OneByOne,
}

/// The scheduler to simulate, and the limits of the simulation.
pub struct Conditions<'a> {
    /// The settings from the configuration.
    pub settings: Settings,
    /// The profiles from the configuration.
    pub profiles: Vec<Profile>,
    /// A function that gets the scheduler's time. Components need the time.
    pub tell_time: Box<dyn Fn(Time) + 'a>,
    /// Whether a plugin reads pods as JSON.
    pub whole_pods: bool,
    /// The order in which pods arrive.
    pub arrival: Arrival,
    /// Whether the time of the simulation is used up.
    pub is_over: &'a dyn Fn() -> bool,
}

/// The reason why a simulation has no result.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The API server could not fulfil the request.
    #[error(transparent)]
    ApiServer(#[from] ApiServerError),
    /// The time of the simulation is used up.
    #[error("the simulation took too long: {n_tried} of {n_pods} pods were tried")]
    TooLong {
        /// The number of pods that were tried.
        n_tried: usize,
        /// The number of all pods to try.
        n_pods: usize,
    },
}

/// A scheduler that places the pods of a cluster, and its results so far.
pub struct Placing<'a> {
    simulation: Simulation<'a>,
    conditions: PlacingConditions<'a>,
    /// The pods by uid.
    pods: IndexMap<PodUid, Entry, FxBuildHasher>,
    /// The pods on nodes, with their nodes, by uid.
    on_nodes: FxHashMap<String, (ClusterPod, Arc<str>)>,
    nodes: FxHashMap<String, ClusterNode>,
    /// The changes since [`Self::fork`] that must be reverted.
    journal: Option<Vec<Step>>,
    evictions: Vec<Eviction>,
    n_failed_since_change: u64,
    /// The time of the last eviction; `None` if [`Self::flush`] was called after the last eviction.
    evicted_at: Option<Time>,
    changes: Vec<Change>,
    questions: Questions,
    answers: Answers,
    /// Whether the cluster is the cluster of a scheduler that is followed.
    is_following: bool,
}

struct PlacingConditions<'a> {
    whole_pods: bool,
    is_over: Box<dyn Fn() -> bool + 'a>,
    /// The number of milliseconds after which every backoff has ended. Backoffs end with the second.
    backoffs_over_after: u64,
    /// The number of milliseconds after which every pod of the unschedulable pool has been tried again.
    flushed_after: u64,
    /// The names of each profile's plugins, by `schedulerName`.
    plugins: FxHashMap<String, Vec<Arc<str>>>,
}

impl<'a> PlacingConditions<'a> {
    fn new(settings: &Settings, profiles: &[Profile], whole_pods: bool, is_over: Box<dyn Fn() -> bool + 'a>) -> Self {
        let names = |profile: &Profile| profile.instances().iter().map(|it| Arc::clone(it.name())).collect();
        Self {
            whole_pods,
            is_over,
            backoffs_over_after: settings.queue.backoff.max + 1_000,
            flushed_after: settings.queue.flushed_after(),
            plugins: profiles.iter().map(|profile| (profile.scheduler_name.clone(), names(profile))).collect(),
        }
    }

    /// The names of a profile's plugins.
    fn names(&self, scheduler_name: &str) -> impl Fn(PluginIdx) -> Option<String> {
        let names = self.plugins.get(scheduler_name);
        move |plugin| Some(names?.get(plugin.index())?.to_string())
    }
}

struct Entry {
    pod: ClusterPod,
    outcome: PodOutcome,
}

/// A change that can be reverted.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The pod did not exist before.
    PodCame(ClusterPod),
    /// The pod was on this node.
    PodWent(ClusterPod, Arc<str>),
    /// The node did not exist before.
    NodeCame(String),
    /// The node existed before.
    NodeWent(ClusterNode),
    /// The pod of the scheduler that is followed was on its node.
    KnownPodWent(Arc<Pod>),
    /// The node of the scheduler that is followed existed before.
    KnownNodeWent(Box<Node>),
}

/// The point to which [`Placing::revert`] returns.
#[must_use]
#[derive(Debug)]
pub struct Fork {
    state: SearchState,
    /// The temporary symbols, for a cluster that is followed.
    symbols: Option<TemporarySymbols>,
}

impl std::fmt::Debug for Conditions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conditions").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Placing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Placing").field("simulation", &self.simulation).finish_non_exhaustive()
    }
}

/// Places the pods of a cluster.
///
/// # Errors
/// Placing takes too long, or a plugin asks for an invalid effect.
pub fn place(cluster: &Cluster, conditions: Conditions<'_>) -> Result<Placed, PlaceError> {
    place_and_ask(cluster, conditions, Questions::default()).map(|(placed, _)| placed)
}

/// Places the pods of a cluster, and returns the plugins' answers about the nodes of the questions.
///
/// # Errors
/// Fails as [`place`] does.
pub fn place_and_ask(
    cluster: &Cluster,
    conditions: Conditions<'_>,
    questions: Questions,
) -> Result<(Placed, Answers), PlaceError> {
    let arrival = conditions.arrival;
    let mut placing = Placing::new(cluster, conditions);
    placing.questions = questions;
    for pod in cluster.pending() {
        placing.arrive(pod);
        if arrival == Arrival::OneByOne {
            placing.settle()?;
            placing.let_backoffs_end();
        }
    }
    placing.settle()?;
    let answers = std::mem::take(&mut placing.answers);
    Ok((placing.finish(), answers))
}

impl<'a> Placing<'a> {
    /// Starts with the cluster without its pending pods.
    #[must_use]
    pub fn new(cluster: &Cluster, conditions: Conditions<'a>) -> Self {
        let Conditions { settings, profiles, tell_time, whole_pods, arrival: _, is_over } = conditions;
        let limits = PlacingConditions::new(&settings, &profiles, whole_pods, Box::new(is_over));
        let mut placing = Self::alone(Simulation::new(settings, profiles).telling_time(tell_time), limits);
        cluster.show_without_pending(&mut placing.simulation, whole_pods);
        let placed = cluster.pods().iter().filter(|pod| !pod.is_pending());
        let on_nodes =
            placed.map(|pod| (pod.pod.metadata.uid.clone(), (pod.clone(), pod.pod.spec.node_name.as_str().into())));
        placing.on_nodes = on_nodes.collect();
        let nodes = cluster.nodes().iter().map(|node| (node.node.metadata.name.clone(), node.clone()));
        placing.nodes = nodes.collect();
        placing
    }

    fn alone(simulation: Simulation<'a>, conditions: PlacingConditions<'a>) -> Self {
        Self {
            simulation,
            conditions,
            pods: IndexMap::default(),
            on_nodes: FxHashMap::default(),
            nodes: FxHashMap::default(),
            journal: None,
            evictions: Vec::new(),
            n_failed_since_change: 0,
            evicted_at: None,
            changes: Vec::new(),
            questions: Questions::default(),
            answers: Answers::default(),
            is_following: false,
        }
    }

    /// Adds a pod that waits for a node.
    pub fn arrive(&mut self, pod: &ClusterPod) {
        let metadata = &pod.pod.metadata;
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
        let outcome = PodOutcome { namespace, name, node: None, choice: None, refusal: None };
        self.pods.insert(PodUid::from(metadata.uid.clone()), Entry { pod: pod.clone(), outcome });
        self.write_down(|| Step::PodCame(pod.clone()));
        pod.arrive(&mut self.simulation, self.conditions.whole_pods);
        self.n_failed_since_change = 0;
    }

    /// Deletes a pod.
    pub fn delete(&mut self, pod: &ClusterPod) {
        let metadata = &pod.pod.metadata;
        let (namespace, name, uid) = (metadata.namespace.clone(), metadata.name.clone(), metadata.uid.clone());
        self.pods.shift_remove(uid.as_str());
        if let Some((pod, node)) = self.on_nodes.remove(&uid) {
            self.write_down(|| Step::PodWent(pod, node));
        } else if let Some(known) = self.known_pod(&uid) {
            self.write_down(|| Step::KnownPodWent(known));
        }
        let event = self.simulation.server_mut().delete_pod(namespace, name, uid);
        self.simulation.handle(event);
        self.n_failed_since_change = 0;
    }

    /// Puts a pod back on the node on which it was before.
    pub fn put_back(&mut self, pod: &ClusterPod, node: &str) {
        self.on_nodes.insert(pod.pod.metadata.uid.clone(), (pod.clone(), node.into()));
        self.write_down(|| Step::PodCame(pod.clone()));
        pod.on(node).arrive(&mut self.simulation, self.conditions.whole_pods);
    }

    /// Replaces an existing node.
    pub fn change_node(&mut self, node: &ClusterNode) {
        self.simulation.handle(Event::NodeApplied(Box::new((*node.node).clone())));
        self.n_failed_since_change = 0;
    }

    /// Adds a node.
    pub fn add_node(&mut self, node: &ClusterNode) {
        let name = &node.node.metadata.name;
        self.nodes.insert(name.clone(), node.clone());
        self.write_down(|| Step::NodeCame(name.clone()));
        self.change_node(node);
    }

    /// Removes a node after its pods. Returns these pods, or `None` if there is no such node.
    pub fn remove_node(&mut self, name: &str) -> Option<Vec<ClusterPod>> {
        let Some(node) = self.nodes.remove(name) else { return self.remove_known_node(name) };
        let mut pods: Vec<ClusterPod> =
            self.on_nodes.values().filter(|(_, node)| **node == *name).map(|(pod, _)| pod.clone()).collect();
        pods.sort_by(|one, other| one.pod.metadata.uid.cmp(&other.pod.metadata.uid));
        pods.iter().for_each(|pod| self.delete(pod));
        self.simulation.handle(Event::NodeDeleted { name: name.to_owned() });
        self.write_down(|| Step::NodeWent(node));
        self.n_failed_since_change = 0;
        Some(pods)
    }

    fn write_down(&mut self, step: impl FnOnce() -> Step) {
        if let Some(journal) = &mut self.journal {
            journal.push(step());
        }
    }

    /// Begins to record changes. No pod may wait, and no other fork may be open.
    pub fn fork(&mut self) -> Fork {
        debug_assert!(self.journal.is_none(), "a fork is reverted before the next one");
        self.journal = Some(Vec::new());
        self.simulation.server_mut().begin_journal();
        let symbols = self.is_following.then(|| self.simulation.begin_fork());
        Fork { state: self.simulation.scheduler().search_state(), symbols }
    }

    /// Reverts everything that has happened since the fork. The time depends only on the number of changes, and not on
    /// the size of the cluster.
    ///
    /// # Errors
    /// A plugin asks for an invalid effect. The cluster is then not in its former state.
    pub fn revert(&mut self, fork: Fork) -> Result<(), PlaceError> {
        let steps = self.journal.take().unwrap_or_default();
        for step in steps.into_iter().rev() {
            match step {
                Step::PodCame(pod) => self.delete(&pod),
                Step::PodWent(pod, node) => self.put_back(&pod, &node),
                Step::NodeCame(name) => {
                    self.nodes.remove(&name);
                    self.simulation.handle(Event::NodeDeleted { name });
                }
                Step::NodeWent(node) => self.add_node(&node),
                Step::KnownPodWent(pod) => self.simulation.show_pod(pod),
                Step::KnownNodeWent(node) => self.simulation.show_node(*node),
            }
        }
        // The scheduler may ask for requests because of the removal of pods.
        while self.simulation.decide() {
            self.simulation.confirm(&mut self.changes)?;
        }
        self.changes.clear();
        if fork.symbols.is_some() {
            self.simulation.restore_objects();
        }
        let journal = self.simulation.server_mut().end_journal();
        for (key, before) in journal.into_iter().rev() {
            let event = self.simulation.server_mut().restore(key, before);
            self.simulation.handle(event);
        }
        self.forget_outcomes();
        self.simulation.restore_search_state(fork.state);
        if let Some(symbols) = fork.symbols {
            self.simulation.end_fork(symbols);
        }
        Ok(())
    }

    /// Adds an object that is neither a pod nor a node.
    pub(crate) fn add_object(&mut self, object: &Value) {
        let event = self.simulation.server_mut().apply(object.clone());
        self.simulation.handle(event);
    }

    /// Whether a pod with this uid is on a node.
    pub(crate) fn is_on_node(&self, uid: &str) -> bool {
        self.on_nodes.contains_key(uid) || self.known_pod(uid).is_some()
    }

    /// The results for all pods that arrived, and the pods that were evicted.
    pub fn outcomes(&mut self) -> (Vec<PodOutcome>, Vec<Eviction>) {
        self.explain_the_rest();
        (self.pods.values().map(|entry| entry.outcome.clone()).collect(), self.evictions.clone())
    }

    /// Forgets the results for pods so far.
    pub fn forget_outcomes(&mut self) {
        self.pods.clear();
        self.evictions.clear();
        self.n_failed_since_change = 0;
    }

    /// Lets the scheduler work until every pod has its node, or waits for an event that does not come.
    ///
    /// # Errors
    /// Fails as [`place`] does.
    pub fn settle(&mut self) -> Result<(), PlaceError> {
        for turn in 0_u32.. {
            if turn.is_multiple_of(CHECKED_EVERY) {
                self.check_time()?;
            }
            if self.simulation.decide() {
                self.note_decisions();
                self.simulation.confirm(&mut self.changes)?;
                self.note_changes();
            } else if self.is_settled() {
                if !self.flush() {
                    break;
                }
            } else if !self.simulation.sleep() {
                break;
            }
        }
        Ok(())
    }

    /// Fails if the time of the simulation is used up.
    pub(crate) fn check_time(&mut self) -> Result<(), PlaceError> {
        self.simulation.drop_observations();
        if !(self.conditions.is_over)() {
            return Ok(());
        }
        let is_tried = |entry: &&Entry| entry.outcome.node.is_some() || entry.outcome.refusal.is_some();
        Err(PlaceError::TooLong { n_tried: self.pods.values().filter(is_tried).count(), n_pods: self.pods.len() })
    }

    /// Whether the simulation has ended. It has ended if only an event would make the scheduler try the remaining pods
    /// again, or if all recent attempts failed.
    fn is_settled(&self) -> bool {
        let metrics = self.simulation.scheduler().metrics();
        let pending = metrics.pending_pods;
        let n_waiting = pending.active + pending.backoff + metrics.bindings;
        let n_pending = (n_waiting + pending.unschedulable) as u64;
        n_waiting == 0 || self.n_failed_since_change > ATTEMPTS_WITHOUT_PROGRESS * n_pending
    }

    fn let_backoffs_end(&mut self) {
        self.simulation.set_now(self.simulation.now() + self.conditions.backoffs_over_after);
    }

    /// Lets enough time pass for the scheduler to try the pods of the unschedulable pool again. Returns whether any pod
    /// may fit after this time. Because of some hints of kube-scheduler, pods that fit after an eviction, including the
    /// preemptor, stay in the pool.
    fn flush(&mut self) -> bool {
        let n_unschedulable = self.simulation.scheduler().metrics().pending_pods.unschedulable;
        let Some(evicted_at) = self.evicted_at.take().filter(|_| n_unschedulable > 0) else { return false };
        self.simulation.set_now(evicted_at + self.conditions.flushed_after);
        self.n_failed_since_change = 0;
        true
    }

    fn note_decisions(&mut self) {
        let Self { simulation, conditions, pods, n_failed_since_change, questions, answers, .. } = self;
        let (decision, table) = (simulation.scheduler().last_decision(), simulation.scheduler().cache().table());
        for action in simulation.actions() {
            match action {
                Action::Pod(PodRequest { pod, request: Request::Bind { node, .. }, .. }) => {
                    let Some(entry) = pods.get_mut(&pod.uid) else { continue };
                    entry.outcome.choice = decision.and_then(|decision| Choice::of(decision, node, table));
                    if let Some(decision) = decision.filter(|_| entry.outcome.choice.is_some() && !questions.is_empty())
                    {
                        let name = conditions.names(&entry.pod.pod.spec.scheduler_name);
                        questions.answer(&entry.outcome, decision, table, name, answers);
                    }
                }
                Action::Notice(Notice::Attempted { pod, outcome, .. }) => {
                    let (reason, message) = match outcome {
                        AttemptOutcome::Bound { .. } => continue,
                        AttemptOutcome::EmptyCluster => (RefusalReason::Unschedulable, "the cluster has no nodes"),
                        AttemptOutcome::Unschedulable { message } => (RefusalReason::Unschedulable, message.as_str()),
                        AttemptOutcome::Failed { message, .. } => (RefusalReason::SchedulerError, message.as_str()),
                    };
                    *n_failed_since_change += 1;
                    let Some(entry) = pods.get_mut(&pod.uid) else { continue };
                    let name = conditions.names(&entry.pod.pod.spec.scheduler_name);
                    let mut refusal = Refusal::new(reason, message);
                    if let Some(decision) = decision {
                        refusal.rejections = outcome::rejections(decision, message, table, &name);
                        if !refusal.rejections.is_empty() && !questions.is_empty() {
                            questions.answer(&entry.outcome, decision, table, &name, answers);
                        }
                    }
                    entry.outcome.refusal = Some(refusal);
                }
                Action::Pod(_)
                | Action::PreparePlugin { .. }
                | Action::Supervise(_)
                | Action::Notice(_)
                | Action::Traced(_) => {}
            }
        }
    }

    fn note_changes(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            self.n_failed_since_change = 0;
            match change {
                Change::Bound { pod, node } => {
                    let Some(entry) = self.pods.get_mut(&pod.uid) else { continue };
                    entry.outcome.node = Some(node.to_string());
                    entry.outcome.refusal = None;
                    let placed = (entry.pod.clone(), node);
                    self.on_nodes.insert(pod.uid.to_string(), placed);
                }
                Change::Evicted { namespace, name, uid } => {
                    self.evicted_at = Some(self.simulation.now());
                    let evicted = self.on_nodes.remove(&uid);
                    let known = if evicted.is_none() { self.simulation.gone(&uid) } else { None };
                    let node = match (&evicted, &known) {
                        (Some((_, node)), _) => node.to_string(),
                        (None, Some(known)) => self.text(known.node_name).to_owned(),
                        (None, None) => String::new(),
                    };
                    if let Some(entry) = self.pods.get_mut(uid.as_str()) {
                        entry.outcome.node = None;
                        let message = "it was placed, and then preempted by a pod of higher priority";
                        entry.outcome.refusal = Some(Refusal::new(RefusalReason::Unschedulable, message));
                    }
                    self.evictions.push(Eviction { namespace, name, node });
                    let steps = evicted.map(|(pod, node)| Step::PodWent(pod, node));
                    if let (Some(journal), Some(step)) = (&mut self.journal, steps.or(known.map(Step::KnownPodWent))) {
                        journal.push(step);
                    }
                }
            }
        }
    }

    /// The result for a pod so far.
    #[must_use]
    pub fn outcome(&self, uid: &str) -> Option<&PodOutcome> {
        self.pods.get(uid).map(|entry| &entry.outcome)
    }

    /// The simulated scheduler.
    pub fn simulation_mut(&mut self) -> &mut Simulation<'a> {
        &mut self.simulation
    }

    /// The results for all pods that arrived.
    #[must_use]
    pub fn finish(mut self) -> Placed {
        self.explain_the_rest();
        let pods = self.pods.into_values().map(|entry| entry.outcome).collect();
        Placed { pods, evictions: self.evictions }
    }

    /// Adds reasons for the pods without an attempt, and adds nominations.
    fn explain_the_rest(&mut self) {
        let scheduler = self.simulation.scheduler();
        let table = scheduler.cache().table();
        let mut gates: FxHashMap<&str, &Arc<str>> = FxHashMap::default();
        for (record, _) in scheduler.queue().iter() {
            if let Some(gate) = &record.gated_by {
                gates.insert(&record.pod.uid, gate);
            }
        }
        for (uid, Entry { pod, outcome }) in &mut self.pods {
            let scheduler_name = &pod.pod.spec.scheduler_name;
            if outcome.node.is_some() {
                continue;
            }
            let refusal = outcome.refusal.get_or_insert_with(|| {
                if !self.conditions.plugins.contains_key(scheduler_name) {
                    let message = format!("no profile of the configuration has schedulerName {scheduler_name}");
                    return Refusal::new(RefusalReason::NotServed, message);
                }
                if let Some(gate) = gates.get(&**uid) {
                    return Refusal::new(RefusalReason::Gated, format!("the plugin {gate} holds it"));
                }
                match scheduler.cache().pod(uid) {
                    Some(pod) => {
                        let node = table.symbols.text(pod.node());
                        let message = format!("it fits on {node}, but a Permit plugin makes it wait");
                        Refusal::new(RefusalReason::WaitsAtPermit, message)
                    }
                    None => Refusal::new(RefusalReason::NotTried, "it was not tried"),
                }
            });
            let nominated = scheduler.queue().nominator().node_of(uid);
            refusal.nominated_node = nominated.map(|node| table.symbols.text(node).to_owned());
        }
    }
}
