//! NodeResourcesBalancedAllocation: prefers nodes on which the resources are used more evenly with the pod than without
//! it.
//!
//! Since Kubernetes 1.36, the score is a difference. It is 75 if the pod changes nothing, and more if the use becomes
//! more even.
//!
//! kube-scheduler: `pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go`.

use berth_framework::{Call, ConfigureError, PreScore, Score, Status};
use berth_model::{Column, Feature, Features, NodeSet, node_set::RowBlock};
use serde::Deserialize;
use smallvec::SmallVec;

use crate::{
    args,
    built_in::{BuiltIn, Descriptor, plugin},
    dynamic_resources::{ClassDevices, DEVICE_OBJECTS},
    normalize::MAX_SCORE,
    row_blocks::{Block, integer_below, number, score_in_blocks},
    scored_resources::{
        ResourceArgs, ResourceView, ScoredResource, depends_on_devices, scored_resources, served_by_devices, views,
    },
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NodeResourcesBalancedAllocationArgs {
    resources: Option<Vec<ResourceArgs>>,
}

/// Compares how far the used fractions of the resources deviate from each other, with and without the pod.
#[derive(Debug)]
pub struct NodeResourcesBalancedAllocation {
    resources: Vec<ScoredResource>,
    /// Devices by class, for resources that devices serve.
    devices: ClassDevices,
    features: Features,
}

impl NodeResourcesBalancedAllocation {
    /// Whether devices count in the pod's scores.
    pub(crate) fn scores_by_devices(&mut self, call: &Call<'_>) -> bool {
        self.features.has(Feature::DRAExtendedResource)
            && depends_on_devices(&mut self.devices, &self.resources, &call.pod.balanced_requests, call)
    }
}

impl BuiltIn for NodeResourcesBalancedAllocation {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "NodeResourcesBalancedAllocation",
        columns: &[Column::Name, Column::Labels, Column::Allocatable, Column::Requested],
        objects: &DEVICE_OBJECTS,
        events_to_register: &[],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let (args, features): (NodeResourcesBalancedAllocationArgs, _) = args::parse_with_features(Self::NAME, args)?;
        let resources = scored_resources(args.resources, 1).map_err(ConfigureError::new)?;
        Ok(Self { resources, devices: ClassDevices::new(features), features })
    }
}

plugin!(NodeResourcesBalancedAllocation: PreScore, Score, Sign; Reuse);

impl PreScore for NodeResourcesBalancedAllocation {
    fn pre_score(&mut self, call: &Call<'_>, _nodes: &NodeSet) -> Result<(), Status> {
        let requests = &call.pod.balanced_requests;
        let is_best_effort = self.resources.iter().all(|resource| resource.request(requests, call.table) == 0);
        if is_best_effort { Err(Status::skip()) } else { Ok(()) }
    }
}

impl Score for NodeResourcesBalancedAllocation {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        let table = call.table;
        let used = |name| table.requested().column(name);
        let (resources, requests) = (&self.resources, &call.pod.balanced_requests);
        let served = if self.features.has(Feature::DRAExtendedResource) {
            served_by_devices(&mut self.devices, resources, requests, call, nodes)
        } else {
            Vec::new()
        };
        let views = views(resources, requests, table, &served, used);
        let (mut with, mut without) = (SmallVec::<[f64; 4]>::new(), SmallVec::<[f64; 4]>::new());
        let of_row = |node| {
            with.clear();
            without.clear();
            for (view, (allocatable, used)) in views.iter().filter_map(|view| Some((view, view.amounts(node)?))) {
                with.push(used_fraction(used.saturating_add(view.request), allocatable));
                without.push(used_fraction(used, allocatable));
            }
            MAX_SCORE / 2 + (MAX_SCORE / 2 + balance(&with) - balance(&without)) / 2
        };
        score_in_blocks(nodes, scores, |block, scores| score_block(&views, block, scores), of_row);
        Ok(())
    }
}

/// The scores of a block of rows by two resources. Two is the default number of resources.
fn score_block(views: &[ResourceView<'_>], block: RowBlock, scores: &mut Block<i64>) -> Option<()> {
    let [one, other] = views else { return None };
    let (request, other_request) = (number(one.request), number(other.request));
    one.in_block(block, |wholes, used| {
        other.in_block(block, |other_wholes, other_used| {
            let rows = wholes.iter().zip(used).zip(other_wholes.iter().zip(other_used));
            for (score, ((&whole, &used), (&other_whole, &other_used))) in scores.iter_mut().zip(rows) {
                let (whole, other_whole) = (number(whole), number(other_whole));
                let (used, other_used) = (number(used), number(other_used));
                let with = balance_of_two((used + request) / whole, (other_used + other_request) / other_whole);
                let without = balance_of_two(used / whole, other_used / other_whole);
                // The balance of two resources is at least 50, so the result is never negative.
                *score = MAX_SCORE / 2 + ((MAX_SCORE / 2 + with - without) >> 1);
            }
        })
    })?
}

/// The result of [`balance`] for two fractions. [`balance`] halves the difference of the fractions. This function
/// subtracts the difference from twice the amount, with exactly the same result.
#[inline]
fn balance_of_two(first: f64, second: f64) -> i64 {
    let at_most_1 = |fraction: f64| if fraction < 1.0 { fraction } else { 1.0 };
    integer_below((2.0 - (at_most_1(first) - at_most_1(second)).abs()) * (MAX_SCORE / 2) as f64)
}

#[expect(clippy::cast_precision_loss, reason = "Kubernetes computes in float64")]
fn used_fraction(requested: i64, allocatable: i64) -> f64 {
    (requested as f64 / allocatable as f64).min(1.0)
}

/// 100 if all fractions are equal. A larger deviation gives a smaller number.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "Kubernetes computes in float64 and truncates; the order of operations decides the last score"
)]
fn balance(fractions: &[f64]) -> i64 {
    let deviation = match fractions {
        [] | [_] => 0.0,
        [first, second] => ((first - second) / 2.0).abs(),
        several => {
            let n = several.len() as f64;
            let mean = several.iter().fold(0.0, |sum, fraction| sum + fraction) / n;
            let squares = several.iter().fold(0.0, |sum, fraction| sum + (fraction - mean) * (fraction - mean));
            (squares / n).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_SCORE as f64) as i64
}

#[cfg(test)]
mod tests {
    use berth_model::{Pod, pod::Resources};

    use super::*;
    use crate::testing::{TestCluster, pod_of, scores};

    const GI: i64 = 1 << 30;

    fn amounts(milli_cpu: i64, memory: i64) -> Resources {
        Resources { milli_cpu, memory, ..Resources::default() }
    }

    #[test]
    fn worked_examples() {
        let mut cluster = TestCluster::default();
        for (name, used) in [("a", amounts(1000, 6 * GI)), ("b", amounts(2000, 2 * GI))] {
            let node = cluster.edit_node(name, |node| node.allocatable = amounts(4000, 8 * GI));
            cluster.place(node, pod_of(used));
        }
        let pod = Pod { balanced_requests: amounts(1000, GI), ..Pod::default() };
        let mut plugin = NodeResourcesBalancedAllocation::new("null").unwrap();
        assert_eq!(scores(&mut plugin, &cluster, &pod).unwrap().0, [78, 72]);
    }

    #[test]
    fn deviations() {
        let cases: [(&[f64], i64); 6] = [
            (&[], 100),
            (&[0.9], 100),
            (&[0.25, 0.75], 75),
            (&[0.5, 0.875], 81),
            (&[0.5, 0.25], 87),
            (&[0.5, 0.875, 0.2], 72),
        ];
        for (fractions, expected) in cases {
            assert_eq!(balance(fractions), expected, "{fractions:?}");
        }
        assert!((used_fraction(9, 4) - 1.0).abs() < f64::EPSILON, "more than all is all");
    }

    #[test]
    fn resources_that_cannot_be_scored_are_left_out() {
        let mut cluster = TestCluster::default();
        let gpu = cluster.sym("example.com/gpu");
        let node = cluster.edit_node("n", |node| {
            node.allocatable = Resources { scalars: [(gpu, 4)].into(), ..amounts(4000, 0) };
        });
        cluster.place(node, pod_of(Resources { scalars: [(gpu, 4)].into(), ..amounts(1000, 0) }));
        let args = r#"{"resources":[{"name":"cpu"},{"name":"memory","weight":1},{"name":"example.com/gpu"},
            {"name":"unheard"},{"name":"pods"}]}"#;
        let mut plugin = NodeResourcesBalancedAllocation::new(args).unwrap();
        let mut pod = Pod { balanced_requests: amounts(1000, GI), ..Pod::default() };
        assert_eq!(scores(&mut plugin, &cluster, &pod).unwrap().0, [75], "only cpu is left");
        pod.balanced_requests = Resources::default();
        assert_eq!(scores(&mut plugin, &cluster, &pod), Err(Status::skip()));
        assert!(NodeResourcesBalancedAllocation::new(r#"{"resources":[{"name":"cpu","weight":2}]}"#).is_err());
    }
}
