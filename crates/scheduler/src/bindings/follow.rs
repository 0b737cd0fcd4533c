//! The data about pods between Reserve and PostBind for a copy of the scheduler's state.

use std::sync::Arc;

use berth_model::{PodUid, Sym, Time};
use berth_queue::QueuedPod;

use super::{Bindings, binding::Stage, permit::PermitHolder};

/// The step that a pod between Reserve and PostBind waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingStage {
    /// The pod waits for Permit plugins.
    Permit {
        /// The time at which the pod began to wait.
        since: Time,
        /// The plugins that hold the pod.
        plugins: Vec<HeldAtPermit>,
    },
    /// The pod waits for PreBind plugins.
    PreBind,
    /// The pod waits until a Bind plugin, the API server or an extender has bound it.
    Bind,
    /// The pod waits for the end of the process.
    Shutdown,
}

/// A plugin that holds a pod at Permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldAtPermit {
    /// The name of the plugin.
    pub plugin: Arc<str>,
    /// The time at which the pod is rejected in the plugin's name.
    pub until: Time,
    /// The plugin's newest words about the objects that it waits for; `None` if the plugin has not said anything.
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

impl HeldAtPermit {
    fn of(holder: &PermitHolder<'_>) -> Self {
        Self { plugin: Arc::clone(holder.plugin), until: holder.until, message: holder.message() }
    }
}

impl Bindings {
    /// Starts to note which pods take steps, or with `false` stops and forgets the notes.
    pub(crate) fn follow(&mut self, is_followed: bool) {
        self.changed.follow(is_followed);
    }

    /// The pods that took a step since the last call.
    pub(crate) fn changed_pods(&mut self) -> impl Iterator<Item = PodUid> + '_ {
        self.changed.drain()
    }

    /// The pod, if it is between Reserve and PostBind.
    pub(crate) fn followed(&self, uid: &str) -> Option<PodBinding> {
        let binding = self.waiting.get(uid)?;
        let stage = match &binding.stage {
            Stage::Permit(waits) => BindingStage::Permit {
                since: waits.since(),
                plugins: waits.holders().map(|holder| HeldAtPermit::of(&holder)).collect(),
            },
            Stage::PreBind(_) => BindingStage::PreBind,
            Stage::BindEffects { .. } | Stage::BindRequest { .. } | Stage::ExtenderBind { .. } => BindingStage::Bind,
            Stage::Shutdown => BindingStage::Shutdown,
        };
        Some(PodBinding { record: binding.record.clone(), node: binding.node, stage })
    }
}
