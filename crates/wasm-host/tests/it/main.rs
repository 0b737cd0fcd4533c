//! Components as the framework's traits show them: what loads, what is refused, and what a fault costs.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod cluster;
mod faults;
mod fuzz;
mod loading;
mod refusals;
mod serving;
mod state;
mod time;
mod words;
