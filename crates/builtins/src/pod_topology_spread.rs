//! PodTopologySpread: matching pods are spread evenly over the domains of a topology, such as the zones.
//!
//! Matching pods are counted by node in [`PodCounts`], which follows the pod table, and added up by domain once a cycle:
//! the work grows with the nodes, not with the pods. Hard constraints are counted at PreFilter, soft ones at PreScore.

mod default_selector;
mod defaults;
mod hard;
mod inclusion;
mod soft;
#[cfg(test)]
mod tests;
mod topology;

use berth_framework::{
    Call, ClusterEvent, ConfigureError, CycleId, DryRunCase, Explanation, Filter, Normalize, Point, PreFilter,
    PreScore, Score, Sign, Status,
};
use berth_model::{
    Column, NodeSet, Pod,
    pod::{LabelSelector, SpreadConstraint},
};

use self::{
    default_selector::{DefaultSelector, OBJECTS},
    defaults::Defaults,
    hard::HardConstraints,
    inclusion::Inclusion,
    soft::SoftConstraints,
    topology::Topologies,
};
use crate::{
    built_in::{BuiltIn, Card, plugin},
    node_check::explain_each,
    pod_counts::{PodCounts, PodMatch, Question},
};

/// Compares how many matching pods there are in each domain.
#[derive(Debug)]
pub struct PodTopologySpread {
    defaults: Defaults,
    default_selector: DefaultSelector,
    topologies: Topologies,
    inclusion: Inclusion,
    pod_counts: PodCounts,
    hard: HardConstraints,
    /// The cycle that [`Self::hard`] is about.
    filtered: Option<CycleId>,
    soft: SoftConstraints,
    /// The cycle that [`Self::soft`] is about.
    scored: Option<CycleId>,
}

impl BuiltIn for PodTopologySpread {
    const CARD: Card = Card {
        name: "PodTopologySpread",
        points: &[Point::PreFilter, Point::Filter, Point::PreScore, Point::Score, Point::Normalize, Point::Sign],
        columns: &[Column::Name, Column::Labels, Column::Taints],
        pods: true,
        objects: OBJECTS,
        requeue: &[
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
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        Ok(Self {
            defaults: Defaults::parse(Self::NAME, args)?,
            default_selector: DefaultSelector::default(),
            topologies: Topologies::default(),
            inclusion: Inclusion::default(),
            pod_counts: PodCounts::default(),
            hard: HardConstraints::default(),
            filtered: None,
            soft: SoftConstraints::default(),
            scored: None,
        })
    }
}

plugin!(PodTopologySpread {
    pre_filter: PreFilter,
    filter: Filter,
    pre_score: PreScore,
    score: Score,
    normalize: Normalize,
    sign: Sign
});

/// The pods that a constraint of `pod` counts; `None` if it counts none. An empty selector counts none, though it
/// matches all.
fn matching_pods(pod: &Pod, selector: Option<&LabelSelector>) -> Option<Question> {
    let selector = selector.filter(|selector| !selector.is_empty())?.clone();
    let matches = vec![PodMatch { namespaces: vec![pod.namespace], selector: Some(selector) }];
    Some(Question { matches, skip_terminating: true })
}

impl PodTopologySpread {
    /// The pod's hard or soft constraints; those of the profile if it has none of either sort.
    fn constraints(&mut self, call: &Call<'_>, is_hard: bool) -> Result<Vec<SpreadConstraint>, String> {
        let own = &call.pod.topology_spread;
        let of_sort = |constraints: &[SpreadConstraint]| -> Vec<SpreadConstraint> {
            constraints.iter().filter(|constraint| constraint.is_hard == is_hard).cloned().collect()
        };
        if !own.is_empty() {
            let constraints = of_sort(own);
            let mut errors = constraints.iter().filter_map(|it| it.selector.as_ref()?.error.as_ref());
            return match errors.next() {
                Some(error) => {
                    let sort = if is_hard { "hard" } else { "soft" };
                    Err(format!("obtaining pod's {sort} topology spread constraints: {error}"))
                }
                None => Ok(constraints),
            };
        }
        let mut constraints = of_sort(self.defaults.constraints(&call.table.symbols));
        if !constraints.is_empty() {
            let selector = self.default_selector.of(call);
            if selector.is_empty() {
                constraints.clear();
            }
            constraints.iter_mut().for_each(|constraint| constraint.selector = Some(selector.clone()));
        }
        Ok(constraints)
    }

    /// Fails when PreFilter, which counts, has not run.
    fn prepared(&self, call: &Call<'_>) -> Result<&HardConstraints, Status> {
        if self.filtered == Some(call.cycle) {
            return Ok(&self.hard);
        }
        Err(Status::error(format!("error reading \"PreFilter{}\" from cycleState: not found", Self::NAME)))
    }

    /// Fails when PreScore, which counts, has not run.
    fn prepared_scores(&self, call: &Call<'_>) -> Result<&SoftConstraints, Status> {
        if self.scored == Some(call.cycle) {
            return Ok(&self.soft);
        }
        Err(Status::error(format!("error reading \"PreScore{}\" from cycleState: not found", Self::NAME)))
    }
}

impl Sign for PodTopologySpread {
    /// Each pod that is placed changes the counts for the next.
    fn sign(&mut self, pod: &Pod) -> Option<String> {
        (pod.topology_spread.is_empty() && self.defaults.is_empty()).then(String::new)
    }
}

impl PreFilter for PodTopologySpread {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        self.filtered = None;
        let constraints = self.constraints(call, true).map_err(Status::error)?;
        if constraints.is_empty() {
            return Err(Status::skip());
        }
        let counters = (&mut self.inclusion, &mut self.pod_counts);
        self.hard.prepare(call, constraints, &mut self.topologies, counters);
        self.filtered = Some(call.cycle);
        Ok(None)
    }
}

impl Filter for PodTopologySpread {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        self.prepared(call)?.filter(candidates);
        Ok(())
    }

    fn explain(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<Explanation>, Status> {
        let hard = self.prepared(call)?;
        Ok(explain_each(rejected, |node| hard.check(node)))
    }

    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        let hard = self.prepared(call)?;
        Ok(hard.try_out(pods, cases))
    }
}

impl PreScore for PodTopologySpread {
    fn pre_score(&mut self, call: &Call<'_>, nodes: &NodeSet) -> Result<(), Status> {
        self.scored = None;
        let refused = |error| Status::error(format!("calculating preScoreState: {error}"));
        let constraints = self.constraints(call, false).map_err(refused)?;
        if constraints.is_empty() || call.table.n_nodes() == 0 {
            return Err(Status::skip());
        }
        let requires_all_keys = !call.pod.topology_spread.is_empty() || !self.defaults.is_system;
        let counters = (&mut self.inclusion, &mut self.pod_counts);
        self.soft.prepare(call, (nodes, requires_all_keys), &constraints, &mut self.topologies, counters);
        self.scored = Some(call.cycle);
        Ok(())
    }
}

impl Score for PodTopologySpread {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        self.prepared_scores(call)?.score(nodes, scores);
        Ok(())
    }
}

impl Normalize for PodTopologySpread {
    fn normalize(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status> {
        self.prepared_scores(call)?.normalize(nodes, scores);
        Ok(())
    }
}
