//! NodeResourcesFit: a pod goes where its requests fit, and where the scoring strategy likes it best.

mod device_classes;
mod scoring;
#[cfg(test)]
mod tests;

use berth_framework::{
    Call, ClusterEvent, Code, ConfigureError, DryRunCase, Explanation, Filter, Point, PreFilter, PreScore, Score,
    Status,
};
use berth_model::{ClusterTable, Column, NodeIdx, NodeSet, Pod, Sym, cluster_table::at};
use serde::Deserialize;

use self::{
    device_classes::DeviceClasses,
    scoring::{Strategy, StrategyArgs},
};
use crate::{
    args,
    built_in::{BuiltIn, Card, plugin},
    case_walk::CaseWalk,
    node_check::explain_each,
    scored_resources::{is_extended, views},
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct NodeResourcesFitArgs {
    ignored_resources: Option<Vec<String>>,
    ignored_resource_groups: Option<Vec<String>>,
    scoring_strategy: Option<StrategyArgs>,
}

/// Compares requests with what is allocatable and not yet requested.
#[derive(Debug)]
pub struct NodeResourcesFit {
    ignored_resources: Vec<String>,
    ignored_groups: Vec<String>,
    strategy: Strategy,
    classes: DeviceClasses,
    /// What the pod of the current call asks for, in the order of the reasons.
    wanted: Vec<Want>,
}

/// A resource that the pod asks for.
#[derive(Clone, Copy, Debug)]
struct Want {
    name: Sym,
    amount: i64,
    /// Where the node itself offers none of it, DynamicResources decides.
    is_served_by_devices: bool,
}

impl Want {
    fn is_short(&self, allocatable: i64, requested: i64) -> bool {
        is_short(self.amount, allocatable, requested) && !(self.is_served_by_devices && allocatable == 0)
    }
}

impl BuiltIn for NodeResourcesFit {
    const CARD: Card = Card {
        name: "NodeResourcesFit",
        points: &[Point::PreFilter, Point::Filter, Point::PreScore, Point::Score, Point::Sign],
        columns: &[Column::Allocatable, Column::Requested, Column::NonZeroRequested, Column::PodCount],
        objects: &[(device_classes::API_VERSION, device_classes::KIND)],
        requeue: &[
            ("Pod", ClusterEvent::DELETE | ClusterEvent::UPDATE_POD_SCALE_DOWN),
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_ALLOCATABLE),
            ("Node", ClusterEvent::UPDATE_NODE_TAINT),
            ("resource.k8s.io/DeviceClass", ClusterEvent::ADD | ClusterEvent::UPDATE),
        ],
        ..Card::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let args: NodeResourcesFitArgs = args::parse(Self::NAME, args)?;
        let ignored_groups = args.ignored_resource_groups.unwrap_or_default();
        if let Some(group) = ignored_groups.iter().find(|group| group.contains('/')) {
            return Err(ConfigureError::new(format_args!("ignoredResourceGroups: {group} must not contain a slash")));
        }
        Ok(Self {
            ignored_resources: args.ignored_resources.unwrap_or_default(),
            ignored_groups,
            strategy: Strategy::new(args.scoring_strategy.unwrap_or_default())?,
            classes: DeviceClasses::default(),
            wanted: Vec::new(),
        })
    }
}

plugin!(NodeResourcesFit { pre_filter: PreFilter, filter: Filter, pre_score: PreScore, score: Score, sign: Sign });

/// A request that does not fit into what is left.
fn is_short(request: i64, allocatable: i64, requested: i64) -> bool {
    request > allocatable.saturating_sub(requested)
}

fn is_full(allowed_pods: i64, n_pods: i64) -> bool {
    n_pods.saturating_add(1) > allowed_pods
}

impl NodeResourcesFit {
    fn note_wants(&mut self, call: &Call<'_>) {
        let requests = &call.pod.requests;
        let basic = [
            (Sym::CPU, requests.milli_cpu),
            (Sym::MEMORY, requests.memory),
            (Sym::EPHEMERAL_STORAGE, requests.ephemeral_storage),
        ];
        let Self { wanted, ignored_resources, ignored_groups, classes, .. } = self;
        if !requests.scalars.is_empty() {
            classes.refresh(call.table.objects());
        }
        let is_ignored = |name: &str| {
            let group = name.split_once('/').map_or(name, |(group, _)| group);
            is_extended(name)
                && (ignored_resources.iter().any(|ignored| ignored == name)
                    || ignored_groups.iter().any(|ignored| ignored == group))
        };
        let scalars = requests.scalars.iter().copied();
        wanted.clear();
        let basic = basic.into_iter().filter(|(_, amount)| *amount > 0);
        wanted.extend(basic.map(|(name, amount)| Want { name, amount, is_served_by_devices: false }));
        let scalars = scalars.map(|(name, amount)| (name, amount, call.table.symbols.text(name)));
        let counted = scalars.filter(|(_, amount, text)| *amount != 0 && !is_ignored(text));
        wanted.extend(counted.map(|(name, amount, text)| Want {
            name,
            amount,
            is_served_by_devices: classes.serve(text),
        }));
    }

    /// The verdict on a node with `more` on top of what it has.
    fn check(&self, table: &ClusterTable, node: NodeIdx, more: &More) -> Status {
        let mut reasons = Vec::new();
        let mut code = Code::Unschedulable;
        let n_pods = at(table.pod_counts(), node).saturating_add(more.n_pods);
        if is_full(table.allocatable().get(Sym::PODS, node), n_pods) {
            reasons.push("Too many pods".to_owned());
        }
        for (position, want) in self.wanted.iter().enumerate() {
            let allocatable = table.allocatable().get(want.name, node);
            let requested = table.requested().get(want.name, node).saturating_add(more.of(position));
            if want.is_short(allocatable, requested) {
                reasons.push(["Insufficient ", table.symbols.text(want.name)].concat());
                if want.amount > allocatable {
                    code = Code::UnschedulableAndUnresolvable;
                }
            }
        }
        if reasons.is_empty() { Status::success() } else { Status { code, reasons } }
    }
}

/// What pods that come and go change.
#[derive(Debug, Default)]
struct More {
    n_pods: i64,
    /// Requests in the order of what the pod wants. Wide enough for sums of any amounts; empty for nothing.
    amounts: Vec<i128>,
}

impl More {
    fn add(&mut self, wanted: &[Want], pod: &Pod, sign: i64) {
        self.n_pods += sign;
        self.amounts.resize(wanted.len(), 0);
        for (amount, want) in self.amounts.iter_mut().zip(wanted) {
            *amount += i128::from(sign) * i128::from(pod.placed_requests.get(want.name));
        }
    }

    /// Stops at the ends of the range.
    fn of(&self, position: usize) -> i64 {
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
        self.note_wants(call);
        let table = call.table;
        let (allowed_pods, n_pods) = (table.allocatable().column(Sym::PODS), table.pod_counts());
        candidates.retain(|node| !is_full(at(allowed_pods, node), at(n_pods, node)));
        for want in &self.wanted {
            let (allocatable, requested) = (table.allocatable().column(want.name), table.requested().column(want.name));
            candidates.retain(|node| !want.is_short(at(allocatable, node), at(requested, node)));
        }
        Ok(())
    }

    fn explain(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<Explanation>, Status> {
        self.note_wants(call);
        let nothing = More::default();
        Ok(explain_each(rejected, |node| self.check(call.table, node, &nothing)))
    }

    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        self.note_wants(call);
        let (mut walk, mut more) = (CaseWalk::new(pods), More::default());
        let check = |case| {
            walk.step(case, |pod, sign| more.add(&self.wanted, pod, sign));
            self.check(call.table, case.node, &more)
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
        let views = views(self.strategy.resources(), &call.pod.scoring_requests, table, used);
        scores.extend(nodes.iter().map(|node| self.strategy.score(&views, node)));
        Ok(())
    }
}
