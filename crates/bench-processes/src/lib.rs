//! A workload through a scheduler process and an API server, over HTTP: `berth bench --through http` and
//! `--through kubeconfig`.
//!
//! The scheduler is a process of its own, so its processor time and memory are its own as well. This process creates
//! the pods and watches them. The sandbox is a third process. This crate starts programs, so it contains no scheduler
//! and no wasm.

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
