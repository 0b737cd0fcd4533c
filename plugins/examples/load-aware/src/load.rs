//! The usage of nodes: their last reports, and the pods that came since.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Add,
};

use berth_sdk::model::{ClusterTable, ObjectView, Pod, Time, pod::Resources, quantity::Quantity};
use serde::Deserialize;

pub(crate) const API_VERSION: &str = "slo.koordinator.sh/v1alpha1";
pub(crate) const KIND: &str = "NodeMetric";

/// The part of a NodeMetric that is read. The object has the name of its node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeMetric {
    status: MetricStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetricStatus {
    update_time: String,
    node_metric: NodeMetricInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeMetricInfo {
    node_usage: NodeUsage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeUsage {
    resources: Amounts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Amounts {
    cpu: Quantity,
    memory: Quantity,
}

/// CPU and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) milli_cpu: i64,
    /// Bytes.
    pub(crate) memory: i64,
}

impl Usage {
    pub(crate) fn of(requests: &Resources) -> Self {
        Self { milli_cpu: requests.milli_cpu, memory: requests.memory }
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self { milli_cpu: self.milli_cpu + more.milli_cpu, memory: self.memory + more.memory }
    }
}

/// A node's last report.
#[derive(Debug)]
struct Load {
    reported: Usage,
    at: Time,
    /// The requests of the pods that the report cannot contain.
    since: Usage,
}

/// The reports of all nodes, kept up to date.
#[derive(Debug)]
pub(crate) struct Loads {
    objects: ObjectView<NodeMetric>,
    by_node: BTreeMap<String, Load>,
    /// The position up to which the changes of pods on nodes were followed.
    position: Option<u64>,
}

impl Default for Loads {
    fn default() -> Self {
        Self { objects: ObjectView::new(API_VERSION, KIND), by_node: BTreeMap::new(), position: None }
    }
}

impl Loads {
    pub(crate) fn follow(&mut self, table: &ClusterTable) {
        let mut changed = BTreeSet::new();
        let by_node = &mut self.by_node;
        self.objects.refresh_with(table.objects(), |_, node, metric| {
            match metric.and_then(|metric| metric.load()) {
                Some(load) => drop(by_node.insert(node.to_owned(), load)),
                None => drop(by_node.remove(node)),
            }
            changed.extend(table.symbols.lookup(node).and_then(|name| table.find(name)));
        });
        let pods = table.pods();
        match self.position.and_then(|position| pods.since(position)) {
            Some(changes) => changed.extend(changes.map(|change| change.node)),
            None => changed.extend(table.nodes().iter()),
        }
        self.position = Some(pods.position());
        for node in changed {
            if let Some(load) = self.by_node.get_mut(table.symbols.text(table.name(node))) {
                let unknown = pods.on(node).filter(|(_, pod)| load.is_older_than(pod));
                load.since = unknown.fold(Usage::default(), |sum, (_, pod)| sum + Usage::of(&pod.placed_requests));
            }
        }
    }

    /// The usage of the node, unless its last report is older than this number of seconds.
    pub(crate) fn of(&self, node: &str, now: Time, expiration_seconds: u64) -> Option<Usage> {
        let load = self.by_node.get(node)?;
        (now.since(load.at) <= expiration_seconds.saturating_mul(1000)).then(|| load.reported + load.since)
    }
}

impl Load {
    /// Whether the report was made before the pod ran.
    fn is_older_than(&self, pod: &Pod) -> bool {
        pod.started_at.and_then(|at| u64::try_from(at).ok()).is_none_or(|at| at > self.at.0)
    }
}

impl NodeMetric {
    /// The load in the report; `None` before the first report.
    fn load(&self) -> Option<Load> {
        let at = Time::from_rfc3339(&self.status.update_time)?;
        let Amounts { cpu, memory } = &self.status.node_metric.node_usage.resources;
        let reported = Usage { milli_cpu: cpu.milli_value(), memory: memory.value() };
        Some(Load { reported, at, since: Usage::default() })
    }
}
