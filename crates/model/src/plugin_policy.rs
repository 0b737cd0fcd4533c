//! What an operator decides about a plugin: how it runs, and what happens to it and to the pods when it fails.

use std::time::Duration;

use serde::Deserialize;

/// What becomes of the pods of profiles that use a plugin which is out of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum FailurePolicy {
    /// The pods stay pending: the plugin's rules hold.
    #[default]
    Fail,
    /// The pods are scheduled without the plugin.
    Ignore,
}

/// How a plugin runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Execution {
    /// A built-in runs natively unless the plugins directory holds a binary of its name.
    #[default]
    Auto,
    /// A built-in runs natively, whatever the plugins directory holds.
    Native,
    /// A built-in runs as a component, its own or the plugins directory's.
    Wasm,
}

/// A plugin that faults so often within the window, or loses so much time by it, is taken out of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// At least 1.
    pub faults: u32,
    /// Faults before that are forgotten.
    pub window: Duration,
    /// Processor time that its faults may take within the window, from the first calls of the instances that they cost.
    pub lost: Duration,
    /// How long the first quarantine lasts; each one in a row is twice as long.
    pub backoff: Duration,
}

/// A new binary that faults more often within the span gives way to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probation {
    /// How long it lasts.
    pub span: ProbationSpan,
    /// The number of faults that are forgiven.
    pub faults: u32,
}

/// How long a probation lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbationSpan {
    /// The time from the swap on.
    Time(Duration),
    /// This many calls of the new binary.
    Calls(u64),
}
