//! Kubernetes at the edge: what the API server says comes in as [`WatchEvent`]s, what the scheduler decided goes out
//! through a [`Writer`] and an [`EventRecorder`].
//!
//! This is the only crate that knows `kube`. It knows nothing of queues, plugins or configuration: the host hands it
//! finished decisions and a channel. Every request has the shape that kube-scheduler 1.36 gives it.
//!
//! Deliberately absent: any cache of objects. Of what it has seen, a watch remembers names, uids
//! and resource versions only, so that it can tell what vanished while it was not looking.

mod api_error;
mod clock;
mod connect;
mod create;
mod event;
mod fair_queue;
mod json_service;
mod kinds;
mod leader_election;
mod lease;
mod list;
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

/// The name under which requests are sent: what the API server's audit log and field managers show.
pub const USER_AGENT: &str = concat!("berth/", env!("CARGO_PKG_VERSION"));

pub use connect::{
    ConnectError, ConnectOptions, Connection, ExchangeError, Origin, Renewal, RenewalError, connect, connect_for_long,
};
pub use create::{CreateError, Creator};
pub use event::{EventRecorder, EventType, NewEvent, ObjectReference};
pub use fair_queue::{FairQueue, Flow};
pub use json_service::{JsonService, JsonServiceError, JsonServiceOptions};
pub use kinds::Kinds;
pub use kube::Client;
pub use leader_election::{ElectionSettings, Elector, Leadership, LeadershipLost};
pub use lease::{LeaseError, LeaseHolder, lease_holder};
pub use list::{ListError, list};
pub use object::{ObjectRef, PodRef};
pub use observe::RequestObserver;
pub use rate::RequestRate;
pub use review::{AccessReviewer, Caller, ResourceRequest, ReviewError};
pub use server_info::{ResourceAccess, ServerInfo, ServerInfoError, has_access, server_info};
pub use task_end::end_as;
pub use watch::{WatchEvent, WatchHandle, Watches, spawn_watches};
pub use write::{Evicted, Nomination, PatchType, PodCondition, StatusPatch, WriteError, Writer};
