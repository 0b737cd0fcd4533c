//! Faults of an API server on demand, to test controllers with.
//!
//! [`serve`] is an HTTP server in front of any handler of Kubernetes requests. Rules ([`Rule`]) say which requests it
//! refuses, delays or leaves without an answer, and which watches it breaks off, silences or has repeat themselves. Rules
//! come from the program ([`Faults::add`]) or through the endpoint `/faults` of the server itself.
//!
//! What a rule does to its n-th matching request follows from its seed, its name and n alone, so a client that sends the
//! same requests in the same order meets the same faults.

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
