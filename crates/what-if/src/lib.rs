//! Simulates the scheduler. The scheduling core works on a cluster that is given as data. The API server of the
//! simulation accepts every request immediately.
//!
//! [`ClusterReader`] makes a [`Cluster`] from manifests, as the API server and the controllers would. It adds the pods
//! of Deployments and similar workloads, priorities, and claims. [`place`] passes the pods of the cluster to a
//! [`Simulation`]. The simulation uses the same scheduler as `berth run`, and gives the scheduler the same events. The
//! placement of each pod, and the message for a pod that does not fit, are therefore the real scheduler's.
//!
//! The crate uses no clock, no files and no threads.

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

pub use api_server::{ApiServer, ApiServerError, Change, merge_strategically};
pub use batch::{
    AddedNodes, AskedPod, Batch, BatchBounds, BatchError, NewNode, NodeGroup, NodeGroupAnswer, Variant, VariantAnswer,
    WhatIfAnswer, WhatIfRequest, what_if, what_if_followed,
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
pub use utilization::{Fragmentation, NodeUse, ResourceUse, Spread, Utilization, ZoneUse, node_uses};
