//! The points after a node was chosen: Reserve, Permit, Bind and PostBind, and PostFilter for a cycle that chose no
//! node. PreBind, which comes between Permit and Bind, is in `pre_bind.rs`.
//!
//! The functions only ask plugins. They carry out no effect. The effects that plugins ask for are returned, each with
//! the plugin that asked for it.

use berth_model::NodeIdx;

use super::{Diagnosis, Findings, NominatedPods, PostFilterRun, Refusal, dry_run::NodeDryRun, tell_pod_changed};
use crate::{
    effect::{Effect, Permission},
    extender::Extenders,
    meter::code_of,
    plugin::Point,
    points::{
        Bind, Call, Failure, Permit, PermitVerdict, PostBind, PostFilter, PostFilterOutcome, RejectedNodes, Reserve,
    },
    profile::{PluginIdx, Profile},
    status::{Code, Status},
};

/// The longest time for which a plugin may hold a pod, in milliseconds.
const MAX_PERMIT_WAIT: u64 = 15 * 60 * 1000;

/// The label of runs of Unreserve, which is part of Reserve's trait.
const UNRESERVE: &str = "Unreserve";

/// Informs the Reserve plugins, one after the other, that the pod is to be placed on `node`. The calls stop at the
/// first plugin that refuses.
///
/// # Errors
/// The plugin that refused or broke. The caller must then [`unreserve`].
pub fn reserve(profile: &mut Profile, call: &Call<'_>, node: NodeIdx) -> Result<(), Refusal> {
    let start = profile.meter().start(call.cycle);
    let outcome = ask_reserve(profile, call, node);
    profile.meter().end(start, Point::Reserve.as_str(), code_of_refusal(&outcome));
    outcome
}

fn ask_reserve(profile: &mut Profile, call: &Call<'_>, node: NodeIdx) -> Result<(), Refusal> {
    let mut plugins = profile.each::<dyn Reserve>();
    while let Some((plugin, point)) = plugins.next(profile) {
        let status = point.reserve(call, node);
        profile.meter().answered(plugin, Point::Reserve, status.code);
        if !status.is_success() {
            return Err(Refusal::new(profile, plugin, status, "Reserve"));
        }
    }
    Ok(())
}

/// Calls Unreserve of every Reserve plugin, last to first, because the pod is not placed on `node`. Returns the effects,
/// each with the plugin that asked for it. A plugin without time is called later ([`Profile::deliver_message`]).
pub fn unreserve(profile: &mut Profile, call: &Call<'_>, node: NodeIdx) -> Vec<(PluginIdx, Effect)> {
    let start = profile.meter().start(call.cycle);
    let mut effects = Vec::new();
    let mut plugins = profile.each::<dyn Reserve>();
    while let Some((plugin, _)) = plugins.next_back(profile) {
        let asked = profile.tell_unreserved(plugin, call, node);
        effects.extend(asked.into_iter().map(|effect| (plugin, effect)));
    }
    profile.meter().end(start, UNRESERVE, Code::Success);
    effects
}

/// The answers of the Permit plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermitRun {
    /// The plugins that hold the pod, each with its longest time in milliseconds. If the list is empty, the pod may
    /// proceed.
    pub waits: Vec<(PluginIdx, u64)>,
    /// The effects, each with the plugin that asked for it.
    pub effects: Vec<(PluginIdx, Effect)>,
}

/// Asks the Permit plugins, one after the other, until a plugin refuses.
///
/// # Errors
/// The plugin that refused or broke.
pub fn permit(profile: &mut Profile, call: &Call<'_>, node: NodeIdx) -> Result<PermitRun, Refusal> {
    let start = profile.meter().start(call.cycle);
    let outcome = ask_permit(profile, call, node);
    let code = match &outcome {
        Ok(run) if !run.waits.is_empty() => Code::Wait,
        Ok(_) | Err(_) => code_of_refusal(&outcome),
    };
    profile.meter().end(start, Point::Permit.as_str(), code);
    outcome
}

fn ask_permit(profile: &mut Profile, call: &Call<'_>, node: NodeIdx) -> Result<PermitRun, Refusal> {
    let mut run = PermitRun::default();
    let mut plugins = profile.each::<dyn Permit>();
    while let Some((plugin, point)) = plugins.next(profile) {
        let (verdict, effects) = point.permit(call, node);
        run.add(profile, plugin, verdict, effects)?;
    }
    Ok(run)
}

/// Asks a Permit plugin that holds the pod again. `call` contains the current pod. `is_changed` says that this pod
/// differs from the pod at the beginning of the cycle.
///
/// # Errors
/// The plugin refused or broke.
pub fn permit_again(
    profile: &mut Profile,
    call: &Call<'_>,
    node: NodeIdx,
    plugin: PluginIdx,
    is_changed: bool,
) -> Result<PermitRun, Refusal> {
    profile.meter().resume(call.cycle);
    let mut run = PermitRun::default();
    if is_changed {
        tell_pod_changed(profile, plugin, call, "Permit")?;
    }
    if let Some(point) = profile.get(plugin).and_then(|plugin| plugin.permit()) {
        let (verdict, effects) = point.permit(call, node);
        run.add(profile, plugin, verdict, effects)?;
    }
    Ok(run)
}

impl PermitRun {
    fn add(
        &mut self,
        profile: &mut Profile,
        plugin: PluginIdx,
        verdict: PermitVerdict,
        effects: Vec<Effect>,
    ) -> Result<(), Refusal> {
        let code = match &verdict {
            PermitVerdict::Allow => Code::Success,
            PermitVerdict::Wait(_) => Code::Wait,
            PermitVerdict::Deny(status) => status.code,
        };
        profile.meter().answered(plugin, Point::Permit, code);
        match verdict {
            PermitVerdict::Allow => {}
            PermitVerdict::Wait(timeout) => self.waits.push((plugin, timeout.min(MAX_PERMIT_WAIT))),
            PermitVerdict::Deny(status) => return Err(Refusal::new(profile, plugin, status, "Permit")),
        }
        self.effects.extend(effects.into_iter().map(|effect| (plugin, effect)));
        Ok(())
    }
}

/// The plugin that binds, and its effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRun {
    /// The plugin.
    pub plugin: PluginIdx,
    /// The effects; at least one.
    pub effects: Vec<Effect>,
}

/// Asks Bind plugins until a plugin takes the pod.
///
/// # Errors
/// The plugin that refused or broke, or an error because no plugin took the pod.
pub fn bind(profile: &mut Profile, call: &Call<'_>, node: NodeIdx) -> Result<BindRun, Refusal> {
    profile.meter().resume(call.cycle);
    let mut last = PluginIdx::NOBODY;
    let mut plugins = profile.each::<dyn Bind>();
    while let Some((plugin, point)) = plugins.next(profile) {
        last = plugin;
        let answer = point.bind(call, node);
        profile.meter().answered(plugin, Point::Bind, code_of(&answer));
        match answer {
            Ok(effects) if effects.is_empty() => {
                let status = Status::error("it neither binds nor skips");
                return Err(Refusal::new(profile, plugin, status, "Bind"));
            }
            Ok(effects) => return Ok(BindRun { plugin, effects }),
            Err(status) if status.code == Code::Skip => {}
            Err(status) => return Err(Refusal::new(profile, plugin, status, "Bind")),
        }
    }
    Err(Refusal { plugin: last, status: Status::error("no Bind plugin took the pod") })
}

/// Informs every PostBind plugin. A plugin without time is informed later.
pub fn post_bind(profile: &mut Profile, call: &Call<'_>, node: NodeIdx) {
    let start = profile.meter().start(call.cycle);
    let mut plugins = profile.each::<dyn PostBind>();
    while let Some((plugin, _)) = plugins.next(profile) {
        profile.tell_bound(plugin, call, node);
        profile.meter().answered(plugin, Point::PostBind, Code::Success);
    }
    profile.meter().end(start, Point::PostBind.as_str(), Code::Success);
}

/// Asks PostFilter plugins until one answers something other than `Unschedulable` or `Pending`, and writes the result
/// into [`Diagnosis::post_filter`]. `findings` are the findings of the cycle that found no node. The plugins may ask
/// `extenders`. Without a PostFilter plugin, the pod loses its nomination, because nothing can make room for it.
pub fn post_filter(
    profile: &mut Profile,
    call: &Call<'_>,
    findings: &Findings,
    nominated: &NominatedPods<'_>,
    extenders: Option<&dyn Extenders>,
    diagnosis: &mut Diagnosis,
) {
    let start = profile.meter().start(call.cycle);
    diagnosis.post_filter = ask_post_filter(profile, call, findings, nominated, extenders, diagnosis);
    blame_faulty_plugins(profile, diagnosis);
    if let Some(status) = &diagnosis.post_filter.status {
        profile.meter().end(start, Point::PostFilter.as_str(), status.code);
    }
}

fn ask_post_filter(
    profile: &mut Profile,
    call: &Call<'_>,
    findings: &Findings,
    nominated: &NominatedPods<'_>,
    extenders: Option<&dyn Extenders>,
    diagnosis: &mut Diagnosis,
) -> PostFilterRun {
    let mut run = PostFilterRun::default();
    if profile.plugins.at(Point::PostFilter).is_empty() {
        run.nominate = Some(None);
        return run;
    }
    let rejections = diagnosis.rejections.iter();
    let rejections: Vec<RejectedNodes> = rejections
        .map(|rejection| RejectedNodes { status: rejection.status.clone(), nodes: rejection.nodes.clone() })
        .collect();
    let all = nominated.all();
    let failure = Failure { rejections: &rejections, absent: diagnosis.absent.as_ref(), nominated: &all };
    let mut blind = Vec::new();
    let mut plugins = profile.each::<dyn PostFilter>();
    while let Some((plugin, _)) = plugins.next(profile) {
        let outcome = match profile.is_blind(plugin) {
            // The diagnosis already contains the reason of this plugin.
            Some(_) if diagnosis.rejectors.contains(plugin) => continue,
            Some(unable) => {
                blind.push(plugin);
                Some(Some(Err(Status::unschedulable(unable.message()))))
            }
            None => profile.without(plugin, |profile, plugin| {
                let skipped_filters = &findings.skipped_filters;
                let mut dry_run = NodeDryRun::new(profile, *call, skipped_filters, nominated, extenders);
                plugin.post_filter().map(|point| point.post_filter(call, &failure, &mut dry_run))
            }),
        };
        let Some(Some(outcome)) = outcome else { continue };
        let (status, nominate) = match outcome {
            Ok(mut outcome) => {
                reject_refused_evictions(profile, plugin, &mut outcome);
                run.effects.extend(outcome.effects.into_iter().map(|effect| (plugin, effect)));
                (outcome.status, outcome.nominate)
            }
            Err(status) => (status, None),
        };
        profile.meter().answered(plugin, Point::PostFilter, status.code);
        profile.meter().asked(plugin, Point::PostFilter, 1);
        if run.take(status, nominate) {
            break;
        }
    }
    // The plugins of `blind` could not look at the pod. They might have found a way to help the pod.
    blind.into_iter().for_each(|plugin| diagnosis.blame(plugin, Code::Unschedulable));
    run
}

impl PostFilterRun {
    /// Takes the answer of one plugin. Returns whether the answer is final, so that no other plugin is asked.
    fn take(&mut self, status: Status, nominate: Option<Option<NodeIdx>>) -> bool {
        match status.code {
            Code::Success | Code::UnschedulableAndUnresolvable => {
                (self.status, self.nominate) = (Some(status), nominate);
                true
            }
            Code::Unschedulable | Code::Pending => {
                self.nominate = nominate.or(self.nominate);
                let no_reasons = || Status { code: Code::Unschedulable, reasons: Vec::new() };
                self.status.get_or_insert_with(no_reasons).reasons.extend(status.reasons);
                false
            }
            Code::Error | Code::Wait | Code::Skip => {
                // After an error, the nominations of earlier plugins do not count either.
                (self.status, self.nominate) = (Some(Status { code: Code::Error, ..status }), None);
                true
            }
        }
    }
}

/// Blames the plugins that faulted at PostFilter or in its dry runs. With their next instances, PostFilter might help the
/// pod.
fn blame_faulty_plugins(profile: &mut Profile, diagnosis: &mut Diagnosis) {
    for (idx, plugin) in (0u32..).map(PluginIdx).zip(profile.plugins_mut()) {
        if plugin.out_of_service().is_some() {
            diagnosis.blame(idx, Code::Unschedulable);
        }
    }
}

/// Replaces an answer whose evictions the operator did not grant by a rejection without a nomination. Without the
/// evictions, no pod leaves the node, and a nomination would only keep room on the node from other pods. The effects
/// stay, because each effect is granted or refused by itself.
fn reject_refused_evictions(profile: &Profile, plugin: PluginIdx, outcome: &mut PostFilterOutcome) {
    let evicts = outcome.effects.iter().any(|effect| matches!(effect, Effect::Evict { .. }));
    let Some(instance) = profile.instances().get(plugin.index()) else { return };
    if !evicts || instance.grants.allows(Permission::Evict) {
        return;
    }
    let enough = instance.grants.clone().with(Permission::Evict);
    let refusal = enough.would_allow(profile.name(plugin), Permission::Evict.as_str());
    if outcome.status.is_success() {
        outcome.status = Status::unschedulable(refusal);
    } else {
        outcome.status.reasons.push(refusal);
    }
    outcome.nominate = outcome.nominate.map(|_| None);
}

fn code_of_refusal<T>(outcome: &Result<T, Refusal>) -> Code {
    outcome.as_ref().err().map_or(Code::Success, |refusal| refusal.status.code)
}
