//! Tests of the sandbox through HTTP: recorded exchanges, recorded watches of one pod, and the simulated controllers.

#![expect(clippy::expect_used, reason = "a test ends where its footing is gone")]

mod budgets;
mod claims;
mod cluster;
mod compare;
mod faults;
mod http;
mod life;
mod recorded;
mod replay;
mod story;
mod users;
mod volumes;
mod workloads;
