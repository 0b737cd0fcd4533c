//! InterPodAffinity: pods that want to be near others or far from them, in both directions: placed pods have a say too.
//!
//! Nothing here grows with the number of placed pods. The pods that the pod's own terms mean are counted by
//! `pod_counts`; the terms that placed pods carry are kept once each with the nodes of their carriers
//! ([`placed_terms`]), and each is compared with the pod once. Both are then summed over topology domains ([`domains`]).

mod domains;
mod knowledge;
mod namespaces;
mod own_terms;
mod placed_terms;
mod preferred;
mod required;
#[cfg(test)]
mod tests;

use berth_framework::{
    Call, ClusterEvent, ConfigureError, DryRunCase, Explanation, Filter, Normalize, Point, PreFilter, PreScore, Score,
    Sign, Status,
};
use berth_model::{ClusterTable, Column, NodeSet, Pod};
use serde::Deserialize;

use self::{knowledge::Knowledge, preferred::Preferred, required::Required};
use crate::{
    args,
    built_in::{BuiltIn, Card, plugin},
    node_check::explain_each,
    signatures,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct InterPodAffinityArgs {
    hard_pod_affinity_weight: Option<i32>,
    ignore_preferred_terms_of_existing_pods: Option<bool>,
}

/// Keeps pods near those that they need, apart from those that they or the others cannot bear, and weighs preferences.
#[derive(Debug)]
pub struct InterPodAffinity {
    /// Pods without preferences of their own are not scored.
    ignores_preferences_of_others: bool,
    known: Knowledge,
    required: Required,
    preferred: Preferred,
}

impl BuiltIn for InterPodAffinity {
    const CARD: Card = Card {
        name: "InterPodAffinity",
        points: &[Point::PreFilter, Point::Filter, Point::PreScore, Point::Score, Point::Normalize, Point::Sign],
        columns: &[Column::Labels],
        pods: true,
        objects: &[("v1", "Namespace")],
        requeue: &[
            ("Pod", ClusterEvent::ADD | ClusterEvent::UPDATE_POD_LABEL | ClusterEvent::DELETE),
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL),
            ("Node", ClusterEvent::UPDATE_NODE_TAINT),
        ],
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let args: InterPodAffinityArgs = args::parse(Self::NAME, args)?;
        let weight = args.hard_pod_affinity_weight.unwrap_or(1);
        if !(0..=100).contains(&weight) {
            return Err(ConfigureError::new(format_args!(
                "hardPodAffinityWeight: Invalid value: {weight}: not in valid range [0, 100]"
            )));
        }
        Ok(Self {
            ignores_preferences_of_others: args.ignore_preferred_terms_of_existing_pods.unwrap_or(false),
            known: Knowledge::new(weight.into()),
            required: Required::default(),
            preferred: Preferred::default(),
        })
    }
}

plugin!(InterPodAffinity {
    pre_filter: PreFilter,
    filter: Filter,
    pre_score: PreScore,
    score: Score,
    normalize: Normalize,
    sign: Sign
}
fn follow(&mut self, table: &ClusterTable) {
    self.known.follow(table);
});

impl InterPodAffinity {
    /// A profile may use Filter without PreFilter.
    fn ensure_prepared(&mut self, call: &Call<'_>) {
        if !self.required.is_of(call.cycle) {
            self.required.prepare(call, &mut self.known);
        }
    }
}

impl Sign for InterPodAffinity {
    /// Pods with terms of their own change the answers for the next ones; those of others look at namespace and labels.
    fn sign(&mut self, pod: &Pod) -> Option<String> {
        let affinity = &pod.affinity;
        let has_terms = !affinity.required.is_empty()
            || !affinity.preferred.is_empty()
            || !affinity.anti_required.is_empty()
            || !affinity.anti_preferred.is_empty();
        if has_terms { None } else { signatures::text(&(pod.namespace, &pod.labels)) }
    }
}

impl PreFilter for InterPodAffinity {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        if let Some(error) = own_terms::parse_error(&call.pod.affinity) {
            return Err(Status::unresolvable(format!("parsing pod: {error}")));
        }
        self.required.prepare(call, &mut self.known);
        if self.required.is_idle() { Err(Status::skip()) } else { Ok(None) }
    }
}

impl Filter for InterPodAffinity {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        self.ensure_prepared(call);
        self.required.narrow(&self.known.domains, candidates);
        Ok(())
    }

    fn explain(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<Explanation>, Status> {
        self.ensure_prepared(call);
        Ok(explain_each(rejected, |node| self.required.check(&self.known.domains, node)))
    }

    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        self.ensure_prepared(call);
        self.required.follow_keys(call, &mut self.known, pods);
        Ok(self.required.check_cases(call, &self.known, pods, cases))
    }
}

impl PreScore for InterPodAffinity {
    fn pre_score(&mut self, call: &Call<'_>, _nodes: &NodeSet) -> Result<(), Status> {
        let own = &call.pod.affinity;
        if self.ignores_preferences_of_others && own.preferred.is_empty() && own.anti_preferred.is_empty() {
            return Err(Status::skip());
        }
        if let Some(error) = own_terms::parse_error(own) {
            return Err(Status::error(format!("failed to parse pod: {error}")));
        }
        if self.preferred.prepare(call, &mut self.known) { Ok(()) } else { Err(Status::skip()) }
    }
}

impl Score for InterPodAffinity {
    fn score(&mut self, _call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        self.preferred.score(&self.known, nodes, scores);
        Ok(())
    }
}

impl Normalize for InterPodAffinity {
    fn normalize(&mut self, _call: &Call<'_>, _nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status> {
        preferred::normalize(scores);
        Ok(())
    }
}
