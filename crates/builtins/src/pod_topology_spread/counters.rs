//! The data with which constraints count: topology domains, node inclusion policies and pods per node.

use berth_model::{Pod, pod::LabelSelector};

use super::{eligible_domains::EligibleDomainsCache, node_inclusion::NodeInclusion};
use crate::{
    pod_counts::{PodCounts, PodMatch, PodQuery},
    topology::Topologies,
};

/// Data that is kept from cycle to cycle, for both hard and soft constraints.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) topologies: Topologies,
    pub(super) inclusion: NodeInclusion,
    pub(super) pod_counts: PodCounts,
    pub(super) eligible_domains: EligibleDomainsCache,
}

/// The pods that count for a constraint of `pod` with this selector; `None` if no pod counts. An empty selector counts
/// no pod, although it matches every pod (`countPodsMatchSelector` in
/// `pkg/scheduler/framework/plugins/podtopologyspread/common.go`).
pub(super) fn pod_query(pod: &Pod, selector: Option<&LabelSelector>) -> Option<PodQuery> {
    let selector = selector.filter(|selector| !selector.is_empty())?.clone();
    let matches = vec![PodMatch { namespaces: vec![pod.namespace], selector: Some(selector) }];
    Some(PodQuery { matches, skip_terminating: true })
}
