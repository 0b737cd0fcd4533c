//! NodePorts: two pods cannot use the same host port of one node.

use berth_framework::{
    Call, ClusterEvent, ConfigureError, DryRunCase, EventSubject, Filter, HintCall, PreFilter, QueueingHint,
    RejectedNodes, Status,
};
use berth_model::{Column, NodeSet, Pod, pod::HostPort};

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Descriptor, plugin},
    hints,
    node_check::{check_each, pass_or},
};

/// Compares the pod's host ports with the ports in use on a node.
#[derive(Debug, Default)]
pub struct NodePorts {
    /// The ports in use in the current case of a dry run. The buffer is reused.
    in_use: Vec<HostPort>,
}

impl BuiltIn for NodePorts {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "NodePorts",
        columns: &[Column::HostPorts],
        events_to_register: &[("Pod", ClusterEvent::DELETE), ("Node", ClusterEvent::ADD)],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self::default())
    }
}

plugin!(NodePorts: PreFilter, Filter, QueueingHint, Sign; Reuse);

fn is_free(requested: &[HostPort], in_use: &[HostPort]) -> bool {
    !in_use.iter().any(|used| requested.iter().any(|port| port.conflicts(used)))
}

fn check(pod: &Pod, in_use: &[HostPort]) -> Status {
    pass_or(is_free(&pod.host_ports, in_use), || {
        Status::unschedulable("node(s) didn't have free ports for the requested pod ports")
    })
}

impl NodePorts {
    /// The ports in use on the node of `case` that may conflict. As in kube-scheduler, the ports of a node are a set: a
    /// port of a removed pod is free even if another pod on the node uses this port too.
    fn ports_of_case(&mut self, call: &Call<'_>, pods: &[&Pod], case: &DryRunCase) -> &[HostPort] {
        let ports = |index: &u32| pods.get(*index as usize).map_or(&[][..], |pod| &pod.host_ports);
        let is_removed = |port: &HostPort| case.minus.iter().any(|index| ports(index).contains(port));
        // The search in the removed pods covers only the few ports that conflict.
        let conflicts = |port: &HostPort| !is_free(&call.pod.host_ports, std::slice::from_ref(port));
        let now = call.table.host_ports(case.node).iter();
        self.in_use.clear();
        self.in_use.extend(now.filter(|port| conflicts(port) && !is_removed(port)));
        self.in_use.extend(case.plus.iter().flat_map(ports));
        &self.in_use
    }
}

impl PreFilter for NodePorts {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        if call.pod.host_ports.is_empty() { Err(Status::skip()) } else { Ok(None) }
    }
}

impl Filter for NodePorts {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        candidates.retain(|node| is_free(&call.pod.host_ports, call.table.host_ports(node)));
        Ok(())
    }

    fn node_to_status(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        Ok(check_each(rejected, |node| check(call.pod, call.table.host_ports(node))))
    }

    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(cases.iter().map(|case| check(call.pod, self.ports_of_case(call, pods, case))).collect())
    }
}

impl QueueingHint for NodePorts {
    /// Returns true if a deleted pod held one of the host ports that this pod needs. Also returns true for every event
    /// that is not the deletion of a pod.
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        match call.subject {
            EventSubject::Pod { old: Some(old), new: None } => {
                hints::has_place(old) && !is_free(&call.pod.host_ports, &old.host_ports)
            }
            EventSubject::Pod { .. }
            | EventSubject::Node { .. }
            | EventSubject::Object { .. }
            | EventSubject::Hidden => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::Sym;

    use super::*;
    use crate::testing::{TestCluster, show, verdicts};

    const REJECTED: &str = "Unschedulable: node(s) didn't have free ports for the requested pod ports";

    fn port(address: Sym, protocol: Sym, port: i32) -> HostPort {
        HostPort { address, protocol, port }
    }

    #[test]
    fn ports_conflict_by_protocol_number_and_address() {
        let mut cluster = TestCluster::default();
        let (udp, one, two) = (cluster.sym("UDP"), cluster.sym("10.0.0.1"), cluster.sym("10.0.0.2"));
        let any = Sym::ANY_ADDRESS;
        let cases = [
            (port(any, Sym::TCP, 80), port(any, Sym::TCP, 80), false),
            (port(any, Sym::TCP, 80), port(one, Sym::TCP, 80), false),
            (port(one, Sym::TCP, 80), port(any, Sym::TCP, 80), false),
            (port(one, Sym::TCP, 80), port(one, Sym::TCP, 80), false),
            (port(one, Sym::TCP, 80), port(two, Sym::TCP, 80), true),
            (port(any, Sym::TCP, 80), port(any, udp, 80), true),
            (port(any, Sym::TCP, 80), port(any, Sym::TCP, 81), true),
        ];
        for (wanted, used, passes) in cases {
            let mut cluster = TestCluster::default();
            let node = cluster.edit_node("n", |_| ());
            cluster.place(node, Pod { host_ports: [used].into(), ..Pod::default() });
            let pod = Pod { host_ports: [wanted].into(), ..Pod::default() };
            let expected = if passes { "" } else { REJECTED };
            assert_eq!(verdicts(&mut NodePorts::default(), &cluster, &pod), [expected], "{wanted:?} {used:?}");
        }
    }

    #[test]
    fn pods_without_host_ports_skip() {
        let cluster = TestCluster::default();
        let pod = Pod::default();
        assert_eq!(NodePorts::default().pre_filter(&cluster.call(1, &pod)), Err(Status::skip()));
    }

    #[test]
    fn dry_run_removes_and_adds_ports() {
        let mut cluster = TestCluster::default();
        let http = port(Sym::ANY_ADDRESS, Sym::TCP, 80);
        let node = cluster.edit_node("n", |_| ());
        let holder = Pod { host_ports: [http].into(), ..Pod::default() };
        cluster.place(node, holder.clone());
        let pod = holder.clone();
        let cases = [
            DryRunCase { node, minus: vec![], plus: vec![] },
            DryRunCase { node, minus: vec![0], plus: vec![] },
            DryRunCase { node, minus: vec![0], plus: vec![0] },
        ];
        let statuses = NodePorts::default().dry_run(&cluster.call(1, &pod), &[&holder], &cases).unwrap();
        assert_eq!(statuses.iter().map(show).collect::<Vec<_>>(), [REJECTED, "", REJECTED]);
    }
}
