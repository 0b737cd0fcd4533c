//! An operator's decisions about a plugin: how the plugin runs, and what happens to the plugin and to pods when it
//! fails.

use std::time::Duration;

use serde::Deserialize;

/// The treatment of pods whose profile uses a plugin that is out of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum FailurePolicy {
    /// The pods stay pending, because the plugin's rules still hold.
    #[default]
    Fail,
    /// The pods are scheduled without the plugin.
    Ignore,
}

/// How a plugin runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Execution {
    /// A built-in plugin runs natively unless the plugins directory has a binary with its name.
    #[default]
    Auto,
    /// A built-in plugin runs natively, regardless of the contents of the plugins directory.
    Native,
    /// A built-in plugin runs as a component: the component of the program, or the component in the plugins directory.
    Wasm,
}

/// The limits of a plugin's faults within the window. A plugin that reaches one of these limits is taken out of
/// service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The number of faults, at least 1.
    pub faults: u32,
    /// The time after which faults are forgotten.
    pub window: Duration,
    /// The processor time that faults may take within the window, counted from the first calls of the lost instances.
    pub lost: Duration,
    /// The length of the first quarantine. Each further quarantine in a row is twice as long as the quarantine before it.
    pub backoff: Duration,
}

/// The observation of a new binary. If the binary has more than `faults` faults within the span, the previous binary
/// replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probation {
    /// The length of the probation.
    pub span: ProbationSpan,
    /// The number of faults that a binary may have without being replaced.
    pub faults: u32,
}

/// The length of a probation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbationSpan {
    /// The probation lasts for this time after the swap.
    Time(Duration),
    /// The probation lasts for this number of calls of the new binary.
    Calls(u64),
}
