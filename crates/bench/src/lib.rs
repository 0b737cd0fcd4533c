//! What a pod costs the scheduling core: kube-scheduler's benchmarks without an API server.
//!
//! [`workload`] has the workloads of scheduler_perf by their names, [`engine`] takes one through a
//! [`Scheduler`](berth_scheduler::Scheduler) with the built-in plugins linked in, and [`report`] compares runs. There is no
//! wasm and no HTTP here, so this crate builds in a minute and a profile of it shows the core alone. Deliberately absent:
//! what decoding an object costs, since pods are decoded before the clock starts.

pub mod engine;
pub mod report;
pub mod workload;
