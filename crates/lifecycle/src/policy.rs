//! The operator's decisions that affect the lives of plugins.

use berth_model::{
    Digest,
    plugin_policy::{Execution, FailurePolicy, Probation, Quarantine},
};

use crate::binary::Service;

/// The operator's decisions. They are read at every event, because an operator may change them while the scheduler
/// runs.
pub trait OperatorPolicy {
    /// The policy for the plugin of this name.
    fn plugin(&self, plugin: &str) -> PluginPolicy;

    /// How the plugin runs in a profile. An empty `scheduler_name` stands for profiles without separate settings.
    fn execution(&self, plugin: &str, scheduler_name: &str) -> Execution;

    /// Whether no binary with this digest may ever serve.
    fn is_denied(&self, digest: Digest) -> bool;

    /// The place from which the plugin's binary is to come, in words: `Zone.wasm in /plugins`, or a reference to a
    /// registry. `None` if no place is configured.
    fn origin(&self, plugin: &str) -> Option<String>;
}

/// The policy for one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginPolicy {
    /// The treatment of pods while no binary serves.
    pub failure_policy: FailurePolicy,
    /// The number of faults after which a component is taken out of service.
    pub quarantine: Quarantine,
    /// The length of the probation of a new binary.
    pub probation: Probation,
}

impl PluginPolicy {
    /// A service without a binary, for this reason.
    pub(crate) fn nobody<B>(&self, reason: String) -> Service<B> {
        match self.failure_policy {
            FailurePolicy::Fail => Service::Hold(reason),
            FailurePolicy::Ignore => Service::Pass(reason),
        }
    }
}

/// The duration in milliseconds, the unit of the scheduler's time.
pub(crate) fn milliseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
