//! Calls of plugins about a [`TestCluster`], for unit tests.

use berth_framework::{Plugin, Status};
use berth_model::{
    Pod,
    pod::{NonZero, Resources},
};
pub(crate) use berth_testing::TestCluster;
use serde_json::{Value, json};

/// A pod that takes `amounts` from its node.
pub(crate) fn pod_of(amounts: Resources) -> Pod {
    let placed_non_zero = NonZero { milli_cpu: amounts.milli_cpu, memory: amounts.memory };
    Pod { placed_requests: amounts, placed_non_zero, ..Pod::default() }
}

/// The reason why each node is rejected, in the order of rows; empty for a node that passes. If the plugin has a
/// PreFilter, it runs first.
pub(crate) fn verdicts(plugin: &mut dyn Plugin, cluster: &TestCluster, pod: &Pod) -> Vec<String> {
    let call = cluster.call(1, pod);
    if let Some(point) = plugin.pre_filter() {
        point.pre_filter(&call).unwrap();
    }
    let nodes = cluster.table().nodes();
    let rejected = berth_testing::filter(plugin, &call, &mut nodes.clone()).unwrap();
    nodes.iter().map(|node| rejected.get(cluster.node_name(node)).map_or_else(String::new, show)).collect()
}

/// The code and the message of the status; empty for success.
pub(crate) fn show(status: &Status) -> String {
    if status.is_success() { String::new() } else { format!("{}: {}", status.code.as_str(), status.message()) }
}

/// Scores of all nodes before and after normalising, or the status that PreScore returned.
pub(crate) fn scores(
    plugin: &mut dyn Plugin,
    cluster: &TestCluster,
    pod: &Pod,
) -> Result<(Vec<i64>, Vec<i64>), Status> {
    let scores = berth_testing::score(plugin, &cluster.call(1, pod), cluster.table().nodes())?;
    scores.map(|scores| (scores.raw, scores.normalized)).ok_or_else(Status::skip)
}

/// Applies a JSON merge patch (RFC 7386).
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Some(changes) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, change) in changes {
        if change.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], change);
        }
    }
}
