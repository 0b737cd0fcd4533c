//! The scheduler's parts, and its borders: events in, cycles, actions out.

use std::collections::BTreeSet;

use berth_cache::Cache;
use berth_framework::{CycleId, Plugin, Profile, run::Attempt};
use berth_model::{Pod, PodUid, Sym, Time};
use berth_queue::{Policy, Queue};
use rustc_hash::FxHashMap;

use crate::{
    action::{Action, Level, PodRef},
    batching::Batching,
    binding::Binding,
    event::Event,
    metrics::{Metrics, Observation},
    pending::Pods,
    policy::{PluginPolicy, Profiles},
    pre_bind::Watchers,
    preemption::Preemptions,
    preparation::{Preparing, Swap},
};

/// What an operator can set, plugins aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// 0 adapts to the size of the cluster.
    pub percentage_of_nodes_to_score: i32,
    pub queue: berth_queue::Settings,
}

/// Whether cycles may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The cluster's state is not complete yet.
    #[default]
    Syncing,
    Running,
    ShuttingDown,
}

/// Queue, cache, profiles, and every pod between Reserve and PostBind.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) cache: Cache,
    pub(crate) queue: Queue,
    pub(crate) profiles: Profiles,
    pub(crate) pods: Pods,
    pub(crate) bindings: FxHashMap<PodUid, Binding>,
    /// Pods that PreBind plugins hold until objects change.
    pub(crate) watchers: Watchers,
    pub(crate) preemptions: Preemptions,
    /// When pods that wait on Permit or PreBind run out of time.
    pub(crate) deadlines: BTreeSet<(Time, PodUid)>,
    pub(crate) node_conditions: FxHashMap<Sym, Vec<(String, String)>>,
    pub(crate) settings: Settings,
    pub(crate) phase: Phase,
    pub(crate) attempt: Attempt,
    pub(crate) batching: Batching,
    /// Where the next cycle begins to look for nodes.
    pub(crate) next_start: usize,
    pub(crate) n_cycles: u64,
    pub(crate) preparing: Preparing,
    /// Instances that were replaced.
    pub(crate) retired: Vec<Box<dyn Plugin>>,
    pub(crate) actions: Vec<Action>,
    pub(crate) observations: Vec<Observation>,
    pub(crate) metrics: Metrics,
}

impl Scheduler {
    #[must_use]
    pub fn new(settings: Settings, profiles: Vec<Profile>) -> Self {
        let mut scheduler = Self {
            cache: Cache::new(),
            queue: Queue::new(settings.queue),
            profiles: Profiles::default(),
            pods: Pods::default(),
            bindings: FxHashMap::default(),
            watchers: Watchers::default(),
            preemptions: Preemptions::default(),
            deadlines: BTreeSet::new(),
            node_conditions: FxHashMap::default(),
            settings,
            phase: Phase::default(),
            attempt: Attempt::default(),
            batching: Batching::default(),
            next_start: 0,
            n_cycles: 0,
            preparing: Preparing::default(),
            retired: Vec::new(),
            actions: Vec::new(),
            observations: Vec::new(),
            metrics: Metrics::default(),
        };
        scheduler.install_profiles(profiles);
        scheduler
    }

    /// Takes a fact in.
    pub fn handle(&mut self, event: Event, now: Time) {
        match event {
            Event::PodApplied(pod) => self.pod_applied(&pod, now),
            Event::PodDeleted { namespace, name, uid } => {
                self.pods.unname(&namespace, &name, &uid);
                self.pod_deleted(&uid, now);
            }
            Event::NodeApplied(node) => self.node_applied(&node, now),
            Event::NodeDeleted { name } => self.node_deleted(&name, now),
            Event::ObjectApplied { resource, key, json } => self.object_changed(&resource, key, Some(json), now),
            Event::ObjectDeleted { resource, key } => self.object_changed(&resource, key, None, now),
            Event::Synced => {
                if self.phase == Phase::Syncing {
                    self.phase = Phase::Running;
                }
            }
            Event::BindFinished { cycle, uid, result } => self.bind_finished(cycle, &uid, result, now),
            Event::EffectsFinished { cycle, uid, result } => self.effects_finished(cycle, &uid, result, now),
            Event::PluginReady { name, scheduler_names, factory, grants } => {
                self.plugin_ready(Swap { name, scheduler_names, factory, grants }, now);
            }
            Event::PluginPrepared(prepared) => self.plugin_prepared(prepared, now),
            Event::ProfilesChanged(profiles) => self.change_profiles(profiles, now),
            Event::SettingsChanged(settings) => {
                self.queue.set_settings(settings.queue);
                self.settings = settings;
            }
            Event::Shutdown => self.phase = Phase::ShuttingDown,
        }
    }

    /// Does what is due, and tries the next pod. Whether there was one: if so, call again.
    pub fn run(&mut self, now: Time) -> bool {
        self.end_waits(now);
        self.with_queue(|queue, policy| queue.flush(now, policy));
        if self.phase != Phase::Running {
            return false;
        }
        let Some(record) = self.queue.pop(now) else { return false };
        self.schedule(record, now);
        true
    }

    /// When [`Self::run`] has something to do although no event comes. `None`: not before the next event.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Time> {
        if self.phase == Phase::ShuttingDown {
            return None;
        }
        let ready = self.queue.ready_at().filter(|_| self.phase == Phase::Running);
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        [ready, deadline, self.queue.next_wakeup()].into_iter().flatten().min()
    }

    /// What is to be done, in order.
    pub fn drain_effects(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The same, left where it is.
    #[must_use]
    pub fn pending_actions(&self) -> &[Action] {
        &self.actions
    }

    /// Measurements since the last call.
    pub fn drain_observations(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.observations)
    }

    /// Plugins that were replaced since the last call. Dropping one gives its memory back, which takes a while.
    pub fn drain_retired(&mut self) -> Vec<Box<dyn Plugin>> {
        std::mem::take(&mut self.retired)
    }

    /// Bindings that were sent and not answered: what a shutdown waits for.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.bindings.values().filter(|binding| binding.is_sent()).count()
    }

    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics {
            batching: self.batching.metrics.clone(),
            queue: self.queue.metrics(),
            pending_pods: self.queue.pending_pods(),
            cache: self.cache.sizes(),
            waiting_pods: self.bindings.values().filter(|binding| binding.is_waiting()).count(),
            bindings: self.bindings.len(),
            ..self.metrics.clone()
        }
    }

    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The last attempt, with every plugin's answers.
    #[must_use]
    pub fn last_attempt(&self) -> &Attempt {
        &self.attempt
    }
}

/// Small services for the other modules.
impl Scheduler {
    pub(crate) fn with_queue<R>(&mut self, work: impl FnOnce(&mut Queue, &mut dyn Policy) -> R) -> R {
        let mut policy =
            PluginPolicy { profiles: &mut self.profiles, cache: &self.cache, preemptions: &self.preemptions };
        work(&mut self.queue, &mut policy)
    }

    pub(crate) fn next_cycle(&mut self) -> CycleId {
        self.n_cycles += 1;
        CycleId(self.n_cycles)
    }

    pub(crate) fn log(&mut self, level: Level, message: String) {
        self.actions.push(Action::Log { level, message });
    }

    pub(crate) fn pod_ref(&self, pod: &Pod) -> PodRef {
        self.pods.pod_ref(pod, self.text(pod.namespace))
    }

    /// `namespace/name`.
    pub(crate) fn full_name(&self, pod: &Pod) -> String {
        format!("{}/{}", self.text(pod.namespace), pod.name)
    }

    pub(crate) fn text(&self, sym: Sym) -> &str {
        self.cache.table().symbols.text(sym)
    }
}
