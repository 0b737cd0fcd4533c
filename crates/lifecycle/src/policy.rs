//! What the operator decided, as far as it bears on the lives of plugins.

use berth_model::{
    Digest,
    plugin_policy::{Execution, FailurePolicy, Probation, Quarantine},
};

use crate::binary::Service;

/// The operator's decisions. Asked at every event: they may change while the scheduler runs.
pub trait OperatorPolicy {
    /// What holds for the plugin of this name.
    fn plugin(&self, plugin: &str) -> PluginPolicy;

    /// How the plugin runs in a profile; an empty `scheduler_name` stands for profiles about which nothing is said.
    fn execution(&self, plugin: &str, scheduler_name: &str) -> Execution;

    /// Whether no binary with this digest may ever serve.
    fn is_denied(&self, digest: Digest) -> bool;

    /// Where the plugin's binary is to come from, in words: `Zone.wasm in /plugins`, or a reference to a registry. `None` if
    /// it can come from nowhere.
    fn origin(&self, plugin: &str) -> Option<String>;
}

/// What holds for one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginPolicy {
    /// What happens to pods while no binary serves.
    pub failure_policy: FailurePolicy,
    /// When a component that faults is taken out of service.
    pub quarantine: Quarantine,
    /// How long a new binary is on probation.
    pub probation: Probation,
}

impl PluginPolicy {
    /// No binary serves, for this reason.
    pub(crate) fn nobody<B>(&self, reason: String) -> Service<B> {
        match self.failure_policy {
            FailurePolicy::Fail => Service::Hold(reason),
            FailurePolicy::Ignore => Service::Pass(reason),
        }
    }
}

/// The duration in milliseconds, as the scheduler's time is.
pub(crate) fn milliseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
