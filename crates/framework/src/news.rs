//! What a plugin must hear although no answer is expected: that a pod was bound, that a placement was given up, that a cycle
//! is over, that a pod was on a node which has left it since.
//!
//! The scheduler does not wait for a plugin that has used up its time. Such news waits with the plugin's instance, in order,
//! and the plugin is asked about no other pod's placement until it has heard it. An instance has three of them at most for each
//! cycle that it knows, and as many about pods that left as [`Hosted::keep_changes`](crate::Hosted::keep_changes) keeps.

use std::sync::Arc;

use berth_model::{ClusterTable, NodeIdx, Pod, Time};

use crate::{
    plugin::Plugin,
    points::{Call, CycleId},
};

/// News about one cycle, or about the cluster.
#[derive(Debug)]
pub(crate) enum News {
    Unreserved(Placement),
    Bound(Placement),
    CycleEnded(CycleId),
    /// What the plugin kept.
    Changes,
}

/// The placement that the news is about.
#[derive(Debug)]
pub(crate) struct Placement {
    cycle: CycleId,
    pod: Arc<Pod>,
    node: NodeIdx,
}

impl Placement {
    pub(crate) fn new(call: &Call<'_>, node: NodeIdx) -> Self {
        Self { cycle: call.cycle, pod: Arc::new(call.pod.clone()), node }
    }

    fn call<'a>(&'a self, now: Time, table: &'a ClusterTable) -> Call<'a> {
        Call::new(self.cycle, now, &self.pod, table)
    }
}

impl News {
    /// Tells the plugin.
    pub(crate) fn tell(&self, plugin: &mut dyn Plugin, now: Time, table: &ClusterTable) {
        match self {
            Self::Unreserved(placement) => {
                if let Some(point) = plugin.reserve() {
                    point.unreserve(&placement.call(now, table), placement.node);
                }
            }
            Self::Bound(placement) => {
                if let Some(point) = plugin.post_bind() {
                    point.post_bind(&placement.call(now, table), placement.node);
                }
            }
            Self::CycleEnded(cycle) => plugin.end_cycle(*cycle),
            Self::Changes => plugin.tell_kept_changes(),
        }
    }
}
