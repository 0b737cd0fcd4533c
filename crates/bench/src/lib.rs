//! scheduler_perf's workloads, the engine that runs them through a scheduler, and the figures.
//!
//! [`workload`] has the workloads by their names, [`engine`] runs one through a
//! [`Scheduler`](berth_scheduler::Scheduler) alone, [`command`] is the common part of `berth bench` and `berth-bench`,
//! and [`figures`] compares runs. A program that runs workloads in another way, with components or against an API
//! server, implements [`Runner`]. This crate has no wasm and no HTTP, so it builds in a minute and a profile of it
//! shows only the scheduling core.

pub mod command;
pub mod curves;
pub mod engine;
pub mod figures;
pub mod run;
pub mod usage;
pub mod workload;

mod plot;

pub use run::{AnswerTimes, Run, RunConditions, Runner};
