//! The diagnosis of a cycle that found no node: statuses of nodes, and the message made from them.

use std::collections::BTreeMap;

use berth_model::{NodeIdx, NodeSet};

use super::PluginBits;
use crate::{
    effect::Effect,
    profile::PluginIdx,
    status::{Code, Status, join_reasons},
};

/// Nodes that one plugin rejected with the same status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The plugin; [`PluginIdx::NOBODY`] for an extender.
    pub plugin: PluginIdx,
    /// The plugin's status.
    pub status: Status,
    /// The nodes that were rejected.
    pub nodes: NodeSet,
}

/// The result of PostFilter for a pod that fits on no node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostFilterRun {
    /// Success, or a rejection with the reasons of every plugin that was asked. `None` if no plugin was asked.
    pub status: Option<Status>,
    /// `Some(None)` clears the pod's nomination, `Some(Some(node))` sets it, `None` leaves it.
    pub nominate: Option<Option<NodeIdx>>,
    /// The effects, each with the plugin that asked for it.
    pub effects: Vec<(PluginIdx, Effect)>,
}

/// The reasons why a pod fits on no node.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// The number of nodes that the message counts.
    pub n_all_nodes: usize,
    /// The reason why PreFilter rejected the pod; `None` if PreFilter let the pod pass.
    pub pre_filter: Option<Status>,
    /// The nodes that Filter plugins and extenders rejected.
    pub rejections: Vec<Rejection>,
    /// The status of nodes that are in none of the rejections.
    pub absent: Option<Status>,
    /// The result of the PostFilter plugins.
    pub post_filter: PostFilterRun,
    /// The plugins that rejected the pod or a node. Their events may make the pod schedulable.
    pub rejectors: PluginBits,
    /// Whether extenders removed nodes. If so, events of many kinds may make the pod schedulable.
    pub rejected_by_extender: bool,
    /// The plugins that rejected with `Pending`. They wait for something outside the scheduler.
    pub pending: PluginBits,
    /// The name of the node that was chosen, if the pod lost this node because a plugin went out of service. `None` if
    /// no node was chosen, or if a plugin rejected the pod. The message is then the message of kube-scheduler.
    pub lost_node: Option<String>,
}

impl Diagnosis {
    /// Notes that `plugin` rejected the pod, or a node for it, with `code`.
    pub fn blame(&mut self, plugin: PluginIdx, code: Code) {
        if code == Code::Pending {
            self.pending.insert(plugin);
        } else {
            self.rejectors.insert(plugin);
        }
    }

    /// The text of conditions and events: `0/3 nodes are available: 1 Insufficient cpu, 2 ...`, or
    /// `node n1 was chosen, but ...`.
    #[must_use]
    pub fn message(&self) -> String {
        if let Some(node) = &self.lost_node {
            let reasons = self.rejections.iter().flat_map(|rejection| &rejection.status.reasons);
            return format!("node {node} was chosen, but {}", join_reasons(reasons.map(String::as_str)));
        }
        let mut message = format!("0/{} nodes are available:", self.n_all_nodes);
        let text = |status: &Option<Status>| status.as_ref().map(Status::message).unwrap_or_default();
        let (pre_filter, post_filter) = (text(&self.pre_filter), text(&self.post_filter.status));
        if pre_filter.is_empty() {
            let explicit = self.rejections.iter().map(|rejection| (&rejection.status, rejection.nodes.len()));
            let n_explicit: usize = self.rejections.iter().map(|rejection| rejection.nodes.len()).sum();
            let n_absent = self.n_all_nodes.saturating_sub(n_explicit);
            let text = histogram(explicit.chain(self.absent.iter().map(|status| (status, n_absent))));
            if !text.is_empty() {
                message.push(' ');
                message.push_str(&text);
                message.push('.');
            }
        } else {
            message.push(' ');
            message.push_str(&pre_filter);
            message.push('.');
        }
        if !post_filter.is_empty() {
            message.push(' ');
            message.push_str(&post_filter);
        }
        message
    }
}

/// A text that lists each reason as `<count> <reason>`, sorted as text and joined with commas. A node counts for each
/// of its reasons.
pub fn histogram<'a>(statuses: impl IntoIterator<Item = (&'a Status, usize)>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (status, n_nodes) in statuses.into_iter().filter(|(_, n_nodes)| *n_nodes > 0) {
        for reason in &status.reasons {
            *counts.entry(reason).or_default() += n_nodes;
        }
    }
    let mut entries: Vec<String> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    entries.sort_unstable();
    join_reasons(entries.iter().map(String::as_str))
}
