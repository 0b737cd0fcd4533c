//! The data that the scheduler's machines share. One machine at a time may use it. This module also contains the steps
//! that need several parts of this data.

mod device_shares;
mod faults;
mod plugins;
mod pods;
mod reports;

use std::{cell::LazyCell, sync::Arc};

use berth_cache::Cache;
use berth_framework::{Extenders, SchedulingTime, SearchLength, SpentSearches, Status};
use berth_lifecycle::Isolation;
use berth_model::{ClusterTable, Pod, Sym, Symbols, Time};
use berth_queue::{ObjectEvent, Policy, Queue, QueuedPod};

pub(crate) use self::{
    plugins::PodPlugins,
    reports::{EndingCycle, PodEvent},
};
use crate::{
    action::{Action, Supervision},
    outbox::Outbox,
    pending_pods::PendingPods,
    pod_limits::PodLimits,
    policy::QueuePolicy,
    preemptions::Preemptions,
    profiles::Profiles,
    settings::Settings,
    shared_facts::SharedFacts,
    turn::Turn,
    unasked_gates::UnaskedGates,
};

/// The reason, in metrics, for trying pods again after their plugin was replaced.
pub(crate) const PLUGIN_REPLACED: &str = "PluginReplaced";

/// The step of an attempt in which the plugins' replicas are brought up to date.
pub(crate) const SYNC: &str = "Sync";

/// The milliseconds after which a pod that waits for plugins to have time gets an event.
const TELL_AFTER: u64 = 1000;

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

/// The cluster as the scheduler knows it, the profiles, and the outbox. Cache and queue have their own interfaces and
/// are lent unchanged. For the other parts, this module and its submodules have functions, which the machines call.
#[derive(Debug, Default)]
pub(crate) struct Context {
    cache: Cache,
    queue: Queue,
    profiles: Profiles,
    shared_facts: SharedFacts,
    /// The extenders. They are asked besides the plugins of every profile.
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
    /// Whether a pod that waits before it is bound does not show the node that was chosen for it.
    hides_expected_nodes: bool,
    /// The reason why no pod can be tried at present.
    waits_for: WaitsFor,
}

/// The reason why the queue's pods are not tried, if there is such a reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WaitsFor {
    #[default]
    Nothing,
    /// The pods wait for answers of the API server. Either many pods of their profiles are being bound, or no pod is
    /// tried before all victims are evicted.
    Answers,
    /// The pods wait because the plugins of their profiles have no time.
    Time,
}

/// The profiles whose pods are not tried because of other pods between Reserve and PostBind.
pub(crate) struct HeldProfiles<'a> {
    /// Profiles with many pods that are being bound.
    pub(crate) full: &'a [Sym],
    /// Profiles with a plugin that does not know about all pods between Reserve and PostBind yet. The status gives this
    /// reason.
    pub(crate) uninformed: Vec<(Sym, Status)>,
}

/// A pod to be tried.
pub(crate) struct NextPod {
    pub(crate) record: QueuedPod,
    /// The maximum time of the search for the pod's node.
    pub(crate) search: SearchLength,
    /// Whether no other pod can be tried at the moment.
    pub(crate) is_alone: bool,
}

/// The precedence of pods once plugins or namespaces have used up their time. Lower values go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    InTurn,
    /// The pod's namespace has used up its time, but the pod's own search is not known to be long.
    AfterOtherNamespaces,
    /// The pod's plugins have no time, or the pod's own search took long.
    AfterAll,
    /// Too many pods of the pod's profile are being bound.
    NotNow,
}

impl Context {
    /// A context without a cluster and without profiles.
    pub(crate) fn new(queue: Queue) -> Self {
        Self { cache: Cache::new(), queue, ..Self::default() }
    }

    /// Takes over the settings that concern more than the queue and the cycle.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.hides_expected_nodes = !settings.publishes_expected_node;
        self.preemptions.run_asynchronously(settings.evicts_asynchronously);
        self.outbox.set_records_decisions(settings.records_decisions);
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

    /// The queue, for changes that need no answer of a plugin.
    pub(crate) fn queue_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// Notes that the initial lists are complete, so that cycles may begin.
    pub(crate) fn synced(&mut self) {
        if self.phase == Phase::Syncing {
            self.phase = Phase::Running;
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Stops cycles and bindings from beginning.
    pub(crate) fn shut_down(&mut self) {
        self.phase = Phase::ShuttingDown;
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.phase == Phase::ShuttingDown
    }

    /// The time at which the context has something to do even if no event comes. Waits for the time of plugins are not
    /// included.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        let ready = self.queue.ready_at().filter(|_| self.is_running() && self.waits_for == WaitsFor::Nothing);
        let wakeups = [ready, self.queue.next_wakeup(), self.isolation.next_release(), self.unasked_gates.retry_at()];
        wakeups.into_iter().flatten().min()
    }

    /// Frees some symbols of pods and nodes that are gone.
    pub(crate) fn free_symbols(&mut self) {
        let Self { cache, queue, .. } = self;
        cache.free_symbols(|sym| !queue.nominator().pods_on(sym).is_empty());
    }

    /// Whether the turn has room for one more step of a pod. After `true`, the caller must take this step.
    pub(crate) fn has_room(&mut self) -> bool {
        let now = self.outbox.instant();
        self.turn.has_room(now)
    }

    /// Ends the turn, and reports time that is used up.
    pub(crate) fn end_turn(&mut self) {
        for report in self.time.take_reports() {
            self.outbox.act(Action::Supervise(Supervision::OutOfTime(report)));
        }
        self.turn.end();
    }

    /// The next pod to try. All plugins together, all long searches, or the long searches of a namespace may have used
    /// up their time. Then pods that would take more of this time let other pods go first ([`Precedence`]), and
    /// searches are brief. Such pods are tried anyway once no other pod can be tried and no event waits.
    ///
    /// Pods of `held` profiles keep their places, and so do pods of a profile with a plugin that has no time: these
    /// pods neither make an attempt nor lose their turn. If a plugin took long for a pod in its last attempt, this pod
    /// waits while this plugin is short of time. The remaining time is then left for the other pods.
    pub(crate) fn next_pod(&mut self, held: &HeldProfiles<'_>, events_wait: bool) -> Option<NextPod> {
        if self.preemptions.hold_up_cycles() {
            self.waits_for = WaitsFor::Answers;
            return None;
        }
        let searches = self.time.spent_searches();
        let plugins_are_spent = self.time.plugins_are_spent();
        let profiles = if plugins_are_spent { self.profiles.waiting_for_time() } else { Vec::new() };
        let symbols = &self.cache.table().symbols;
        let waiting: Vec<Sym> = searches.namespaces.iter().filter_map(|it| symbols.lookup(it)).collect();
        let precedence = |QueuedPod { pod, had_long_search, .. }: &QueuedPod| {
            let is_namespace_spent = waiting.contains(&pod.namespace);
            let is_long = *had_long_search && (searches.all || is_namespace_spent);
            if held.full.contains(&pod.scheduler_name) {
                Precedence::NotNow
            } else if is_long || profiles.contains(&pod.scheduler_name) {
                Precedence::AfterAll
            } else if is_namespace_spent {
                Precedence::AfterOtherNamespaces
            } else {
                Precedence::InTurn
            }
        };
        let search = if searches.all { SearchLength::Brief } else { SearchLength::Full };
        for (last, search) in [(Precedence::InTurn, search), (Precedence::AfterOtherNamespaces, SearchLength::Brief)] {
            if let Some(record) = self.pop_with_time(&held.uninformed, |record| precedence(record) > last) {
                tell_who_waits(&self.time, plugins_are_spent, &searches);
                return Some(NextPod { record, search, is_alone: false });
            }
        }
        // The waiting events may be about pods that go first.
        if events_wait {
            self.waits_for = WaitsFor::Nothing;
            return None;
        }
        let mut last = None;
        self.while_idle(|it| {
            last = it.pop_with_time(&held.uninformed, |record| precedence(record) > Precedence::AfterAll);
        });
        if last.is_none() && self.waits_for == WaitsFor::Nothing && !held.full.is_empty() {
            self.waits_for = WaitsFor::Answers;
        }
        last.map(|record| NextPod { record, search: SearchLength::Full, is_alone: true })
    }

    /// The first pod that may be tried now, and whose profile's plugins have time for another pod. The first pod of
    /// each profile that has waited long enough for its plugins gets an event.
    fn pop_with_time(
        &mut self,
        uninformed: &[(Sym, Status)],
        is_to_wait: impl Fn(&QueuedPod) -> bool,
    ) -> Option<QueuedPod> {
        let Self { queue, profiles, unasked_gates, time, .. } = self;
        let now = self.outbox.now();
        let mut asked: Vec<(Sym, bool)> = Vec::new();
        let short = LazyCell::new(|| time.short_plugins());
        let mut leaves_time = false;
        let popped = queue.pop_unless(now, |record| {
            if is_to_wait(record) {
                return true;
            }
            let scheduler_name = record.pod.scheduler_name;
            let is_short = |plugin: &Arc<str>| short.contains(plugin) && profiles.uses(scheduler_name, plugin);
            if record.slow_plugins.iter().any(is_short) {
                leaves_time = true;
                return true;
            }
            if let Some((_, has_time)) = asked.iter().find(|(name, _)| *name == scheduler_name) {
                return !has_time;
            }
            let uninformed =
                uninformed.iter().find(|(name, _)| *name == scheduler_name).map(|(_, status)| status.clone());
            let refusal = uninformed.or_else(|| profiles.why_no_time(scheduler_name));
            asked.push((scheduler_name, refusal.is_none()));
            let Some(status) = refusal else { return false };
            if now.since(record.queued_at) >= TELL_AFTER {
                unasked_gates.tell(&record.pod.uid, status);
            }
            true
        });
        let waits = popped.is_none() && (leaves_time || asked.iter().any(|(_, has_time)| !has_time));
        self.waits_for = if waits { WaitsFor::Time } else { WaitsFor::Nothing };
        popped
    }

    /// Notes that the queue has got new pods since the last search in the queue.
    fn queue_grew(&mut self) {
        self.waits_for = WaitsFor::Nothing;
    }

    /// Whether pods could be tried if plugins had time.
    pub(crate) fn waits_for_time(&self) -> bool {
        self.waits_for == WaitsFor::Time
    }

    /// Changes the queue while plugins answer its questions.
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

    /// Passes an event to all unschedulable pods.
    pub(crate) fn move_all(&mut self, object_event: &Arc<ObjectEvent>) {
        self.move_some(object_event, |_| true);
    }

    /// Passes an event to the unschedulable pods for which `concerns` holds.
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

    /// The name of the pod as `namespace/name`.
    pub(crate) fn full_name(&self, pod: &Pod) -> String {
        format!("{}/{}", self.text(pod.namespace), pod.name)
    }
}

fn tell_who_waits(time: &SchedulingTime, plugins_are_spent: bool, searches: &SpentSearches) {
    if plugins_are_spent {
        time.plugins_wait();
    }
    time.searches_wait(searches);
}
