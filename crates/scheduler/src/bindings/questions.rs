//! What plugins are asked about a pod after its cycle. They are asked once they have time, and not before.

use std::sync::Arc;

use berth_framework::PluginIdx;

/// What is to be asked before the pod can go on.
#[derive(Debug)]
pub(super) enum Question {
    /// Permit said yes: PreBind, or Bind.
    Permitted,
    /// Permit of the plugins, by name, that hold the pod until something has happened, now that it has.
    PermitAgain { again: Vec<Arc<str>> },
    /// PreBind of the plugins that waited for something that has happened, then of those behind them.
    PreBind { again: Vec<PluginIdx> },
    /// Bind: no extender has bound the pod.
    Bind,
}

impl Question {
    /// Whether Permit has just let the pod go.
    pub(super) fn is_of_released(&self) -> bool {
        matches!(self, Self::Permitted)
    }

    /// Asks this as well. Permit that said yes has nothing more to be asked.
    pub(super) fn join(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::PreBind { again }, Self::PreBind { again: more }) => add_new(again, more),
            (Self::PermitAgain { again }, Self::PermitAgain { again: more }) => add_new(again, more),
            (Self::PermitAgain { .. }, Self::Permitted) => *self = Self::Permitted,
            (Self::Permitted | Self::PermitAgain { .. } | Self::PreBind { .. } | Self::Bind, _) => {}
        }
    }

    /// The plugins stand at other places of their profile.
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
