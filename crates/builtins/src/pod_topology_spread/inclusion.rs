//! Which nodes a constraint counts: `nodeAffinityPolicy` and `nodeTaintsPolicy` (KEP-3094).

use berth_framework::Call;
use berth_model::{NodeSet, pod::SpreadConstraint};

use crate::{
    node_rules::Scratch,
    taint_toleration::{admits, once_per_set},
};

/// Nodes that policies leave, each set worked out at most once a pod.
#[derive(Debug, Default)]
pub(super) struct Inclusion {
    scratch: Scratch,
    verdicts: Vec<Option<bool>>,
    /// Nodes that the pod selects.
    selected: Option<NodeSet>,
    /// Nodes whose taints the pod tolerates.
    tolerated: Option<NodeSet>,
}

impl Inclusion {
    /// The next calls are about another pod, or about other nodes.
    pub(super) fn begin(&mut self) {
        self.selected = None;
        self.tolerated = None;
    }

    /// Keeps the nodes of `nodes` that `constraint` counts.
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
                tolerated.retain(once_per_set(call, &mut self.verdicts, admits));
                tolerated
            }));
        }
    }
}
