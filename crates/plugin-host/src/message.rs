//! Messages and questions to the supervisor from the other parts of the process.

use std::{path::PathBuf, sync::Arc};

use berth_config::{PluginCatalogue, Settings, Usage};
use berth_framework::{Extenders, Profile};
use berth_lifecycle::OrderError;
use berth_model::PluginName;
use berth_scheduler::Supervision;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::{
    finding::Finding,
    report::{OrderReport, PluginReport},
    settings_file::{HostFile, SettingsFileError},
};

/// The capacity of the channel. Messages are handled one at a time, and a sender waits if the channel is full.
pub(crate) const INBOX_BOUND: usize = 256;

/// A message or a question to the supervisor.
#[derive(Debug)]
pub enum Message {
    /// The result of looking for a plugin in the plugins directory or a registry.
    Found(Finding),
    /// A message from the scheduling thread.
    Supervise(Supervision),
    /// The new content of the PluginHostConfiguration file, or the reason why the file cannot be used.
    Settings(Result<Box<HostFile>, SettingsFileError>),
    List(oneshot::Sender<Vec<PluginReport>>),
    HostSettings(oneshot::Sender<HostSettings>),
    Order {
        plugin: String,
        order: Order,
        /// The user that gives the order.
        user: String,
        answer: oneshot::Sender<Result<OrderReport, OrderRefusal>>,
    },
    /// A question about the existing plugins.
    Consult(Consultation),
    /// A request for new instances of the plugins in a profile of these settings, for questions that are not part of
    /// scheduling.
    CopyProfile {
        settings: Box<Settings>,
        scheduler_name: String,
        /// Whether the plugins may take as much time as they want in a second, because the thread that asks the plugins
        /// does nothing else.
        has_time: bool,
        answer: oneshot::Sender<Result<Profile, Usage>>,
    },
    /// A request to use another configuration. If a plugin of this configuration cannot be built, nothing changes.
    Reconfigure {
        proposal: Box<Proposal>,
        answer: oneshot::Sender<Result<(), Usage>>,
    },
}

/// A function that examines the current plugins.
pub struct Consultation(Look);

type Look = Box<dyn FnOnce(&dyn PluginCatalogue) + Send>;

impl std::fmt::Debug for Consultation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Consultation")
    }
}

impl Consultation {
    /// A consultation, and the channel for the result of `look`.
    pub fn new<T: Send + 'static>(
        look: impl FnOnce(&dyn PluginCatalogue) -> T + Send + 'static,
    ) -> (Self, oneshot::Receiver<T>) {
        let (answer, answered) = oneshot::channel();
        // The caller may have stopped waiting.
        let consult = move |plugins: &dyn PluginCatalogue| drop(answer.send(look(plugins)));
        (Self(Box::new(consult)), answered)
    }

    pub(crate) fn hold(self, plugins: &dyn PluginCatalogue) {
        (self.0)(plugins);
    }
}

/// A configuration that was read without a mistake. Its plugins are not built yet.
#[derive(Debug)]
pub struct Proposal {
    pub settings: Settings,
    /// The scheduler's settings that follow from the configuration, apart from profiles.
    pub scheduler_settings: berth_scheduler::Settings,
    /// Whether the profiles differ from the running profiles.
    pub has_other_profiles: bool,
    pub extenders: Option<Arc<dyn Extenders>>,
}

/// An operator's order about a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Read the file again and try it, even if the file was refused.
    Reload,
    Enable,
    Disable,
    /// Returns to the previous binary.
    Rollback,
}

impl Order {
    pub const ALL: [Self; 4] = [Self::Reload, Self::Enable, Self::Disable, Self::Rollback];

    /// The name of the order in commands and paths.
    pub fn as_str(self) -> &'static str {
        match self {
            Order::Reload => "reload",
            Order::Enable => "enable",
            Order::Disable => "disable",
            Order::Rollback => "rollback",
        }
    }
}

/// The operator's settings, as they are shown to operators.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostSettings {
    /// The file; `None` if the defaults hold.
    pub file: Option<PathBuf>,
    /// The reason why the current content of the file is not in force.
    pub error: Option<String>,
}

/// The reason why an order is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderRefusal {
    #[error(transparent)]
    Lifecycle(#[from] OrderError),
    /// No plugin has this name, but a plugin has a similar name.
    #[error("unknown plugin {plugin:?} (did you mean {nearest:?}?); `berth plugin list` shows all plugins")]
    Misspelt { plugin: PluginName, nearest: String },
    #[error("no plugins directory to load from: start the scheduler with --plugins-dir")]
    NoDirectory,
    #[error("file not found: {}", .0.display())]
    NoFile(PathBuf),
}

impl OrderRefusal {
    /// Adds the known name that is nearest to an unknown name.
    pub(crate) fn with_nearest<'a>(self, known: impl Iterator<Item = &'a PluginName>) -> Self {
        let OrderRefusal::Lifecycle(OrderError::UnknownPlugin(plugin)) = &self else { return self };
        let known: Vec<&str> = known.map(PluginName::as_str).collect();
        match berth_config::nearest(plugin, &known) {
            Some(nearest) => OrderRefusal::Misspelt { plugin: plugin.clone(), nearest },
            None => self,
        }
    }

    /// Whether the order is about a plugin that does not exist. Otherwise the order is impossible for another reason.
    pub fn is_unknown_plugin(&self) -> bool {
        match self {
            OrderRefusal::Lifecycle(OrderError::UnknownPlugin(_)) | OrderRefusal::Misspelt { .. } => true,
            OrderRefusal::Lifecycle(OrderError::NoFallback { .. })
            | OrderRefusal::NoDirectory
            | OrderRefusal::NoFile(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_about_a_misspelt_plugin_names_the_nearest_one() {
        let known = ["NodeName", "NodeRating"].map(PluginName::from);
        let refusal =
            |name: &str| OrderRefusal::from(OrderError::UnknownPlugin(name.into())).with_nearest(known.iter());
        let near = refusal("NodeRatin");
        let text = "unknown plugin \"NodeRatin\" (did you mean \"NodeRating\"?); `berth plugin list` shows all plugins";
        assert_eq!((near.to_string().as_str(), near.is_unknown_plugin()), (text, true));
        let far = refusal("Nobody");
        assert_eq!(far.to_string(), "unknown plugin \"Nobody\"; `berth plugin list` shows all plugins");
        let other = OrderRefusal::NoDirectory.with_nearest(known.iter());
        assert_eq!(other, OrderRefusal::NoDirectory);
    }
}
