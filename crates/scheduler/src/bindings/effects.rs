//! The effects that a plugin asked for. They are checked against the plugin's grants. This module carries out effects
//! on the scheduler, and the host carries out all other effects.

use std::{collections::BTreeMap, slice, sync::Arc};

use berth_framework::{CycleId, Effect, EffectKind, Grants, Permission, PluginIdx, Point, Status};
use berth_model::{Pod, PodUid};

use super::{
    granted::{CyclePod, RefusedEffect},
    peers::Peers,
};
use crate::{
    action::{Notice, PluginEffects, Request},
    context::{Context, PodEvent},
    effect_bytes::{MAX_BYTES, bytes_of},
};

/// The pod, cycle and plugin from which effects come.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) pod: &'a Arc<Pod>,
    pub(crate) cycle: CycleId,
    /// The extension point at which the plugin was asked. Reserve stands for Unreserve, since Reserve has no effects.
    pub(crate) point: Point,
    pub(crate) plugin: PluginIdx,
}

impl Origin<'_> {
    /// The request to the host for these effects, which were granted.
    pub(crate) fn request(&self, context: &mut Context, effects: Vec<Effect>) -> PluginEffects {
        let scheduler_name = self.pod.scheduler_name;
        let plugin = context.plugin_name(scheduler_name, self.plugin);
        let held = context.hold_bytes(&plugin, effects.iter().map(bytes_of).sum());
        PluginEffects {
            cycle: self.cycle,
            point: self.point,
            scheduler_name: context.text(scheduler_name).to_owned(),
            plugin,
            binary: context.plugin_binary(scheduler_name, self.plugin),
            effects: CyclePod::new(self.pod, context.table()).with_uids(effects),
            held,
        }
    }
}

/// Carries out the effects on the scheduler, and returns the effects that the host must carry out.
///
/// # Errors
/// One of the effects was not granted, or too many effects wait already. No effect was carried out.
pub(crate) fn carry_out(
    context: &mut Context,
    peers: &mut Peers<'_>,
    origin: Origin<'_>,
    effects: Vec<Effect>,
) -> Result<Vec<Effect>, Status> {
    check_grants(context, origin, &effects)?;
    check_room(context, origin, &effects)?;
    let Origin { pod, plugin, .. } = origin;
    context.count_written_share(pod, &effects);
    let name = context.plugin_name(pod.scheduler_name, plugin);
    let (mut for_host, mut refused) = (Vec::new(), Refusals::default());
    for effect in effects {
        match carry_out_one(context, peers, pod, &name, effect) {
            Ok(effect) => for_host.extend(effect),
            Err(refusal) => refused.add(plugin, refusal),
        }
    }
    refused.report(context, pod);
    Ok(for_host)
}

/// The outcome of the effects of several plugins.
pub(crate) struct CarriedOut {
    /// The effects that the host must carry out.
    pub(crate) for_host: Vec<(PluginIdx, Vec<Effect>)>,
    /// The texts of the refusals that were reported.
    pub(crate) refused: Vec<(PluginIdx, String)>,
}

/// Carries out the effects of several plugins. Each effect is granted or refused by itself.
pub(crate) fn carry_out_each(
    context: &mut Context,
    peers: &mut Peers<'_>,
    pod: &Arc<Pod>,
    effects: Vec<(PluginIdx, Effect)>,
) -> CarriedOut {
    let mut for_host: Vec<(PluginIdx, Vec<Effect>)> = Vec::new();
    if effects.is_empty() {
        return CarriedOut { for_host, refused: Vec::new() };
    }
    let mut refused = Refusals::default();
    let asked = CyclePod::new(pod, context.table());
    let verdict_on = |(plugin, effect): &(PluginIdx, Effect)| {
        asked.first_refused(&grants(context, pod, *plugin), slice::from_ref(effect))
    };
    let verdicts: Vec<Option<RefusedEffect>> = effects.iter().map(verdict_on).collect();
    for ((plugin, effect), verdict) in effects.into_iter().zip(verdicts) {
        let name = context.plugin_name(pod.scheduler_name, plugin);
        if let Some(one) = verdict {
            let message = one.message(&name);
            if let Effect::Allow { uid } | Effect::Reject { uid, .. } = &effect {
                peers.refused(uid, &name, &message);
            }
            refused.add(plugin, Refusal { effect: one.kind(), message });
            continue;
        }
        if let Some(refusal) = lacks_room(context, &name, slice::from_ref(&effect)) {
            refused.add(plugin, refusal);
            continue;
        }
        match carry_out_one(context, peers, pod, &name, effect) {
            Err(refusal) => refused.add(plugin, refusal),
            Ok(None) => {}
            Ok(Some(effect)) => match for_host.last_mut() {
                Some((last, effects)) if *last == plugin => effects.push(effect),
                Some(_) | None => for_host.push((plugin, vec![effect])),
            },
        }
    }
    let messages = refused.messages();
    // The attempt continues, or has failed for another reason, so no condition contains the messages.
    for (_, message) in &messages {
        context.pod_event(pod, PodEvent::EFFECT_REFUSED, message.clone());
    }
    refused.report(context, pod);
    CarriedOut { for_host, refused: messages }
}

/// Carries out the effects of plugins at Unreserve. Each effect is granted or refused by itself. No pod waits for the
/// effects.
pub(super) fn undo(
    context: &mut Context,
    peers: &mut Peers<'_>,
    pod: &Arc<Pod>,
    cycle: CycleId,
    effects: Vec<(PluginIdx, Effect)>,
) {
    for (plugin, effects) in carry_out_each(context, peers, pod, effects).for_host {
        let request = Origin { pod, cycle, point: Point::Reserve, plugin }.request(context, effects);
        context.request(pod, Request::Effects(request));
    }
}

/// A refused effect. The effect was not granted, or is invalid.
struct Refusal {
    effect: EffectKind,
    /// The text for the pod and its user.
    message: String,
}

/// The refused effects of one answer. A plugin may ask for the same effect a thousand times, so each kind of effect is
/// reported once, with the first message and the number of refusals.
#[derive(Default)]
struct Refusals(BTreeMap<(PluginIdx, EffectKind), (String, u32)>);

impl Refusals {
    fn add(&mut self, plugin: PluginIdx, Refusal { effect, message }: Refusal) {
        self.0.entry((plugin, effect)).or_insert((message, 0)).1 += 1;
    }

    fn messages(&self) -> Vec<(PluginIdx, String)> {
        self.0.iter().map(|((plugin, _), (message, _))| (*plugin, message.clone())).collect()
    }

    fn report(self, context: &mut Context, pod: &Pod) {
        for ((plugin, effect), (message, count)) in self.0 {
            let (plugin, pod) = (context.plugin_name(pod.scheduler_name, plugin), context.pod_ref(pod));
            context.notice(Notice::EffectRefused { pod, plugin, effect, count, message });
        }
    }
}

/// # Errors
/// The operator did not grant the effect that the error names. The refusal is reported as well.
pub(crate) fn check_grants(context: &mut Context, origin: Origin<'_>, effects: &[Effect]) -> Result<(), Status> {
    let asked = CyclePod::new(origin.pod, context.table());
    let Some(refused) = asked.first_refused(&grants(context, origin.pod, origin.plugin), effects) else {
        return Ok(());
    };
    let message = refused.message(&context.plugin_name(origin.pod.scheduler_name, origin.plugin));
    let mut refusals = Refusals::default();
    refusals.add(origin.plugin, Refusal { effect: refused.kind(), message: message.clone() });
    refusals.report(context, origin.pod);
    Err(Status::error(message))
}

/// # Errors
/// Too many effects wait to be carried out already. The refusal is reported as well.
fn check_room(context: &mut Context, origin: Origin<'_>, effects: &[Effect]) -> Result<(), Status> {
    let name = context.plugin_name(origin.pod.scheduler_name, origin.plugin);
    let Some(refusal) = lacks_room(context, &name, effects) else { return Ok(()) };
    let status = Status::error(refusal.message.clone());
    let mut refusals = Refusals::default();
    refusals.add(origin.plugin, refusal);
    refusals.report(context, origin.pod);
    Err(status)
}

/// The refusal of these effects, if more effects would wait than the limit allows.
fn lacks_room(context: &Context, plugin: &str, effects: &[Effect]) -> Option<Refusal> {
    let bytes = effects.iter().map(bytes_of).sum();
    if context.has_room_for_bytes(plugin, bytes) {
        return None;
    }
    let effect = effects.iter().find(|effect| bytes_of(effect) > 0)?.demand().kind();
    let message = format!(
        "plugin \"{plugin}\" asked for {bytes} bytes of changes or waits: together with its changes and waits in \
         progress, they exceed the limit of {MAX_BYTES} bytes"
    );
    Some(Refusal { effect, message })
}

/// The grants of the plugin.
fn grants(context: &Context, pod: &Pod, plugin: PluginIdx) -> Grants {
    let profile = context.profile(pod.scheduler_name);
    let instance = profile.and_then(|profile| profile.instances().get(plugin.index()));
    instance.map(|instance| instance.grants.clone()).unwrap_or_default()
}

/// Carries out an effect on the scheduler, or returns an effect that the host must carry out.
fn carry_out_one(
    context: &mut Context,
    peers: &mut Peers<'_>,
    pod: &Arc<Pod>,
    plugin: &Arc<str>,
    effect: Effect,
) -> Result<Option<Effect>, Refusal> {
    match effect {
        Effect::Allow { uid } => peers.allow(&uid, plugin),
        Effect::Reject { uid, reason } => peers.reject(&uid, plugin, reason),
        Effect::Activate { uids } => {
            let uids: Vec<PodUid> = uids.into_iter().map(PodUid::from).collect();
            let now = context.now();
            context.with_queue(|queue, policy| queue.activate(&uids, now, policy));
        }
        Effect::Nominate { uid, node } => nominate(context, peers, plugin, &uid, node.unwrap_or_default())?,
        Effect::Event { warning, reason, action, note } => {
            context.pod_event(pod, PodEvent { warning, reason: reason.into(), action: action.into() }, note);
        }
        Effect::Evict { uid, .. } if peers.preempt(&uid, pod, plugin) => {}
        Effect::Bind => {
            let message = format!("plugin \"{plugin}\" asked for the effect bind outside of the extension point Bind");
            return Err(Refusal { effect: EffectKind::Named(Permission::Bind), message });
        }
        effect @ (Effect::Patch { .. }
        | Effect::Create { .. }
        | Effect::Delete { .. }
        | Effect::Evict { .. }
        | Effect::Wait { .. }) => return Ok(Some(effect)),
    }
    Ok(None)
}

/// Nominates a pod to a node. A pod that is no longer pending is ignored.
///
/// # Errors
/// The scheduler knows no such node. A name that a plugin made up is not interned.
fn nominate(context: &mut Context, peers: &Peers<'_>, plugin: &str, uid: &str, node: String) -> Result<(), Refusal> {
    let Some(pod) = context.pending_pod(uid).map(|pending| Arc::clone(&pending.pod)) else { return Ok(()) };
    let Some(name) = context.symbols_mut().lookup(&node) else {
        let message = format!("plugin \"{plugin}\" asked to nominate the unknown node {node:?}");
        return Err(Refusal { effect: EffectKind::Named(Permission::Nominate), message });
    };
    if !peers.is_binding(uid) {
        context.queue_mut().nominator_mut().set(&pod, name);
    }
    context.patch_status(&pod, None, None, Some(node));
    Ok(())
}
