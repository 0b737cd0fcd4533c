//! What the machines of the scheduler share, lent to one of them at a time, and the steps that need several parts of it.

use std::{borrow::Cow, sync::Arc};

use berth_cache::Cache;
use berth_framework::{CycleId, Extenders, PluginIdx, Profile, SchedulingTime, Status};
use berth_model::{BinaryId, Pod, PodUid, Sym};
use berth_queue::{Occurrence, Policy, Queue, QueuedPod};

use crate::{
    action::{EventRecord, Level, Notice, PodRef, Request, StatusChange},
    effect_bytes::EffectBytes,
    gate_failures::GateFailures,
    isolation::Isolation,
    metrics::Observation,
    outbox::Outbox,
    pending_pods::PendingPods,
    pod_limits::PodLimits,
    policy::{PluginPolicy, UnaskedGates},
    preemptions::Preemptions,
    profiles::Profiles,
    turn::Turn,
};

/// The label of what brings back pods about which a plugin had no time to be asked.
const PLUGIN_HAS_TIME: &str = "PluginHasTime";

/// Whether cycles may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The initial lists are not complete.
    #[default]
    Syncing,
    Running,
    /// No cycle and no binding begins any more.
    ShuttingDown,
}

/// The cluster as the scheduler knows it, the profiles, and the outbox.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) cache: Cache,
    pub(crate) queue: Queue,
    pub(crate) profiles: Profiles,
    pub(crate) pending_pods: PendingPods,
    pub(crate) pod_limits: PodLimits,
    pub(crate) preemptions: Preemptions,
    pub(crate) effect_bytes: EffectBytes,
    pub(crate) gate_failures: GateFailures,
    pub(crate) outbox: Outbox,
    pub(crate) turn: Turn,
    pub(crate) time: SchedulingTime,
    pub(crate) phase: Phase,
    /// The labels of the event that is being handled, once they are known.
    pub(crate) handled: Vec<Arc<str>>,
    pub(crate) unasked_gates: UnaskedGates,
    pub(crate) isolation: Isolation,
    /// Asked beside the plugins of every profile.
    pub(crate) extenders: Option<Arc<dyn Extenders>>,
}

/// A pod to be tried.
pub(crate) enum NextPod {
    InTurn(QueuedPod),
    /// All other pods, if there are any, wait for something else.
    NobodyElseWaits(QueuedPod),
}

/// An event about a pod, without the pod.
pub(crate) struct PodEvent {
    pub(crate) warning: bool,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) action: Cow<'static, str>,
}

impl PodEvent {
    pub(crate) const FAILED_SCHEDULING: Self = Self::new(true, "FailedScheduling", "Scheduling");
    pub(crate) const SCHEDULED: Self = Self::new(false, "Scheduled", "Binding");
    pub(crate) const PREEMPTED: Self = Self::new(false, "Preempted", "Preempting");

    const fn new(warning: bool, reason: &'static str, action: &'static str) -> Self {
        Self { warning, reason: Cow::Borrowed(reason), action: Cow::Borrowed(action) }
    }
}

impl Context {
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.phase == Phase::ShuttingDown
    }

    /// Whether the turn has room for one more step of a pod, which the caller takes then.
    pub(crate) fn has_room(&mut self) -> bool {
        let now = self.outbox.instant();
        self.turn.has_room(now)
    }

    /// Whether the plugins of the profile may be asked about a pod now.
    ///
    /// # Errors
    /// What a plugin without time says that no pod may do without.
    pub(crate) fn have_time(&mut self, scheduler_name: Sym) -> Result<(), Status> {
        // Nothing can be asked once no profile serves the pod any more.
        let Some(profile) = self.profiles.get_mut(scheduler_name) else { return Ok(()) };
        profile.have_time().map_err(|(_, status)| status)
    }

    /// Tells plugins what they had no time to hear, as far as they and the turn have time.
    pub(crate) fn tell_news(&mut self) {
        let now = self.outbox.now();
        for scheduler_name in self.profiles.with_news() {
            while self.has_room()
                && self.profiles.get_mut(scheduler_name).is_some_and(|it| it.tell_news(now, self.cache.table()))
            {
            }
        }
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

    /// Tells what is to be told about time that is used up.
    pub(crate) fn report_time(&mut self) {
        for report in self.time.take_reports() {
            self.outbox.notice(Notice::OutOfTime(report));
        }
    }

    /// Changes the queue while the plugins answer its questions.
    pub(crate) fn with_queue<R>(&mut self, work: impl FnOnce(&mut Queue, &mut dyn Policy) -> R) -> R {
        let mut policy = PluginPolicy {
            profiles: &mut self.profiles,
            cache: &self.cache,
            preemptions: &self.preemptions,
            gate_failures: &mut self.gate_failures,
            outbox: &mut self.outbox,
            broken: Vec::new(),
            unasked_gates: &mut self.unasked_gates,
            isolation: &self.isolation,
        };
        work(&mut self.queue, &mut policy)
    }

    /// Plugins that had no time for PreEnqueue and have some now are asked about those pods again.
    pub(crate) fn ask_gates_again(&mut self) {
        let profiles = &mut self.profiles;
        let has_time = |(scheduler_name, name): &(Sym, Arc<str>)| {
            let Some(profile) = profiles.get_mut(*scheduler_name) else { return true };
            let plugin = profile.find(name).and_then(|plugin| profile.get(plugin));
            plugin.is_none_or(|plugin| plugin.has_time().is_ok())
        };
        let ready: Vec<_> = self.unasked_gates.extract_if(.., has_time).collect();
        let now = self.outbox.now();
        for (_, plugin) in ready {
            self.with_queue(|queue, policy| queue.retry_rejected_by(&plugin, PLUGIN_HAS_TIME, now, policy));
        }
    }

    /// Tells all unschedulable pods of an event.
    pub(crate) fn move_all(&mut self, occurrence: &Arc<Occurrence>) {
        self.move_some(occurrence, |_| true);
    }

    /// Tells those unschedulable pods of an event for which `concerns` holds.
    pub(crate) fn move_some(&mut self, occurrence: &Arc<Occurrence>, concerns: impl Fn(&Pod) -> bool) {
        self.handling(&occurrence.label);
        let now = self.outbox.now();
        self.with_queue(|queue, policy| queue.move_all(occurrence, concerns, now, policy));
    }

    /// Has pods tried again that one of the plugins rejected or keeps out of activeQ.
    pub(crate) fn retry_rejected_by<'a>(&mut self, plugins: impl IntoIterator<Item = &'a Arc<str>>, label: &str) {
        let now = self.outbox.now();
        for plugin in plugins {
            self.with_queue(|queue, policy| queue.retry_rejected_by(plugin, label, now, policy));
        }
    }

    /// The victims of a preemption were told to leave, or not. Their going brings the preemptor back; after a failure nothing
    /// else does.
    pub(crate) fn evictions_finished(&mut self, preemptor: PodUid, cycle: CycleId, succeeded: bool) {
        let Some(started) = self.preemptions.finish(&preemptor, cycle) else { return };
        self.outbox.time(started, |duration| Observation::Evictions { succeeded, duration });
        if !succeeded {
            let now = self.outbox.now();
            self.with_queue(|queue, policy| queue.activate(&[preemptor], now, policy));
        }
    }

    /// The event that is being handled has this label, unless it has one already.
    fn handling(&mut self, label: &Arc<str>) {
        if self.handled.is_empty() {
            self.also_handling(label);
        }
    }

    /// The event that is being handled has this label, whatever others it has.
    pub(crate) fn also_handling(&mut self, label: &Arc<str>) {
        if !self.handled.contains(label) {
            self.handled.push(Arc::clone(label));
        }
    }

    /// The attempt is over: the plugins of the pod's profile may forget it.
    pub(crate) fn end_cycle(&mut self, scheduler_name: Sym, cycle: CycleId) {
        // There is no profile if the configuration was replaced during the attempt; its plugins are gone as well.
        if let Some(profile) = self.profiles.get_mut(scheduler_name) {
            profile.end_cycle(cycle);
        }
    }

    /// An event names an object that was taken before: nothing changes.
    pub(crate) fn object_is_gone(&mut self, what: &str) {
        self.outbox.log(Level::Error, format!("an event names {what} that is not there"));
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

    pub(crate) fn pod_ref(&self, pod: &Pod) -> PodRef {
        PodRef {
            namespace: self.shared_text(pod.namespace),
            name: Arc::clone(&pod.name),
            uid: pod.uid.clone(),
            resource_version: self.pending_pods.resource_version(&pod.uid),
        }
    }

    /// The plugin's name; empty for [`PluginIdx::NOBODY`].
    pub(crate) fn plugin_name(&self, scheduler_name: Sym, plugin: PluginIdx) -> Arc<str> {
        let profile: Option<&Profile> = self.profiles.get(scheduler_name);
        profile.map_or_else(|| Arc::from(""), |profile| Arc::clone(profile.name(plugin)))
    }

    /// The binary that answers for a plugin.
    pub(crate) fn plugin_binary(&self, scheduler_name: Sym, plugin: PluginIdx) -> Option<BinaryId> {
        self.profiles.get(scheduler_name)?.binary(plugin)
    }

    /// Writes an event about `pod`, reported by its profile.
    pub(crate) fn pod_event(&mut self, pod: &Pod, event: PodEvent, note: String) {
        self.record_event(pod, None, event, note);
    }

    /// Writes an event about what happened to `pod` for `preemptor`, whose profile reports it.
    pub(crate) fn preempted_event(&mut self, pod: &Pod, preemptor: &Pod, note: String) {
        self.record_event(pod, Some(preemptor), PodEvent::PREEMPTED, note);
    }

    fn record_event(&mut self, pod: &Pod, related: Option<&Pod>, event: PodEvent, note: String) {
        let reported_by = related.unwrap_or(pod).scheduler_name;
        let record = EventRecord {
            regarding: self.pod_ref(pod),
            related: related.map(|related| self.pod_ref(related)),
            warning: event.warning,
            reason: event.reason,
            action: event.action,
            note,
            reporting_controller: self.shared_text(reported_by),
        };
        self.outbox.notice(Notice::Event(record));
    }

    /// Asks for a patch of what differs from the pod's status; of nothing when nothing does, or the pod is gone.
    pub(crate) fn patch_status(
        &mut self,
        pod: &Pod,
        condition: Option<berth_model::api::Condition>,
        nominated: Option<String>,
    ) {
        let pod_ref = self.pod_ref(pod);
        let Some(known) = self.pending_pods.get_mut(&pod.uid) else { return };
        let nominated = nominated.filter(|node| *node != known.nominated_node_name);
        if condition.is_none() && nominated.is_none() {
            return;
        }
        let old_nominated_node_name = known.nominated_node_name.clone();
        if let Some(node) = &nominated {
            known.nominated_node_name.clone_from(node);
        }
        let old_conditions = known.conditions_to_patch();
        if condition.is_some() {
            known.asked.clone_from(&condition);
        }
        let change =
            StatusChange { old_conditions, condition, old_nominated_node_name, nominated_node_name: nominated };
        self.outbox.request(pod_ref, Request::PatchStatus(change));
    }

    /// What was asked for was not written: the next attempt asks again, if the pod is still there.
    pub(crate) fn status_patch_failed(&mut self, uid: &str) {
        let Some(known) = self.pending_pods.get_mut(uid) else { return };
        known.asked = None;
        let shown = self.cache.table().symbols.text(known.pod.nominated_node_name);
        shown.clone_into(&mut known.nominated_node_name);
    }

    /// Writes the node that the pod is going to into its `nominatedNodeName`, since getting there takes a while
    /// (KEP-5278).
    pub(crate) fn publish_expected_node(&mut self, pod: &Pod, node: Sym) {
        let node = self.text(node).to_owned();
        self.patch_status(pod, None, Some(node));
    }
}
