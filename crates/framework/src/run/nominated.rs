//! The pods that are nominated to nodes, as the cycle of one pod sees them.
//!
//! A nominated pod competes with the pod of the cycle if the priority of the nominated pod is at least as high. Filter
//! treats a competing pod as if it were on its node already (`addGENominatedPods` in kube-scheduler's
//! `pkg/scheduler/framework/runtime/framework.go`). Preemption sees all nominated pods.

use std::sync::Arc;

use berth_model::{ClusterTable, NodeIdx, Pod, Sym};

use crate::points::DryRunCase;

/// Nominations to nodes of the table. Nominations to other nodes are left out.
#[derive(Clone, Debug, Default)]
pub struct NominatedPods<'a> {
    /// Nominated pods in the order of their nodes.
    all: Vec<(NodeIdx, &'a Arc<Pod>)>,
    competing: Vec<&'a Pod>,
    cases: Vec<DryRunCase>,
}

impl<'a> NominatedPods<'a> {
    /// The nominations as the cycle of `pod` sees them. `nominations` are pods with the names of the nodes to which
    /// they are nominated, in any order. `pod` may be among them and never competes with itself.
    #[must_use]
    pub fn new(table: &ClusterTable, pod: &Pod, nominations: impl IntoIterator<Item = (Sym, &'a Arc<Pod>)>) -> Self {
        let known = nominations.into_iter().filter_map(|(node, nominated)| Some((table.find(node)?, nominated)));
        let mut all: Vec<(NodeIdx, &Arc<Pod>)> = known.collect();
        all.sort_by_key(|(node, _)| *node);
        let (mut competing, mut cases) = (Vec::new(), Vec::<DryRunCase>::new());
        for &(node, nominated) in &all {
            if nominated.priority < pod.priority || nominated.uid == pod.uid {
                continue;
            }
            let place = u32::try_from(competing.len()).unwrap_or(u32::MAX);
            competing.push(&**nominated);
            match cases.last_mut().filter(|case| case.node == node) {
                Some(case) => case.plus.push(place),
                None => cases.push(DryRunCase { node, plus: vec![place], ..DryRunCase::default() }),
            }
        }
        Self { all, competing, cases }
    }

    /// The pods that compete with the pod of the cycle: all pods of the same or a higher priority, without the pod
    /// itself.
    #[must_use]
    pub fn competing(&self) -> &[&'a Pod] {
        &self.competing
    }

    /// One case for each node with competing pods, in the order of nodes. `plus` contains their indexes in
    /// [`Self::competing`]; `minus` is empty.
    #[must_use]
    pub fn cases(&self) -> &[DryRunCase] {
        &self.cases
    }

    /// Every nomination, at any priority, in the order of nodes. The pods of a node are in descending order of
    /// priority.
    #[must_use]
    pub fn all(&self) -> Vec<(NodeIdx, Arc<Pod>)> {
        let mut all: Vec<_> = self.all.iter().map(|(node, pod)| (*node, Arc::clone(pod))).collect();
        all.sort_by(|(left, one), (right, other)| {
            (left, -i64::from(one.priority), &one.uid).cmp(&(right, -i64::from(other.priority), &other.uid))
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_at_least_the_priority_compete_and_all_are_listed() {
        let mut table = ClusterTable::default();
        let names = ["a", "b"].map(|name| table.symbols.intern(name));
        for (row, name) in (0u32..).zip(names) {
            table.add_node(NodeIdx(row));
            table.set_name(NodeIdx(row), name);
        }
        let pod = |uid: &str, priority| Arc::new(Pod { uid: uid.into(), priority, ..Pod::default() });
        let [low, equal, high, lost] =
            [("low", 1), ("equal", 5), ("high", 9), ("lost", 9)].map(|(uid, at)| pod(uid, at));
        let own = pod("own", 5);
        let [a, b] = names;
        let nominations = [(b, &low), (b, &equal), (a, &own), (b, &high), (a, &equal), (Sym::NONE, &lost)];
        let nominated = NominatedPods::new(&table, &own, nominations);
        let competing: Vec<&str> = nominated.competing().iter().map(|pod| &*pod.uid).collect();
        assert_eq!(competing, ["equal", "equal", "high"]);
        let case = |row, plus: &[u32]| DryRunCase { node: NodeIdx(row), minus: Vec::new(), plus: plus.to_vec() };
        assert_eq!(nominated.cases(), [case(0, &[0]), case(1, &[1, 2])]);
        let all: Vec<String> = nominated.all().iter().map(|(node, pod)| format!("{} {}", node.0, pod.uid)).collect();
        assert_eq!(all, ["0 equal", "0 own", "1 high", "1 equal", "1 low"]);
    }
}
