//! The sandbox through its HTTP border: recorded exchanges, a recorded story, what happens by itself, and the
//! simulated controllers.

#![expect(clippy::expect_used, reason = "a test ends where its footing is gone")]

mod budgets;
mod claims;
mod cluster;
mod compare;
mod http;
mod life;
mod recorded;
mod replay;
mod story;
mod volumes;
mod workloads;
