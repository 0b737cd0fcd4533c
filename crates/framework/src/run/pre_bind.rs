//! PreBind in two steps. In the first step, before the pod waits for Permit, each plugin says whether it will have
//! work. In the second step, the work is done, in groups of plugins that may run in parallel (KEP-5278;
//! `RunPreBindPreFlights` and `RunPreBindPlugins` in kube-scheduler's `pkg/scheduler/framework/runtime/framework.go`).
//!
//! The functions only ask plugins. They carry out no effect. The effects that plugins ask for are returned, each with
//! the plugin that asked for it.

use berth_model::NodeIdx;

use super::{PluginBits, Refusal, tell_pod_changed};
use crate::{
    effect::Effect,
    meter::code_of,
    plugin::Point,
    points::{Call, PreFlight},
    profile::{PluginIdx, Profile},
    status::{Code, Status},
};

/// The answers of the PreBind plugins about their work for one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreFlights {
    has_work: bool,
    skipped: PluginBits,
    parallel: PluginBits,
}

impl PreFlights {
    /// Whether any plugin will have something to do.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.has_work
    }

    /// Replaces the positions of the plugins, after a change of the profile that moved them.
    pub fn move_plugins(&mut self, place: impl Fn(PluginIdx) -> PluginIdx) {
        for plugins in [&mut self.skipped, &mut self.parallel] {
            let mut moved = PluginBits::default();
            plugins.iter().for_each(|plugin| moved.insert(place(plugin)));
            *plugins = moved;
        }
    }
}

/// Asks every PreBind plugin whether it will have something to do.
///
/// # Errors
/// The plugin that broke, or answered with another status than `Skip`.
pub fn pre_bind_pre_flight(profile: &mut Profile, call: &Call<'_>, node: NodeIdx) -> Result<PreFlights, Refusal> {
    let start = profile.meter().start(call.cycle);
    let outcome = ask_pre_flight(profile, call, node);
    let code = match &outcome {
        Ok(flights) if flights.has_work => Code::Success,
        Ok(_) => Code::Skip,
        Err(refusal) => refusal.status.code,
    };
    profile.meter().end(start, Point::PreBindPreFlight.as_str(), code);
    outcome
}

fn ask_pre_flight(profile: &mut Profile, call: &Call<'_>, node: NodeIdx) -> Result<PreFlights, Refusal> {
    let mut flights = PreFlights::default();
    for position in 0..profile.plugins.at(Point::PreBind).len() {
        let Some(&plugin) = profile.plugins.at(Point::PreBind).get(position) else { break };
        let answer = match profile.get(plugin).and_then(|plugin| plugin.pre_bind_pre_flight()) {
            Some(point) => {
                let answer = point.pre_bind_pre_flight(call, node);
                profile.meter().answered(plugin, Point::PreBindPreFlight, code_of(&answer));
                answer
            }
            None => Ok(PreFlight::default()),
        };
        match answer {
            Ok(PreFlight { allow_parallel }) => {
                flights.has_work = true;
                if allow_parallel {
                    flights.parallel.insert(plugin);
                }
            }
            Err(status) if status.code == Code::Skip => flights.skipped.insert(plugin),
            Err(status) => return Err(Refusal { plugin, status: failed_flight(profile.name(plugin), &status) }),
        }
    }
    Ok(flights)
}

fn failed_flight(name: &str, status: &Status) -> Status {
    let text = match status.code {
        Code::Error => format!("running PreBindPreFlight {name:?}: {}", status.message()),
        Code::Success
        | Code::Unschedulable
        | Code::UnschedulableAndUnresolvable
        | Code::Wait
        | Code::Skip
        | Code::Pending => format!(
            "PreBindPreFlight {name} returned {:?}, which is unsupported. \
             It is supposed to return Success, Skip, or Error status",
            status.code.as_str()
        ),
    };
    Status::error(text)
}

/// The state of PreBind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreBindRun {
    /// Every plugin is done.
    Done,
    /// The plugins of a group asked for these effects. The effects of different plugins are carried out in parallel.
    /// PreBind then continues at position `next`.
    Group {
        /// The plugins with their effects. The effects of one plugin are carried out in order.
        wanted: Vec<(PluginIdx, Vec<Effect>)>,
        /// The position at which PreBind continues.
        next: usize,
    },
}

/// Runs PreBind plugins from position `from` on, up to the first group in which a plugin asks for an effect.
/// Neighbouring plugins that allow parallel work form one group. Every other plugin is alone in its group.
///
/// # Errors
/// The plugin that refused or broke.
pub fn pre_bind(
    profile: &mut Profile,
    call: &Call<'_>,
    node: NodeIdx,
    from: usize,
    flights: &PreFlights,
) -> Result<PreBindRun, Refusal> {
    profile.meter().resume(call.cycle);
    let plugins = profile.plugins.at(Point::PreBind).to_vec();
    let mut next = from;
    for group in plugins
        .get(from..)
        .unwrap_or_default()
        .chunk_by(|left, right| flights.parallel.contains(*left) && flights.parallel.contains(*right))
    {
        next += group.len();
        let mut wanted = Vec::new();
        for &plugin in group.iter().filter(|plugin| !flights.skipped.contains(**plugin)) {
            let effects = ask(profile, call, node, plugin)?;
            if !effects.is_empty() {
                wanted.push((plugin, effects));
            }
        }
        if !wanted.is_empty() {
            return Ok(PreBindRun::Group { wanted, next });
        }
    }
    Ok(PreBindRun::Done)
}

/// Asks one plugin again that waited for an object to change. A plugin whose new binary lacks PreBind is not asked.
/// `call` contains the current pod. `is_changed` says whether this pod differs from the pod at the beginning of the
/// cycle.
///
/// # Errors
/// The plugin refused or broke.
pub fn pre_bind_again(
    profile: &mut Profile,
    call: &Call<'_>,
    node: NodeIdx,
    plugin: PluginIdx,
    is_changed: bool,
) -> Result<Vec<Effect>, Refusal> {
    profile.meter().resume(call.cycle);
    if is_changed {
        tell_pod_changed(profile, plugin, call, "PreBind")?;
    }
    ask(profile, call, node, plugin)
}

fn ask(profile: &mut Profile, call: &Call<'_>, node: NodeIdx, plugin: PluginIdx) -> Result<Vec<Effect>, Refusal> {
    let Some(point) = profile.get(plugin).and_then(|plugin| plugin.pre_bind()) else { return Ok(Vec::new()) };
    let answer = point.pre_bind(call, node);
    profile.meter().answered(plugin, Point::PreBind, code_of(&answer));
    match answer {
        Ok(effects) => Ok(effects),
        Err(status) if status.code == Code::Skip => Ok(Vec::new()),
        Err(status) => Err(Refusal::new(profile, plugin, status, "PreBind")),
    }
}
