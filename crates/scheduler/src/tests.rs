//! The scheduler with fake plugins, against a fake API server.

mod kit;
mod model;
mod permit;
mod placing;
mod swap;
