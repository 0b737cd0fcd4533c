//! The pods of borrowers whose eviction could make room.

use std::{cmp::Reverse, sync::Arc};

use berth_sdk::{
    framework::Removal,
    model::{ClusterTable, NodeIdx, Pod, PodIdx},
};

use crate::{
    amounts::{Amounts, first_excess, of_pod, subtract},
    quotas::Quotas,
};

/// The maximum number of nodes with borrowers that are examined. The scheduler asks all other plugins about each of
/// these nodes.
const MAX_NODES: usize = 100;

/// The evictions after which the quotas have the wanted room. Only the other plugins know whether the node then has
/// this room.
pub(crate) fn candidates(table: &ClusterTable, quotas: &Quotas, wanted: &Amounts) -> Vec<Removal> {
    let found = table.nodes().iter().map(|node| on_node(table, quotas, wanted, node));
    found.filter(|removals| !removals.is_empty()).take(MAX_NODES).flatten().collect()
}

/// The evictions on one node, as a list of sets. Each set has one more pod than the set before. The least important pod
/// comes first, then a pod whose namespace keeps its guaranteed amounts, then the youngest pod. A namespace loses pods
/// only while it borrows a wanted resource.
fn on_node(table: &ClusterTable, quotas: &Quotas, wanted: &Amounts, node: NodeIdx) -> Vec<Removal> {
    let mut pods: Vec<(PodIdx, &Arc<Pod>)> = table.pods().on(node).filter(|(_, pod)| !pod.terminating).collect();
    let (mut borrowed, total_min) = (quotas.borrowed(), quotas.total_min());
    let mut total_used = quotas.total_used();
    let (mut taken, mut removals) = (Vec::new(), Vec::new());
    let freed = |pod: &Pod| of_pod(&pod.placed_requests, &table.symbols);
    loop {
        let rank = |pod: &Pod| {
            let borrowed = borrowed.get(table.symbols.text(pod.namespace))?;
            let borrows = |resource: &String| borrowed.get(resource).is_some_and(|amount| *amount > 0);
            let takes_more = freed(pod).iter().any(|(resource, freed)| borrowed.get(resource) < Some(freed));
            let started = Reverse(pod.started_at.unwrap_or(i64::MAX));
            wanted.keys().any(borrows).then_some((pod.priority, takes_more, started))
        };
        let ranked = (0..).zip(&pods).filter_map(|(at, (_, pod))| Some((rank(pod)?, at)));
        let Some((_, next)) = ranked.min() else { return removals };
        let (idx, pod) = pods.swap_remove(next);
        let freed = freed(pod);
        if let Some(borrowed) = borrowed.get_mut(table.symbols.text(pod.namespace)) {
            subtract(borrowed, &freed);
        }
        subtract(&mut total_used, &freed);
        taken.push(idx);
        if first_excess(&total_used, wanted, &total_min).is_none() {
            removals.push(Removal { node, pods: taken.clone() });
        }
    }
}
