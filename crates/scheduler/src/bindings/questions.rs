//! The questions to plugins about a pod after its cycle. Plugins are asked only when they have time.

use std::sync::Arc;

use berth_framework::PluginIdx;

/// A question that must be asked before the pod can continue.
#[derive(Debug)]
pub(super) enum Question {
    /// Permit released the pod. The next point is PreBind, or Bind if PreBind has no work.
    Permitted,
    /// An object has changed for which these plugins, by name, hold the pod at Permit.
    PermitAgain { again: Vec<Arc<str>> },
    /// PreBind of the plugins whose wait is over, then of the plugins after these.
    PreBind { again: Vec<PluginIdx> },
    /// Bind, because no extender has bound the pod.
    Bind,
}

impl Question {
    /// Whether Permit has just released the pod.
    pub(super) fn is_of_released(&self) -> bool {
        matches!(self, Self::Permitted)
    }

    /// Adds another question. A pod that Permit released needs no other question.
    pub(super) fn join(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::PreBind { again }, Self::PreBind { again: more }) => add_new(again, more),
            (Self::PermitAgain { again }, Self::PermitAgain { again: more }) => add_new(again, more),
            (Self::PermitAgain { .. }, Self::Permitted) => *self = Self::Permitted,
            (Self::Permitted | Self::PermitAgain { .. } | Self::PreBind { .. } | Self::Bind, _) => {}
        }
    }

    /// Replaces the positions of the plugins, after a change of their profile.
    pub(super) fn move_plugins(&mut self, place: impl Fn(PluginIdx) -> PluginIdx) {
        match self {
            Self::PreBind { again } => again.iter_mut().for_each(|plugin| *plugin = place(*plugin)),
            Self::Permitted | Self::PermitAgain { .. } | Self::Bind => {}
        }
    }
}

fn add_new<Plugin: PartialEq>(plugins: &mut Vec<Plugin>, more: Vec<Plugin>) {
    for plugin in more {
        if !plugins.contains(&plugin) {
            plugins.push(plugin);
        }
    }
}
