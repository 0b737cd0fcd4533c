//! Node inclusion policies: `nodeAffinityPolicy` and `nodeTaintsPolicy` determine the nodes on which a constraint
//! counts pods (KEP-3094).

use berth_framework::Call;
use berth_model::{Features, NodeSet, pod::SpreadConstraint};

use crate::{node_rules::Scratch, taint_toleration::narrow_to_tolerated};

/// The nodes that the policies include. Each set is computed at most once for a pod.
#[derive(Debug, Default)]
pub(super) struct NodeInclusion {
    pub(super) features: Features,
    scratch: Scratch,
    /// Whether the pod tolerates each taint set.
    verdicts: Vec<Option<bool>>,
    /// Nodes that match the pod's node selector and required node affinity.
    selected: Option<NodeSet>,
    /// Nodes on which the pod tolerates all taints.
    tolerated: Option<NodeSet>,
}

impl NodeInclusion {
    /// Forgets the sets. The caller must call this method when the pod or the nodes have changed.
    pub(super) fn begin(&mut self) {
        self.selected = None;
        self.tolerated = None;
    }

    /// Keeps the nodes of `nodes` that the policies of `constraint` include.
    pub(super) fn narrow(&mut self, call: &Call<'_>, constraint: &SpreadConstraint, nodes: &mut NodeSet) {
        let rules = &call.pod.node_rules;
        if constraint.honor_node_affinity && (rules.selector.is_some() || rules.required.is_some()) {
            nodes.intersect(self.selected.get_or_insert_with(|| {
                let mut selected = call.table.nodes().clone();
                self.scratch.narrow_to_required(call.pod, call.table, &mut selected);
                selected
            }));
        }
        if constraint.honor_node_taints {
            nodes.intersect(self.tolerated.get_or_insert_with(|| {
                let mut tolerated = call.table.nodes().clone();
                narrow_to_tolerated(call, self.features, &mut self.verdicts, &mut tolerated);
                tolerated
            }));
        }
    }
}
