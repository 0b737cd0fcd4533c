//! A running scheduler on one API server: its thread, the inputs of the thread, and the requests that it makes.
//!
//! A [`Session`] owns all tasks and the thread. `watching` sends events to the thread, `executor` carries out its
//! actions, and `election` decides when the thread may schedule. `reload` and `credentials` follow files. The endpoints
//! and the plugin host are in lower crates.

mod admin;
mod cache_dump;
mod client_metrics;
pub mod configuration;
mod credentials;
mod election;
mod executor;
mod explain;
mod extenders;
mod follower;
mod front;
#[cfg(test)]
mod heard;
mod informers;
mod kept_plugins;
mod log_lines;
mod options;
mod page;
mod placement_reason;
mod plan;
mod plugin_events;
mod readers;
pub mod release;
mod reload;
pub mod rights;
mod scheduling;
mod score_lines;
mod session;
mod tasks;
mod traces;
mod watching;
mod what_if;

pub use options::{KEPT_DECISIONS_MIB, Options};
pub use placement_reason::PlacementReason;
pub use plan::{Draft, Plan};
pub use session::{Session, settings};
pub use traces::check_tracing_config;
