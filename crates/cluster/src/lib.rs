//! The connection to Kubernetes: changes in the API server come in as [`WatchEvent`]s, and the scheduler's decisions go
//! out through a [`Writer`] and an [`EventRecorder`].
//!
//! This is the only crate that depends on `kube`. It has no queues, plugins or configuration: the host passes in
//! finished decisions and a channel. Every request has the shape of kube-scheduler 1.36.
//!
//! A cache of objects is deliberately absent. A watch remembers only names, uids and resource versions of the objects
//! that it has seen, so that it can detect objects that vanished while it was not connected.

mod api_error;
mod clock;
mod connect;
mod create;
mod event;
mod fair_queue;
mod impersonation;
mod json_service;
mod kinds;
mod leader_election;
mod lease;
mod list;
mod name_service;
mod object;
mod observe;
mod rate;
mod request;
mod retry;
mod review;
mod server_info;
mod slots;
mod task_end;
mod transport;
mod watch;
mod write;

#[cfg(test)]
mod test_server;

/// The user agent of requests, which appears in the API server's audit log and field managers.
pub const USER_AGENT: &str = concat!("berth/", env!("CARGO_PKG_VERSION"));

pub use connect::{
    ConnectError, ConnectOptions, Connection, ExchangeError, Origin, Renewal, RenewalError, connect, connect_for_long,
};
pub use create::{CreateError, Creator};
pub use event::{EventRecorder, EventType, NewEvent, ObjectReference};
pub use fair_queue::{FairQueue, Flow};
pub use impersonation::Impersonation;
pub use json_service::{JsonService, JsonServiceError, JsonServiceOptions};
pub use kinds::Kinds;
pub use kube::Client;
pub use leader_election::{Coordination, ElectionSettings, Elector, Leadership, LeadershipLost};
pub use lease::{LeaseError, LeaseHolder, lease_holder};
pub use list::{ListError, list};
pub use name_service::use_built_in_name_services;
pub use object::{ObjectRef, PodRef};
pub use observe::{ObservedRequest, RequestObserver};
pub use rate::RequestRate;
pub use review::{AccessDecision, AccessReviewer, Caller, ResourceRequest, ReviewError};
pub use server_info::{ResourceAccess, ServerInfo, ServerInfoError, has_access, server_info};
pub use task_end::end_as;
pub use watch::{ConfigMapError, ConfigMapWatch, WatchEvent, WatchHandle, WatchObserver, Watches, spawn_watches};
pub use write::{Evicted, Nomination, PatchType, PodCondition, StatusPatch, WriteError, Writer};
