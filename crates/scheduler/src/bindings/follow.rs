//! The data about pods between Reserve and PostBind for a copy of the scheduler's state.

use std::sync::Arc;

use berth_model::{PodUid, Sym, Time};
use berth_queue::QueuedPod;

use super::{
    Bindings,
    binding::{Binding, Stage},
    reported_waits::words,
};
use crate::context::Context;

/// The step for which a pod between Reserve and PostBind waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingStage {
    /// The pod waits for these Permit plugins.
    Permit(Vec<PodHolder>),
    /// The pod waits for PreBind plugins. The list has the plugins that asked for a wait for objects.
    PreBind(Vec<PodHolder>),
    /// The pod waits until a Bind plugin, the API server or an extender has bound it.
    Bind,
    /// The pod waits for the end of the process.
    Shutdown,
}

/// A plugin that holds a pod at Permit or PreBind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodHolder {
    /// The name of the plugin.
    pub plugin: Arc<str>,
    /// The time at which the plugin began to hold the pod.
    pub since: Time,
    /// The time at which the pod is rejected in the plugin's name.
    pub until: Time,
    /// The plugin's newest text about the objects that it waits for; `None` if the plugin gave no text.
    pub message: Option<String>,
}

/// A pod between Reserve and PostBind.
#[derive(Clone, Debug)]
pub struct PodBinding {
    /// The pod with the history of its attempts.
    pub record: QueuedPod,
    /// The name of the node that was chosen.
    pub node: Sym,
    /// The stage of the binding in which the pod waits.
    pub stage: BindingStage,
}

impl Bindings {
    /// Starts to note which pods take steps. With `false`, stops and forgets the notes.
    pub(crate) fn follow(&mut self, is_followed: bool) {
        self.changed.follow(is_followed);
    }

    /// The pods that took a step since the last call.
    pub(crate) fn changed_pods(&mut self) -> impl Iterator<Item = PodUid> + '_ {
        self.changed.drain()
    }

    /// The pod, if it is between Reserve and PostBind.
    pub(crate) fn followed(&self, uid: &str, context: &Context) -> Option<PodBinding> {
        let binding = self.waiting.get(uid)?;
        let stage = binding.followed_stage(context);
        Some(PodBinding { record: binding.record.clone(), node: binding.node, stage })
    }
}

impl Binding {
    fn followed_stage(&self, context: &Context) -> BindingStage {
        match &self.stage {
            Stage::Permit(waits) => {
                let since = waits.since();
                let holders = waits.holders().map(|holder| PodHolder {
                    plugin: Arc::clone(holder.plugin),
                    since,
                    until: holder.until,
                    message: words(holder.objects, holder.refused),
                });
                BindingStage::Permit(holders.collect())
            }
            Stage::PreBind(group) => {
                let holders = group.waiting().map(|(plugin, wait)| PodHolder {
                    plugin: context.plugin_name(self.pod().scheduler_name, plugin),
                    since: wait.began,
                    until: wait.deadline,
                    message: words(Some(wait), None),
                });
                BindingStage::PreBind(holders.collect())
            }
            Stage::BindEffects { .. } | Stage::BindRequest { .. } | Stage::ExtenderBind { .. } => BindingStage::Bind,
            Stage::Shutdown => BindingStage::Shutdown,
        }
    }
}
