//! Kubernetes objects as the scheduler sees them, and the node table that plugins look at.
//!
//! No I/O, no clock, builds for wasm: the same types serve the host and every Rust guest.

pub mod api;
pub mod quantity;
