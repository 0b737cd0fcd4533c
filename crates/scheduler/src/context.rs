//! What the machines of the scheduler share, lent to one of them at a time, and the steps that need several parts of it.

mod faults;
mod plugins;
mod pods;
mod reports;

use std::sync::Arc;

use berth_cache::Cache;
use berth_framework::{Extenders, SchedulingTime};
use berth_lifecycle::Isolation;
use berth_model::{ClusterTable, Pod, Sym, Symbols, Time};
use berth_queue::{ObjectEvent, Policy, Queue, QueuedPod};

pub(crate) use self::{plugins::PodPlugins, reports::PodEvent};
use crate::{
    action::{Action, Supervision},
    outbox::Outbox,
    pending_pods::PendingPods,
    pod_limits::PodLimits,
    policy::QueuePolicy,
    preemptions::Preemptions,
    profiles::Profiles,
    turn::Turn,
    unasked_gates::UnaskedGates,
};

/// Why pods are tried again whose plugin is another one now, as metrics name it.
pub(crate) const PLUGIN_REPLACED: &str = "PluginReplaced";

/// Whether cycles may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The initial lists are not complete.
    #[default]
    Syncing,
    Running,
    /// No cycle and no binding begins any more.
    ShuttingDown,
}

/// The cluster as the scheduler knows it, the profiles, and what leaves. Cache and queue have borders of their own and are lent
/// as they are; with the rest, this module and those inside it do what the machines ask for.
#[derive(Debug, Default)]
pub(crate) struct Context {
    cache: Cache,
    queue: Queue,
    profiles: Profiles,
    /// Asked beside the plugins of every profile.
    extenders: Option<Arc<dyn Extenders>>,
    time: SchedulingTime,
    isolation: Isolation,
    unasked_gates: UnaskedGates,
    pending_pods: PendingPods,
    pod_limits: PodLimits,
    preemptions: Preemptions,
    outbox: Outbox,
    turn: Turn,
    phase: Phase,
    /// Whether pods that are to be bound later do not show where they are going.
    hides_expected_nodes: bool,
}

/// A pod to be tried.
pub(crate) enum NextPod {
    InTurn(QueuedPod),
    /// All other pods, if there are any, wait for something else.
    NobodyElseWaits(QueuedPod),
}

impl Context {
    /// No cluster and no profile is known yet.
    pub(crate) fn new(queue: Queue) -> Self {
        Self { cache: Cache::new(), queue, ..Self::default() }
    }

    /// Whether pods that are to be bound later show where they are going.
    pub(crate) fn publish_expected_nodes(&mut self, publishes: bool) {
        self.hides_expected_nodes = !publishes;
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) fn cache_mut(&mut self) -> &mut Cache {
        &mut self.cache
    }

    pub(crate) fn table(&self) -> &ClusterTable {
        self.cache.table()
    }

    pub(crate) fn symbols_mut(&mut self) -> &mut Symbols {
        self.cache.symbols_mut()
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The queue, for what it does without a question to plugins.
    pub(crate) fn queue_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// The initial lists are complete: cycles may begin.
    pub(crate) fn synced(&mut self) {
        if self.phase == Phase::Syncing {
            self.phase = Phase::Running;
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// No cycle and no binding begins any more.
    pub(crate) fn shut_down(&mut self) {
        self.phase = Phase::ShuttingDown;
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.phase == Phase::ShuttingDown
    }

    /// When something is due here although no event comes. What waits for plugins to have time is left out.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        let ready = self.queue.ready_at().filter(|_| self.is_running());
        let wakeups = [ready, self.queue.next_wakeup(), self.isolation.next_release(), self.unasked_gates.retry_at()];
        wakeups.into_iter().flatten().min()
    }

    /// Frees some symbols of pods and nodes that are gone.
    pub(crate) fn free_symbols(&mut self) {
        let Self { cache, queue, .. } = self;
        cache.free_symbols(|sym| !queue.nominator().pods_on(sym).is_empty());
    }

    /// Whether the turn has room for one more step of a pod, which the caller takes then.
    pub(crate) fn has_room(&mut self) -> bool {
        let now = self.outbox.instant();
        self.turn.has_room(now)
    }

    /// The turn is over; what is to be told about time that is used up is told.
    pub(crate) fn end_turn(&mut self) {
        for report in self.time.take_reports() {
            self.outbox.act(Action::Supervise(Supervision::OutOfTime(report)));
        }
        self.turn.end();
    }

    /// The next pod to try. While all plugins together have used up their time, or the pods of a namespace theirs, these pods
    /// let others go first; if there are no others, they are tried all the same.
    pub(crate) fn next_pod(&mut self) -> Option<NextPod> {
        let now = self.outbox.now();
        let namespaces = self.time.spent_namespaces();
        let plugins_are_spent = self.time.plugins_are_spent();
        if namespaces.is_empty() && !plugins_are_spent {
            return self.queue.pop(now).map(NextPod::InTurn);
        }
        let profiles = if plugins_are_spent { self.profiles.waiting_for_time() } else { Vec::new() };
        let symbols = &self.cache.table().symbols;
        let waiting: Vec<Sym> = namespaces.iter().filter_map(|namespace| symbols.lookup(namespace)).collect();
        let is_to_wait = |pod: &Pod| profiles.contains(&pod.scheduler_name) || waiting.contains(&pod.namespace);
        let Some(first) = self.queue.pop_unless(is_to_wait) else {
            return self.queue.pop(now).map(NextPod::NobodyElseWaits);
        };
        if plugins_are_spent {
            self.time.plugins_wait();
        }
        namespaces.iter().for_each(|namespace| self.time.namespace_waits(namespace));
        Some(NextPod::InTurn(first))
    }

    /// Changes the queue while the plugins answer its questions.
    pub(crate) fn with_queue<R>(&mut self, work: impl FnOnce(&mut Queue, &mut dyn Policy) -> R) -> R {
        let mut policy = QueuePolicy {
            profiles: &mut self.profiles,
            cache: &self.cache,
            preemptions: &self.preemptions,
            outbox: &mut self.outbox,
            broken: Vec::new(),
            unasked_gates: &mut self.unasked_gates,
            isolation: &self.isolation,
        };
        work(&mut self.queue, &mut policy)
    }

    /// Tells all unschedulable pods of an event.
    pub(crate) fn move_all(&mut self, object_event: &Arc<ObjectEvent>) {
        self.move_some(object_event, |_| true);
    }

    /// Tells those unschedulable pods of an event for which `concerns` holds.
    pub(crate) fn move_some(&mut self, object_event: &Arc<ObjectEvent>, concerns: impl Fn(&Pod) -> bool) {
        self.outbox.handling(&object_event.label);
        let now = self.outbox.now();
        self.with_queue(|queue, policy| queue.move_all(object_event, concerns, now, policy));
    }

    pub(crate) fn text(&self, sym: Sym) -> &str {
        self.cache.table().symbols.text(sym)
    }

    pub(crate) fn shared_text(&self, sym: Sym) -> Arc<str> {
        self.cache.table().symbols.shared_text(sym)
    }

    /// `namespace/name`.
    pub(crate) fn full_name(&self, pod: &Pod) -> String {
        format!("{}/{}", self.text(pod.namespace), pod.name)
    }
}
