//! A scheduler at work on one API server: its thread, what that is fed with, and what is done for it.
//!
//! A [`Session`] owns all tasks and the thread. `watching` feeds the thread with events, `executor` carries out its actions, `election`
//! says when it may schedule, `reload` and `credentials` follow files. Endpoints and the plugin host are crates below.

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
mod options;
mod page;
mod placement_reason;
mod plan;
mod plugin_events;
pub mod release;
mod reload;
pub mod rights;
mod scheduling;
mod score_lines;
mod session;
mod tasks;
mod watching;

pub use options::{KEPT_DECISIONS_MIB, Options};
pub use placement_reason::PlacementReason;
pub use plan::{Draft, Plan};
pub use session::{Session, settings};
