//! What the scheduler would do: a cluster as values, and the scheduling core on it, with an API server that agrees to everything
//! at once.
//!
//! [`ClusterReader`] makes a [`Cluster`] of manifests, as the API server and the controllers would: pods of Deployments and the
//! like, priorities, claims. [`place`] gives its pods to a [`Simulation`], which is the scheduler that `berth run` runs, told the
//! same events: where it places a pod, and what it says of one that fits nowhere, is what the scheduler does by construction.
//!
//! The crate knows no clock, no files and no threads.

mod admission;
mod api_server;
mod batch;
mod budgets;
mod cluster;
mod compare;
mod fields;
mod how_many;
mod manifest;
mod moves;
mod outcome;
mod picture;
mod place;
mod report;
mod simulation;
mod snapshot;
mod utilization;
mod volumes;
mod workloads;

pub use api_server::{ApiServer, ApiServerError, Change};
pub use batch::{
    AddedNodes, Batch, BatchBounds, BatchError, NodeGroup, NodeGroupAnswer, Variant, VariantAnswer, WhatIfAnswer,
    WhatIfRequest, what_if,
};
pub use cluster::{AddNodesError, Cluster, ClusterNode, ClusterPod, ClusterReader};
pub use compare::{Answers, Comparison, MovedPod, NodeAnswer, Questions, Side};
pub use how_many::{HowMany, how_many};
pub use manifest::ReadError;
pub use moves::{Blocked, Consolidation, Drain, EmptiedNode, Move, consolidate, drain};
pub use outcome::{Choice, Eviction, NodesRejected, Placed, PodOutcome, Refusal, RefusalReason};
pub use picture::svg;
pub use place::{Arrival, Conditions, Fork, PlaceError, Placing, place, place_and_ask};
pub use report::{API_VERSION, BeforeAndAfter, Report, Summary, uses_after, uses_before};
pub use simulation::Simulation;
pub use snapshot::{Redaction, snapshot};
pub use utilization::{Fragmentation, NodeUse, ResourceUse, Utilization, ZoneUse, node_uses};
