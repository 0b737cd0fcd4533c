//! What plugins are asked about a pod after its cycle. They are asked once they have time, and not before.

use berth_framework::PluginIdx;

/// What is to be asked before the pod can go on.
#[derive(Debug)]
pub(super) enum Question {
    /// Permit said yes: PreBind, or Bind.
    Permitted,
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

    /// Asks this as well. Only PreBind is asked about several things at a time.
    pub(super) fn join(&mut self, other: Self) {
        if let (Self::PreBind { again }, Self::PreBind { again: more }) = (self, other) {
            for plugin in more {
                if !again.contains(&plugin) {
                    again.push(plugin);
                }
            }
        }
    }

    /// The plugins stand at other places of their profile.
    pub(super) fn move_plugins(&mut self, place: impl Fn(PluginIdx) -> PluginIdx) {
        match self {
            Self::PreBind { again } => again.iter_mut().for_each(|plugin| *plugin = place(*plugin)),
            Self::Permitted | Self::Bind => {}
        }
    }
}
