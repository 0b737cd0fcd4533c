//! The HTTP side of the Kubernetes API: from a request to a response.
//!
//! `router` receives a request and finds the kind for the path and the handler for the method. A handler reads the
//! request, calls an operation of `objects` or reads the store, and writes the response in the requested format.

mod binding;
pub(crate) mod context;
mod delete;
mod discovery;
mod eviction;
mod formats;
mod openapi;
mod patch;
mod query;
mod read;
mod request;
mod responses;
mod reviews;
pub(crate) mod router;
mod scale;
mod user;
mod watch;
mod write;
