//! A change of the whole configuration between two cycles.
//!
//! Plugins with the same binary and arguments as before keep their instances. Instances of all other plugins are filled
//! here. Waiting pods keep their places. Pods between Reserve and PostBind continue with the new plugins.

use std::{collections::BTreeSet, sync::Arc};

use berth_framework::{Extenders, PluginIdx, Point, Profile, run::Refusal};
use berth_model::Sym;
use serde::{Deserialize, Serialize};

use crate::{
    action::Level,
    bindings::Bindings,
    context::{Context, PLUGIN_REPLACED},
    host_objects::{Handle, HostObjects},
    profiles::EXTENDER,
    settings::Settings,
    swaps::{Swaps, hand_over_state},
};

/// The configuration that an operator can change while the scheduler runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconfiguration {
    /// The settings outside of profiles.
    pub settings: Settings,
    /// The complete list of new profiles; `None` leaves the profiles unchanged. If the profiles change, the host must
    /// report every pod again, because the scheduler keeps no data about pending pods that no profile serves.
    pub profiles: Option<Handle<Vec<Profile>>>,
    /// The extenders; `None` if no extender is configured. Extenders are asked besides the plugins of every profile.
    pub extenders: Option<Handle<Arc<dyn Extenders>>>,
}

/// The change for the pods of one profile.
struct ProfileChange {
    scheduler_name: String,
    /// The new positions of the old profile's plugins, in the order of the old profile. [`PluginIdx::NOBODY`] stands
    /// for a plugin that is gone.
    places: Vec<PluginIdx>,
    /// The PreBind plugins of the old profile, by their new positions.
    pre_bind: Vec<PluginIdx>,
    /// The plugins that do not know the pods between Reserve and PostBind.
    different: Vec<PluginIdx>,
}

impl Reconfiguration {
    pub(crate) fn take_over(
        self,
        objects: &HostObjects,
        swaps: &mut Swaps,
        bindings: &mut Bindings,
        context: &mut Context,
    ) {
        let Self { settings, profiles, extenders } = self;
        let profiles = profiles.and_then(|profiles| objects.take(profiles));
        let extenders = extenders.and_then(|extenders| objects.take(extenders));
        context.queue_mut().set_settings(settings.queue);
        if context.set_extenders(extenders) {
            bindings.forget_extenders();
            context.retry_rejected_by([&Arc::from(EXTENDER)], PLUGIN_REPLACED);
        }
        match profiles {
            Some(profiles) => change_profiles(profiles, swaps, bindings, context),
            None => context.register_events(),
        }
    }
}

/// Replaces the profiles. Pods that no profile serves leave the queue. The scheduler does not know the pods that only
/// the new profiles serve, so the host must report these pods again.
fn change_profiles(mut profiles: Vec<Profile>, swaps: &mut Swaps, bindings: &mut Bindings, context: &mut Context) {
    let mut to_retry = BTreeSet::new();
    let changes: Vec<ProfileChange> =
        profiles.iter_mut().map(|profile| continue_profile(profile, &mut to_retry, context)).collect();
    let before = context.install_profiles(profiles);
    // No new profile took over the plugins that are still in the old profiles.
    swaps.retire(before.into_iter().flat_map(Profile::into_plugins));
    for change in changes {
        let scheduler_name = context.symbols_mut().intern(&change.scheduler_name);
        sync(scheduler_name, context);
        let after = context.profile(scheduler_name).map(|profile| profile.plugins.at(Point::PreBind).to_vec());
        bindings.move_plugins(scheduler_name, &change.places);
        bindings.reorder_pre_bind(scheduler_name, &change.pre_bind, &after.unwrap_or_default());
        for plugin in change.different {
            bindings.announce(scheduler_name, plugin, context);
        }
    }
    requeue(&to_retry, bindings, context);
}

/// Takes plugins over from the old profile that served the same pods. Plugins whose rejections may no longer hold are
/// added to `to_retry`.
fn continue_profile(profile: &mut Profile, to_retry: &mut BTreeSet<Arc<str>>, context: &mut Context) -> ProfileChange {
    let scheduler_name = profile.scheduler_name.clone();
    let sym = context.symbols_mut().intern(&scheduler_name);
    let Some(before) = context.profile_mut(sym) else {
        let different = (0u32..).map(PluginIdx).zip(profile.instances()).map(|(plugin, _)| plugin).collect();
        return ProfileChange { scheduler_name, places: Vec::new(), pre_bind: Vec::new(), different };
    };
    let place = |name: &str| profile.find(name).unwrap_or(PluginIdx::NOBODY);
    let places: Vec<PluginIdx> = before.instances().iter().map(|instance| place(instance.name())).collect();
    let pre_bind = before.plugins.at(Point::PreBind).iter().map(|&plugin| place(before.name(plugin))).collect();
    let gone = before.instances().iter().zip(&places).filter(|(_, place)| **place == PluginIdx::NOBODY);
    to_retry.extend(gone.map(|(instance, _)| Arc::clone(instance.name())));
    let different = profile.continue_from(before);
    let mut failed = Vec::new();
    for &plugin in &different {
        let name = Arc::clone(profile.name(plugin));
        if let (Some(new), Some(old)) = (profile.get(plugin), before.find(&name))
            && let Some(old) = before.get(old)
            && let Err(reason) = hand_over_state(old, new)
        {
            failed.push(format!("plugin {name} starts without the state of the earlier instance: {reason}"));
        }
        to_retry.insert(name);
    }
    for message in failed {
        context.log(Level::Warn, message);
    }
    ProfileChange { scheduler_name, places, pre_bind, different }
}

fn sync(scheduler_name: Sym, context: &mut Context) {
    if let Err(Refusal { plugin, status }) = context.sync(scheduler_name)
        && !status.code.is_rejected()
    {
        let plugin = context.plugin_name(scheduler_name, plugin);
        let message = format!("plugin {plugin} could not read the state of the cluster; the next cycle tries again");
        context.log_of(&plugin, Level::Error, message);
    }
}

fn requeue(to_retry: &BTreeSet<Arc<str>>, bindings: &Bindings, context: &mut Context) {
    let now = context.now();
    for pod in context.all_pending_pods() {
        if bindings.contains(&pod.uid) || context.cache().pod(&pod.uid).is_some() {
            continue;
        }
        if context.profiles().serves(pod.scheduler_name) {
            context.with_queue(|queue, policy| queue.add(pod, now, policy));
        } else {
            context.no_longer_pending(&pod.uid);
        }
    }
    context.with_queue(|queue, policy| {
        queue.sort(policy);
        for plugin in to_retry {
            queue.retry_rejected_by(plugin, PLUGIN_REPLACED, now, policy);
        }
    });
}
