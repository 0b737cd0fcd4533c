//! Every pod from Reserve to PostBind.
//!
//! [`Bindings`] keeps the pods that wait, knows which input wakes each pod, and lets one pod at a time take a step
//! (`bindings/steps.rs`). A pod that takes a step is not in the table, so the indexes always describe pods that wait.

mod announcements;
mod asking;
mod binding;
mod binding_failure;
mod effects;
mod ends;
mod follow;
pub(crate) mod granted;
mod inbox;
mod object_wait;
mod peers;
mod permit;
mod pre_bind;
mod questions;
mod ready;
mod reported_waits;
mod steps;

use std::{collections::BTreeSet, sync::Arc};

use berth_framework::{Code, CycleId, Effect, ExtenderIdx, LateEffects, PluginIdx, Point};
use berth_model::{ChangedKeys, ObjectKey, Pod, PodUid, Sym, Time};
use berth_queue::QueuedPod;
use rustc_hash::FxHashMap;

use self::{
    announcements::Announcements,
    binding::{Binding, PodAttempt, Stage, Step},
    inbox::{Inbox, Message},
    peers::Peers,
    questions::Question,
    ready::ReadyPods,
};
pub use self::{
    asking::PERMIT_WAIT,
    follow::{BindingStage, PodBinding, PodHolder},
};
pub(crate) use self::{
    binding::{Choice, Input},
    effects::Origin,
};
use crate::{
    action::Level,
    context::{Context, HeldProfiles},
};

/// The pods between Reserve and PostBind.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    waiting: FxHashMap<PodUid, Binding>,
    deadlines: BTreeSet<(Time, PodUid)>,
    /// The pods that wait for an object to change.
    watchers: FxHashMap<ObjectKey, BTreeSet<PodUid>>,
    /// The inputs from plugins and objects that are not delivered to pods yet.
    inbox: Inbox,
    /// The pods that continue once the plugins of their profile have time.
    ready: ReadyPods,
    /// The pods that Permit has just released, often many at a time. They continue once the plugins have time.
    released: ReadyPods,
    announcements: Announcements,
    /// The number of pods that Permit held and that the API server is being asked to bind.
    n_held_sent: usize,
    /// The pods that took a step.
    changed: ChangedKeys<PodUid>,
    sent: SentByProfile,
}

/// The number of pods that the API server is being asked to bind, by profile.
#[derive(Debug, Default)]
struct SentByProfile {
    counts: FxHashMap<Sym, usize>,
    /// The profiles with at least [`SENT_OF_PROFILE`] pods whose binding was sent.
    full: Vec<Sym>,
}

/// The maximum number of pods that Permit held and that are being bound at a time. Further pods that Permit held wait
/// for the answers. The rate of requests to the API server is limited, and pods that Permit did not hold need not wait
/// behind thousands of pods that one event released. A request takes a few milliseconds, so this number of requests is
/// more than an API server handles.
const HELD_SENT: usize = 32;

/// The number of pods in binding at which no further pod of their profile is tried. The rate of requests to the API
/// server is limited, and the pods that wait for requests must not use up the room that all profiles share.
const SENT_OF_PROFILE: usize = 2_000;

/// The pods about which plugins must be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    /// The pods that Permit has just released.
    Released,
    Others,
}

impl SentByProfile {
    fn add(&mut self, profile: Sym) {
        let count = self.counts.entry(profile).or_default();
        *count += 1;
        if *count == SENT_OF_PROFILE {
            self.full.push(profile);
        }
    }

    fn remove(&mut self, profile: Sym) {
        let Some(count) = self.counts.get_mut(&profile) else { return };
        if *count == SENT_OF_PROFILE {
            self.full.retain(|full| *full != profile);
        }
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&profile);
        }
    }
}

impl Bindings {
    /// Assumes the pod on its node, and takes the pod as far as possible without waiting.
    pub(crate) fn begin(&mut self, record: QueuedPod, choice: Choice, context: &mut Context) {
        let scheduler_name = record.pod.scheduler_name;
        let step = context.start_step(scheduler_name, choice.cycle);
        if let Some(binding) = Binding::new(record, choice, context) {
            context.end_step(scheduler_name, step, "Assume", Code::Success);
            self.take_step(binding, context, Binding::reserve_and_permit);
            self.go_on(context);
        }
    }

    /// Delivers an input to a pod immediately, because queue and cache rely on the delivery. A pod that is not in the
    /// table is ignored.
    pub(crate) fn send(&mut self, uid: &PodUid, input: Input, context: &mut Context) {
        self.step(uid, input, context);
        self.go_on(context);
    }

    /// Delivers the answer to a request of an attempt. Returns whether the attempt is in the table. If the attempt is
    /// over, the answer is late and ignored.
    pub(crate) fn answer(&mut self, uid: &PodUid, cycle: CycleId, input: Input, context: &mut Context) -> bool {
        let is_here = self.waiting.get(uid).is_some_and(|binding| binding.cycle() == cycle);
        if is_here {
            self.send(uid, input, context);
        }
        is_here
    }

    /// Notes that an object changed. Pods may wait for this object.
    pub(crate) fn object_changed(&mut self, object: &ObjectKey, context: &mut Context) {
        for uid in self.watchers.get(object).into_iter().flatten() {
            if let Some(binding) = self.waiting.get(uid) {
                self.inbox.push(binding.attempt(), Input::ObjectChanged(object.clone()));
            }
        }
        self.go_on(context);
    }

    /// Notes that the cache or the queue has taken in a change of a pod. Plugins that read pods as objects learn of the
    /// change from another watch, which may be earlier or later. Plugins are asked at both times. At the second time,
    /// the data from both watches agrees.
    pub(crate) fn pod_changed(&mut self, pod: &Pod, context: &mut Context) {
        if self.watchers.is_empty() {
            return;
        }
        let key = ObjectKey::named("v1/Pod", context.text(pod.namespace), &*pod.name);
        self.object_changed(&key, context);
    }

    /// Notes that the cache has taken in a change of a node. [`Self::pod_changed`] does the same for pods.
    pub(crate) fn node_changed(&mut self, name: &str, context: &mut Context) {
        if !self.watchers.is_empty() {
            self.object_changed(&ObjectKey::named("v1/Node", "", name), context);
        }
    }

    /// Ends the waits that have timed out, as many as the turn has room for.
    pub(crate) fn expire(&mut self, context: &mut Context) {
        let now = context.now();
        while let Some((deadline, uid)) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now).cloned() {
            if !context.has_room() {
                return;
            }
            self.step(&uid, Input::DeadlinePassed(deadline), context);
        }
    }

    /// Moves on the pods that have an input, and the pods that wait for plugins to have time, as many as the turn has
    /// room for.
    pub(crate) fn go_on(&mut self, context: &mut Context) {
        while !self.inbox.is_empty() {
            if !context.has_room() {
                return;
            }
            if let Some(Message { to, input }) = self.inbox.pop()
                && self.is_under_way(&to)
            {
                self.step(&to.uid, input, context);
            }
        }
        self.ask_plugins(Ready::Others, context);
        self.ask_plugins(Ready::Released, context);
    }

    /// Whether [`Self::go_on`] has inputs to deliver. The delivery does not depend on the time of plugins.
    pub(crate) fn has_input(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Whether pods could continue if plugins had time to be asked or informed about the pods.
    pub(crate) fn is_any_ready(&self) -> bool {
        !self.ready.is_empty() || !self.released.is_empty() || !self.announcements.is_empty()
    }

    /// Asks plugins about the pods that are ready, profile by profile.
    fn ask_plugins(&mut self, which: Ready, context: &mut Context) {
        self.pods(which).begin_round();
        while which == Ready::Others || self.n_held_sent < HELD_SENT {
            let Some(scheduler_name) = self.pods(which).next_profile() else { return };
            if !context.have_time(scheduler_name) {
                self.pods(which).pass_over(scheduler_name);
                continue;
            }
            if !context.has_room() {
                return;
            }
            let Some(attempt) = self.pods(which).pop(scheduler_name) else { continue };
            // The attempt of the pod may have ended since the pod became ready.
            let is_here = self.is_under_way(&attempt);
            let Some(mut binding) = is_here.then(|| self.take(&attempt.uid)).flatten() else { continue };
            match binding.question.take() {
                Some(question) => {
                    self.take_step(binding, context, |binding, context, peers| binding.ask(question, context, peers));
                }
                None => self.put(binding),
            }
        }
    }

    fn is_under_way(&self, attempt: &PodAttempt) -> bool {
        self.waiting.get(&attempt.uid).is_some_and(|binding| binding.cycle() == attempt.cycle)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.waiting.contains_key(uid)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn n_held_by_permit(&self) -> usize {
        self.waiting.values().filter(|binding| binding.is_held_by_permit()).count()
    }

    /// The number of pods that wait for the answer to a request that may bind them.
    pub(crate) fn n_sent(&self) -> usize {
        self.waiting.values().filter(|binding| binding.is_sent()).count()
    }

    /// Carries out the effects that PostFilter plugins returned for a pod that has no node. Returns the effects that
    /// the host must carry out, by plugin.
    pub(crate) fn carry_out(
        &mut self,
        pod: &Arc<Pod>,
        effects: Vec<(PluginIdx, Effect)>,
        context: &mut Context,
    ) -> Vec<(PluginIdx, Vec<Effect>)> {
        let mut peers = Peers { stepping: None, bindings: &self.waiting, inbox: &mut self.inbox };
        let for_host = effects::carry_out_each(context, &mut peers, pod, effects).for_host;
        self.go_on(context);
        for_host
    }

    /// Passes waiting messages to plugins, and carries out the effects of plugins whose Unreserve is called late.
    pub(crate) fn deliver_messages(&mut self, context: &mut Context) {
        let late = context.deliver_messages();
        if late.is_empty() {
            return;
        }
        for LateEffects { cycle, pod, plugin, effects } in late {
            // If the pod was bound in the meantime, it may need what the plugins wrote for it.
            if context.cache().pod(&pod.uid).is_some_and(|pod| !pod.is_assumed()) {
                continue;
            }
            let mut peers = Peers { stepping: None, bindings: &self.waiting, inbox: &mut self.inbox };
            let effects = effects.into_iter().map(|effect| (plugin, effect)).collect();
            effects::undo(context, &mut peers, &pod, cycle, effects);
        }
        self.go_on(context);
    }

    /// Informs a new instance of a plugin about every pod between Reserve and PostBind.
    pub(crate) fn announce(&mut self, scheduler_name: Sym, plugin: PluginIdx, context: &mut Context) {
        let served = self.waiting.values().filter(|binding| binding.pod().scheduler_name == scheduler_name);
        let pods = served.map(Binding::uid).cloned().collect();
        self.announcements.begin(scheduler_name, context.plugin_name(scheduler_name, plugin), pods);
        self.go_on_announcing(context);
    }

    /// Informs new instances about the pods for which the instances had no time before.
    pub(crate) fn go_on_announcing(&mut self, context: &mut Context) {
        self.announcements.go_on(&self.waiting, context);
    }

    /// The profiles whose pods may not be tried.
    pub(crate) fn held_profiles(&self) -> HeldProfiles<'_> {
        HeldProfiles { full: &self.sent.full, uninformed: self.announcements.uninformed() }
    }

    /// Handles the replacement of a plugin. If the new plugin does not implement Permit, the pods that the old plugin
    /// held continue. If the new plugin is out of service, these pods are rejected and wait for the plugin as other
    /// pods do. Returns the number of pods that continue.
    pub(crate) fn release_from_permit(
        &mut self,
        scheduler_name: Sym,
        plugin: PluginIdx,
        context: &mut Context,
    ) -> usize {
        let Some(profile) = context.profile_mut(scheduler_name) else { return 0 };
        let name = Arc::clone(profile.name(plugin));
        let out_of_service = profile.get(plugin).and_then(|plugin| plugin.out_of_service());
        if out_of_service.is_none() && profile.plugins.at(Point::Permit).contains(&plugin) {
            return 0;
        }
        let is_held = |binding: &&Binding| {
            let waits = if let Stage::Permit(waits) = &binding.stage { waits.holds(&name) } else { false };
            waits && binding.pod().scheduler_name == scheduler_name
        };
        let held = self.waiting.values().filter(is_held);
        let mut held: Vec<PodAttempt> = held.map(Binding::attempt).collect();
        held.sort_unstable();
        let n_released = if out_of_service.is_none() { held.len() } else { 0 };
        if n_released > 0 {
            // No plugin decided about these pods, so they may exceed a limit that the plugin keeps.
            let pods = if n_released == 1 { "pod goes" } else { "pods go" };
            let message =
                format!("plugin {name} no longer holds pods at Permit: {n_released} {pods} on without its answer");
            context.log_of(&name, Level::Info, message);
        }
        for attempt in held {
            let plugin = Arc::clone(&name);
            let input = match &out_of_service {
                Some(status) => Input::Rejected { plugin, reason: status.message() },
                None => Input::Allowed { plugin },
            };
            self.inbox.push(attempt, input);
        }
        self.go_on(context);
        n_released
    }

    /// Handles a change of the PreBind plugins of this profile. A pod in the middle of PreBind continues after the last
    /// plugin that is done with the pod, wherever this plugin stands in the new order.
    pub(crate) fn reorder_pre_bind(&mut self, scheduler_name: Sym, before: &[PluginIdx], after: &[PluginIdx]) {
        if before == after {
            return;
        }
        for binding in self.waiting.values_mut().filter(|binding| binding.pod().scheduler_name == scheduler_name) {
            if let Stage::PreBind(group) = &mut binding.stage {
                let done = before.get(..group.next).unwrap_or(before);
                group.next = after.iter().rposition(|plugin| done.contains(plugin)).map_or(0, |last| last + 1);
            }
        }
    }

    /// Replaces the positions of this profile's plugins in all pods. `places` contains the new positions.
    pub(crate) fn move_plugins(&mut self, scheduler_name: Sym, places: &[PluginIdx]) {
        for binding in self.waiting.values_mut().filter(|binding| binding.pod().scheduler_name == scheduler_name) {
            let place = |plugin: PluginIdx| places.get(plugin.index()).copied().unwrap_or(PluginIdx::NOBODY);
            binding.pre_flights.move_plugins(place);
            if let Some(question) = &mut binding.question {
                question.move_plugins(place);
            }
            match &mut binding.stage {
                Stage::PreBind(group) => group.move_plugins(place),
                Stage::BindEffects { plugin, .. } | Stage::BindRequest { plugin } => *plugin = place(*plugin),
                Stage::Permit(_) | Stage::ExtenderBind { .. } | Stage::Shutdown => {}
            }
        }
    }

    /// Forgets the positions of extenders, because the extenders changed. An extender that is binding a pod still
    /// decides whether the pod is bound. If this extender fails, no other extender is asked.
    pub(crate) fn forget_extenders(&mut self) {
        for binding in self.waiting.values_mut() {
            if let Stage::ExtenderBind { extender } = &mut binding.stage {
                *extender = ExtenderIdx(usize::MAX);
            }
        }
    }

    fn step(&mut self, uid: &PodUid, input: Input, context: &mut Context) {
        if let Some(binding) = self.take(uid) {
            self.take_step(binding, context, |binding, context, _| binding.step(input, context));
        }
    }

    fn take_step(
        &mut self,
        binding: Binding,
        context: &mut Context,
        step: impl FnOnce(Binding, &mut Context, &mut Peers<'_>) -> Step,
    ) {
        let stepping = Some(binding.attempt());
        let mut peers = Peers { stepping, bindings: &self.waiting, inbox: &mut self.inbox };
        match step(binding, context, &mut peers) {
            Step::Waiting(binding) => self.put(binding),
            Step::Asks(binding, question) => self.put_ready(binding, question),
            Step::Bound(binding) => binding.finish(context),
            Step::Failed(binding, failure) => binding.give_back(failure, context, &mut peers),
            Step::Deleted(binding) => binding.abandon(context, &mut peers),
            Step::BoundByOther(binding) => binding.release(context),
        }
    }

    fn pods(&mut self, which: Ready) -> &mut ReadyPods {
        match which {
            Ready::Released => &mut self.released,
            Ready::Others => &mut self.ready,
        }
    }

    fn put_ready(&mut self, mut binding: Binding, question: Question) {
        match &mut binding.question {
            Some(earlier) => earlier.join(question),
            None => {
                let which = if question.is_of_released() { Ready::Released } else { Ready::Others };
                self.pods(which).push(binding.pod().scheduler_name, binding.attempt());
                binding.question = Some(question);
            }
        }
        self.put(binding);
    }

    fn put(&mut self, binding: Binding) {
        let uid = binding.uid();
        self.changed.note(uid);
        self.deadlines.extend(binding.deadlines().into_iter().map(|deadline| (deadline, uid.clone())));
        for object in binding.object_waits().flat_map(|wait| &wait.objects) {
            self.watchers.entry(object.clone()).or_default().insert(uid.clone());
        }
        if binding.is_sent() {
            self.n_held_sent += usize::from(binding.was_held);
            self.sent.add(binding.pod().scheduler_name);
        }
        let earlier = self.waiting.insert(uid.clone(), binding);
        debug_assert!(earlier.is_none(), "a pod has one attempt at a time");
    }

    fn take(&mut self, uid: &PodUid) -> Option<Binding> {
        let binding = self.waiting.remove(uid)?;
        self.changed.note(uid);
        if binding.is_sent() {
            self.n_held_sent -= usize::from(binding.was_held);
            self.sent.remove(binding.pod().scheduler_name);
        }
        for deadline in binding.deadlines() {
            self.deadlines.remove(&(deadline, uid.clone()));
        }
        for object in binding.object_waits().flat_map(|wait| &wait.objects) {
            if let Some(uids) = self.watchers.get_mut(object) {
                uids.remove(uid);
                if uids.is_empty() {
                    self.watchers.remove(object);
                }
            }
        }
        let is_indexed = !self.deadlines.is_empty() || !self.watchers.is_empty();
        debug_assert!(!self.waiting.is_empty() || !is_indexed, "an index names a pod that is not waiting");
        Some(binding)
    }
}
