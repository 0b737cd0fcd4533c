//! The size of a delta in bytes for the component that gets it. `berth plugin bench` shows it.

use berth_model::Delta;
use wasmtime::component::ComponentType;

use crate::{
    bindings::{points::sync, types},
    convert::lower,
};

/// The bytes that the host writes into a component's memory for a delta, in all its portions.
#[must_use]
pub fn delta_bytes(delta: Delta) -> u64 {
    let portions = delta.into_portions().into_iter().map(lower::delta);
    let bytes: usize = portions.map(|portion| size_of_one::<sync::Delta>() + portion.indirect_bytes()).sum();
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The bytes of a value in a record or list.
const fn size_of_one<T: ComponentType>() -> usize {
    T::SIZE32
}

/// A value of the contract. In a record, a list or string is a pointer and a length, and its content is elsewhere.
trait IndirectSize {
    /// The bytes to which the value points.
    fn indirect_bytes(&self) -> usize;
}

impl IndirectSize for String {
    fn indirect_bytes(&self) -> usize {
        self.len()
    }
}

impl<T: IndirectSize + ComponentType> IndirectSize for Vec<T> {
    fn indirect_bytes(&self) -> usize {
        self.len() * size_of_one::<T>() + self.iter().map(IndirectSize::indirect_bytes).sum::<usize>()
    }
}

impl<T: IndirectSize> IndirectSize for Option<T> {
    fn indirect_bytes(&self) -> usize {
        self.as_ref().map_or(0, IndirectSize::indirect_bytes)
    }
}

impl<A: IndirectSize, B: IndirectSize> IndirectSize for (A, B) {
    fn indirect_bytes(&self) -> usize {
        self.0.indirect_bytes() + self.1.indirect_bytes()
    }
}

macro_rules! flat {
    ($($type:ty),* $(,)?) => {
        $(impl IndirectSize for $type {
            fn indirect_bytes(&self) -> usize {
                0
            }
        })*
    };
}

flat!(
    bool,
    u8,
    u32,
    u64,
    i32,
    i64,
    types::ContainerKind,
    types::Operator,
    types::TaintEffect,
    types::TolerationOperator
);

macro_rules! records {
    ($($type:ty { $($field:ident),* $(,)? })*) => {
        $(impl IndirectSize for $type {
            fn indirect_bytes(&self) -> usize {
                let Self { $($field),* } = self;
                0 $(+ $field.indirect_bytes())*
            }
        })*
    };
}

records! {
    sync::Delta {
        generation, full, symbols, taint_sets, image_sizes, removed, added, columns, pods_removed, pods_placed, objects,
    }
    sync::ColumnChange { rows, data }
    sync::SymbolLists { ends, items }
    sync::LabelLists { ends, items }
    sync::PortLists { ends, items }
    sync::ResourceColumns { names, values }
    sync::NonZeroColumns { milli_cpu, memory }
    sync::Object { api_version, kind, namespace, name, json }
    sync::PlacedPod { slot, node, pod }
    types::Pod {
        uid, namespace, name, labels, scheduler_name, priority, node_name, nominated_node_name, terminating,
        scheduling_gates, owner, started_at, never_preempts, preempted, node_rules, affinity, topology_spread,
        tolerations, host_ports, volumes, resource_claims, extended_requests, extended_claim, images, containers,
        required_features, requests, placed_requests, placed_non_zero, scoring_requests, balanced_requests, json,
    }
    types::Taint { key, value, effect }
    types::Toleration { key, operator, value, effect }
    types::Requirement { key, operator, values }
    types::NodeTerm { labels, fields, error }
    types::WeightedNodeTerm { weight, term }
    types::NodeRules { selector, required, preferred }
    types::LabelSelector { requirements, error }
    types::SpreadConstraint {
        max_skew, topology_key, hard, selector, min_domains, honor_node_affinity, honor_node_taints,
    }
    types::PodTerm { namespaces, namespace_selector, selector, topology_key }
    types::WeightedPodTerm { weight, term }
    types::PodAffinity { required, preferred, anti_required, anti_preferred }
    types::NamedDisk { name, read_only }
    types::RbdImage { monitors, pool, image, read_only }
    types::Volume { name, source }
    types::PodClaim { name, from_template, claim }
    types::ExtendedRequest { container, container_name, kind, resource, request, amount }
    types::Owner { api_version, kind, name, uid }
    types::HostPort { address, protocol, port }
    types::Resources { milli_cpu, memory, ephemeral_storage, scalars }
    types::NonZero { milli_cpu, memory }
}

impl IndirectSize for types::VolumeSource {
    fn indirect_bytes(&self) -> usize {
        match self {
            Self::Claim(text) | Self::AwsElasticBlockStore(text) | Self::Csi(text) => text.indirect_bytes(),
            Self::Ephemeral => 0,
            Self::GcePersistentDisk(disk) | Self::Iscsi(disk) => disk.indirect_bytes(),
            Self::Rbd(image) => image.indirect_bytes(),
            Self::InTree(names) => names.indirect_bytes(),
        }
    }
}

impl IndirectSize for types::ClaimName {
    fn indirect_bytes(&self) -> usize {
        match self {
            Self::Known(name) => name.indirect_bytes(),
            Self::Pending | Self::NotNeeded => 0,
        }
    }
}

impl IndirectSize for sync::ColumnData {
    fn indirect_bytes(&self) -> usize {
        match self {
            Self::Name(symbols) | Self::Taints(symbols) => symbols.indirect_bytes(),
            Self::Unschedulable(flags) => flags.indirect_bytes(),
            Self::Labels(lists) => lists.indirect_bytes(),
            Self::Allocatable(columns) | Self::Requested(columns) => columns.indirect_bytes(),
            Self::NonZeroRequested(columns) => columns.indirect_bytes(),
            Self::PodCount(counts) => counts.indirect_bytes(),
            Self::Images(lists) | Self::DeclaredFeatures(lists) => lists.indirect_bytes(),
            Self::HostPorts(lists) => lists.indirect_bytes(),
            Self::Annotations(rows) => rows.indirect_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{NodeIdx, ObjectChange, Sym};

    use super::*;

    #[test]
    fn what_lists_and_texts_point_at_counts() {
        let empty = delta_bytes(Delta::default());
        let symbols = vec![(Sym(11), "disk".to_owned()), (Sym(12), "ssd".to_owned())];
        let delta = Delta { symbols, added: vec![NodeIdx(0), NodeIdx(1)], ..Delta::default() };
        // Each of the two entries has a number, a pointer and a length, and a text. Then come two rows.
        assert_eq!(delta_bytes(delta), empty + 2 * 12 + 7 + 2 * 4);
    }

    #[test]
    fn every_portion_counts() {
        let object = |name: usize| ObjectChange {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: String::new(),
            name: name.to_string(),
            json: Some(vec![b' '; 600_000].into()),
        };
        let bytes =
            |n_objects| delta_bytes(Delta { objects: (0..n_objects).map(object).collect(), ..Delta::default() });
        let (one, two, three) = (bytes(1), bytes(2), bytes(3));
        assert_eq!(two - one, one - bytes(0));
        // The third object does not fit into the portion of the first two.
        assert_eq!(three - two, one);
    }
}
