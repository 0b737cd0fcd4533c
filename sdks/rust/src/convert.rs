//! Conversions between the contract's types and the model's.

use std::sync::Arc;

use berth_framework::{
    ClusterEvent, Code, DryRunCase, Effect, Manifest, ObjectRef, PatchType, PermitVerdict, PostFilterOutcome,
    Preemption, RejectedNodes, Removal, Status,
};
use berth_model::{
    Column, ColumnChange, ColumnData, Delta, Lists, NodeIdx, NodeSet, ObjectChange, PlacedPod, Pod, PodIdx, PodUid,
    ResourceColumns, Sym, Usage, Uses,
    pod::{
        HostPort, NodeRules, NodeTerm, NonZero, Operator, Requirement, Resources, Taint, TaintEffect, Toleration,
        TolerationOperator, WeightedNodeTerm,
    },
};

use crate::bindings::{
    filter::exports::berth::scheduler::filter as wit_filter, lifecycle::exports::berth::scheduler::lifecycle,
    permit::exports::berth::scheduler::permit as wit_permit,
    post_filter::exports::berth::scheduler::post_filter as wit_post_filter, shared::berth::scheduler::host,
    shared::berth::scheduler::types as wit, sync::exports::berth::scheduler::sync as wit_sync,
    sync_pods::exports::berth::scheduler::sync_pods,
};

mod event_subject;
mod pod_parts;

pub(crate) use self::event_subject::OwnedSubject;

fn syms<C: FromIterator<Sym>>(values: Vec<u32>) -> C {
    values.into_iter().map(Sym).collect()
}

fn pairs<C: FromIterator<(Sym, Sym)>>(values: Vec<(u32, u32)>) -> C {
    values.into_iter().map(|(key, value)| (Sym(key), Sym(value))).collect()
}

fn nodes(rows: Vec<u32>) -> Vec<NodeIdx> {
    rows.into_iter().map(NodeIdx).collect()
}

pub(crate) fn pod(pod: wit::Pod) -> Pod {
    Pod {
        uid: PodUid::from(pod.uid),
        namespace: Sym(pod.namespace),
        name: Arc::from(pod.name),
        labels: pairs(pod.labels),
        scheduler_name: Sym(pod.scheduler_name),
        priority: pod.priority,
        node_name: Sym(pod.node_name),
        nominated_node_name: Sym(pod.nominated_node_name),
        terminating: pod.terminating,
        scheduling_gates: pod.scheduling_gates.into_iter().map(Arc::from).collect(),
        owner: pod.owner.map(pod_parts::owner),
        started_at: pod.started_at,
        never_preempts: pod.never_preempts,
        is_preempted: pod.preempted,
        node_rules: NodeRules {
            selector: pod.node_rules.selector.map(pairs),
            required: pod.node_rules.required.map(|terms| terms.into_iter().map(node_term).collect()),
            preferred: pod.node_rules.preferred.map(|terms| terms.into_iter().map(weighted_term).collect()),
        },
        affinity: pod_parts::affinity(pod.affinity),
        topology_spread: pod.topology_spread.into_iter().map(pod_parts::spread_constraint).collect(),
        tolerations: pod.tolerations.into_iter().map(toleration).collect(),
        host_ports: pod.host_ports.into_iter().map(host_port).collect(),
        volumes: pod.volumes.into_iter().map(pod_parts::volume).collect(),
        resource_claims: pod.resource_claims.into_iter().map(pod_parts::claim).collect(),
        extended_requests: pod.extended_requests.into_iter().map(pod_parts::extended_request).collect(),
        extended_claim: pod.extended_claim.map(Arc::from),
        images: syms(pod.images),
        n_containers: pod.containers,
        required_features: syms(pod.required_features),
        requests: resources(pod.requests),
        placed_requests: resources(pod.placed_requests),
        placed_non_zero: non_zero(pod.placed_non_zero),
        scoring_requests: resources(pod.scoring_requests),
        balanced_requests: resources(pod.balanced_requests),
        json: pod.json.map(Arc::from),
        uses: Uses::default(),
    }
}

fn resources(amounts: wit::Resources) -> Resources {
    Resources {
        milli_cpu: amounts.milli_cpu,
        memory: amounts.memory,
        ephemeral_storage: amounts.ephemeral_storage,
        scalars: amounts.scalars.into_iter().map(|(name, amount)| (Sym(name), amount)).collect(),
    }
}

fn weighted_term(term: wit::WeightedNodeTerm) -> WeightedNodeTerm {
    WeightedNodeTerm { weight: term.weight, term: node_term(term.term) }
}

fn node_term(term: wit::NodeTerm) -> NodeTerm {
    NodeTerm {
        labels: term.labels.into_iter().map(requirement).collect(),
        fields: term.fields.into_iter().map(requirement).collect(),
        error: term.error,
    }
}

fn requirement(requirement: wit::Requirement) -> Requirement {
    let operator = match requirement.operator {
        wit::Operator::In => Operator::In,
        wit::Operator::NotIn => Operator::NotIn,
        wit::Operator::Exists => Operator::Exists,
        wit::Operator::DoesNotExist => Operator::DoesNotExist,
        wit::Operator::Gt => Operator::Gt,
        wit::Operator::Lt => Operator::Lt,
    };
    Requirement { key: Sym(requirement.key), operator, values: syms(requirement.values) }
}

fn taint_effect(effect: wit::TaintEffect) -> TaintEffect {
    match effect {
        wit::TaintEffect::NoSchedule => TaintEffect::NoSchedule,
        wit::TaintEffect::PreferNoSchedule => TaintEffect::PreferNoSchedule,
        wit::TaintEffect::NoExecute => TaintEffect::NoExecute,
    }
}

fn toleration(toleration: wit::Toleration) -> Toleration {
    let operator = match toleration.operator {
        wit::TolerationOperator::Equal => TolerationOperator::Equal,
        wit::TolerationOperator::Exists => TolerationOperator::Exists,
        wit::TolerationOperator::Lt => TolerationOperator::Lt,
        wit::TolerationOperator::Gt => TolerationOperator::Gt,
        wit::TolerationOperator::Never => TolerationOperator::Never,
    };
    Toleration {
        key: Sym(toleration.key),
        operator,
        value: Sym(toleration.value),
        effect: toleration.effect.map(taint_effect),
    }
}

fn host_port(port: wit::HostPort) -> HostPort {
    HostPort { address: Sym(port.address), protocol: Sym(port.protocol), port: port.port }
}

pub(crate) fn delta(delta: wit_sync::Delta) -> Delta {
    Delta {
        generation: delta.generation,
        full: delta.full,
        symbols: delta.symbols.into_iter().map(|(sym, text)| (Sym(sym), text)).collect(),
        // The host keeps the position.
        symbols_position: 0,
        taint_sets: delta.taint_sets.into_iter().map(|(id, set)| (id, set.into_iter().map(taint).collect())).collect(),
        image_sizes: delta.image_sizes.into_iter().map(|(name, size)| (Sym(name), size)).collect(),
        removed: nodes(delta.removed),
        added: nodes(delta.added),
        columns: delta.columns.into_iter().map(column_change).collect(),
        pods_removed: delta.pods_removed.into_iter().map(PodIdx).collect(),
        pods_placed: delta.pods_placed.into_iter().map(placed_pod).collect(),
        objects: delta.objects.into_iter().map(object).collect(),
    }
}

fn taint(taint: wit::Taint) -> Taint {
    Taint { key: Sym(taint.key), value: Sym(taint.value), effect: taint_effect(taint.effect) }
}

fn placed_pod(placed: wit_sync::PlacedPod) -> PlacedPod {
    PlacedPod { idx: PodIdx(placed.slot), node: NodeIdx(placed.node), pod: Arc::new(pod(placed.pod)) }
}

/// A pod that equals a pod of the replica, apart from the fields in `alike`.
pub(crate) fn alike_pod(like: &Pod, alike: sync_pods::AlikePod) -> PlacedPod {
    let pod = Pod {
        uid: PodUid::from(alike.uid),
        name: Arc::from(alike.name),
        node_name: Sym(alike.node_name),
        nominated_node_name: Sym(alike.nominated_node_name),
        started_at: alike.started_at,
        ..like.clone()
    };
    PlacedPod { idx: PodIdx(alike.slot), node: NodeIdx(alike.node), pod: Arc::new(pod) }
}

pub(crate) fn usage(usage: sync_pods::Usage) -> Usage {
    Usage {
        node: NodeIdx(usage.node),
        requested: usage.requested.map(resources),
        non_zero_requested: usage.non_zero_requested.map(non_zero),
        pod_count: usage.pod_count,
    }
}

fn non_zero(amounts: wit::NonZero) -> NonZero {
    NonZero { milli_cpu: amounts.milli_cpu, memory: amounts.memory }
}

fn object(object: wit_sync::Object) -> ObjectChange {
    ObjectChange {
        api_version: object.api_version,
        kind: object.kind,
        namespace: object.namespace,
        name: object.name,
        json: object.json.map(Arc::from),
    }
}

fn column_change(change: wit_sync::ColumnChange) -> ColumnChange {
    use wit_sync::ColumnData as Wit;
    let data = match change.data {
        Wit::Name(names) => ColumnData::Name(syms(names)),
        Wit::Unschedulable(flags) => ColumnData::Unschedulable(flags),
        Wit::Labels(lists) => ColumnData::Labels(Lists { ends: lists.ends, items: pairs(lists.items) }),
        Wit::Taints(ids) => ColumnData::Taints(ids),
        Wit::Allocatable(columns) => ColumnData::Allocatable(resource_columns(columns)),
        Wit::Requested(columns) => ColumnData::Requested(resource_columns(columns)),
        Wit::NonZeroRequested(columns) => {
            ColumnData::NonZeroRequested { milli_cpu: columns.milli_cpu, memory: columns.memory }
        }
        Wit::PodCount(counts) => ColumnData::PodCount(counts),
        Wit::Images(lists) => ColumnData::Images(symbol_lists(lists)),
        Wit::HostPorts(lists) => {
            ColumnData::HostPorts(Lists { ends: lists.ends, items: lists.items.into_iter().map(host_port).collect() })
        }
        Wit::DeclaredFeatures(lists) => ColumnData::DeclaredFeatures(symbol_lists(lists)),
        Wit::Annotations(rows) => {
            ColumnData::Annotations(rows.into_iter().map(|pairs| Arc::new(pairs.into_iter().collect())).collect())
        }
    };
    ColumnChange { rows: nodes(change.rows), data }
}

fn resource_columns(columns: wit_sync::ResourceColumns) -> ResourceColumns {
    ResourceColumns { names: syms(columns.names), values: columns.values }
}

fn symbol_lists(lists: wit_sync::SymbolLists) -> Lists<Sym> {
    Lists { ends: lists.ends, items: syms(lists.items) }
}

pub(crate) fn cluster_event(event: &wit::ClusterEvent) -> ClusterEvent {
    ClusterEvent { resource: event.resource.clone(), actions: u32::from(event.actions.bits()) }
}

pub(crate) fn dry_run_cases(cases: Vec<wit_filter::DryRunCase>) -> Vec<DryRunCase> {
    cases.into_iter().map(|case| DryRunCase { node: NodeIdx(case.node), minus: case.minus, plus: case.plus }).collect()
}

pub(crate) fn status_to_wit(status: Status) -> wit::Status {
    let code = match status.code {
        Code::Success => wit::Code::Success,
        Code::Error => wit::Code::Error,
        Code::Unschedulable => wit::Code::Unschedulable,
        Code::UnschedulableAndUnresolvable => wit::Code::UnschedulableAndUnresolvable,
        Code::Wait => wit::Code::Wait,
        Code::Skip => wit::Code::Skip,
        Code::Pending => wit::Code::Pending,
    };
    wit::Status { code, reasons: status.reasons }
}

/// Success becomes `ok`, and any other status becomes `err`.
pub(crate) fn status_to_result(status: Status) -> Result<(), wit::Status> {
    if status.is_success() { Ok(()) } else { Err(status_to_wit(status)) }
}

pub(crate) fn rows_to_wit(nodes: &NodeSet) -> Vec<u64> {
    nodes.words().to_vec()
}

pub(crate) fn groups_to_wit(groups: Vec<RejectedNodes>) -> Vec<wit::RejectedNodes> {
    groups
        .into_iter()
        .map(|group| wit::RejectedNodes { status: status_to_wit(group.status), nodes: rows_to_wit(&group.nodes) })
        .collect()
}

/// Converts a status from another plugin or an extender.
pub(crate) fn status(status: wit::Status) -> Status {
    let code = match status.code {
        wit::Code::Success => Code::Success,
        wit::Code::Error => Code::Error,
        wit::Code::Unschedulable => Code::Unschedulable,
        wit::Code::UnschedulableAndUnresolvable => Code::UnschedulableAndUnresolvable,
        wit::Code::Wait => Code::Wait,
        wit::Code::Skip => Code::Skip,
        wit::Code::Pending => Code::Pending,
    };
    Status { code, reasons: status.reasons }
}

pub(crate) fn group(group: wit::RejectedNodes) -> RejectedNodes {
    RejectedNodes { status: status(group.status), nodes: NodeSet::from_words(group.nodes) }
}

pub(crate) fn removal_to_wit(removal: &Removal) -> host::Removal {
    host::Removal { node: removal.node.0, pods: removal.pods.iter().map(|pod| pod.0).collect() }
}

pub(crate) fn preemption_to_wit(preemption: &Preemption) -> host::Preemption {
    let victims = preemption.victims.iter().map(|victim| victim.0).collect();
    host::Preemption { node: preemption.node.0, victims, violations: preemption.n_violations }
}

pub(crate) fn preemption(preemption: host::Preemption) -> Preemption {
    let victims = preemption.victims.into_iter().map(PodIdx).collect();
    Preemption { node: NodeIdx(preemption.node), victims, n_violations: preemption.violations }
}

pub(crate) fn outcome_to_wit(outcome: PostFilterOutcome) -> wit_post_filter::Outcome {
    let nomination = match outcome.nominate {
        None => wit_post_filter::Nomination::Keep,
        Some(None) => wit_post_filter::Nomination::Clear,
        Some(Some(node)) => wit_post_filter::Nomination::Node(node.0),
    };
    wit_post_filter::Outcome {
        status: status_to_wit(outcome.status),
        nomination,
        effects: effects_to_wit(outcome.effects),
    }
}

pub(crate) fn verdict_to_wit(verdict: PermitVerdict) -> wit_permit::Verdict {
    match verdict {
        PermitVerdict::Allow => wit_permit::Verdict::Allow,
        PermitVerdict::Wait(milliseconds) => wit_permit::Verdict::Wait(milliseconds),
        PermitVerdict::Deny(status) => wit_permit::Verdict::Deny(status_to_wit(status)),
    }
}

pub(crate) fn effects_to_wit(effects: Vec<Effect>) -> Vec<wit::Effect> {
    effects.into_iter().map(effect_to_wit).collect()
}

fn effect_to_wit(effect: Effect) -> wit::Effect {
    match effect {
        Effect::Bind => wit::Effect::Bind,
        Effect::Patch { kind, namespace, name, subresource, patch, patch_type } => wit::Effect::Patch(wit::Patch {
            object: wit::ObjectRef { kind, namespace, name },
            subresource,
            body: patch,
            patch_type: match patch_type {
                PatchType::Merge => wit::PatchType::Merge,
                PatchType::StrategicMerge => wit::PatchType::StrategicMerge,
            },
        }),
        Effect::Create { kind, namespace, body } => wit::Effect::Create(wit::NewObject { kind, namespace, body }),
        Effect::Delete { kind, namespace, name } => wit::Effect::Delete(wit::ObjectRef { kind, namespace, name }),
        Effect::Evict { namespace, name, uid, message } => {
            wit::Effect::Evict(wit::Eviction { pod: wit::PodRef { namespace, name, uid }, message })
        }
        Effect::Allow { uid } => wit::Effect::Allow(uid),
        Effect::Reject { uid, reason } => wit::Effect::Reject((uid, reason)),
        Effect::Activate { uids } => wit::Effect::Activate(uids),
        Effect::Nominate { uid, node } => wit::Effect::Nominate((uid, node)),
        Effect::Event { warning, reason, action, note } => {
            wit::Effect::Event(wit::Event { warning, reason, action, note })
        }
        Effect::Wait { objects, timeout_ms, timeout_message } => wit::Effect::Wait(wit::Wait {
            objects: objects.into_iter().map(object_ref_to_wit).collect(),
            timeout_ms,
            timeout_message,
        }),
    }
}

fn object_ref_to_wit(object: ObjectRef) -> wit::ObjectRef {
    wit::ObjectRef { kind: object.kind, namespace: object.namespace, name: object.name }
}

pub(crate) fn manifest_to_wit(manifest: Manifest) -> lifecycle::Manifest {
    let (labels, annotations) = (manifest.needs.label_keys, manifest.needs.annotation_keys);
    let mut columns: Vec<lifecycle::Column> = Vec::new();
    for column in manifest.needs.columns.iter() {
        match column {
            Column::Labels if !labels.is_empty() => {
                columns.extend(labels.iter().cloned().map(lifecycle::Column::Label));
            }
            Column::Annotations => columns.extend(annotations.iter().cloned().map(lifecycle::Column::Annotation)),
            column => columns.extend(column_to_wit(column)),
        }
    }
    let objects = manifest.needs.objects.into_iter();
    lifecycle::Manifest {
        name: manifest.name,
        version: manifest.version,
        columns,
        pods: manifest.needs.pods,
        pod_json: manifest.needs.pod_json,
        objects: objects.map(|kind| lifecycle::ObjectKind { api_version: kind.api_version, kind: kind.kind }).collect(),
        events_to_register: manifest
            .events_to_register
            .map(|events| events.into_iter().map(cluster_event_to_wit).collect()),
    }
}

fn cluster_event_to_wit(event: ClusterEvent) -> wit::ClusterEvent {
    let bits = u16::try_from(event.actions & ClusterEvent::ALL).unwrap_or(u16::MAX);
    wit::ClusterEvent { resource: event.resource, actions: wit::Actions::from_bits_truncate(bits) }
}

/// `None` for a column that is requested by key.
fn column_to_wit(column: Column) -> Option<lifecycle::Column> {
    Some(match column {
        Column::Name => lifecycle::Column::Name,
        Column::Unschedulable => lifecycle::Column::Unschedulable,
        Column::Labels => lifecycle::Column::Labels,
        Column::Taints => lifecycle::Column::Taints,
        Column::Allocatable => lifecycle::Column::Allocatable,
        Column::Requested => lifecycle::Column::Requested,
        Column::NonZeroRequested => lifecycle::Column::NonZeroRequested,
        Column::PodCount => lifecycle::Column::PodCount,
        Column::Images => lifecycle::Column::Images,
        Column::HostPorts => lifecycle::Column::HostPorts,
        Column::DeclaredFeatures => lifecycle::Column::DeclaredFeatures,
        Column::Annotations => return None,
    })
}
