//! Filter: the required terms of the incoming pod, and the required anti-affinity terms of existing pods.
//!
//! The three counts correspond to counts in `pkg/scheduler/framework/plugins/interpodaffinity/filtering.go`:
//! `affinityCounts`, `antiAffinityCounts` and `existingAntiAffinityCounts`.

use berth_framework::{Call, Deadline, DryRunCase, Status};
use berth_model::{NodeIdx, NodeSet, Pod, Sym};

use super::{
    cluster_view::ClusterView,
    domain_sums::DomainSums,
    existing_terms,
    incoming_terms::{IncomingTerm, query_for_all},
};
use crate::{
    case_walk::CaseWalk,
    domain_totals::{CountedNodes, WeightedSums},
};

/// The results of PreFilter for one cycle.
#[derive(Debug, Default)]
pub(super) struct Required {
    affinity: Vec<IncomingTerm>,
    anti_affinity: Vec<IncomingTerm>,
    /// The labels of the incoming pod's namespace.
    namespace_labels: Vec<(Sym, Sym)>,
    /// Existing pods that match all terms of `affinity`.
    affinity_counts: DomainSums,
    /// Existing pods that match a term of `anti_affinity`.
    anti_affinity_counts: DomainSums,
    /// Existing pods with an anti-affinity term that matches the incoming pod.
    existing_anti_affinity_counts: DomainSums,
    /// Whether the incoming pod matches its own affinity terms. If so, the first pod of a group with these terms may be
    /// placed although no pod matches yet.
    matches_itself: bool,
}

/// The changes to the counts for the domains of one node in a dry run.
#[derive(Debug, Default)]
struct CountChanges {
    affinity: i64,
    /// Changes by topology key, one entry for each key.
    anti_affinity: Vec<(Sym, i64)>,
    /// Changes by topology key, one entry for each key.
    existing_anti_affinity: Vec<(Sym, i64)>,
}

impl Required {
    /// Whether every node passes.
    pub(super) fn is_empty(&self) -> bool {
        self.affinity.is_empty() && self.anti_affinity.is_empty() && self.existing_anti_affinity_counts.is_empty()
    }

    /// # Errors
    /// The search for a node must end.
    pub(super) fn prepare(&mut self, call: &Call<'_>, view: &mut ClusterView) -> Result<(), Status> {
        let Call { pod, table, .. } = *call;
        view.follow(table);
        self.namespace_labels = view.labels_of_namespace(pod, &table.symbols);
        let incoming = |term, view: &mut ClusterView| IncomingTerm::new(term, &mut view.namespaces, &table.symbols);
        self.affinity = pod.affinity.required.iter().map(|term| incoming(term, view)).collect();
        self.anti_affinity = pod.affinity.anti_required.iter().map(|term| incoming(term, view)).collect();
        self.matches_itself = self.affinity.iter().all(|term| term.matches(pod, &view.namespaces, &table.symbols));
        self.count(call, view)
    }

    fn count(&mut self, call: &Call<'_>, view: &mut ClusterView) -> Result<(), Status> {
        let Call { pod, table, deadline, .. } = *call;
        let ClusterView { counts, topologies, existing, .. } = view;
        self.affinity_counts.clear();
        if !self.affinity.is_empty() {
            let query = query_for_all(&self.affinity);
            for (position, term) in self.affinity.iter().enumerate() {
                deadline.check_at(position)?;
                let key = term.topology_key;
                // Terms with the same key count the same pods.
                if !self.affinity_counts.has_key(key) {
                    let topology = topologies.get(table, key);
                    let counted = CountedNodes::with_key(&topology);
                    let count = |sums: &mut [i64]| {
                        counts.add_by_domain(table.pods(), &query, counted, WeightedSums::unweighted(sums))
                    };
                    self.affinity_counts.add(key, &topology, count);
                }
            }
        }
        self.anti_affinity_counts.clear();
        for (position, term) in self.anti_affinity.iter().enumerate() {
            deadline.check_at(position)?;
            let topology = topologies.get(table, term.topology_key);
            let counted = CountedNodes::with_key(&topology);
            let count = |sums: &mut [i64]| {
                counts.add_by_domain(table.pods(), &term.query(), counted, WeightedSums::unweighted(sums))
            };
            self.anti_affinity_counts.add(term.topology_key, &topology, count);
        }
        let existing_counts = &mut self.existing_anti_affinity_counts;
        existing_counts.clear();
        existing.anti_affinity.visit(pod, &self.namespace_labels, |key, term| {
            let topology = topologies.get(table, key);
            existing_counts.add(key, &topology, |sums| term.add_by_domain(&topology, sums));
        });
        Ok(())
    }

    /// Prepares for a point that is called without PreFilter.
    pub(super) fn prepare_late(&mut self, call: &Call<'_>, view: &mut ClusterView) {
        let prepared = self.prepare(&Call { deadline: Deadline::NEVER, ..*call }, view);
        debug_assert!(prepared.is_ok(), "without a deadline it does not fail");
    }

    /// Keeps the nodes that pass.
    pub(super) fn filter(&self, candidates: &mut NodeSet) {
        let may_be_first = self.matches_itself && self.affinity_counts.is_empty();
        for counts in self.affinity_counts.iter() {
            candidates.retain(|node| counts.at(node).is_some_and(|n_pods| may_be_first || n_pods > 0));
        }
        let anti_affinity = self.anti_affinity_counts.iter().chain(self.existing_anti_affinity_counts.iter());
        for counts in anti_affinity.filter(|counts| counts.n_pods > 0) {
            candidates.retain(|node| counts.at(node).is_none_or(|n_pods| n_pods == 0));
        }
    }

    /// The verdict on a node in its present state.
    pub(super) fn check(&self, node: NodeIdx) -> Status {
        self.check_changed(node, &CountChanges::default())
    }

    /// The verdict on the node of each case with the pods of the case removed and added.
    pub(super) fn dry_run(
        &mut self,
        call: &Call<'_>,
        view: &mut ClusterView,
        pods: &[&Pod],
        cases: &[DryRunCase],
    ) -> Vec<Status> {
        // Added pods may bring anti-affinity under topology keys that no existing pod uses.
        for term in pods.iter().flat_map(|pod| &pod.affinity.anti_required) {
            let topology = view.topologies.get(call.table, term.topology_key);
            self.existing_anti_affinity_counts.add(term.topology_key, &topology, |_| 0);
        }
        let (mut walk, mut changes) = (CaseWalk::new(pods), CountChanges::default());
        let check = |case| {
            walk.step(case, |pod, sign| self.count_change(&mut changes, call, view, pod, sign));
            self.check_changed(case.node, &changes)
        };
        cases.iter().map(check).collect()
    }

    /// Counts a pod that is added (`sign` is 1) or removed (-1).
    fn count_change(&self, changes: &mut CountChanges, call: &Call<'_>, view: &ClusterView, pod: &Pod, sign: i64) {
        let symbols = &call.table.symbols;
        let matches = |term: &IncomingTerm| term.matches(pod, &view.namespaces, symbols);
        if !self.affinity.is_empty() && self.affinity.iter().all(matches) {
            changes.affinity += sign;
        }
        for term in self.anti_affinity.iter().filter(|term| matches(term)) {
            add(&mut changes.anti_affinity, term.topology_key, sign);
        }
        let existing = pod.affinity.anti_required.iter();
        for term in existing.filter(|term| existing_terms::matches(term, call.pod, &self.namespace_labels)) {
            add(&mut changes.existing_anti_affinity, term.topology_key, sign);
        }
    }

    fn check_changed(&self, node: NodeIdx, changes: &CountChanges) -> Status {
        if !self.satisfies_affinity(node, changes.affinity) {
            return Status::unresolvable("node(s) didn't match pod affinity rules");
        }
        if has_pods(&self.anti_affinity_counts, &changes.anti_affinity, node) {
            return Status::unschedulable("node(s) didn't match pod anti-affinity rules");
        }
        if has_pods(&self.existing_anti_affinity_counts, &changes.existing_anti_affinity, node) {
            return Status::unschedulable("node(s) didn't satisfy existing pods anti-affinity rules");
        }
        Status::success()
    }

    /// Whether the node satisfies the affinity terms. `change` is the number of additional pods that match all terms.
    fn satisfies_affinity(&self, node: NodeIdx, change: i64) -> bool {
        let mut all_have_pods = true;
        let mut n_pods = 0;
        for counts in self.affinity_counts.iter() {
            let Some(n_pods_here) = counts.at(node) else { return false };
            all_have_pods &= n_pods_here + change > 0;
            n_pods += counts.n_pods + change;
        }
        all_have_pods || (self.matches_itself && n_pods == 0)
    }
}

fn add(changes: &mut Vec<(Sym, i64)>, key: Sym, sign: i64) {
    match changes.iter_mut().find(|(changed, _)| *changed == key) {
        Some((_, amount)) => *amount += sign,
        None => changes.push((key, sign)),
    }
}

/// Whether some domain of `node` has counted pods after `changes`.
fn has_pods(counts: &DomainSums, changes: &[(Sym, i64)], node: NodeIdx) -> bool {
    counts.iter().any(|counts| {
        let change = changes.iter().find(|(key, _)| *key == counts.key).map_or(0, |(_, change)| *change);
        counts.at(node).is_some_and(|n_pods| n_pods + change > 0)
    })
}
