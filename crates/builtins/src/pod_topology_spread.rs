//! PodTopologySpread: spreads matching pods evenly over topology domains, such as zones or nodes.
//!
//! [`PodCounts`](crate::pod_counts::PodCounts) keeps the number of matching pods on each node up to date, and a cycle
//! adds these numbers up by domain. The work of a cycle therefore grows with the number of nodes, and not with the
//! number of pods. PreFilter counts for hard constraints, PreScore for soft constraints.
//!
//! kube-scheduler: `pkg/scheduler/framework/plugins/podtopologyspread`. Documentation:
//! <https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/>.

mod counters;
mod default_constraints;
mod default_selector;
mod eligible_domains;
mod hard;
mod hints;
mod node_inclusion;
mod soft;
#[cfg(test)]
mod tests;

use berth_framework::{
    Call, ClusterEvent, ConfigureError, DryRunCase, Filter, Follow, HintCall, Normalize, PreFilter, PreScore,
    QueueingHint, Reach, RejectedNodes, Reuse, Score, Sign, Status,
};
use berth_model::{ClusterTable, Column, NodeSet, Pod, pod::SpreadConstraint};
use thiserror::Error;

use self::{
    counters::Counters,
    default_constraints::DefaultConstraints,
    default_selector::{DefaultSelector, OBJECTS},
    hard::HardConstraints,
    soft::{Candidates, SoftConstraints},
};
use crate::{
    built_in::{BuiltIn, Descriptor, plugin},
    node_check::check_each,
    per_cycle::PerCycle,
};

/// Rejects nodes where a hard constraint's skew would exceed `maxSkew`, and scores nodes by soft constraints.
#[derive(Debug)]
pub struct PodTopologySpread {
    default_constraints: DefaultConstraints,
    default_selector: DefaultSelector,
    counters: Counters,
    hard: PerCycle<HardConstraints>,
    soft: PerCycle<SoftConstraints>,
}

impl BuiltIn for PodTopologySpread {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "PodTopologySpread",
        columns: &[Column::Name, Column::Labels, Column::Taints],
        pods: true,
        objects: OBJECTS,
        events_to_register: &[
            (
                "Pod",
                ClusterEvent::ADD
                    | ClusterEvent::UPDATE_POD_LABEL
                    | ClusterEvent::UPDATE_POD_TOLERATION
                    | ClusterEvent::DELETE,
            ),
            (
                "Node",
                ClusterEvent::ADD
                    | ClusterEvent::DELETE
                    | ClusterEvent::UPDATE_NODE_LABEL
                    | ClusterEvent::UPDATE_NODE_TAINT,
            ),
        ],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let (args, features) = crate::args::parse_with_features(Self::NAME, args)?;
        let mut counters = Counters::default();
        counters.inclusion.features = features;
        Ok(Self {
            default_constraints: DefaultConstraints::new(args)?,
            default_selector: DefaultSelector::default(),
            counters,
            hard: PerCycle::default(),
            soft: PerCycle::default(),
        })
    }
}

plugin!(PodTopologySpread: PreFilter, Filter, PreScore, Score, Normalize, QueueingHint, Sign; Follow, Reuse);

impl Follow for PodTopologySpread {
    /// Decodes changed objects in this hook, because decoding the Services and ReplicaSets of a large cluster takes
    /// longer than a call about one pod may.
    fn follow(&mut self, table: &ClusterTable) {
        self.default_selector.refresh(table);
    }
}

/// The selector of one of the pod's own constraints does not parse. The API server refuses such pods.
#[derive(Debug, Error)]
#[error("obtaining pod's {kind} topology spread constraints: {error}")]
struct ConstraintError {
    /// `hard` or `soft`.
    kind: &'static str,
    error: String,
}

impl PodTopologySpread {
    /// The hard or the soft constraints that apply to the pod. If the pod has constraints of either kind, its own
    /// constraints apply, and otherwise the default constraints.
    fn constraints(
        &mut self,
        table: &ClusterTable,
        pod: &Pod,
        is_hard: bool,
    ) -> Result<Vec<SpreadConstraint>, ConstraintError> {
        let own = &pod.topology_spread;
        let of_kind = |constraints: &[SpreadConstraint]| -> Vec<SpreadConstraint> {
            constraints.iter().filter(|constraint| constraint.is_hard == is_hard).cloned().collect()
        };
        if !own.is_empty() {
            let constraints = of_kind(own);
            let mut errors = constraints.iter().filter_map(|it| it.selector.as_ref()?.error.as_ref());
            return match errors.next() {
                Some(error) => {
                    let kind = if is_hard { "hard" } else { "soft" };
                    Err(ConstraintError { kind, error: error.to_string() })
                }
                None => Ok(constraints),
            };
        }
        let defaults = self.default_constraints.get(&table.symbols);
        if !defaults.iter().any(|constraint| constraint.is_hard == is_hard) {
            return Ok(Vec::new());
        }
        let selector = self.default_selector.get(table, pod);
        if selector.is_empty() {
            return Ok(Vec::new());
        }
        let mut constraints = of_kind(defaults);
        constraints.iter_mut().for_each(|constraint| constraint.selector = Some(selector.clone()));
        Ok(constraints)
    }

    /// The hard constraints. Fails if PreFilter has not run in this cycle.
    fn hard(&self, call: &Call<'_>) -> Result<&HardConstraints, Status> {
        self.hard.get(call.cycle).ok_or_else(|| not_prepared("PreFilter"))
    }

    /// The soft constraints. Fails if PreScore has not run in this cycle.
    fn soft(&self, call: &Call<'_>) -> Result<&SoftConstraints, Status> {
        self.soft.get(call.cycle).ok_or_else(|| not_prepared("PreScore"))
    }
}

/// kube-scheduler's message when the state that `point` writes is missing.
fn not_prepared(point: &str) -> Status {
    Status::error(format!("error reading \"{point}{}\" from cycleState: not found", PodTopologySpread::NAME))
}

impl QueueingHint for PodTopologySpread {
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        // If the constraints do not parse, the pod may have changed since its rejection, so it is tried again.
        self.constraints(call.table, call.pod, true).map_or(true, |constraints| hints::may_help(call, &constraints))
    }
}

impl Sign for PodTopologySpread {
    /// A pod with constraints has no signature, because each placed pod changes the counts for the next pod.
    fn sign(&mut self, pod: &Pod) -> Option<String> {
        (pod.topology_spread.is_empty() && self.default_constraints.is_empty()).then(String::new)
    }
}

impl Reuse for PodTopologySpread {
    /// Each placed pod changes the counts for the next pod.
    fn reach(&mut self, call: &Call<'_>) -> Reach {
        let has_constraints = !call.pod.topology_spread.is_empty()
            || !(self.default_constraints.is_empty() || self.default_selector.get(call.table, call.pod).is_empty());
        if has_constraints { Reach::Cluster } else { Reach::Nothing }
    }
}

impl PreFilter for PodTopologySpread {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        self.hard.clear();
        let constraints =
            self.constraints(call.table, call.pod, true).map_err(|error| Status::error(error.to_string()))?;
        if constraints.is_empty() {
            return Err(Status::skip());
        }
        self.hard.begin(call.cycle).prepare(call, constraints, &mut self.counters)?;
        Ok(None)
    }
}

impl Filter for PodTopologySpread {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        self.hard(call)?.filter(candidates);
        Ok(())
    }

    fn node_to_status(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        let hard = self.hard(call)?;
        Ok(check_each(rejected, |node| hard.check(node)))
    }

    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(self.hard(call)?.dry_run(pods, cases))
    }
}

impl PreScore for PodTopologySpread {
    fn pre_score(&mut self, call: &Call<'_>, nodes: &NodeSet) -> Result<(), Status> {
        self.soft.clear();
        let refused = |error| Status::error(format!("calculating preScoreState: {error}"));
        let constraints = self.constraints(call.table, call.pod, false).map_err(refused)?;
        if constraints.is_empty() || call.table.n_nodes() == 0 {
            return Err(Status::skip());
        }
        let requires_all_keys = !call.pod.topology_spread.is_empty() || !self.default_constraints.is_system();
        let soft = self.soft.begin(call.cycle);
        soft.prepare(call, Candidates { nodes, requires_all_keys }, &constraints, &mut self.counters)
    }
}

impl Score for PodTopologySpread {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        self.soft(call)?.score(nodes, scores);
        Ok(())
    }
}

impl Normalize for PodTopologySpread {
    fn normalize(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status> {
        self.soft(call)?.normalize(nodes, scores);
        Ok(())
    }
}
