//! What a plugin asked for: checked against its grants, done here if it concerns the scheduler, else left to the host.

use std::{collections::BTreeMap, slice, sync::Arc};

use berth_framework::{CycleId, Effect, EffectKind, PluginIdx, Status};
use berth_model::{Pod, PodUid};

use super::{
    granted::{CyclePod, RefusedEffect},
    peers::Peers,
};
use crate::{
    action::{Level, Notice, PluginEffects},
    context::{Context, PodEvent},
};

/// Whose effects they are.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) pod: &'a Arc<Pod>,
    pub(crate) cycle: CycleId,
    pub(crate) plugin: PluginIdx,
}

impl Origin<'_> {
    /// The effects as the host gets them.
    pub(crate) fn request(&self, context: &Context, effects: Vec<Effect>) -> PluginEffects {
        let scheduler_name = self.pod.scheduler_name;
        PluginEffects {
            cycle: self.cycle,
            scheduler_name: context.text(scheduler_name).to_owned(),
            plugin: context.plugin_name(scheduler_name, self.plugin),
            binary: context.plugin_binary(scheduler_name, self.plugin),
            effects,
        }
    }
}

/// Does what the scheduler itself can do; gives back what the host must.
///
/// # Errors
/// One of the effects was not granted; none was carried out.
pub(crate) fn carry_out(
    context: &mut Context,
    peers: &mut Peers<'_>,
    origin: Origin<'_>,
    effects: Vec<Effect>,
) -> Result<Vec<Effect>, Status> {
    check_grants(context, origin, &effects)?;
    let plugin = context.plugin_name(origin.pod.scheduler_name, origin.plugin);
    let mut for_host = Vec::new();
    for effect in effects {
        for_host.extend(carry_out_one(context, peers, origin.pod, &plugin, effect));
    }
    Ok(for_host)
}

/// The same for the effects of several plugins, each effect granted or refused by itself: what the host must do, by
/// plugin.
pub(crate) fn carry_out_each(
    context: &mut Context,
    peers: &mut Peers<'_>,
    (pod, cycle): (&Arc<Pod>, CycleId),
    effects: Vec<(PluginIdx, Effect)>,
) -> Vec<(PluginIdx, Vec<Effect>)> {
    let mut for_host: Vec<(PluginIdx, Vec<Effect>)> = Vec::new();
    let mut refused: BTreeMap<(PluginIdx, EffectKind), (RefusedEffect, u32)> = BTreeMap::new();
    for (plugin, effect) in effects {
        let origin = Origin { pod, cycle, plugin };
        if let Some(one) = first_refused(context, origin, slice::from_ref(&effect)) {
            refused.entry((plugin, one.kind())).or_insert((one, 0)).1 += 1;
            continue;
        }
        let name = context.plugin_name(pod.scheduler_name, plugin);
        let Some(effect) = carry_out_one(context, peers, pod, &name, effect) else { continue };
        match for_host.last_mut() {
            Some((last, effects)) if *last == plugin => effects.push(effect),
            Some(_) | None => for_host.push((plugin, vec![effect])),
        }
    }
    for ((plugin, _), (one, count)) in refused {
        report_refusal(context, Origin { pod, cycle, plugin }, &one, count);
    }
    for_host
}

/// # Errors
/// Which effect the operator did not grant; it is reported as well.
pub(crate) fn check_grants(context: &mut Context, origin: Origin<'_>, effects: &[Effect]) -> Result<(), Status> {
    let Some(refused) = first_refused(context, origin, effects) else { return Ok(()) };
    let message = report_refusal(context, origin, &refused, 1);
    Err(Status::error(message))
}

/// The first effect that the plugin was not granted.
fn first_refused(context: &Context, origin: Origin<'_>, effects: &[Effect]) -> Option<RefusedEffect> {
    let profile = context.profiles.get(origin.pod.scheduler_name);
    let instance = profile.and_then(|profile| profile.instances().get(origin.plugin.index()));
    let grants = instance.map(|instance| instance.grants.clone()).unwrap_or_default();
    CyclePod::new(origin.pod, context.cache.table()).first_refused(&grants, effects)
}

/// Gives back what the notice says.
fn report_refusal(context: &mut Context, origin: Origin<'_>, refused: &RefusedEffect, count: u32) -> String {
    let plugin = context.plugin_name(origin.pod.scheduler_name, origin.plugin);
    let pod = context.pod_ref(origin.pod);
    let (effect, message) = (refused.kind(), refused.message(&plugin));
    context.outbox.notice(Notice::EffectRefused { pod, plugin, effect, count, message: message.clone() });
    message
}

fn carry_out_one(
    context: &mut Context,
    peers: &mut Peers<'_>,
    pod: &Arc<Pod>,
    plugin: &Arc<str>,
    effect: Effect,
) -> Option<Effect> {
    match effect {
        Effect::Allow { uid } => peers.allow(uid, plugin),
        Effect::Reject { uid, reason } => peers.reject(uid, plugin, reason),
        Effect::Activate { uids } => {
            let uids: Vec<PodUid> = uids.into_iter().map(PodUid::from).collect();
            let now = context.outbox.now();
            context.with_queue(|queue, policy| queue.activate(&uids, now, policy));
        }
        Effect::Nominate { uid, node } => nominate(context, peers, &uid, node.unwrap_or_default()),
        Effect::Event { warning, reason, action, note } => {
            context.pod_event(pod, PodEvent { warning, reason: reason.into(), action: action.into() }, note);
        }
        Effect::Evict { uid, .. } if peers.preempt(&uid, pod, plugin) => {}
        Effect::Bind => {
            context.outbox.log(Level::Warn, format!("plugin {plugin} asked to bind outside Bind"));
        }
        effect @ (Effect::Patch { .. }
        | Effect::Create { .. }
        | Effect::Delete { .. }
        | Effect::Evict { .. }
        | Effect::Wait { .. }) => return Some(effect),
    }
    None
}

/// Nothing happens if the pod is not pending any more, or no such node has been heard of: a name that a plugin made up is
/// not kept.
fn nominate(context: &mut Context, peers: &Peers<'_>, uid: &str, node: String) {
    let Some(pod) = context.pending_pods.get(uid).map(|pending| Arc::clone(&pending.pod)) else { return };
    let Some(name) = context.cache.symbols_mut().lookup(&node) else {
        context.outbox.log(Level::Warn, format!("a plugin nominated node {node:?}, which there is not"));
        return;
    };
    if !peers.is_binding(uid) {
        context.queue.nominator_mut().set(&pod, name);
    }
    context.patch_status(&pod, None, Some(node));
}
