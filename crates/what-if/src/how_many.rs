//! Determines how many more pods of one kind fit into a cluster, and which resource prevents further pods.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    cluster::{Cluster, ClusterPod},
    outcome::{Refusal, RefusalReason},
    place::{Conditions, PlaceError, Placing},
    report::API_VERSION,
};

/// The number of further pods of one kind that fit after the pending pods are placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HowMany {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `HowMany`.
    pub kind: &'static str,
    /// The number of pods that fit. They evict no other pod.
    pub fit: usize,
    /// The number of fitting pods on each node that has fitting pods.
    pub nodes: BTreeMap<String, usize>,
    /// The reason why the next pod does not fit; absent if the maximum number fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The number of pods that were pending at the beginning, and get no node.
    pub pending: usize,
}

/// Places the pending pods, and then one copy of `pod` after the other, until a copy does not fit or there are `n_most`
/// copies.
///
/// # Errors
/// Fails as [`crate::place`] does.
pub fn how_many(
    cluster: &Cluster,
    pod: &ClusterPod,
    n_most: usize,
    conditions: Conditions<'_>,
) -> Result<HowMany, PlaceError> {
    let mut placing = Placing::new(cluster, conditions);
    cluster.pending().for_each(|pod| placing.arrive(pod));
    placing.settle()?;
    let is_pending = |pod: &&ClusterPod| placing.outcome(&pod.pod.metadata.uid).is_some_and(|pod| pod.node.is_none());
    let mut answer = HowMany {
        api_version: API_VERSION,
        kind: "HowMany",
        fit: 0,
        nodes: BTreeMap::new(),
        refusal: None,
        pending: cluster.pending().filter(is_pending).count(),
    };
    let pod = pod.evicting_none();
    while answer.fit < n_most {
        let next = pod.named(&format!("{}-how-many-{}", pod.pod.metadata.name, answer.fit + 1));
        placing.arrive(&next);
        placing.settle()?;
        let outcome = placing.outcome(&next.pod.metadata.uid);
        match outcome.and_then(|outcome| outcome.node.clone()) {
            Some(node) => *answer.nodes.entry(node).or_default() += 1,
            None => {
                let refusal = outcome.and_then(|outcome| outcome.refusal.clone());
                let untried = || {
                    Refusal::new(
                        RefusalReason::NotTried,
                        "it was not tried: a PreEnqueue plugin holds it, or no profile serves it",
                    )
                };
                answer.refusal = Some(refusal.unwrap_or_else(untried));
                return Ok(answer);
            }
        }
        answer.fit += 1;
    }
    Ok(answer)
}
