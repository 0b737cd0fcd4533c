//! The life of plugins: which binary of a plugin serves which profile, and the consequences of every event.
//!
//! The crate is pure: it compiles nothing, waits for nothing, and gets the time from its caller. Each method of
//! [`PluginRegistry`] takes a fact or an operator's order and returns [`Consequences`]: the swaps that carry out the
//! decision in the scheduler, and notices for the log, metrics and Kubernetes events. The crate does not look into
//! binaries. The caller knows how to make instances of a binary.
//!
//! The module `life` contains the states and all transitions, in one `match`. [`Isolation`] decides which owners' pods
//! are held back for faults while the plugin serves all other pods.

#![warn(clippy::wildcard_enum_match_arm)]

mod binary;
mod consequences;
mod fault;
mod isolation;
mod policy;

mod life;
mod plugin;
mod probation;
mod profile_slot;
mod registry;
mod remembered;
mod status;

pub use binary::{Component, CountCalls, Service};
pub use consequences::{Consequences, PluginNotice, PluginNoticeKind, Swap};
pub use fault::Fault;
pub use isolation::{HeldOwner, Hold, Isolation};
pub use life::Fallback;
pub use plugin::{Forbidden, NoFallback, Rebuild, SettingsChange};
pub use policy::{OperatorPolicy, PluginPolicy};
pub use probation::ProbationEnd;
pub use profile_slot::Restart;
pub use registry::{OrderError, PluginRegistry};
pub use remembered::{FailedBinary, QuarantineRecord, Remembered, RememberedQuarantine};
pub use status::{PluginState, PluginStatus};
