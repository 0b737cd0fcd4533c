//! The HTTP side of the Kubernetes API: from a request to a response.
//!
//! A request enters in `router`, which finds the kind behind the path and the handler for the method. A handler reads
//! the request, calls an operation of `objects` or reads the store, and writes the response in the format asked for.

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
mod watch;
mod write;
