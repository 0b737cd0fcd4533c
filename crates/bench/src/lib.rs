//! scheduler_perf's workloads, what takes them through a scheduler, and the figures.
//!
//! [`workload`] has the workloads by their names, [`engine`] takes one through a [`Scheduler`](berth_scheduler::Scheduler)
//! alone, [`command`] is what `berth bench` and `berth-bench` have in common, and [`figures`] compares runs. Who runs a
//! workload some other way, with components or against an API server, implements [`Runner`]. There is no wasm and no HTTP
//! here, so this crate builds in a minute and a profile of it shows the scheduling core alone.

pub mod command;
pub mod curves;
pub mod engine;
pub mod figures;
pub mod run;
pub mod usage;
pub mod workload;

mod plot;

pub use run::{Conditions, Run, Runner};
