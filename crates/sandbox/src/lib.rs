//! A Kubernetes API in memory, over real HTTP, with nodes that run nothing.
//!
//! [`Sandbox::start`] gives a server that `kubectl` and client libraries take for a cluster's API server: the kinds
//! that a scheduler reads and writes, custom resources, watches, patches, selectors, admission of pods, eviction. Bound
//! pods turn `Running` by themselves and deleted ones go, after delays of your choice. The controllers that a scheduler
//! works with are simulated: volumes, device claims, disruption budgets, and workloads as far as examples need them.
//!
//! Reading order: a request enters in `api`, which finds the `kinds` behind a path; `read` and `watch` answer from the
//! `store`; `write` and `delete` change it by the rules in the modules below them; `kubelet`, `namespaces` and
//! `controllers` act on their own.

mod server;

mod api;
mod media;
mod query;
mod registry;

mod kinds;
mod object;
mod store;
mod view;

mod discovery;
mod openapi;
mod read;
mod table;
mod watch;

mod field_selector;
mod label_selector;
mod selection;

mod apply;
mod binding;
mod delete;
mod eviction;
mod patch;
mod reviews;
mod scale;
mod write;

mod decode;
mod duplicates;
mod events;
mod lists;
mod protobuf;
mod quantity;
mod schema;
mod strategic;

mod admission;
mod crd;
mod defaults;
mod lifecycle;
mod metadata;
mod names;
mod pod_defaults;
mod pod_validation;
mod qos;
mod validation;

mod clock;
mod controllers;
mod follow;
mod kubelet;
mod namespaces;
mod nodes;
mod status;

pub use nodes::nodes;
pub use server::{Error, Options, Sandbox};
