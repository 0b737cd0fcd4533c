//! The endpoints of a scheduler: probes, metrics and other data, over plain HTTP, over HTTPS and on a Unix socket.
//!
//! [`connections`] limits the resources that clients can hold, [`secure_serving`] controls access, and [`endpoints`]
//! has the paths. Data about the scheduler comes through one trait, [`ReadModel`]. [`Health`] has the data for probes.

pub mod admin_socket;
pub mod connections;
pub mod endpoints;
mod health;
pub mod https_client;
mod read_model;
pub mod secure_serving;

pub use health::{Check, Health, Probe, Unhealthy};
pub use read_model::ReadModel;
