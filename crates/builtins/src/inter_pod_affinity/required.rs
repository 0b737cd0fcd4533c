//! The required terms: the pod's own, and those of placed pods that keep it away.

use berth_framework::{Call, CycleId, DryRunCase, Status};
use berth_model::{ClusterTable, NodeIdx, NodeSet, Pod, Sym};

use super::{
    domains::{DomainSums, Domains, Share},
    knowledge::Knowledge,
    own_terms::{OwnTerm, question_of_all},
    placed_terms::means,
};
use crate::case_walk::CaseWalk;

/// What PreFilter found out for one cycle.
#[derive(Debug, Default)]
pub(super) struct Required {
    cycle: Option<CycleId>,
    affinity: Vec<OwnTerm>,
    anti_affinity: Vec<OwnTerm>,
    /// The labels of the pod's namespace.
    namespace_labels: Vec<(Sym, Sym)>,
    /// Pods that all terms of `affinity` mean.
    wanted: DomainSums,
    /// Pods that some term of `anti_affinity` means.
    unwanted: DomainSums,
    /// Pods whose anti-affinity means this pod.
    hostile: DomainSums,
    /// The pod would satisfy its own affinity: the first of its kind may go anywhere.
    is_its_own_kind: bool,
}

/// How the counts of one node's domains would change.
#[derive(Debug, Default)]
struct Change {
    wanted: i64,
    unwanted: Vec<(Sym, i64)>,
    hostile: Vec<(Sym, i64)>,
}

impl Required {
    pub(super) fn is_of(&self, cycle: CycleId) -> bool {
        self.cycle == Some(cycle)
    }

    /// Nothing is asked of any node.
    pub(super) fn is_idle(&self) -> bool {
        self.affinity.is_empty() && self.anti_affinity.is_empty() && self.hostile.is_empty()
    }

    pub(super) fn prepare(&mut self, call: &Call<'_>, known: &mut Knowledge) {
        let Call { pod, table, .. } = *call;
        self.cycle = Some(call.cycle);
        known.catch_up(table);
        self.namespace_labels = known.labels_of_namespace(pod, &table.symbols);
        let own = |term, known: &mut Knowledge| OwnTerm::new(term, &mut known.namespaces, &table.symbols);
        self.affinity = pod.affinity.required.iter().map(|term| own(term, known)).collect();
        self.anti_affinity = pod.affinity.anti_required.iter().map(|term| own(term, known)).collect();
        self.is_its_own_kind = self.affinity.iter().all(|term| term.matches(pod, &known.namespaces, &table.symbols));
        self.count(pod, table, known);
    }

    fn count(&mut self, pod: &Pod, table: &ClusterTable, known: &mut Knowledge) {
        let labels = table.labels();
        let Knowledge { counts, domains, placed, .. } = known;
        self.wanted.clear();
        if !self.affinity.is_empty() {
            let counts = counts.ask(table.pods(), &question_of_all(&self.affinity));
            for term in &self.affinity {
                let key = term.topology_key;
                // One count serves all terms of a key.
                if self.wanted.of(key).is_none() {
                    self.wanted.add(key, domains.follow(key, labels), Share::of_each(counts, 1));
                }
            }
        }
        self.unwanted.clear();
        for term in &self.anti_affinity {
            let counts = counts.ask(table.pods(), &term.question());
            let key = term.topology_key;
            self.unwanted.add(key, domains.follow(key, labels), Share::of_each(counts, 1));
        }
        let hostile = &mut self.hostile;
        hostile.clear();
        placed.repelling.visit(pod, &self.namespace_labels, |key, carriers| {
            let shares = carriers.iter().map(|it| Share { node: it.node, n_pods: it.n_pods, amount: it.n_pods });
            hostile.add(key, domains.follow(key, labels), shares);
        });
    }

    /// Keeps the nodes that pass.
    pub(super) fn narrow(&self, domains: &Domains, candidates: &mut NodeSet) {
        let may_be_first = self.may_be_first();
        for sums in self.wanted.iter() {
            match domains.get(sums.key) {
                None => candidates.clear(),
                Some(domain) => {
                    candidates.retain(|node| domain.at(node).is_some_and(|number| may_be_first || sums.at(number) > 0))
                }
            }
        }
        for sums in self.unwanted.iter().chain(self.hostile.iter()).filter(|sums| sums.n_pods > 0) {
            if let Some(domain) = domains.get(sums.key) {
                candidates.retain(|node| domain.at(node).is_none_or(|number| sums.at(number) == 0));
            }
        }
    }

    /// No placed pod is of the kind that the pod wants around it, except for the pod itself.
    fn may_be_first(&self) -> bool {
        self.is_its_own_kind && self.wanted.is_empty()
    }

    /// The verdict on a node as it is.
    pub(super) fn check(&self, domains: &Domains, node: NodeIdx) -> Status {
        self.check_changed(domains, node, &Change::default())
    }

    /// Numbers the domains of keys that only the anti-affinity of `pods` brings up, before [`Self::check_cases`].
    pub(super) fn follow_keys(&self, call: &Call<'_>, known: &mut Knowledge, pods: &[&Pod]) {
        for term in pods.iter().flat_map(|pod| &pod.affinity.anti_required) {
            if self.hostile.of(term.topology_key).is_none() {
                known.domains.follow(term.topology_key, call.table.labels());
            }
        }
    }

    /// The verdict on the node of each case once its pods have gone and come.
    pub(super) fn check_cases(
        &self,
        call: &Call<'_>,
        known: &Knowledge,
        pods: &[&Pod],
        cases: &[DryRunCase],
    ) -> Vec<Status> {
        let (mut walk, mut change) = (CaseWalk::new(pods), Change::default());
        let check = |case| {
            walk.step(case, |pod, sign| self.note(&mut change, call, known, pod, sign));
            self.check_changed(&known.domains, case.node, &change)
        };
        cases.iter().map(check).collect()
    }

    fn note(&self, change: &mut Change, call: &Call<'_>, known: &Knowledge, pod: &Pod, sign: i64) {
        let symbols = &call.table.symbols;
        let is_meant = |term: &OwnTerm| term.matches(pod, &known.namespaces, symbols);
        if !self.affinity.is_empty() && self.affinity.iter().all(is_meant) {
            change.wanted += sign;
        }
        for term in self.anti_affinity.iter().filter(|term| is_meant(term)) {
            add(&mut change.unwanted, term.topology_key, sign);
        }
        let hostile = pod.affinity.anti_required.iter();
        for term in hostile.filter(|term| means(term, call.pod, &self.namespace_labels)) {
            add(&mut change.hostile, term.topology_key, sign);
        }
    }

    fn check_changed(&self, domains: &Domains, node: NodeIdx, change: &Change) -> Status {
        if !self.finds_wanted(domains, node, change.wanted) {
            return Status::unresolvable("node(s) didn't match pod affinity rules");
        }
        if meets(&self.unwanted, &change.unwanted, domains, node) {
            return Status::unschedulable("node(s) didn't match pod anti-affinity rules");
        }
        if meets(&self.hostile, &change.hostile, domains, node) {
            return Status::unschedulable("node(s) didn't satisfy existing pods anti-affinity rules");
        }
        Status::success()
    }

    fn finds_wanted(&self, domains: &Domains, node: NodeIdx, change: i64) -> bool {
        let mut finds_all = true;
        let mut n_pods = 0;
        for sums in self.wanted.iter() {
            let Some(number) = domains.get(sums.key).and_then(|domain| domain.at(node)) else { return false };
            finds_all &= sums.at(number) + change > 0;
            n_pods += sums.n_pods + change;
        }
        finds_all || (self.is_its_own_kind && n_pods == 0)
    }
}

/// One entry a key.
fn add(changes: &mut Vec<(Sym, i64)>, key: Sym, sign: i64) {
    match changes.iter_mut().find(|(changed, _)| *changed == key) {
        Some((_, amount)) => *amount += sign,
        None => changes.push((key, sign)),
    }
}

/// Whether some domain of `node` holds counted pods after `changes`, which are by topology key.
fn meets(sums: &DomainSums, changes: &[(Sym, i64)], domains: &Domains, node: NodeIdx) -> bool {
    let counted = sums.iter().map(|sums| sums.key);
    let mut keys = counted.chain(changes.iter().map(|(key, _)| *key));
    keys.any(|key| {
        let Some(number) = domains.get(key).and_then(|domain| domain.at(node)) else { return false };
        let change: i64 = changes.iter().filter(|(changed, _)| *changed == key).map(|(_, amount)| amount).sum();
        sums.of(key).map_or(0, |sums| sums.at(number)) + change > 0
    })
}
