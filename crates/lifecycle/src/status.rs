//! What operators are shown of a plugin.

use berth_model::{BinaryId, Digest, Time};
use serde::{Deserialize, Serialize};

use crate::{
    binary::{Component, CountCalls, Service},
    life::{Fallback, Life},
    plugin::Plugin,
    policy::OperatorPolicy,
};

/// Where a plugin stands, in the words that operators know. Written and read as [`Self::as_str`] shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginState {
    /// A binary serves.
    Serving,
    /// A binary serves, and the one before it is kept ready.
    Probation,
    /// Nobody serves: the component is out of service for a while.
    Quarantined,
    /// Nobody serves: the instance faulted, and the next one is not to be made yet.
    Restarting,
    /// Nobody serves, as the file is no plugin or may not be one.
    Refused,
    /// Nobody serves, as there is nothing that could.
    #[default]
    Missing,
    /// Nobody serves, as an operator switched the plugin off.
    Disabled,
}

impl PluginState {
    /// In lower case, as lists show it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PluginState::Serving => "serving",
            PluginState::Probation => "probation",
            PluginState::Quarantined => "quarantined",
            PluginState::Restarting => "restarting",
            PluginState::Refused => "refused",
            PluginState::Missing => "missing",
            PluginState::Disabled => "disabled",
        }
    }
}

/// A plugin at this moment.
#[derive(Debug)]
pub struct PluginStatus<'a, B> {
    /// Where it stands.
    pub state: PluginState,
    /// Who serves. Profiles may differ; the first one stands for all.
    pub service: Service<B>,
    /// The profiles that use it, and the binary that each said it took.
    pub profiles: Vec<(&'a str, Option<BinaryId>)>,
    /// The component whose calls and faults tell how the plugin does: the one that serves or, where nobody does, the one
    /// that would.
    pub component: Option<&'a Component<B>>,
    /// Why something last went wrong, or was changed by an operator.
    pub last_reason: Option<&'a str>,
    /// What a rollback would bring back.
    pub fallback: Option<&'a Fallback<B>>,
    /// The file's bytes that are not tried again until the file changes.
    pub refused_digest: Option<Digest>,
    /// When the quarantine ends.
    pub quarantined_until: Option<Time>,
}

impl<'a, B: Clone + CountCalls> PluginStatus<'a, B> {
    pub(crate) fn of(plugin: &'a Plugin<B>, policy: &dyn OperatorPolicy) -> Self {
        let life = plugin.life();
        let profiles: Vec<_> = plugin.profiles().collect();
        let scheduler_name = profiles.first().map_or("", |(scheduler_name, _)| scheduler_name);
        let service = plugin.service(scheduler_name, policy);
        let installed = life.installed().map(|installed| &installed.component);
        let mut components = [installed, plugin.built_in().embedded()].into_iter().flatten();
        Self {
            state: state(life, &service, plugin.is_restarting(scheduler_name, policy)),
            component: components.find(|component| service.id().is_none_or(|serving| serving == component.id())),
            service,
            profiles,
            last_reason: plugin.last_reason(),
            fallback: plugin.fallback().ok(),
            refused_digest: life.refused().and_then(|file| file.digest),
            quarantined_until: life.quarantine_record().map(|quarantine| quarantine.until),
        }
    }
}

fn state<B: CountCalls>(life: &Life<B>, service: &Service<B>, is_restarting: bool) -> PluginState {
    match (life, service) {
        (Life::Disabled { .. }, _) => PluginState::Disabled,
        (life, Service::Directory(_)) if life.is_on_probation() => PluginState::Probation,
        (_, Service::Native(_) | Service::Embedded(_) | Service::Directory(_)) => PluginState::Serving,
        (Life::Quarantined { .. }, Service::Pass(_) | Service::Hold(_)) => PluginState::Quarantined,
        (_, Service::Pass(_) | Service::Hold(_)) if is_restarting => PluginState::Restarting,
        (life, Service::Pass(_) | Service::Hold(_)) if life.refused().is_some() => PluginState::Refused,
        (_, Service::Pass(_) | Service::Hold(_)) => PluginState::Missing,
    }
}
