//! NumaAware: keeps pods off nodes whose kubelet would refuse them, because no NUMA zone has room for a whole
//! container.
//!
//! A kubelet with the Topology Manager policy `single-numa-node` admits a container (or, with scope `pod`, a pod) only
//! if one zone can provide all of its requests. NodeResourceTopology objects, which an agent on each node writes
//! (`topology.yaml` has the custom resource's definition), show the resources that are left in each zone. Nodes without
//! such an object, or with another policy, pass.
//!
//! CPU and memory count for Guaranteed pods, and devices count for all pods, as in the kubelet
//! (<https://kubernetes.io/docs/tasks/administer-cluster/topology-manager/>), if the node's zones list them.

mod demand;
mod topology;

use berth_sdk::{
    framework::{
        Call, ClusterEvent, Configure, ConfigureError, DryRunCase, Filter, Follow, Manifest, Needs, ObjectKind,
        PreFilter, RejectedNodes, Status,
    },
    model::{ClusterTable, Column, NodeIdx, NodeSet, Pod},
};

use crate::{
    demand::Demand,
    topology::{API_VERSION, KIND, Topologies},
};

berth_sdk::plugin!(NumaAware: PreFilter, Filter; Follow);
berth_sdk::export!(NumaAware);

const REASON: &str = "node(s) had no NUMA zone with enough room";

/// The plugin.
#[derive(Debug, Default)]
pub struct NumaAware {
    topologies: Topologies,
    /// The demand of this cycle's pod.
    demand: Demand,
}

impl NumaAware {
    fn fits(&self, table: &ClusterTable, node: NodeIdx) -> bool {
        self.topologies.have_room(table.symbols.text(table.name(node)), &self.demand)
    }
}

impl Configure for NumaAware {
    fn describe() -> Manifest {
        let columns = [Column::Name].into_iter().collect();
        let kind = ObjectKind { api_version: API_VERSION.to_owned(), kind: KIND.to_owned() };
        Manifest {
            name: "NumaAware".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            // Only the pod's JSON contains the requests of each container.
            needs: Needs { columns, pods: true, pod_json: true, objects: vec![kind], ..Needs::default() },
            events_to_register: Some(vec![
                ClusterEvent::new("noderesourcetopologies.v1alpha2.topology.node.k8s.io", ClusterEvent::ALL),
                ClusterEvent::new("Pod", ClusterEvent::DELETE),
                ClusterEvent::new("Node", ClusterEvent::ADD),
            ]),
            ..Manifest::default()
        }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        match args {
            "null" | "{}" => Ok(Self::default()),
            _ => Err("NumaAware takes no arguments".into()),
        }
    }
}

impl Follow for NumaAware {
    fn follow(&mut self, table: &ClusterTable) {
        self.topologies.follow(table);
    }
}

impl PreFilter for NumaAware {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        let json = call.pod.json.as_deref().ok_or_else(|| Status::error("NumaAware needs the pod's JSON"))?;
        self.demand = Demand::of_json(json).map_err(|error| Status::error(format!("the pod's JSON: {error}")))?;
        if self.demand.is_empty() { Err(Status::skip()) } else { Ok(None) }
    }
}

impl Filter for NumaAware {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        candidates.retain(|node| self.fits(call.table, node));
        Ok(())
    }

    fn node_to_status(&mut self, _call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        Ok(vec![RejectedNodes { status: Status::unresolvable(REASON), nodes: rejected.clone() }])
    }

    /// The zone of a pod's resources is unknown, so it is unknown whether the eviction of the pod helps.
    fn dry_run(&mut self, call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        let verdict = |case: &DryRunCase| match self.fits(call.table, case.node) {
            true => Status::success(),
            false => Status::unresolvable(REASON),
        };
        Ok(cases.iter().map(verdict).collect())
    }
}

#[cfg(test)]
mod tests;
