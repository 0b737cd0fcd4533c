//! A Kubernetes API in memory, over real HTTP, with nodes on which nothing runs.
//!
//! [`Sandbox::start`] starts a server that `kubectl` and client libraries accept as a cluster's API server. It has the
//! kinds that a scheduler reads and writes, custom resources, watches, patches, selectors, admission of pods, and
//! eviction. Bound pods become `Running` and deleted pods are removed, after delays that the caller chooses. The
//! controllers that a scheduler works with are simulated: volumes, device claims, disruption budgets, and workloads as
//! far as examples need them. Rules at `/faults` let requests and watches fail as in real clusters (`berth-faults`).
//!
//! The modules from the top: `server` connects everything. A request arrives in `api`, which calls the operations in
//! `objects`. The operations follow the `rules` and write the `storage` behind `state`. `controllers` use the same
//! operations, without requests. A module uses only the modules that come before it in the list below.

mod fields;
mod release;
mod storage;

mod kinds;
mod status;

mod selectors;
mod state;

mod rules;

mod objects;

mod api;
mod controllers;

mod nodes;
mod server;

pub use berth_faults::{Faults, Rule, RuleError, read_rules};
pub use nodes::nodes;
pub use release::KubernetesRelease;
pub use server::{Error, Options, Sandbox};
