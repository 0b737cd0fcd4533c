//! LoadAware: prefers nodes with low actual usage, instead of nodes with low requests, and keeps pods off nodes with
//! too much usage.
//!
//! Usage comes from NodeMetric objects, which Koordinator's agent writes once a minute (`nodemetric.yaml` has the
//! custom resource's definition). A pod that is not in its node's last report counts with its requests. Otherwise all
//! pods of a minute would go to the node that was idle at the beginning of the minute.

mod load;

use berth_sdk::{
    framework::{
        Call, ClusterEvent, Configure, ConfigureError, DryRunCase, Filter, Follow, Manifest, Needs, ObjectKind,
        RejectedNodes, Score, Status,
    },
    model::{ClusterTable, Column, NodeIdx, NodeSet, Pod, Sym},
};
use serde::Deserialize;

use crate::load::{API_VERSION, KIND, Loads, Usage};

berth_sdk::plugin!(LoadAware: Filter, Score; Follow);
berth_sdk::export!(LoadAware);

/// `pluginConfig` of LoadAware.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct Args {
    /// A node whose CPU usage is higher than this gets no pods.
    max_cpu_percent: i64,
    max_memory_percent: i64,
    /// The age in seconds from which a report is ignored.
    expiration_seconds: u64,
}

impl Default for Args {
    fn default() -> Self {
        Self { max_cpu_percent: 85, max_memory_percent: 90, expiration_seconds: 300 }
    }
}

/// The plugin, and the usage of nodes.
#[derive(Debug)]
pub struct LoadAware {
    args: Args,
    loads: Loads,
}

impl LoadAware {
    /// The CPU and memory usage of the node in percent, with `more` added; `None` without a recent report.
    fn percentages(&self, call: &Call<'_>, node: NodeIdx, more: Usage) -> Option<(i64, i64)> {
        let name = call.table.symbols.text(call.table.name(node));
        let usage = self.loads.of(name, call.now, self.args.expiration_seconds)? + more;
        let allocatable = |resource| call.table.allocatable().get(resource, node).max(1);
        let (cpu, memory) = (allocatable(Sym::CPU), allocatable(Sym::MEMORY));
        Some((100 * usage.milli_cpu / cpu, usage.memory.saturating_mul(100) / memory))
    }

    fn verdict(&self, call: &Call<'_>, node: NodeIdx) -> Status {
        match self.percentages(call, node, Usage::default()) {
            Some((cpu, _)) if cpu > self.args.max_cpu_percent => {
                Status::unresolvable(format!("node(s) used more than {}% of their CPU", self.args.max_cpu_percent))
            }
            Some((_, memory)) if memory > self.args.max_memory_percent => Status::unresolvable(format!(
                "node(s) used more than {}% of their memory",
                self.args.max_memory_percent
            )),
            Some(_) | None => Status::success(),
        }
    }
}

impl Configure for LoadAware {
    fn describe() -> Manifest {
        let columns = [Column::Name, Column::Allocatable].into_iter().collect();
        let kind = ObjectKind { api_version: API_VERSION.to_owned(), kind: KIND.to_owned() };
        Manifest {
            name: "LoadAware".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            needs: Needs { columns, pods: true, objects: vec![kind], ..Needs::default() },
            events_to_register: Some(vec![
                ClusterEvent::new("nodemetrics.v1alpha1.slo.koordinator.sh", ClusterEvent::ALL),
                ClusterEvent::new("Node", ClusterEvent::ADD),
            ]),
            ..Manifest::default()
        }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        Ok(Self { args: berth_sdk::decode_args(args)?, loads: Loads::default() })
    }
}

impl Follow for LoadAware {
    fn follow(&mut self, table: &ClusterTable) {
        self.loads.follow(table);
    }
}

impl Filter for LoadAware {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        candidates.retain(|node| self.verdict(call, node).is_success());
        Ok(())
    }

    fn node_to_status(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        let rejected_node =
            |node| RejectedNodes { status: self.verdict(call, node), nodes: NodeSet::from_iter([node]) };
        Ok(rejected.iter().map(rejected_node).collect())
    }

    /// The usage of a single pod is unknown, so the answer ignores the removed and added pods.
    fn dry_run(&mut self, call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(cases.iter().map(|case| self.verdict(call, case.node)).collect())
    }
}

impl Score for LoadAware {
    /// The mean of the CPU and the memory that are left after the pod was placed. Nodes without a recent report come
    /// last.
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        let more = Usage::of(&call.pod.requests);
        scores.extend(nodes.iter().map(|node| match self.percentages(call, node, more) {
            Some((cpu, memory)) => (200 - cpu.clamp(0, 100) - memory.clamp(0, 100)) / 2,
            None => 0,
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
