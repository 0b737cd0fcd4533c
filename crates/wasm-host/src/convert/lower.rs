//! Pods, deltas and events in the contract's form.
//!
//! A delta is taken by value: columns of numbers and strings are moved, and symbols become integers in place.

use std::sync::Arc;

use berth_framework::{ClusterEvent, Code, DryRunCase, EventSubject, Failure, Preemption, RejectedNodes, Status};
use berth_model::{
    ColumnChange, ColumnData, Delta, Lists, Node, NodeIdx, ObjectChange, PlacedPod, Pod, ResourceColumns, Sym,
    api::StringMap,
    pod::{
        HostPort, NodeRules, NodeTerm, NonZero, Operator, Requirement, Resources, Taint, TaintEffect, Toleration,
        TolerationOperator, WeightedNodeTerm,
    },
};

use crate::bindings::{
    berth::scheduler::host,
    points::{filter, post_filter, queueing_hint, sync},
    types,
};

mod pod_parts;
mod usage;

pub(crate) use self::usage::only_usage;

/// The pod's record. Only plugins that requested the whole object get it.
pub(crate) fn pod(pod: &Pod, with_json: bool) -> types::Pod {
    types::Pod {
        uid: pod.uid.to_string(),
        namespace: pod.namespace.0,
        name: pod.name.to_string(),
        labels: pairs(&pod.labels),
        scheduler_name: pod.scheduler_name.0,
        priority: pod.priority,
        node_name: pod.node_name.0,
        nominated_node_name: pod.nominated_node_name.0,
        terminating: pod.terminating,
        scheduling_gates: pod.scheduling_gates.iter().map(ToString::to_string).collect(),
        owner: pod.owner.as_ref().map(pod_parts::owner),
        started_at: pod.started_at,
        never_preempts: pod.never_preempts,
        preempted: pod.is_preempted,
        node_rules: node_rules(&pod.node_rules),
        affinity: pod_parts::affinity(&pod.affinity),
        topology_spread: pod.topology_spread.iter().map(pod_parts::spread_constraint).collect(),
        tolerations: pod.tolerations.iter().map(toleration).collect(),
        host_ports: pod.host_ports.iter().map(host_port).collect(),
        volumes: pod.volumes.iter().map(pod_parts::volume).collect(),
        resource_claims: pod.resource_claims.iter().map(pod_parts::claim).collect(),
        extended_requests: pod.extended_requests.iter().map(pod_parts::extended_request).collect(),
        extended_claim: pod.extended_claim.as_ref().map(ToString::to_string),
        images: symbols(&pod.images),
        containers: pod.n_containers,
        required_features: symbols(&pod.required_features),
        requests: resources(&pod.requests),
        placed_requests: resources(&pod.placed_requests),
        placed_non_zero: non_zero(pod.placed_non_zero),
        scoring_requests: resources(&pod.scoring_requests),
        balanced_requests: resources(&pod.balanced_requests),
        json: pod.json.as_ref().filter(|_| with_json).map(|json| json.to_vec()),
    }
}

pub(crate) fn delta(delta: Delta) -> sync::Delta {
    sync::Delta {
        generation: delta.generation,
        full: delta.full,
        symbols: delta.symbols.into_iter().map(|(sym, text)| (sym.0, text)).collect(),
        taint_sets: delta.taint_sets.iter().map(|(id, set)| (*id, set.iter().map(taint).collect())).collect(),
        image_sizes: delta.image_sizes.into_iter().map(|(name, size)| (name.0, size)).collect(),
        removed: rows(delta.removed),
        added: rows(delta.added),
        columns: delta.columns.into_iter().map(column_change).collect(),
        pods_removed: delta.pods_removed.into_iter().map(|idx| idx.0).collect(),
        pods_placed: delta.pods_placed.iter().map(placed_pod).collect(),
        objects: delta.objects.into_iter().map(object).collect(),
    }
}

fn placed_pod(placed: &PlacedPod) -> sync::PlacedPod {
    sync::PlacedPod { slot: placed.idx.0, node: placed.node.0, pod: pod(&placed.pod, false) }
}

pub(crate) fn preemption(preemption: &Preemption) -> host::Preemption {
    host::Preemption {
        node: preemption.node.0,
        victims: preemption.victims.iter().map(|victim| victim.0).collect(),
        violations: preemption.n_violations,
    }
}

pub(crate) fn status(status: &Status) -> types::Status {
    let code = match status.code {
        Code::Success => types::Code::Success,
        Code::Error => types::Code::Error,
        Code::Unschedulable => types::Code::Unschedulable,
        Code::UnschedulableAndUnresolvable => types::Code::UnschedulableAndUnresolvable,
        Code::Wait => types::Code::Wait,
        Code::Skip => types::Code::Skip,
        Code::Pending => types::Code::Pending,
    };
    types::Status { code, reasons: status.reasons.clone() }
}

pub(crate) fn failure(failure: &Failure<'_>, with_json: bool) -> post_filter::Failure {
    let group = |group: &RejectedNodes| types::RejectedNodes {
        status: status(&group.status),
        nodes: group.nodes.words().to_vec(),
    };
    post_filter::Failure {
        rejections: failure.rejections.iter().map(group).collect(),
        absent: failure.absent.map(status),
        nominated: failure.nominated.iter().map(|(node, nominated)| (node.0, pod(nominated, with_json))).collect(),
    }
}

pub(crate) fn cluster_event(event: &ClusterEvent) -> types::ClusterEvent {
    let mut actions = types::Actions::empty();
    for (bit, action) in ACTIONS {
        if event.actions & bit != 0 {
            actions |= action;
        }
    }
    types::ClusterEvent { resource: event.resource.clone(), actions }
}

/// The object of an event. `pod` lowers a pod in the form that the plugin may see.
pub(crate) fn event_subject(
    subject: &EventSubject<'_>,
    pod: impl Fn(&Pod) -> types::Pod,
) -> queueing_hint::EventSubject {
    match *subject {
        EventSubject::Pod { old, new } => {
            let [old, new] = [old, new].map(|it| it.map(&pod));
            queueing_hint::EventSubject::Pod(queueing_hint::PodChange { old, new })
        }
        EventSubject::Node { old, new } => {
            let [old, new] = [old, new].map(|it| it.map(node));
            queueing_hint::EventSubject::Node(queueing_hint::NodeChange { old, new })
        }
        EventSubject::Object { key, old, new } => {
            let [old, new] = [old, new].map(|json| json.map(<[u8]>::to_vec));
            let object = types::ObjectRef {
                kind: format!("{}/{}", key.api_version, key.kind),
                namespace: key.namespace.clone(),
                name: key.name.clone(),
            };
            queueing_hint::EventSubject::Object(queueing_hint::ObjectChange { object, old, new })
        }
        EventSubject::Hidden => queueing_hint::EventSubject::Hidden,
    }
}

fn node(node: &Node) -> types::Node {
    types::Node {
        name: node.name.0,
        unschedulable: node.unschedulable,
        labels: pairs(&node.labels),
        taints: node.taints.iter().map(taint).collect(),
        allocatable: resources(&node.allocatable),
        allowed_pods: node.allowed_pods,
        declared_features: node.declared_features.iter().map(|feature| feature.0).collect(),
    }
}

/// The case. Pods that make no difference are left out.
pub(crate) fn dry_run_case(case: &DryRunCase, pods_matter: bool) -> filter::DryRunCase {
    let pods = |indices: &[u32]| if pods_matter { indices.to_vec() } else { Vec::new() };
    filter::DryRunCase { node: case.node.0, minus: pods(&case.minus), plus: pods(&case.plus) }
}

/// The bits of [`ClusterEvent::actions`] and the contract's flags.
pub(super) const ACTIONS: [(u32, types::Actions); 13] = [
    (ClusterEvent::ADD, types::Actions::ADD),
    (ClusterEvent::DELETE, types::Actions::DELETE),
    (ClusterEvent::UPDATE_NODE_ALLOCATABLE, types::Actions::UPDATE_NODE_ALLOCATABLE),
    (ClusterEvent::UPDATE_NODE_LABEL, types::Actions::UPDATE_NODE_LABEL),
    (ClusterEvent::UPDATE_NODE_TAINT, types::Actions::UPDATE_NODE_TAINT),
    (ClusterEvent::UPDATE_NODE_CONDITION, types::Actions::UPDATE_NODE_CONDITION),
    (ClusterEvent::UPDATE_NODE_ANNOTATION, types::Actions::UPDATE_NODE_ANNOTATION),
    (ClusterEvent::UPDATE_NODE_DECLARED_FEATURE, types::Actions::UPDATE_NODE_DECLARED_FEATURE),
    (ClusterEvent::UPDATE_POD_LABEL, types::Actions::UPDATE_POD_LABEL),
    (ClusterEvent::UPDATE_POD_SCALE_DOWN, types::Actions::UPDATE_POD_SCALE_DOWN),
    (ClusterEvent::UPDATE_POD_TOLERATION, types::Actions::UPDATE_POD_TOLERATION),
    (ClusterEvent::UPDATE_POD_SCHEDULING_GATES_ELIMINATED, types::Actions::UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
    (ClusterEvent::UPDATE_POD_GENERATED_RESOURCE_CLAIM, types::Actions::UPDATE_POD_GENERATED_RESOURCE_CLAIM),
];

fn column_change(change: ColumnChange) -> sync::ColumnChange {
    let data = match change.data {
        ColumnData::Name(names) => sync::ColumnData::Name(into_symbols(names)),
        ColumnData::Unschedulable(flags) => sync::ColumnData::Unschedulable(flags),
        ColumnData::Labels(Lists { ends, items }) => {
            let items = items.into_iter().map(|(key, value)| (key.0, value.0)).collect();
            sync::ColumnData::Labels(sync::LabelLists { ends, items })
        }
        ColumnData::Taints(ids) => sync::ColumnData::Taints(ids),
        ColumnData::Allocatable(columns) => sync::ColumnData::Allocatable(resource_columns(columns)),
        ColumnData::Requested(columns) => sync::ColumnData::Requested(resource_columns(columns)),
        ColumnData::NonZeroRequested { milli_cpu, memory } => {
            sync::ColumnData::NonZeroRequested(sync::NonZeroColumns { milli_cpu, memory })
        }
        ColumnData::PodCount(counts) => sync::ColumnData::PodCount(counts),
        ColumnData::Images(lists) => sync::ColumnData::Images(symbol_lists(lists)),
        ColumnData::HostPorts(Lists { ends, items }) => {
            let items = items.iter().map(host_port).collect();
            sync::ColumnData::HostPorts(sync::PortLists { ends, items })
        }
        ColumnData::DeclaredFeatures(lists) => sync::ColumnData::DeclaredFeatures(symbol_lists(lists)),
        ColumnData::Annotations(rows) => {
            let pairs = |row: &Arc<StringMap>| row.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            sync::ColumnData::Annotations(rows.iter().map(pairs).collect())
        }
    };
    sync::ColumnChange { rows: rows(change.rows), data }
}

fn resource_columns(columns: ResourceColumns) -> sync::ResourceColumns {
    sync::ResourceColumns { names: into_symbols(columns.names), values: columns.values }
}

fn symbol_lists(lists: Lists<Sym>) -> sync::SymbolLists {
    sync::SymbolLists { ends: lists.ends, items: into_symbols(lists.items) }
}

fn object(change: ObjectChange) -> sync::Object {
    sync::Object {
        api_version: change.api_version,
        kind: change.kind,
        namespace: change.namespace,
        name: change.name,
        json: change.json.map(|json| json.to_vec()),
    }
}

fn node_rules(rules: &NodeRules) -> types::NodeRules {
    types::NodeRules {
        selector: rules.selector.as_deref().map(pairs),
        required: rules.required.as_ref().map(|terms| terms.iter().map(node_term).collect()),
        preferred: rules.preferred.as_ref().map(|terms| terms.iter().map(weighted_node_term).collect()),
    }
}

fn weighted_node_term(weighted: &WeightedNodeTerm) -> types::WeightedNodeTerm {
    types::WeightedNodeTerm { weight: weighted.weight, term: node_term(&weighted.term) }
}

fn node_term(term: &NodeTerm) -> types::NodeTerm {
    types::NodeTerm {
        labels: term.labels.iter().map(requirement).collect(),
        fields: term.fields.iter().map(requirement).collect(),
        error: term.error.clone(),
    }
}

fn requirement(requirement: &Requirement) -> types::Requirement {
    let operator = match requirement.operator {
        Operator::In => types::Operator::In,
        Operator::NotIn => types::Operator::NotIn,
        Operator::Exists => types::Operator::Exists,
        Operator::DoesNotExist => types::Operator::DoesNotExist,
        Operator::Gt => types::Operator::Gt,
        Operator::Lt => types::Operator::Lt,
    };
    types::Requirement { key: requirement.key.0, operator, values: symbols(&requirement.values) }
}

fn toleration(toleration: &Toleration) -> types::Toleration {
    let operator = match toleration.operator {
        TolerationOperator::Equal => types::TolerationOperator::Equal,
        TolerationOperator::Exists => types::TolerationOperator::Exists,
        TolerationOperator::Lt => types::TolerationOperator::Lt,
        TolerationOperator::Gt => types::TolerationOperator::Gt,
        TolerationOperator::Never => types::TolerationOperator::Never,
    };
    types::Toleration {
        key: toleration.key.0,
        operator,
        value: toleration.value.0,
        effect: toleration.effect.map(taint_effect),
    }
}

fn taint(taint: &Taint) -> types::Taint {
    types::Taint { key: taint.key.0, value: taint.value.0, effect: taint_effect(taint.effect) }
}

fn taint_effect(effect: TaintEffect) -> types::TaintEffect {
    match effect {
        TaintEffect::NoSchedule => types::TaintEffect::NoSchedule,
        TaintEffect::PreferNoSchedule => types::TaintEffect::PreferNoSchedule,
        TaintEffect::NoExecute => types::TaintEffect::NoExecute,
    }
}

fn host_port(port: &HostPort) -> types::HostPort {
    types::HostPort { address: port.address.0, protocol: port.protocol.0, port: port.port }
}

fn resources(resources: &Resources) -> types::Resources {
    types::Resources {
        milli_cpu: resources.milli_cpu,
        memory: resources.memory,
        ephemeral_storage: resources.ephemeral_storage,
        scalars: resources.scalars.iter().map(|&(name, amount)| (name.0, amount)).collect(),
    }
}

fn non_zero(amounts: NonZero) -> types::NonZero {
    types::NonZero { milli_cpu: amounts.milli_cpu, memory: amounts.memory }
}

fn pairs(pairs: &[(Sym, Sym)]) -> Vec<(u32, u32)> {
    pairs.iter().map(|(key, value)| (key.0, value.0)).collect()
}

fn symbols(symbols: &[Sym]) -> Vec<u32> {
    symbols.iter().map(|sym| sym.0).collect()
}

fn into_symbols(symbols: Vec<Sym>) -> Vec<u32> {
    symbols.into_iter().map(|sym| sym.0).collect()
}

fn rows(nodes: Vec<NodeIdx>) -> Vec<u32> {
    nodes.into_iter().map(|node| node.0).collect()
}
