//! The status of a plugin for operators.

use berth_model::{BinaryId, Digest};
use serde::{Deserialize, Serialize};

use crate::{
    binary::{Component, CountCalls, Service},
    life::{Fallback, Life},
    plugin::Plugin,
    policy::OperatorPolicy,
    probation::ProbationEnd,
    profile_slot::Restart,
    remembered::QuarantineRecord,
};

/// The state of a plugin in the operators' terms. It is written and read as [`Self::as_str`] shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginState {
    /// A binary serves.
    Serving,
    /// A binary could serve, but no profile uses the plugin.
    Unused,
    /// A new binary serves under observation. The previous binary, if there is one, is kept ready.
    Probation,
    /// No binary serves: the component is out of service for a while.
    Quarantined,
    /// No binary serves: the instance faulted, and the next instance may not be made yet.
    Restarting,
    /// No binary serves, because the file is not a plugin or may not serve.
    Refused,
    /// No binary serves yet: the binary that existed at the start is being loaded.
    Loading,
    /// No binary serves, because none is available.
    #[default]
    Missing,
    /// No binary serves, because an operator switched the plugin off.
    Disabled,
}

impl PluginState {
    /// The state in lower case, as lists show it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PluginState::Serving => "serving",
            PluginState::Unused => "unused",
            PluginState::Probation => "probation",
            PluginState::Quarantined => "quarantined",
            PluginState::Restarting => "restarting",
            PluginState::Refused => "refused",
            PluginState::Loading => "loading",
            PluginState::Missing => "missing",
            PluginState::Disabled => "disabled",
        }
    }
}

/// The status of a plugin at one moment.
#[derive(Debug)]
pub struct PluginStatus<'a, B> {
    /// The state of the plugin.
    pub state: PluginState,
    /// The binary that serves. Profiles may have different binaries; this is the binary of the first profile.
    pub service: Service<B>,
    /// The binary of the same profile that would serve if it were not out of service and if no operator had disabled
    /// the plugin. `None` if there is no binary.
    pub available: Option<Service<B>>,
    /// The profiles that use the plugin, and the binary that each profile reported to use.
    pub profiles: Vec<(&'a str, Option<BinaryId>)>,
    /// The component whose calls and faults describe the plugin. This is the serving component or, if no binary serves,
    /// the component that would serve.
    pub component: Option<&'a Component<B>>,
    /// The reason of the state; `None` if the plugin serves and its file is the serving binary.
    pub reason: Option<String>,
    /// The reason of the last failure, or of the last change by an operator, even if it is long ago.
    pub last_reason: Option<&'a str>,
    /// The binary that a rollback would bring back.
    pub fallback: Option<&'a Fallback<B>>,
    /// The file's bytes that are not tried again until the file changes.
    pub refused_digest: Option<Digest>,
    /// The component that is out of service.
    pub quarantine: Option<&'a QuarantineRecord>,
    /// The instance that may not be made yet.
    pub restart: Option<&'a Restart>,
    /// The end of the probation, if the binary that serves is on probation.
    pub probation_end: Option<ProbationEnd>,
}

impl<'a, B: Clone + CountCalls> PluginStatus<'a, B> {
    pub(crate) fn of(plugin: &'a Plugin<B>, policy: &dyn OperatorPolicy) -> Self {
        let life = plugin.life();
        let profiles: Vec<_> = plugin.profiles().collect();
        let scheduler_name = profiles.first().map_or("", |(scheduler_name, _)| scheduler_name);
        let service = plugin.service(scheduler_name, policy);
        let installed = life.installed().map(|installed| &installed.component);
        let mut components = [installed, plugin.built_in().embedded()].into_iter().flatten();
        let restart = plugin.restarting(scheduler_name, policy);
        let available = plugin.available(scheduler_name, policy);
        let state = state(life, &service, restart.is_some(), profiles.is_empty());
        Self {
            state,
            reason: reason(state, plugin, &service, policy),
            component: components.find(|component| service.id().is_none_or(|serving| serving == component.id())),
            service,
            available,
            profiles,
            last_reason: plugin.last_reason(),
            fallback: plugin.fallback().ok(),
            refused_digest: life.refused().and_then(|file| file.digest),
            quarantine: life.quarantine_record(),
            restart,
            probation_end: plugin.probation_end(policy).filter(|_| state == PluginState::Probation),
        }
    }
}

/// The reason why the plugin is in this state. A refused binary is named by its file or by its reference to a registry.
fn reason<B: Clone + CountCalls>(
    state: PluginState,
    plugin: &Plugin<B>,
    service: &Service<B>,
    policy: &dyn OperatorPolicy,
) -> Option<String> {
    let life = plugin.life();
    match state {
        PluginState::Serving | PluginState::Probation | PluginState::Refused => life.refused().map(|refused| {
            let origin = plugin.origin(policy).unwrap_or_else(|| "the binary".to_owned());
            format!("{origin} {}", refused.reason)
        }),
        PluginState::Unused => Some("not used: no profile of --config enables it".to_owned()),
        PluginState::Quarantined => life.quarantine_record().map(|quarantine| quarantine.reason.clone()),
        PluginState::Restarting | PluginState::Loading | PluginState::Missing => match service {
            Service::Pass(reason) | Service::Hold(reason) => Some(reason.clone()),
            Service::Native(_) | Service::Embedded(_) | Service::Directory(_) => None,
        },
        PluginState::Disabled => Some("disabled by an operator".to_owned()),
    }
}

fn state<B: CountCalls>(
    life: &Life<B>,
    service: &Service<B>,
    is_restarting: bool,
    is_in_no_profile: bool,
) -> PluginState {
    match (life, service) {
        (Life::Disabled { .. }, _) => PluginState::Disabled,
        (_, Service::Native(_) | Service::Embedded(_) | Service::Directory(_)) if is_in_no_profile => {
            PluginState::Unused
        }
        (life, Service::Directory(_)) if life.is_on_probation() => PluginState::Probation,
        (_, Service::Native(_) | Service::Embedded(_) | Service::Directory(_)) => PluginState::Serving,
        (Life::Quarantined { .. }, Service::Pass(_) | Service::Hold(_)) => PluginState::Quarantined,
        (_, Service::Pass(_) | Service::Hold(_)) if is_restarting => PluginState::Restarting,
        (life, Service::Pass(_) | Service::Hold(_)) if life.refused().is_some() => PluginState::Refused,
        (life, Service::Pass(_) | Service::Hold(_)) if life.awaited().is_some() => PluginState::Loading,
        (_, Service::Pass(_) | Service::Hold(_)) => PluginState::Missing,
    }
}
