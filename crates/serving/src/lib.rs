//! What a scheduler serves: probes, metrics and what there is to see, over plain HTTP, over HTTPS and on a Unix socket.
//!
//! [`connections`] bounds what clients can hold, [`secure_serving`] says who may ask for what, [`endpoints`] has the paths. What they
//! show of the scheduler comes through one trait, [`ReadModel`]; [`Health`] is what probes answer from.

pub mod admin_socket;
pub mod connections;
pub mod endpoints;
mod health;
pub mod https_client;
mod read_model;
pub mod secure_serving;

pub use health::{Check, Health, Probe, Unhealthy};
pub use read_model::ReadModel;
