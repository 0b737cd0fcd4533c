//! Faults of an API server on demand, for tests of controllers.
//!
//! [`serve`] is an HTTP server in front of any handler of Kubernetes requests. Rules ([`Rule`]) decide which requests
//! the server refuses, delays or leaves without an answer. Rules also decide which watches are cut, which watches are
//! silenced, and which watches repeat their events. Rules come from the program ([`Faults::add`]) or through the
//! endpoint `/faults` of the server itself.
//!
//! The effect of a rule on its n-th matching request depends only on its seed, its name and n. A client that sends the
//! same requests in the same order therefore meets the same faults.

mod endpoint;
mod engine;
mod http_status;
mod request_info;
mod rule;
mod server;
mod stopping;
mod watch_stream;

pub use engine::Faults;
pub use request_info::RequestInfo;
pub use rule::{InjectedFault, Match, Rule, RuleError, read_rules};
pub use server::serve;
