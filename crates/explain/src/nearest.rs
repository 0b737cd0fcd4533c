//! The nodes that come closest to fitting.

use std::cmp::Ordering;

use berth_framework::Call;
use berth_framework::{Code, Profile, run::Rejection};
use berth_model::{NodeIdx, NodeSet};
use serde::{Deserialize, Serialize};

use crate::resources::{Lack, lacks, missing_share};

/// The number of nodes that are named.
const N_NEAREST: usize = 5;

/// A node that does not fit, and the reasons why it does not fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NearNode {
    /// `metadata.name`.
    pub node: String,
    /// The reasons of all plugins that refuse the node. Each plugin was asked on its own.
    pub reasons: Vec<NodeReason>,
    /// The resources of which the node has too little.
    pub lacks: Vec<Lack>,
}

/// The reason why one plugin refuses a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReason {
    /// The name of the plugin.
    pub plugin: String,
    /// The plugin's status code, such as `Unschedulable`.
    pub code: String,
    /// The message in the plugin's own words.
    pub message: String,
}

/// The distance of a node from fitting.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Distance {
    n_plugins: usize,
    /// The number of refusals that evictions cannot remove.
    n_unresolvable: usize,
    /// The sum of the missing amounts, each as a share of the pod's request.
    missing: f64,
}

/// All reasons why a node is refused, in the order of the profile.
pub(crate) fn reasons(profile: &Profile, rejections: &[Rejection], node: NodeIdx) -> Vec<NodeReason> {
    let of_node = rejections.iter().filter(|rejection| rejection.nodes.contains(node));
    let reason = |rejection: &Rejection| NodeReason {
        plugin: profile.name(rejection.plugin).to_string(),
        code: rejection.status.code.as_str().to_owned(),
        message: rejection.status.message(),
    };
    of_node.map(reason).collect()
}

/// The nodes of `refused` that come closest to fitting, the closest first.
pub(crate) fn nearest(
    profile: &Profile,
    call: &Call<'_>,
    rejections: &[Rejection],
    refused: &NodeSet,
) -> Vec<NearNode> {
    let mut nodes: Vec<(Distance, NodeIdx)> =
        refused.iter().map(|node| (distance(call, rejections, node), node)).collect();
    nodes.sort_by(|(one, _), (other, _)| one.compare(other));
    nodes.truncate(N_NEAREST);
    let near = |(_, node): (Distance, NodeIdx)| NearNode {
        node: call.table.symbols.text(call.table.name(node)).to_owned(),
        reasons: reasons(profile, rejections, node),
        lacks: lacks(call.table, call.pod, node),
    };
    nodes.into_iter().map(near).collect()
}

fn distance(call: &Call<'_>, rejections: &[Rejection], node: NodeIdx) -> Distance {
    let of_node = || rejections.iter().filter(|rejection| rejection.nodes.contains(node));
    let is_unresolvable = |rejection: &&Rejection| rejection.status.code == Code::UnschedulableAndUnresolvable;
    Distance {
        n_plugins: of_node().count(),
        n_unresolvable: of_node().filter(is_unresolvable).count(),
        missing: missing_share(call.table, call.pod, node),
    }
}

impl Distance {
    fn compare(&self, other: &Self) -> Ordering {
        let counts = |it: &Self| (it.n_plugins, it.n_unresolvable);
        counts(self).cmp(&counts(other)).then(self.missing.total_cmp(&other.missing))
    }
}
