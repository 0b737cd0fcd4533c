//! The decisions of each built-in plugin of kube-scheduler 1.36, in a module for each plugin.
//!
//! A plugin reads the cluster table that each call of `berth_framework` passes in, and returns its decision. A plugin
//! does no I/O, reads no clock and starts no thread, so the same code is linked into the host and built as a component.
//! Start reading at [`BuiltIn`], then at [`NodeName`], the smallest plugin that checks nodes.

#![warn(clippy::wildcard_enum_match_arm)]

mod args;
mod built_in;
mod case_walk;
mod default_binder;
mod default_preemption;
mod domain_totals;
mod dynamic_resources;
mod hints;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_check;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod node_rules;
mod node_unschedulable;
mod node_volume_limits;
mod normalize;
mod per_cycle;
mod pod_counts;
mod pod_topology_spread;
mod priority_sort;
mod registry;
mod reuse;
mod row_blocks;
mod scheduling_gates;
mod scored_resources;
mod signatures;
mod storage;
mod symbol_lookup;
mod taint_toleration;
#[cfg(test)]
mod testing;
mod topology;
mod utilization_shape;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

pub use built_in::{BuiltIn, Descriptor, StaticKind};
pub use default_binder::DefaultBinder;
pub use default_preemption::DefaultPreemption;
pub use dynamic_resources::DynamicResources;
pub use image_locality::ImageLocality;
pub use inter_pod_affinity::InterPodAffinity;
pub use node_affinity::NodeAffinity;
pub use node_declared_features::NodeDeclaredFeatures;
pub use node_name::NodeName;
pub use node_ports::NodePorts;
pub use node_resources_balanced_allocation::NodeResourcesBalancedAllocation;
pub use node_resources_fit::NodeResourcesFit;
pub use node_unschedulable::NodeUnschedulable;
pub use node_volume_limits::NodeVolumeLimits;
pub use pod_topology_spread::PodTopologySpread;
pub use priority_sort::PrioritySort;
pub use registry::{factories, factory};
pub use scheduling_gates::SchedulingGates;
pub use taint_toleration::TaintToleration;
pub use volume_binding::VolumeBinding;
pub use volume_restrictions::VolumeRestrictions;
pub use volume_zone::VolumeZone;
