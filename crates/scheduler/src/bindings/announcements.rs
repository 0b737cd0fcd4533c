//! The pods between Reserve and PostBind about which new instances of plugins have not been informed yet.
//!
//! An instance is informed only within the plugin's share of the scheduling thread's time. The instance learns of the
//! remaining pods when the plugin has time again. Until then, no cycle begins that asks the instance, because the
//! instance does not know all reservations.

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::{Point, Status};
use berth_model::{PodUid, Sym};
use rustc_hash::FxHashMap;

use super::binding::Binding;
use crate::{action::Level, context::Context};

/// The remaining pods, by profile and plugin. The last pod of each list is the next one.
#[derive(Debug, Default)]
pub(super) struct Announcements(BTreeMap<(Sym, Arc<str>), Vec<PodUid>>);

impl Announcements {
    /// Begins to inform a new instance of the plugin about these pods. Earlier announcements for the plugin are
    /// dropped.
    pub(super) fn begin(&mut self, scheduler_name: Sym, plugin: Arc<str>, mut pods: Vec<PodUid>) {
        pods.sort_unstable_by(|left, right| right.cmp(left));
        self.0.insert((scheduler_name, plugin), pods);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Informs each instance about as many pods as its plugin has time for. The attempt of a pod that is not in
    /// `waiting` has ended.
    pub(super) fn go_on(&mut self, waiting: &FxHashMap<PodUid, Binding>, context: &mut Context) {
        self.0.retain(|(scheduler_name, plugin), pods| {
            while let Some(uid) = pods.last() {
                if !context.has_room() {
                    return true;
                }
                match tell(*scheduler_name, plugin, waiting.get(uid), context) {
                    Delivery::Done => drop(pods.pop()),
                    Delivery::NoTime => return true,
                    Delivery::NoReceiver => return false,
                }
            }
            false
        });
    }

    /// The profiles with a plugin that cannot be asked about another pod yet, with the reason.
    pub(super) fn uninformed(&self) -> Vec<(Sym, Status)> {
        let text = |plugin: &str| {
            format!(
                "plugin \"{plugin}\" has used up its time, and has not received all pods that are reserved or being bound"
            )
        };
        self.0.keys().map(|(profile, plugin)| (*profile, Status::error(text(plugin)))).collect()
    }
}

enum Delivery {
    Done,
    NoTime,
    /// The instance is gone or out of service, or it has no Reserve.
    NoReceiver,
}

/// Informs the profile's plugin about a pod, if the plugin exists. The plugin cannot refuse, because the pod already
/// has the reservation.
fn tell(scheduler_name: Sym, name: &Arc<str>, binding: Option<&Binding>, context: &mut Context) -> Delivery {
    let Some(profile) = context.profile_mut(scheduler_name) else { return Delivery::NoReceiver };
    let Some(plugin) = profile.find(name) else { return Delivery::NoReceiver };
    let is_asked = profile.plugins.at(Point::Reserve).contains(&plugin);
    let Some(instance) = profile.get(plugin).filter(|_| is_asked) else { return Delivery::NoReceiver };
    if instance.out_of_service().is_some() {
        return Delivery::NoReceiver;
    }
    if instance.has_time().is_err() {
        return Delivery::NoTime;
    }
    let Some(binding) = binding else { return Delivery::Done };
    let status = binding.call(context, |profile, call, row| {
        profile.get(plugin).and_then(|plugin| plugin.reserve()).map(|point| point.reserve(call, row))
    });
    if status.flatten().is_some_and(|status| !status.is_success()) {
        let pod = context.full_name(binding.pod());
        let message = format!("plugin {name}: the new binary refused the placement of pod {pod}");
        context.log_of(name, Level::Warn, message);
    }
    Delivery::Done
}
