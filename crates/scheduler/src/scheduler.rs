//! The scheduler's parts and its interface: events, cycles, actions. This module only passes calls on.
//!
//! The caller owns time and threads. It passes events to [`Scheduler::handle`], calls [`Scheduler::run`] as long as
//! there is more to do, and takes actions, measurements and records after each call. Nothing happens between two calls.
//! [`Scheduler::next_wakeup`] says when a call is due without an event.
//!
//! # Default
//! Without further settings a scheduler has no clock, so it measures nothing. It has no accounts of time, so no pod
//! waits for the time of plugins, and it has no extenders. No cycle begins before [`Event::Synced`].
//!
//! # End
//! After [`Event::Shutdown`] no cycle and no binding begins. [`Scheduler::outstanding`] counts the bindings that were
//! sent and not answered. The caller waits for these, or drops the scheduler without them.
//!
//! # Surprises
//! - Objects that are not plain data, such as profiles, stand in [`HostObjects`]. Events and actions only name them.
//! - A replaced plugin is kept until [`Scheduler::drain_retired`], because dropping it takes a while.

mod following;

use std::{sync::Arc, time::Duration, vec::Drain};

use berth_cache::{Cache, NodeOrder};
use berth_explain::DecisionRecord;
use berth_framework::{
    Clock, Extenders, Manifest, Measured, Plugin, PluginVersion, Profile, SchedulingTime, TraceSampling, run::Decision,
};
use berth_model::{PodUid, Time};
use berth_queue::Queue;

use self::following::Followed;
use crate::{
    action::Action,
    bindings::{Bindings, Input},
    change_feed::{ChangeBatch, ChangeFeeds, CopyKind},
    context::Context,
    cycle::{Cycle, LastAttempt},
    event::Event,
    event_handlers::{self, EventHandlers},
    host_objects::HostObjects,
    metrics::{Metrics, Observation, Totals},
    occurrence::Occurrence,
    outbox::NotBoundAttempt,
    preparation::SwapRequest,
    settings::Settings,
    swaps::Swaps,
    turn,
};

/// The scheduler: four machines and the data that they share.
#[derive(Debug)]
pub struct Scheduler {
    context: Context,
    event_handlers: EventHandlers,
    cycle: Cycle,
    bindings: Bindings,
    swaps: Swaps,
    settings: Settings,
    objects: HostObjects,
    /// The changes that copies do not have yet.
    feeds: ChangeFeeds,
    /// The scheduler that this scheduler follows; `None` for a scheduler with its own cluster.
    followed: Followed,
}

/// The part of the state that affects decisions and that remains after nodes and pods came and left again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchState {
    next_start: usize,
    order: NodeOrder,
}

impl Scheduler {
    /// The maximum number of events that are handled between two cycles, so that many events do not hold up pods that
    /// could be placed.
    pub const EVENTS_PER_TURN: usize = turn::MOST;

    /// The time between two cycles after which no further event is handled. One event alone may take longer, because
    /// some events concern thousands of pods.
    pub const TURN: Duration = turn::LONGEST;

    /// The milliseconds after which the scheduler checks again whether plugins have time, while anything waits
    /// for the time of plugins.
    const LOOK_FOR_TIME_AFTER: u64 = 20;

    /// A scheduler that knows no cluster yet. Cycles begin after [`Event::Synced`].
    #[must_use]
    pub fn new(settings: Settings, profiles: Vec<Profile>) -> Self {
        let mut context = Context::new(Queue::new(settings.queue));
        context.configure(&settings);
        context.install_profiles(profiles);
        Self {
            context,
            event_handlers: EventHandlers::default(),
            cycle: Cycle::default(),
            bindings: Bindings::default(),
            swaps: Swaps::default(),
            settings,
            objects: HostObjects::default(),
            feeds: ChangeFeeds::default(),
            followed: Followed::default(),
        }
        .with_objects(HostObjects::default())
    }

    /// Measures time with `clock`. `seed` decides in which attempts each plugin is timed.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>, seed: u64) -> Self {
        self.context.measure_with(clock, seed);
        self
    }

    /// Traces the attempts that `tracing` takes, if there is a [clock](Self::with_clock). The steps of these attempts
    /// come with [`Self::drain_measured`], and their ends as [`Action::Traced`].
    #[must_use]
    pub fn with_traces(mut self, tracing: TraceSampling) -> Self {
        self.context.trace_with(tracing);
        self
    }

    /// Sets the accounts that decide which pods wait for other pods. With the default accounts, no pod waits.
    #[must_use]
    pub fn with_time(mut self, time: SchedulingTime) -> Self {
        self.context.set_time(time);
        self
    }

    /// Sets the extenders. They are asked besides the plugins of every profile.
    #[must_use]
    pub fn with_extenders(mut self, extenders: Arc<dyn Extenders>) -> Self {
        self.context.set_extenders(Some(extenders));
        self.context.register_events();
        self
    }

    /// Sets the store of the objects that events and actions name.
    #[must_use]
    pub fn with_objects(mut self, objects: HostObjects) -> Self {
        self.swaps.leave_preparations_in(objects.clone());
        self.objects = objects;
        self
    }

    /// The store of the objects that events and actions name.
    #[must_use]
    pub fn objects(&self) -> &HostObjects {
        &self.objects
    }

    /// Handles an event.
    pub fn handle(&mut self, event: Event, now: Time) {
        let started = self.context.instant();
        self.take_in(event, now);
        self.context.tell_gate_failures();
        self.context.free_symbols();
        self.context.event_handled(started);
        self.gather_changes();
    }

    fn take_in(&mut self, event: Event, now: Time) {
        let Self { context, event_handlers, cycle, bindings, swaps, settings, objects, feeds: _, followed: _ } = self;
        context.set_now(now);
        match event {
            Event::PodApplied(pod) => event_handlers.pod_applied(&pod, bindings, context),
            Event::PodDeleted { namespace, name, uid } => {
                event_handlers.pod_deleted(&namespace, &name, PodUid::from(uid), bindings, context);
            }
            Event::NodeApplied(node) => event_handlers.node_applied(&node, bindings, context),
            Event::NodeDeleted { name } => event_handlers.node_deleted(&name, bindings, context),
            Event::ObjectApplied { resource, key, json } => {
                event_handlers::object_changed(&resource, key, Some(json), bindings, context);
            }
            Event::ObjectDeleted { resource, key } => {
                event_handlers::object_changed(&resource, key, None, bindings, context);
            }
            Event::KindUnlisted { kind, unlisted } => {
                context.kind_changed(kind, Some(unlisted));
                cycle.plugins_replaced();
            }
            Event::KindListed(kind) => {
                context.kind_changed(kind, None);
                cycle.plugins_replaced();
            }
            Event::Synced => context.synced(),
            Event::BindFinished { cycle, uid, result } => {
                bindings.answer(&uid, cycle, Input::BindFinished(result), context);
            }
            Event::EffectsFinished { cycle, uid, plugin, result } => {
                let succeeded = result.is_ok();
                let input = Input::EffectsFinished { plugin, result };
                if !bindings.answer(&uid, cycle, input, context) {
                    context.evictions_finished(uid, cycle, succeeded);
                }
            }
            Event::StatusPatchFailed { uid } => context.status_patch_failed(&uid),
            Event::PluginReady { name, scheduler_names, version: _, factory, grants } => {
                let Some(factory) = objects.take(factory) else { return context.object_is_gone("a binary") };
                let swap = SwapRequest { name, scheduler_names, factory, grants };
                if swaps.ready(swap, bindings, context) {
                    cycle.plugins_replaced();
                }
            }
            Event::PluginFaulted { plugin, digest, reason, took, pod } => {
                context.plugin_faulted(plugin, digest, reason, took, pod);
            }
            Event::PluginPrepared { plugin: _, prepared } => {
                let Some(prepared) = objects.take(prepared) else { return context.object_is_gone("an instance") };
                if swaps.prepared(prepared, bindings, context) {
                    cycle.plugins_replaced();
                }
            }
            Event::Reconfigured(reconfiguration) => {
                *settings = reconfiguration.settings;
                context.configure(settings);
                reconfiguration.take_over(objects, swaps, bindings, context);
                cycle.plugins_replaced();
            }
            Event::Shutdown => context.shut_down(),
        }
    }

    /// Carries out the due steps, as many as a turn has room for, and tries the next pod. Returns whether there is more
    /// to do; if so, the caller must call again. `events_wait` says whether the caller has further events to handle
    /// first.
    pub fn run(&mut self, now: Time, events_wait: bool) -> bool {
        self.context.set_now(now);
        self.do_what_is_due(now);
        let has_tried = self.try_next(events_wait);
        // Pods that are past PreEnqueue use the time of plugins first.
        let has_asked = self.context.ask_gates_again();
        self.context.tell_gate_failures();
        if !has_tried && !events_wait {
            self.use_idle_time();
        }
        self.context.end_turn();
        self.gather_changes();
        has_tried || has_asked || self.bindings.has_input()
    }

    fn do_what_is_due(&mut self, now: Time) {
        let Self { context, bindings, .. } = self;
        bindings.expire(context);
        bindings.go_on_announcing(context);
        bindings.go_on(context);
        bindings.deliver_messages(context);
        context.release_held_pods();
        context.with_queue(|queue, policy| queue.flush(now, policy));
        context.retry_gates();
    }

    /// Tries the next pod, if there is one.
    fn try_next(&mut self, events_wait: bool) -> bool {
        let Self { context, cycle, bindings, settings, .. } = self;
        if !context.is_running() {
            return false;
        }
        let Some(next) = context.next_pod(&bindings.held_profiles(), events_wait) else { return false };
        if next.is_alone {
            context.while_idle(|context| cycle.schedule(next, settings, bindings, context));
        } else {
            cycle.schedule(next, settings, bindings, context);
        }
        true
    }

    /// Carries out work that waits for the time of plugins, because no pod can be tried. Plugins may then take more
    /// than the share of all plugins.
    fn use_idle_time(&mut self) {
        let Self { context, bindings, .. } = self;
        if bindings.is_any_ready() || context.profiles().has_messages() {
            context.while_idle(|context| {
                bindings.go_on_announcing(context);
                bindings.go_on(context);
                bindings.deliver_messages(context);
            });
        }
    }

    /// The time at which [`Self::run`] has something to do even if no event comes. `None` if it has nothing to do
    /// before the next event.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Time> {
        if self.context.is_shutting_down() {
            return None;
        }
        // No event tells the scheduler that plugins have time again.
        let Self { context, bindings, .. } = self;
        let waits_for_time = bindings.is_any_ready()
            || context.waits_for_time()
            || context.has_unasked_gates()
            || context.profiles().has_messages();
        let has_time = waits_for_time.then(|| self.context.now() + Self::LOOK_FOR_TIME_AFTER);
        let wakeups = [self.context.next_wakeup(), self.bindings.next_deadline(), has_time];
        wakeups.into_iter().flatten().min()
    }

    /// Removes and returns the actions, in order.
    pub fn drain_actions(&mut self) -> Drain<'_, Action> {
        self.context.drain_actions()
    }

    /// The measurements since the last call.
    pub fn drain_observations(&mut self) -> Vec<Observation> {
        self.context.take_observations()
    }

    /// The records of decisions for explanations since the last call; see [`Settings::records_decisions`].
    pub fn drain_decisions(&mut self) -> Drain<'_, DecisionRecord> {
        self.context.drain_decisions()
    }

    /// The attempts since the last call that chose a node and did not bind the pod; see
    /// [`Settings::records_decisions`]. Their decisions came with this call of [`Self::drain_decisions`] or an earlier
    /// call.
    pub fn drain_not_bound(&mut self) -> Drain<'_, NotBoundAttempt> {
        self.context.drain_not_bound()
    }

    /// Records from now on the occurrences that kube-scheduler logs up to this verbosity; 0 records no occurrences. If
    /// occurrences are recorded, the caller must take them with [`Self::drain_occurrences`] after each [`Self::handle`]
    /// and [`Self::run`].
    pub fn record_occurrences(&mut self, verbosity: u8) {
        self.context.record_occurrences(verbosity);
    }

    /// The occurrences since the last call, in order.
    pub fn drain_occurrences(&mut self) -> Drain<'_, Occurrence> {
        self.context.drain_occurrences()
    }

    /// The time that the plugins of each profile took, and the number of questions to them, since the last call.
    pub fn drain_measured(&mut self, mut take: impl FnMut(&Profile, &Measured)) {
        self.context.drain_measured(&mut take);
    }

    /// The plugins that were replaced since the last call. Dropping a plugin frees its memory, which takes a while.
    pub fn drain_retired(&mut self) -> Vec<Box<dyn Plugin>> {
        self.swaps.take_retired()
    }

    /// The number of bindings that were sent and not answered. A shutdown waits for them.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.bindings.n_sent()
    }

    /// The current counters and gauges.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics {
            cycles: self.cycle.n_cycles(),
            cycles_with_earlier_answers: self.cycle.n_with_earlier_answers(),
            attempts: self.context.attempts(),
            batching: self.cycle.batch_metrics(),
            queue: self.context.queue().metrics(),
            pending_pods: self.context.queue().pending_pods(),
            cache: self.context.cache().sizes(),
            waiting_pods: self.bindings.n_held_by_permit(),
            bindings: self.bindings.len(),
            held_owners: self.context.held_owners(),
        }
    }

    /// The state in a few numbers. The duration of the call does not depend on the size of the cluster.
    #[must_use]
    pub fn totals(&self, now: Time) -> Totals {
        let waits_since = self.context.queue().longest_waits_since();
        Totals {
            as_of: now,
            nodes: self.context.table().n_nodes(),
            bindings: self.bindings.len(),
            longest_wait: waits_since.map_or(0, |since| now.since(since)),
        }
    }

    /// The binaries that answer, by profile.
    #[must_use]
    pub fn plugins(&self) -> Vec<(String, Vec<PluginVersion>)> {
        self.context.profiles().versions()
    }

    /// The manifests of the plugins of all profiles. `None` while instances of a binary are being prepared, because the
    /// binary may need more than the plugins that serve.
    #[must_use]
    pub fn serving_manifests(&self) -> Option<Vec<Manifest>> {
        (!self.swaps.is_preparing()).then(|| self.context.profiles().manifests().cloned().collect())
    }

    /// The nodes, the pods on them, and objects of other kinds.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        self.context.cache()
    }

    /// The place at which the next search begins, and the order in which nodes are visited.
    #[must_use]
    pub fn search_state(&self) -> SearchState {
        SearchState { next_start: self.cycle.next_start(), order: self.context.cache().node_order() }
    }

    /// Restores an earlier search state. Before this call, the caller must undo everything since that moment by events
    /// in the opposite order. Later decisions then equal the decisions after that moment.
    pub fn restore_search_state(&mut self, state: SearchState) {
        self.cycle.begin_again_at(state.next_start);
        self.context.cache_mut().restore_order(state.order);
    }

    /// The scheduling queue.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        self.context.queue()
    }

    /// The changes since the last call, for a [`ClusterView`](crate::ClusterView): at most about a thousand pods and
    /// nodes. The scheduler notes changes from the first call until [`Self::end_following`]. Noting costs little.
    pub fn changes(&mut self, now: Time) -> ChangeBatch {
        self.changes_for(CopyKind::Shown, now)
    }

    /// [`Self::changes`] for a copy of either kind.
    pub fn changes_for(&mut self, copy: CopyKind, now: Time) -> ChangeBatch {
        let Self { context, bindings, feeds, .. } = self;
        feeds.batch(copy, bindings, context, now)
    }

    /// Stops noting changes for the [`ClusterView`](crate::ClusterView). The next call of [`Self::changes`] begins a
    /// new copy.
    pub fn end_following(&mut self) {
        self.end_following_of(CopyKind::Shown);
    }

    /// [`Self::end_following`] for a copy of either kind.
    pub fn end_following_of(&mut self, copy: CopyKind) {
        let Self { context, bindings, feeds, .. } = self;
        feeds.end(copy, bindings, context);
    }

    fn gather_changes(&mut self) {
        let Self { context, bindings, feeds, .. } = self;
        feeds.gather(bindings, context);
    }

    /// The decision of the last cycle that looked for a node, with every plugin's answers.
    #[must_use]
    pub fn last_decision(&self) -> Option<&Decision> {
        self.cycle.last_attempt().map(|attempt| &attempt.decision)
    }

    /// The last attempt, with the profile whose plugins were asked.
    #[must_use]
    pub fn last_attempt(&self) -> Option<(&LastAttempt, &Profile)> {
        let attempt = self.cycle.last_attempt()?;
        Some((attempt, self.context.profiles().get(attempt.pod.scheduler_name)?))
    }
}
