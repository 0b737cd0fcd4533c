//! What plugins asked for: checked against their grants, done here if it concerns the scheduler, else handed on.

use std::sync::Arc;

use berth_framework::{CycleId, Effect, PluginIdx, Status};
use berth_model::{Pod, PodUid, Time};

use crate::{
    action::{Action, Level},
    permit::Resolution,
    scheduler::Scheduler,
};

impl Scheduler {
    /// Carries out the effects of several plugins; nobody waits for them.
    pub(crate) fn perform(&mut self, pod: &Arc<Pod>, cycle: CycleId, effects: Vec<(PluginIdx, Effect)>, now: Time) {
        for (plugin, effects) in self.perform_own_of_each(pod, effects, now) {
            let action = self.effects(pod, cycle, plugin, effects);
            self.actions.push(action);
        }
    }

    /// As [`Self::perform_own`], for several plugins: what others must do, by plugin.
    pub(crate) fn perform_own_of_each(
        &mut self,
        pod: &Arc<Pod>,
        effects: Vec<(PluginIdx, Effect)>,
        now: Time,
    ) -> Vec<(PluginIdx, Vec<Effect>)> {
        let mut for_others: Vec<(PluginIdx, Vec<Effect>)> = Vec::new();
        for (plugin, effect) in effects {
            for effect in self.perform_own(pod, plugin, vec![effect], now).unwrap_or_default() {
                match for_others.last_mut() {
                    Some((last, effects)) if *last == plugin => effects.push(effect),
                    Some(_) | None => for_others.push((plugin, vec![effect])),
                }
            }
        }
        for_others
    }

    pub(crate) fn effects(&self, pod: &Pod, cycle: CycleId, plugin: PluginIdx, effects: Vec<Effect>) -> Action {
        let (scheduler_name, plugin) =
            (self.text(pod.scheduler_name).to_owned(), self.plugin_name(pod.scheduler_name, plugin));
        Action::Effects { cycle, pod: self.pod_ref(pod), scheduler_name, plugin, effects }
    }

    pub(crate) fn awaited_effects(&self, pod: &Pod, cycle: CycleId, plugin: PluginIdx, effects: Vec<Effect>) -> Action {
        let (scheduler_name, plugin) =
            (self.text(pod.scheduler_name).to_owned(), self.plugin_name(pod.scheduler_name, plugin));
        Action::AwaitedEffects { cycle, pod: self.pod_ref(pod), scheduler_name, plugin, effects }
    }

    /// Does what the scheduler itself can do; gives back what others must.
    ///
    /// # Errors
    /// One of the effects was not granted; none was carried out.
    pub(crate) fn perform_own(
        &mut self,
        pod: &Arc<Pod>,
        plugin: PluginIdx,
        effects: Vec<Effect>,
        now: Time,
    ) -> Result<Vec<Effect>, Status> {
        self.check_grants(pod, plugin, &effects)?;
        let name = self.plugin_name(pod.scheduler_name, plugin);
        let mut for_others = Vec::new();
        for effect in effects {
            for_others.extend(self.perform_one(pod, &name, effect, now));
        }
        Ok(for_others)
    }

    /// # Errors
    /// Which effect the operator did not grant; it is reported as well.
    pub(crate) fn check_grants(&mut self, pod: &Pod, plugin: PluginIdx, effects: &[Effect]) -> Result<(), Status> {
        let instance = self.profiles.get(pod.scheduler_name).and_then(|it| it.instances().get(plugin.index()));
        let grants = instance.map(|instance| instance.grants).unwrap_or_default();
        let refused = effects.iter().map(Effect::permission).find(|permission| !grants.allows(*permission));
        let Some(permission) = refused else { return Ok(()) };
        let (pod, plugin) = (self.pod_ref(pod), self.plugin_name(pod.scheduler_name, plugin));
        let text = format!("plugin \"{plugin}\" asked for {}, which it was not granted", permission.as_str());
        self.actions.push(Action::EffectRefused { pod, plugin, permission });
        Err(Status::error(text))
    }

    fn perform_one(&mut self, pod: &Arc<Pod>, plugin: &Arc<str>, effect: Effect, now: Time) -> Option<Effect> {
        match effect {
            Effect::Allow { uid } => self.resolve_wait(&uid, Resolution::Allow { plugin }, now),
            Effect::Reject { uid, reason } => self.resolve_wait(&uid, Resolution::Reject { plugin, reason }, now),
            Effect::Activate { uids } => {
                let uids: Vec<PodUid> = uids.into_iter().map(PodUid::from).collect();
                self.with_queue(|queue, policy| queue.activate(&uids, now, policy));
            }
            Effect::Nominate { uid, node } => self.nominate(&uid, node.unwrap_or_default()),
            Effect::Event { warning, reason, action, note } => self.pod_event(pod, (warning, &reason, &action), note),
            Effect::Evict { uid, .. } if self.evict_in_memory(pod, plugin, &uid, now) => {}
            Effect::Bind => self.log(Level::Warn, format!("plugin {plugin} asked to bind outside Bind")),
            effect @ (Effect::Patch { .. }
            | Effect::Create { .. }
            | Effect::Delete { .. }
            | Effect::Evict { .. }
            | Effect::Wait { .. }) => return Some(effect),
        }
        None
    }

    fn nominate(&mut self, uid: &str, node: String) {
        let Some(pod) = self.pods.get(uid).map(|known| Arc::clone(&known.pod)) else { return };
        let name = self.cache.symbols_mut().intern(&node);
        if !self.bindings.contains_key(uid) {
            self.queue.nominator_mut().set(&pod, name);
        }
        self.patch_status(&pod, None, Some(node));
    }
}
