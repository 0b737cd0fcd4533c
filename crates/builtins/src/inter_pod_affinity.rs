//! InterPodAffinity: required and preferred affinity and anti-affinity between pods. The terms of the incoming pod
//! count, and the terms of existing pods that match the incoming pod.
//!
//! The work of a cycle does not grow with the number of existing pods. For each term of incoming pods, `pod_counts`
//! keeps the number of matching existing pods on each node. [`existing_terms`] keeps each distinct term of existing
//! pods once, with the nodes of the pods that have the term, and compares the term with the incoming pod once. Both
//! results are then added up by topology domain ([`domain_sums`]).
//!
//! kube-scheduler: `pkg/scheduler/framework/plugins/interpodaffinity`.

mod cluster_view;
mod domain_sums;
mod existing_terms;
mod hints;
mod incoming_terms;
mod namespaces;
mod preferred;
mod required;
#[cfg(test)]
mod tests;

use berth_framework::{
    Call, ClusterEvent, ConfigureError, DryRunCase, Filter, Follow, HintCall, Normalize, PreFilter, PreScore,
    QueueingHint, Reach, RejectedNodes, Reuse, Score, Sign, Status,
};
use berth_model::{ClusterTable, Column, Features, NodeSet, Pod};
use serde::Deserialize;

use self::{cluster_view::ClusterView, preferred::Preferred, required::Required};
use crate::{
    args::{self, ArgsError},
    built_in::{BuiltIn, Descriptor, StaticKind, plugin},
    node_check::check_each,
    per_cycle::PerCycle,
    signatures,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct InterPodAffinityArgs {
    hard_pod_affinity_weight: Option<i32>,
    ignore_preferred_terms_of_existing_pods: Option<bool>,
}

/// Rejects nodes that violate required terms, and scores nodes by preferred terms.
#[derive(Debug)]
pub struct InterPodAffinity {
    /// The arg `ignorePreferredTermsOfExistingPods`: nodes get no scores for pods without preferred terms.
    ignores_existing_preferences: bool,
    features: Features,
    view: ClusterView,
    required: PerCycle<Required>,
    preferred: Preferred,
}

impl BuiltIn for InterPodAffinity {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "InterPodAffinity",
        columns: &[Column::Labels],
        pods: true,
        objects: &[StaticKind::new("v1", "Namespace")],
        events_to_register: &[
            ("Pod", ClusterEvent::ADD | ClusterEvent::UPDATE_POD_LABEL | ClusterEvent::DELETE),
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL),
        ],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        let (args, features): (InterPodAffinityArgs, _) = args::parse_with_features(Self::NAME, args)?;
        let weight = args.hard_pod_affinity_weight.unwrap_or(1);
        if !(0..=100).contains(&weight) {
            return Err(ArgsError::invalid("hardPodAffinityWeight", weight, "not in valid range [0, 100]").into());
        }
        Ok(Self {
            ignores_existing_preferences: args.ignore_preferred_terms_of_existing_pods.unwrap_or(false),
            features,
            view: ClusterView::new(weight.into()),
            required: PerCycle::default(),
            preferred: Preferred::default(),
        })
    }
}

plugin!(InterPodAffinity: PreFilter, Filter, PreScore, Score, Normalize, QueueingHint, Sign; Follow, Reuse);

impl Follow for InterPodAffinity {
    fn follow(&mut self, table: &ClusterTable) {
        self.view.follow(table);
    }
}

impl InterPodAffinity {
    /// Prepares the required terms if PreFilter has not run in this cycle, because a profile may enable only Filter.
    fn ensure_prepared(&mut self, call: &Call<'_>) -> &mut Required {
        let Self { required, view, .. } = self;
        required.get_or_prepare(call.cycle, |required| required.prepare_late(call, view))
    }
}

impl QueueingHint for InterPodAffinity {
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        hints::may_help(call, self.features)
    }
}

impl Sign for InterPodAffinity {
    /// A pod with terms has no signature, because it changes the answers for the pods after it. Other pods affect
    /// answers only by their namespace and labels, which terms of existing pods may match.
    fn sign(&mut self, pod: &Pod) -> Option<String> {
        if pod.affinity.is_empty() { signatures::text(&(pod.namespace, &pod.labels)) } else { None }
    }
}

impl Reuse for InterPodAffinity {
    /// The plugin compares pods only if the pod or a pod on a node has terms about other pods.
    fn reach(&mut self, call: &Call<'_>) -> Reach {
        if !call.pod.affinity.is_empty() {
            return Reach::Cluster;
        }
        self.view.follow(call.table);
        if self.view.existing.is_empty() { Reach::NothingYet } else { Reach::Cluster }
    }
}

impl PreFilter for InterPodAffinity {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        if let Some(error) = incoming_terms::parse_error(&call.pod.affinity) {
            return Err(Status::unresolvable(format!("parsing pod: {error}")));
        }
        let required = self.required.begin(call.cycle);
        required.prepare(call, &mut self.view)?;
        if required.is_empty() { Err(Status::skip()) } else { Ok(None) }
    }
}

impl Filter for InterPodAffinity {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        self.ensure_prepared(call).filter(candidates);
        Ok(())
    }

    fn node_to_status(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        let required = self.ensure_prepared(call);
        Ok(check_each(rejected, |node| required.check(node)))
    }

    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        let Self { required, view, .. } = self;
        let required = required.get_or_prepare(call.cycle, |required| required.prepare_late(call, view));
        Ok(required.dry_run(call, view, pods, cases))
    }
}

impl PreScore for InterPodAffinity {
    fn pre_score(&mut self, call: &Call<'_>, _nodes: &NodeSet) -> Result<(), Status> {
        let own = &call.pod.affinity;
        if self.ignores_existing_preferences && own.preferred.is_empty() && own.anti_preferred.is_empty() {
            return Err(Status::skip());
        }
        if let Some(error) = incoming_terms::parse_error(own) {
            return Err(Status::error(format!("failed to parse pod: {error}")));
        }
        if self.preferred.prepare(call, &mut self.view)? { Ok(()) } else { Err(Status::skip()) }
    }
}

impl Score for InterPodAffinity {
    fn score(&mut self, _call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        self.preferred.score(nodes, scores);
        Ok(())
    }
}

impl Normalize for InterPodAffinity {
    fn normalize(&mut self, _call: &Call<'_>, _nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status> {
        preferred::normalize(scores);
        Ok(())
    }
}
