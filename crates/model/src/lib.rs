//! Kubernetes objects as the scheduler sees them, and the node table that plugins read.
//!
//! The crate has no I/O and no clock, and builds for wasm: the host and every Rust guest use the same types.

pub mod api;
pub mod backoff;
mod changed_keys;
pub mod cluster_table;
pub mod condition_reason;
pub mod delta;
pub mod digest;
mod disruption_budgets;
pub mod duration;
pub mod features;
pub mod intern;
pub mod kind_ref;
pub mod label_table;
pub mod node;
pub mod node_set;
pub mod object_key;
pub mod object_table;
pub mod owner_id;
pub mod plugin_name;
pub mod plugin_policy;
pub mod pod;
pub mod pod_table;
pub mod pod_uid;
pub mod qualified_name;
pub mod quantity;
pub mod requests;
pub mod sampling;
pub mod selector;
pub mod serde_with;
pub mod symbols;
mod taint_sets;
pub mod time;
pub mod toleration;

pub use changed_keys::ChangedKeys;
pub use cluster_table::ClusterTable;
pub use condition_reason::ConditionReason;
pub use delta::{
    Column, ColumnChange, ColumnData, Columns, Delta, Lists, ObjectChange, PlacedPod, ResourceColumns, Usage,
};
pub use digest::{BinaryId, Digest, DigestError};
pub use disruption_budgets::{DisruptionBudget, DisruptionBudgets};
pub use features::{Feature, Features, Release};
pub use kind_ref::KindRef;
pub use node::Node;
pub use node_set::{NodeIdx, NodeSet};
pub use object_key::ObjectKey;
pub use object_table::{Catchup, ObjectTable, ObjectView};
pub use owner_id::OwnerId;
pub use plugin_name::PluginName;
pub use pod::{EquivalenceClass, Pod};
pub use pod_table::{PodChange, PodIdx, PodTable};
pub use pod_uid::PodUid;
pub use symbols::{Interning, Sym, Symbols, TemporarySymbols, Uses};
pub use taint_sets::TaintSetId;
pub use thin_vec::ThinVec;
pub use time::Time;
