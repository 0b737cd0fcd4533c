//! The replacement of plugins between cycles, either one binary or all profiles at a time.
//!
//! Swaps of one plugin happen in the order of their requests. Each swap waits until the swap before it is over.

use std::collections::{BTreeMap, VecDeque};

use berth_framework::{
    DeltaSource as _, Grants, Plugin, PluginFactory, PluginIdx, Point, Profile, RestoreError, State,
};
use berth_model::Sym;
use rustc_hash::FxHashMap;

use crate::{
    action::{Action, Level, Supervision},
    bindings::Bindings,
    context::Context,
    host_objects::HostObjects,
    preparation::{Instances, Preparation, Prepared, PreparedInstance, SwapError, SwapRequest, build, fill},
};

/// The swaps in progress, and the instances that they replaced.
#[derive(Debug, Default)]
pub(crate) struct Swaps {
    /// Swaps that wait for the swap that is being prepared, by plugin.
    preparing: FxHashMap<String, VecDeque<SwapRequest>>,
    /// Instances that were replaced.
    retired: Vec<Box<dyn Plugin>>,
    /// The store in which preparations are left for the host.
    objects: HostObjects,
}

/// An instance that is about to replace a plugin in a profile.
struct Successor {
    scheduler_name: Sym,
    plugin: PluginIdx,
    instance: Box<dyn Plugin>,
}

impl Swaps {
    pub(crate) fn leave_preparations_in(&mut self, objects: HostObjects) {
        self.objects = objects;
    }

    /// Uses a binary that is ready to serve. If the binary's instances take long, they are prepared first. Returns
    /// whether any instance was replaced.
    pub(crate) fn ready(&mut self, swap: SwapRequest, bindings: &mut Bindings, context: &mut Context) -> bool {
        if let Some(waiting) = self.preparing.get_mut(&swap.name) {
            waiting.push_back(swap);
            return false;
        }
        if !swap.factory.takes_long() {
            return self.swap(&swap, Instances::new(), bindings, context);
        }
        let users = context.profiles().users_of(&swap.name, swap.scheduler_names.as_deref());
        let args: BTreeMap<String, String> = users
            .into_iter()
            .filter_map(|(name, plugin)| {
                let profile = context.profile(name)?;
                Some((profile.scheduler_name.clone(), args_of(profile, plugin)?.to_owned()))
            })
            .collect();
        if args.is_empty() {
            return false;
        }
        let full_delta = context.cache().delta_since(&swap.factory.manifest().needs, 0, 0);
        self.preparing.insert(swap.name.clone(), VecDeque::new());
        let plugin = swap.name.clone();
        let preparation = self.objects.put(Preparation::new(swap, args, full_delta));
        context.act(Action::PreparePlugin { plugin, preparation });
        false
    }

    /// Continues a swap whose instances are prepared. Returns whether any instance was replaced.
    pub(crate) fn prepared(&mut self, prepared: Prepared, bindings: &mut Bindings, context: &mut Context) -> bool {
        let Prepared { swap, instances } = prepared;
        let mut is_replaced = self.swap(&swap, instances, bindings, context);
        // If one of the waiting swaps must be prepared, all later swaps wait for this preparation.
        for next in self.preparing.remove(&swap.name).into_iter().flatten() {
            is_replaced |= self.ready(next, bindings, context);
        }
        is_replaced
    }

    /// Notes that the replaced instances no longer serve any profile.
    pub(crate) fn retire(&mut self, plugins: impl IntoIterator<Item = Box<dyn Plugin>>) {
        self.retired.extend(plugins);
    }

    /// Whether instances of a binary are being prepared, or a swap waits for them.
    pub(crate) fn is_preparing(&self) -> bool {
        !self.preparing.is_empty()
    }

    pub(crate) fn take_retired(&mut self) -> Vec<Box<dyn Plugin>> {
        std::mem::take(&mut self.retired)
    }

    /// Gives an instance of the new binary to every profile that should use the binary, either a prepared instance or a
    /// new instance. If one profile cannot have an instance, all profiles keep the old binary. Returns whether the new
    /// binary serves.
    fn swap(
        &mut self,
        swap: &SwapRequest,
        mut prepared: Instances,
        bindings: &mut Bindings,
        context: &mut Context,
    ) -> bool {
        let users = context.profiles().users_of(&swap.name, swap.scheduler_names.as_deref());
        let mut successors = Vec::new();
        let mut refusal = None;
        let mut n_released = vec![0; users.len()];
        for &(scheduler_name, plugin) in &users {
            let instance = prepared.remove(context.text(scheduler_name));
            match successor(scheduler_name, plugin, &*swap.factory, instance, context) {
                Ok(instance) => successors.push(Successor { scheduler_name, plugin, instance }),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        if refusal.is_none() {
            let ungated = who_was_not_asked(&successors, context);
            for successor in successors {
                self.replace(successor, swap.grants.clone(), bindings, context);
            }
            context.register_events();
            for (&(scheduler_name, plugin), n_released) in users.iter().zip(&mut n_released) {
                *n_released = bindings.release_from_permit(scheduler_name, plugin, context);
            }
            context.plugin_replaced(&swap.name, swap.factory.version().binary, &ungated);
        }
        for ((scheduler_name, _), n_released) in users.into_iter().zip(n_released) {
            let scheduler_name = context.text(scheduler_name).to_owned();
            let (plugin, version) = (swap.name.clone(), swap.factory.version());
            let result = refusal.clone().map_or(Ok(()), Err);
            let swapped = Supervision::Swapped { scheduler_name, plugin, version, result, n_released };
            context.act(Action::Supervise(swapped));
        }
        refusal.is_none()
    }

    fn replace(
        &mut self,
        successor: Successor,
        grants: Option<Grants>,
        bindings: &mut Bindings,
        context: &mut Context,
    ) {
        let Successor { scheduler_name, plugin, instance } = successor;
        if let Some(profile) = context.profile_mut(scheduler_name) {
            let before = profile.plugins.at(Point::PreBind).to_vec();
            self.retired.extend(profile.replace(plugin, instance));
            if let Some(grants) = grants {
                profile.set_grants(plugin, grants);
            }
            let after = profile.plugins.at(Point::PreBind).to_vec();
            bindings.reorder_pre_bind(scheduler_name, &before, &after);
        }
        bindings.announce(scheduler_name, plugin, context);
    }
}

/// The profiles in which a plugin with PreEnqueue replaces a plugin that was out of service. Pods passed PreEnqueue
/// without the replaced plugin, so that their cycles could report that this plugin was out of service.
fn who_was_not_asked(successors: &[Successor], context: &mut Context) -> Vec<Sym> {
    let keeps_out = |successor: &&Successor| {
        let before = context.profile_mut(successor.scheduler_name).and_then(|it| it.get(successor.plugin));
        before.is_some_and(|before| before.out_of_service().is_some())
            && successor.instance.points().contains(Point::PreEnqueue)
    };
    successors.iter().filter(keeps_out).map(|successor| successor.scheduler_name).collect()
}

/// The plugin's arguments in this profile.
fn args_of(profile: &Profile, plugin: PluginIdx) -> Option<&str> {
    profile.instances().get(plugin.index()).map(|instance| instance.args.as_str())
}

/// Makes an instance that can replace the plugin immediately: configured, with its predecessor's state, and synced.
fn successor(
    scheduler_name: Sym,
    plugin: PluginIdx,
    factory: &dyn PluginFactory,
    prepared: Option<PreparedInstance>,
    context: &mut Context,
) -> Result<Box<dyn Plugin>, SwapError> {
    let profile = context.profile_mut(scheduler_name).ok_or(SwapError::NoProfile)?;
    let args = args_of(profile, plugin).ok_or(SwapError::NoProfile)?.to_owned();
    // The arguments may have changed while the instance was prepared.
    let prepared = prepared.filter(|prepared| prepared.args == args).map(|prepared| prepared.instance);
    let mut new = prepared.unwrap_or_else(|| build(factory, &profile.scheduler_name, profile.name(plugin), &args))?;
    if let Some(old) = profile.get(plugin)
        && let Err(reason) = hand_over_state(old, &mut *new)
    {
        let name = profile.name(plugin);
        let message = format!("plugin {name} starts without the state of the earlier binary: {reason}");
        context.log(Level::Warn, message);
    }
    fill(&mut *new, context.cache())?;
    Ok(new)
}

/// Passes the state of the old instance to the new instance, if the old instance has state.
///
/// # Errors
/// The new instance cannot use the state, and starts without it. The error has the reason.
pub(crate) fn hand_over_state(old: &mut dyn Plugin, new: &mut dyn Plugin) -> Result<(), RestoreError> {
    let state = old.state().map(State::snapshot).filter(|state| !state.is_empty());
    match (state, new.state()) {
        (None, _) => Ok(()),
        (Some(state), Some(point)) => point.restore(&state),
        (Some(_), None) => Err("the new binary restores no state".into()),
    }
}
