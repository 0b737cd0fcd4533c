//! A workload through a scheduler process and an API server, over HTTP: `berth bench --through http` and
//! `--through kubeconfig`.
//!
//! The scheduler is a separate process, so its processor time and memory can be measured. This process creates and
//! watches the pods. The sandbox is a third process. This crate starts programs, so it contains no scheduler and no
//! wasm.

mod processes;
mod scheduler;
mod server;
mod users;

pub use self::{
    processes::Processes,
    scheduler::{BerthRun, Program},
    server::Server,
    users::{Users, View},
};
