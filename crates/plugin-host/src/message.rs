//! What the supervisor is told and asked, by the parts of the process around it.

use std::{path::PathBuf, sync::Arc};

use berth_config::{PluginCatalogue, Settings, Usage};
use berth_framework::{Extenders, Profile};
use berth_lifecycle::OrderError;
use berth_scheduler::Supervision;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::{
    finding::Finding,
    report::PluginReport,
    settings_file::{HostFile, SettingsFileError},
};

/// Messages come one at a time; a sender with another one waits.
pub(crate) const INBOX_BOUND: usize = 256;

/// What the supervisor is told or asked.
#[derive(Debug)]
pub enum Message {
    /// A plugin came from the plugins directory or a registry, or did not.
    Found(Finding),
    /// What the scheduling thread tells.
    Supervise(Supervision),
    /// What the operator's file says from here on, or what is wrong with it.
    Settings(Result<Box<HostFile>, SettingsFileError>),
    List(oneshot::Sender<Vec<PluginReport>>),
    HostSettings(oneshot::Sender<HostSettings>),
    Order {
        plugin: String,
        order: Order,
        /// Who gives it.
        user: String,
        answer: oneshot::Sender<Result<PluginReport, OrderRefusal>>,
    },
    /// A caller asks which plugins there are.
    Consult(Consultation),
    /// New instances of the plugins that serve in a profile of these settings, for questions beside the scheduler.
    CopyProfile {
        settings: Box<Settings>,
        scheduler_name: String,
        answer: oneshot::Sender<Result<Profile, Usage>>,
    },
    /// Another configuration is to hold: nothing changes if one of its plugins cannot be built.
    Reconfigure {
        proposal: Box<Proposal>,
        answer: oneshot::Sender<Result<(), Usage>>,
    },
}

/// Looks at the plugins that there are at the moment.
pub struct Consultation(Look);

type Look = Box<dyn FnOnce(&dyn PluginCatalogue) + Send>;

impl std::fmt::Debug for Consultation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Consultation")
    }
}

impl Consultation {
    /// A consultation, and where what `look` makes of the plugins comes out.
    pub fn new<T: Send + 'static>(
        look: impl FnOnce(&dyn PluginCatalogue) -> T + Send + 'static,
    ) -> (Self, oneshot::Receiver<T>) {
        let (answer, answered) = oneshot::channel();
        // The caller may have left.
        let consult = move |plugins: &dyn PluginCatalogue| drop(answer.send(look(plugins)));
        (Self(Box::new(consult)), answered)
    }

    pub(crate) fn hold(self, plugins: &dyn PluginCatalogue) {
        (self.0)(plugins);
    }
}

/// A configuration that was read and can be taken over, as far as is known without building its plugins.
#[derive(Debug)]
pub struct Proposal {
    pub settings: Settings,
    /// What the scheduler makes of them, profiles aside.
    pub scheduler_settings: berth_scheduler::Settings,
    /// Whether the profiles differ from those that run.
    pub has_other_profiles: bool,
    pub extenders: Option<Arc<dyn Extenders>>,
}

/// What an operator wants done with a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Read the file again and try it, even if it was refused.
    Reload,
    Enable,
    Disable,
    /// Go back to the binary before.
    Rollback,
}

impl Order {
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

/// The operator's settings, as operators are shown them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostSettings {
    /// The file; none when the defaults hold.
    pub file: Option<PathBuf>,
    /// Why what the file says at the moment does not hold.
    pub error: Option<String>,
}

/// Why an order is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderRefusal {
    #[error(transparent)]
    Lifecycle(#[from] OrderError),
    #[error("no plugins directory to load from: start the scheduler with --plugins-dir")]
    NoDirectory,
    #[error("file not found: {}", .0.display())]
    NoFile(PathBuf),
}

impl OrderRefusal {
    /// Whether the order is about a plugin that does not exist, and not about one with which it cannot be done.
    pub fn is_unknown_plugin(&self) -> bool {
        match self {
            OrderRefusal::Lifecycle(OrderError::UnknownPlugin(_)) => true,
            OrderRefusal::Lifecycle(OrderError::NoFallback { .. })
            | OrderRefusal::NoDirectory
            | OrderRefusal::NoFile(_) => false,
        }
    }
}
