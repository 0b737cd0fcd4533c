//! Messages to plugins: a pod was bound, a placement was given up, a cycle is over, a pod was added to a node or removed
//! from a node. No pod waits for the answers.
//!
//! The scheduler does not wait for a plugin that has used up its time. The plugin's messages wait with its instance, in
//! order. The plugin is asked about no other pod's placement until it has received all of them. At most three messages
//! wait for each cycle that the instance knows. Messages about pods that left are limited by
//! [`Hosted::keep_changes`](crate::Hosted::keep_changes). Only Unreserve has an answer: the effects of the plugin.

use std::sync::Arc;

use berth_model::{ClusterTable, NodeIdx, Pod, Time};

use crate::{
    effect::Effect,
    plugin::{Plugin, PluginIdx},
    points::{Call, CycleId},
};

/// The effects of a plugin whose Unreserve was called late.
#[derive(Clone, Debug)]
pub struct LateEffects {
    /// The attempt that was given up. It is over.
    pub cycle: CycleId,
    /// The pod, as it was in that attempt.
    pub pod: Arc<Pod>,
    /// The plugin.
    pub plugin: PluginIdx,
    /// The effects; at least one.
    pub effects: Vec<Effect>,
}

/// A message about one cycle, or about the cluster.
#[derive(Debug)]
pub(crate) enum PluginMessage {
    Unreserved(Placement),
    Bound(Placement),
    CycleEnded(CycleId),
    /// The changes that the plugin's host kept.
    Changes,
}

/// The placement that the message is about.
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

impl PluginMessage {
    /// Passes the message to the plugin, which has the position `idx`. Returns the effects of Unreserve.
    pub(crate) fn tell(
        &self,
        idx: PluginIdx,
        plugin: &mut dyn Plugin,
        now: Time,
        table: &ClusterTable,
    ) -> Option<LateEffects> {
        match self {
            Self::Unreserved(placement) => {
                let effects = plugin.reserve()?.unreserve(&placement.call(now, table), placement.node);
                let Placement { cycle, pod, .. } = placement;
                let late = LateEffects { cycle: *cycle, pod: Arc::clone(pod), plugin: idx, effects };
                return Some(late).filter(|late| !late.effects.is_empty());
            }
            Self::Bound(placement) => {
                if let Some(point) = plugin.post_bind() {
                    point.post_bind(&placement.call(now, table), placement.node);
                }
            }
            Self::CycleEnded(cycle) => plugin.end_cycle(*cycle),
            Self::Changes => plugin.tell_kept_changes(),
        }
        None
    }
}
