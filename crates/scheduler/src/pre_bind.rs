//! PreBind: plugin after plugin, what each wants done, and waiting until the cluster has answered.
//!
//! A plugin that returns [`Effect::Wait`] is asked again whenever one of the objects that it named has changed, until
//! it has nothing more to ask for or its time is over.

use berth_model::{ObjectKey, PodUid, Time};
use std::{collections::BTreeSet, sync::Arc};

use berth_framework::{
    CycleId, Effect, ObjectRef, PluginIdx, Point, Profile, Status,
    run::{self, PreBindRun},
};
use rustc_hash::FxHashMap;

use crate::{
    action::Level,
    binding::{Setback, Stage},
    scheduler::{Phase, Scheduler},
};

/// What a PreBind plugin waits for.
#[derive(Debug)]
pub(crate) struct Awaited {
    objects: Vec<ObjectKey>,
    deadline: Time,
    timeout_message: String,
    /// One of the objects changed while the plugin's effects were being carried out.
    has_changed: bool,
}

/// Who waits for which object.
#[derive(Debug, Default)]
pub(crate) struct Watchers(FxHashMap<ObjectKey, BTreeSet<PodUid>>);

impl Watchers {
    fn add(&mut self, uid: &PodUid, awaited: &Awaited) {
        for object in &awaited.objects {
            self.0.entry(object.clone()).or_default().insert(uid.clone());
        }
    }

    fn remove(&mut self, uid: &str, awaited: &Awaited) {
        for object in &awaited.objects {
            if let Some(uids) = self.0.get_mut(object) {
                uids.remove(uid);
                if uids.is_empty() {
                    self.0.remove(object);
                }
            }
        }
    }
}

/// `apiVersion/kind` taken apart.
fn key(object: ObjectRef) -> ObjectKey {
    let (api_version, kind) = object.kind.rsplit_once('/').unwrap_or(("", &object.kind));
    let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
    ObjectKey { api_version, kind, namespace: object.namespace, name: object.name }
}

impl Scheduler {
    /// Runs PreBind plugins from position `from` on, then Bind, as far as nobody has to be waited for.
    pub(crate) fn pre_bind(&mut self, uid: &str, from: usize, now: Time) {
        let mut from = from;
        loop {
            let Some(mut binding) = self.bindings.remove(uid) else { return };
            // A plugin may have gone out of service since the pod's cycle; the next one begins with waiting for it.
            let absent = self.profiles.get(binding.pod().scheduler_name).and_then(Profile::out_of_service);
            if let Some((_, status)) = absent {
                return self.fall_back(binding, Setback::Failed(Status::error(status.message())), now);
            }
            let run = self.call(&binding, |profile, call, row| run::pre_bind(profile, call, row, from));
            let (plugin, effects, next) = match run.unwrap_or(Ok(PreBindRun::Done)) {
                Err(refusal) => return self.fall_back(binding, Setback::Failed(refusal.status), now),
                Ok(PreBindRun::Done) => return self.bind(binding, now),
                Ok(PreBindRun::Effects { plugin, effects, next }) => (plugin, effects, next),
            };
            binding.stage = Stage::PreBinding { next, awaited: None };
            let (pod, cycle, node) = (Arc::clone(binding.pod()), binding.cycle, binding.node);
            self.bindings.insert(pod.uid.clone(), binding);
            let mut effects = match self.perform_own(&pod, plugin, effects, now) {
                Ok(effects) => effects,
                Err(status) => return self.fail_binding(uid, status, now),
            };
            let waits = self.take_wait(uid, plugin, &mut effects, now);
            if !effects.is_empty() {
                self.publish_expectation(&pod, node);
                let action = self.awaited_effects(&pod, cycle, plugin, effects);
                return self.actions.push(action);
            }
            if waits {
                self.publish_expectation(&pod, node);
                return self.watch(uid, now);
            }
            from = next;
        }
    }

    /// Moves the wait out of `effects` into the binding; whether there was one. What comes after it is dropped.
    fn take_wait(&mut self, uid: &str, plugin: PluginIdx, effects: &mut Vec<Effect>, now: Time) -> bool {
        let is_wait = |effect: &Effect| matches!(effect, Effect::Wait { .. });
        let Some(position) = effects.iter().position(is_wait) else { return false };
        let mut rest = effects.split_off(position).into_iter();
        let Some(Effect::Wait { objects, timeout_ms, timeout_message }) = rest.next() else { return false };
        let n_dropped = rest.len();
        let Some(binding) = self.bindings.get_mut(uid) else { return false };
        let Stage::PreBinding { next, awaited } = &mut binding.stage else { return false };
        // Asking again does not win more time.
        let first_deadline = binding.pre_bind_deadline.filter(|(at, _)| at == next).map(|(_, deadline)| deadline);
        let deadline = first_deadline.unwrap_or(now + timeout_ms).min(now + timeout_ms);
        binding.pre_bind_deadline = Some((*next, deadline));
        let objects = objects.into_iter().map(key).collect();
        let wait = Awaited { objects, deadline, timeout_message, has_changed: false };
        self.watchers.add(&binding.record.pod.uid, &wait);
        self.deadlines.insert((deadline, binding.record.pod.uid.clone()));
        *awaited = Some(wait);
        let scheduler_name = binding.pod().scheduler_name;
        if n_dropped > 0 {
            let name = self.plugin_name(scheduler_name, plugin);
            self.log(Level::Warn, format!("plugin {name} asked for {n_dropped} effects after a wait: dropped"));
        }
        true
    }

    /// The effects before the wait are done: waits, unless something has happened already.
    fn watch(&mut self, uid: &str, now: Time) {
        let Some(binding) = self.bindings.get_mut(uid) else { return };
        let Stage::PreBinding { next, awaited } = &mut binding.stage else { return };
        let Some(awaited) = awaited.take() else { return };
        let (next, has_changed) = (*next, awaited.has_changed);
        binding.stage = Stage::Watching { next, awaited };
        if has_changed {
            self.ask_again(uid, now);
        }
    }

    /// An object changed that a pod may wait for.
    pub(crate) fn wake_watchers(&mut self, object: &ObjectKey, now: Time) {
        let Some(uids) = self.watchers.0.get(object) else { return };
        for uid in uids.clone() {
            match self.bindings.get_mut(&uid).map(|binding| &mut binding.stage) {
                Some(Stage::PreBinding { awaited: Some(awaited), .. }) => awaited.has_changed = true,
                Some(Stage::Watching { .. }) => self.ask_again(&uid, now),
                Some(Stage::Waiting(_) | Stage::PreBinding { .. } | Stage::Sent { .. }) | None => {}
            }
        }
    }

    /// Asks the plugin that waits again, its replica caught up.
    fn ask_again(&mut self, uid: &str, now: Time) {
        if self.phase == Phase::ShuttingDown {
            return;
        }
        let Some(binding) = self.bindings.get_mut(uid) else { return };
        let Stage::Watching { next, .. } = binding.stage else { return };
        let stage = std::mem::replace(&mut binding.stage, Stage::PreBinding { next, awaited: None });
        let scheduler_name = binding.pod().scheduler_name;
        self.stop_watching(uid, &stage);
        let synced = self.profiles.get_mut(scheduler_name).map(|profile| profile.sync(&self.cache));
        if let Some(Err((plugin, status))) = synced {
            let name = self.plugin_name(scheduler_name, plugin);
            let status = Status::error(format!("syncing plugin \"{name}\": {}", status.message()));
            return self.fail_binding(uid, status, now);
        }
        self.pre_bind(uid, next.saturating_sub(1), now);
    }

    /// Nothing of what the pod waited for concerns it any more.
    pub(crate) fn stop_watching(&mut self, uid: &str, stage: &Stage) {
        let awaited = match stage {
            Stage::PreBinding { awaited: Some(awaited), .. } | Stage::Watching { awaited, .. } => awaited,
            Stage::Waiting(_) | Stage::PreBinding { awaited: None, .. } | Stage::Sent { .. } => return,
        };
        self.watchers.remove(uid, awaited);
        self.deadlines.remove(&(awaited.deadline, PodUid::from(uid)));
    }

    /// The deadline of a pod has passed: if a PreBind plugin waits, or what it waits for is not even asked for yet, the
    /// attempt fails.
    pub(crate) fn end_watch(&mut self, uid: &str, now: Time) {
        let Some(binding) = self.bindings.get(uid) else { return };
        let (next, awaited) = match &binding.stage {
            Stage::PreBinding { next, awaited: Some(awaited) } | Stage::Watching { next, awaited } => (*next, awaited),
            Stage::Waiting(_) | Stage::PreBinding { awaited: None, .. } | Stage::Sent { .. } => return,
        };
        if awaited.deadline <= now {
            let text = awaited.timeout_message.clone();
            self.pre_bind_failed(uid, next, &text, now);
        }
    }

    fn pre_bind_failed(&mut self, uid: &str, next: usize, text: &str, now: Time) {
        let Some(binding) = self.bindings.get(uid) else { return };
        let plugins = |profile: &Profile| profile.plugins.at(Point::PreBind).get(next.wrapping_sub(1)).copied();
        let scheduler_name = binding.pod().scheduler_name;
        let plugin = self.profiles.get(scheduler_name).and_then(plugins).unwrap_or(PluginIdx::NOBODY);
        let name = self.plugin_name(scheduler_name, plugin);
        self.fail_binding(uid, Status::error(format!("running PreBind plugin \"{name}\": {text}")), now);
    }

    pub(crate) fn effects_finished(&mut self, cycle: CycleId, uid: &str, result: Result<(), String>, now: Time) {
        let Some(binding) = self.bindings.get(uid).filter(|binding| binding.cycle == cycle) else {
            return self.preemption_finished(cycle, uid, &result, now);
        };
        match (&binding.stage, result) {
            (Stage::Waiting(_) | Stage::Watching { .. }, _) => {}
            (Stage::Sent { .. }, result) => self.bind_effects_finished(cycle, uid, result, now),
            (Stage::PreBinding { awaited: Some(_), .. }, Ok(())) => self.watch(uid, now),
            (&Stage::PreBinding { next, awaited: None }, Ok(())) => self.pre_bind(uid, next, now),
            (&Stage::PreBinding { next, .. }, Err(text)) => self.pre_bind_failed(uid, next, &text, now),
        }
    }
}
