//! NodeResourcesFit: rejects nodes on which the pod's requests do not fit, and scores nodes by a scoring strategy.
//!
//! kube-scheduler: `pkg/scheduler/framework/plugins/noderesources/fit.go`.

mod device_classes;
mod hints;
mod rejections;
mod scoring;
#[cfg(test)]
mod tests;

use berth_framework::{
    Call, ClusterEvent, Code, ConfigureError, DryRunCase, Filter, HintCall, PreFilter, PreScore, QueueingHint,
    RejectedNodes, Score, Status,
};
use berth_model::{ClusterTable, Column, Feature, Features, NodeIdx, NodeSet, Pod, Sym, cluster_table::at};
use serde::Deserialize;

use self::{
    device_classes::DeviceClasses,
    rejections::Rejections,
    scoring::{Strategy, StrategyArgs},
};
use crate::{
    args,
    built_in::{BuiltIn, Descriptor, plugin},
    case_walk::CaseWalk,
    dynamic_resources::{ClassDevices, DEVICE_OBJECTS},
    row_blocks::{Amounts, score_in_blocks},
    scored_resources::{depends_on_devices, is_extended, served_by_devices, views},
};

const TOO_MANY_PODS: &str = "Too many pods";

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct NodeResourcesFitArgs {
    ignored_resources: Option<Vec<String>>,
    ignored_resource_groups: Option<Vec<String>>,
    scoring_strategy: Option<StrategyArgs>,
}

/// Compares requests with the allocatable amounts that are not yet requested.
#[derive(Debug)]
pub struct NodeResourcesFit {
    ignored_resources: Vec<String>,
    ignored_groups: Vec<String>,
    strategy: Strategy,
    classes: DeviceClasses,
    /// Devices by class, for scoring by resources that devices serve.
    devices: ClassDevices,
    features: Features,
    /// The requests of the pod of the current call, in the order in which reasons name the resources.
    requests: Vec<ResourceRequest>,
}

/// A resource that the pod requests.
#[derive(Clone, Copy, Debug)]
struct ResourceRequest {
    name: Sym,
    amount: i64,
    /// Whether DynamicResources decides about nodes that have none of the resource.
    is_served_by_devices: bool,
}

impl ResourceRequest {
    fn is_short(&self, allocatable: i64, requested: i64) -> bool {
        is_short(self.amount, allocatable, requested) && !(self.is_served_by_devices && allocatable == 0)
    }

    /// Keeps the nodes that are not short of the resource.
    fn narrow_to_room(&self, table: &ClusterTable, nodes: &mut NodeSet) {
        let allocatable = table.allocatable().column(self.name);
        let used = table.requested().column(self.name);
        let is_short = |allocatable, used| self.is_short(allocatable, used);
        if self.is_served_by_devices {
            nodes.retain(|node| !is_short(at(allocatable, node), at(used, node)));
        } else {
            Amounts { allocatable, used }.narrow_to_room(self.amount, nodes, is_short);
        }
    }

    fn reason(&self, table: &ClusterTable) -> String {
        ["Insufficient ", table.symbols.text(self.name)].concat()
    }
}

impl BuiltIn for NodeResourcesFit {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "NodeResourcesFit",
        columns: &[
            Column::Name,
            Column::Labels,
            Column::Allocatable,
            Column::Requested,
            Column::NonZeroRequested,
            Column::PodCount,
        ],
        objects: &DEVICE_OBJECTS,
        events_to_register: &[
            ("Pod", ClusterEvent::DELETE | ClusterEvent::UPDATE_POD_SCALE_DOWN),
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_ALLOCATABLE),
            ("resource.k8s.io/DeviceClass", ClusterEvent::ADD | ClusterEvent::UPDATE),
        ],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let (args, features): (NodeResourcesFitArgs, _) = args::parse_with_features(Self::NAME, args)?;
        let ignored_groups = args.ignored_resource_groups.unwrap_or_default();
        if let Some(group) = ignored_groups.iter().find(|group| group.contains('/')) {
            return Err(ConfigureError::new(format_args!("ignoredResourceGroups: {group} must not contain a slash")));
        }
        let strategy = Strategy::new(args.scoring_strategy.unwrap_or_default()).map_err(ConfigureError::new)?;
        Ok(Self {
            ignored_resources: args.ignored_resources.unwrap_or_default(),
            ignored_groups,
            strategy,
            classes: DeviceClasses::default(),
            devices: ClassDevices::new(features),
            features,
            requests: Vec::new(),
        })
    }
}

plugin!(NodeResourcesFit: PreFilter, Filter, PreScore, Score, QueueingHint, Sign; Reuse);

/// Whether a request does not fit into the free resources.
fn is_short(request: i64, allocatable: i64, requested: i64) -> bool {
    request > allocatable.saturating_sub(requested)
}

/// Keeps the nodes that have room for one more pod.
fn narrow_to_room_for_pods(table: &ClusterTable, nodes: &mut NodeSet) {
    Amounts { allocatable: table.allocatable().column(Sym::PODS), used: table.pod_counts() }
        .narrow_to_room(1, nodes, is_full);
}

fn is_full(allowed_pods: i64, n_pods: i64) -> bool {
    n_pods.saturating_add(1) > allowed_pods
}

impl NodeResourcesFit {
    /// Fills [`Self::requests`].
    fn prepare(&mut self, call: &Call<'_>) {
        let requested = &call.pod.requests;
        let basic = [
            (Sym::CPU, requested.milli_cpu),
            (Sym::MEMORY, requested.memory),
            (Sym::EPHEMERAL_STORAGE, requested.ephemeral_storage),
        ];
        let Self { requests, ignored_resources, ignored_groups, classes, features, .. } = self;
        let serves_extended = features.has(Feature::DRAExtendedResource);
        if serves_extended && !requested.scalars.is_empty() {
            classes.refresh(call.table.objects());
        }
        let is_ignored = |name: &str| {
            let group = name.split_once('/').map_or(name, |(group, _)| group);
            is_extended(name)
                && (ignored_resources.iter().any(|ignored| ignored == name)
                    || ignored_groups.iter().any(|ignored| ignored == group))
        };
        let scalars = requested.scalars.iter().copied();
        requests.clear();
        let basic = basic.into_iter().filter(|(_, amount)| *amount > 0);
        requests.extend(basic.map(|(name, amount)| ResourceRequest { name, amount, is_served_by_devices: false }));
        let scalars = scalars.map(|(name, amount)| (name, amount, call.table.symbols.text(name)));
        let counted = scalars.filter(|(_, amount, text)| *amount != 0 && !is_ignored(text));
        requests.extend(counted.map(|(name, amount, text)| ResourceRequest {
            name,
            amount,
            is_served_by_devices: serves_extended && classes.serve(text),
        }));
    }

    /// The pod's resources that devices may provide: a bit for each resource, in their order.
    pub(crate) fn resources_of_devices(&mut self, call: &Call<'_>) -> u64 {
        if call.pod.requests.scalars.is_empty() {
            return 0;
        }
        self.prepare(call);
        self.requests.iter().fold(1, |bits, request| bits << 1 | u64::from(request.is_served_by_devices))
    }

    /// Whether devices count in the pod's scores.
    pub(crate) fn scores_by_devices(&mut self, call: &Call<'_>) -> bool {
        let resources = self.strategy.resources();
        self.features.has(Feature::DRAExtendedResource)
            && depends_on_devices(&mut self.devices, resources, &call.pod.scoring_requests, call)
    }

    /// The status of a node if the pods of the node request `change` more than the table shows.
    fn check(&self, table: &ClusterTable, node: NodeIdx, change: &RequestChange) -> Status {
        let mut reasons = Vec::new();
        let mut code = Code::Unschedulable;
        let n_pods = at(table.pod_counts(), node).saturating_add(change.n_pods);
        if is_full(table.allocatable().get(Sym::PODS, node), n_pods) {
            reasons.push(TOO_MANY_PODS.to_owned());
        }
        for (position, request) in self.requests.iter().enumerate() {
            let allocatable = table.allocatable().get(request.name, node);
            let requested = table.requested().get(request.name, node).saturating_add(change.amount(position));
            if request.is_short(allocatable, requested) {
                reasons.push(request.reason(table));
                if request.amount > allocatable {
                    code = Code::UnschedulableAndUnresolvable;
                }
            }
        }
        if reasons.is_empty() { Status::success() } else { Status { code, reasons } }
    }
}

/// The changes to a node's sums that come from the pods that a dry run removes and adds.
#[derive(Debug, Default)]
struct RequestChange {
    n_pods: i64,
    /// Amounts in the order of [`NodeResourcesFit::requests`]; empty if there is no change. No sum of requests
    /// overflows.
    amounts: Vec<i128>,
}

impl RequestChange {
    /// Adds the requests of a pod. `sign` is 1 for a pod that is added, and -1 for a pod that is removed.
    fn add(&mut self, requests: &[ResourceRequest], pod: &Pod, sign: i64) {
        self.n_pods += sign;
        self.amounts.resize(requests.len(), 0);
        for (amount, request) in self.amounts.iter_mut().zip(requests) {
            *amount += i128::from(sign) * i128::from(pod.placed_requests.get(request.name));
        }
    }

    /// The change at a position, limited to the range of `i64`.
    fn amount(&self, position: usize) -> i64 {
        let amount = self.amounts.get(position).copied().unwrap_or(0);
        i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
    }
}

impl PreFilter for NodeResourcesFit {
    fn pre_filter(&mut self, _call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        Ok(None)
    }
}

impl Filter for NodeResourcesFit {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        self.prepare(call);
        narrow_to_room_for_pods(call.table, candidates);
        for request in &self.requests {
            request.narrow_to_room(call.table, candidates);
        }
        Ok(())
    }

    fn node_to_status(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        self.prepare(call);
        let table = call.table;
        let short = |narrow: &dyn Fn(&mut NodeSet)| {
            let (mut short, mut with_room) = (rejected.clone(), rejected.clone());
            narrow(&mut with_room);
            short.subtract(&with_room);
            short
        };
        let mut rejections = Rejections::of(rejected);
        rejections.add_reason(&short(&|nodes| narrow_to_room_for_pods(table, nodes)), TOO_MANY_PODS);
        for request in &self.requests {
            let mut short = short(&|nodes| request.narrow_to_room(table, nodes));
            rejections.add_reason(&short, &request.reason(table));
            let allocatable = table.allocatable().column(request.name);
            short.retain(|node| request.amount > at(allocatable, node));
            rejections.set_unresolvable(&short);
        }
        Ok(rejections.into_groups())
    }

    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        self.prepare(call);
        let (mut walk, mut change) = (CaseWalk::new(pods), RequestChange::default());
        let check = |case| {
            walk.step(case, |pod, sign| change.add(&self.requests, pod, sign));
            self.check(call.table, case.node, &change)
        };
        Ok(cases.iter().map(check).collect())
    }
}

impl PreScore for NodeResourcesFit {
    fn pre_score(&mut self, _call: &Call<'_>, _nodes: &NodeSet) -> Result<(), Status> {
        Ok(())
    }
}

impl Score for NodeResourcesFit {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        let table = call.table;
        let used = |name| match name {
            Sym::CPU => table.non_zero_cpu(),
            Sym::MEMORY => table.non_zero_memory(),
            _ => table.requested().column(name),
        };
        let (resources, requests) = (self.strategy.resources(), &call.pod.scoring_requests);
        let served = if self.features.has(Feature::DRAExtendedResource) {
            served_by_devices(&mut self.devices, resources, requests, call, nodes)
        } else {
            Vec::new()
        };
        let views = views(resources, requests, table, &served, used);
        let of_block = |block, scores: &mut _| self.strategy.score_block(&views, block, scores);
        score_in_blocks(nodes, scores, of_block, |node| self.strategy.score(&views, node));
        Ok(())
    }
}

impl QueueingHint for NodeResourcesFit {
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        if self.features.has(Feature::DRAExtendedResource) {
            self.classes.refresh(call.table.objects());
        }
        hints::may_help(call, &self.classes)
    }
}
