//! How many placed pods match, node by node: counted once for each question and corrected by the journal of the pod
//! table from then on, so that asking again costs what changed and not the number of pods.

use berth_model::{NodeIdx, Pod, PodChange, PodTable, Sym, pod::LabelSelector};
use rustc_hash::FxHashMap;

/// Questions kept at a time. Pods of one workload ask the same ones; this many workloads may take turns.
const CAPACITY: usize = 1024;

/// Which pods count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    /// All must match.
    pub(crate) matches: Vec<PodMatch>,
    /// Pods that are being deleted do not count.
    pub(crate) skip_terminating: bool,
}

/// Pods of these namespaces with these labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PodMatch {
    /// Sorted.
    pub(crate) namespaces: Vec<Sym>,
    /// `None` matches nothing.
    pub(crate) selector: Option<LabelSelector>,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeCounts {
    /// By node; shorter than the table where the rest is zero.
    per_node: Vec<i64>,
    total: i64,
}

/// Questions asked before, with their answers.
#[derive(Debug, Default)]
pub(crate) struct PodCounts {
    position: Option<u64>,
    answers: FxHashMap<Question, Answer>,
    /// Counts the calls of [`Self::ask`]: what was asked longest ago makes room.
    n_asked: u64,
}

#[derive(Debug, Default)]
struct Answer {
    counts: NodeCounts,
    last_asked: u64,
}

impl PodMatch {
    pub(crate) fn matches(&self, pod: &Pod) -> bool {
        self.namespaces.binary_search(&pod.namespace).is_ok()
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }
}

impl Question {
    pub(crate) fn matches(&self, pod: &Pod) -> bool {
        !(self.skip_terminating && pod.terminating) && self.matches.iter().all(|it| it.matches(pod))
    }
}

impl NodeCounts {
    pub(crate) fn at(&self, node: NodeIdx) -> i64 {
        self.per_node.get(node.index()).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self) -> i64 {
        self.total
    }

    /// Nodes with a count other than zero.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeIdx, i64)> {
        let nodes = (0u32..).map(NodeIdx).zip(self.per_node.iter().copied());
        nodes.filter(|(_, count)| *count != 0)
    }

    pub(crate) fn add(&mut self, node: NodeIdx, amount: i64) {
        if node.index() >= self.per_node.len() {
            self.per_node.resize(node.index() + 1, 0);
        }
        if let Some(count) = self.per_node.get_mut(node.index()) {
            *count += amount;
            self.total += amount;
        }
    }
}

impl PodCounts {
    /// How many pods of `pods` the question means, by node.
    pub(crate) fn ask(&mut self, pods: &PodTable, question: &Question) -> &NodeCounts {
        self.follow(pods);
        self.n_asked += 1;
        let last_asked = self.n_asked;
        if !self.answers.contains_key(question) {
            self.make_room();
        }
        let answer = self.answers.entry(question.clone()).or_insert_with(|| {
            let mut counts = NodeCounts::default();
            let matching = pods.iter().filter(|(_, pod, _)| question.matches(pod));
            matching.for_each(|(_, _, node)| counts.add(node, 1));
            Answer { counts, last_asked }
        });
        answer.last_asked = last_asked;
        &answer.counts
    }

    fn follow(&mut self, pods: &PodTable) {
        match self.position.and_then(|position| pods.since(position)) {
            Some(changes) => changes.for_each(|change| correct(&mut self.answers, change)),
            None => self.answers.clear(),
        }
        self.position = Some(pods.position());
    }

    fn make_room(&mut self) {
        if self.answers.len() < CAPACITY {
            return;
        }
        let newest_to_go = self.n_asked.saturating_sub(CAPACITY as u64 / 2);
        self.answers.retain(|_, answer| answer.last_asked > newest_to_go);
    }
}

fn correct(answers: &mut FxHashMap<Question, Answer>, change: &PodChange) {
    for (question, answer) in answers {
        if question.matches(&change.pod) {
            answer.counts.add(change.node, i64::from(change.sign));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_model::{
        PodIdx,
        pod::{Operator, Requirement},
    };
    use proptest::prelude::*;

    use super::*;

    fn question(namespace: u32, value: Option<u32>, skip_terminating: bool) -> Question {
        let requirement = |value| Requirement { key: Sym(20), operator: Operator::In, values: vec![Sym(value)] };
        let requirements = value.map(requirement).into_iter().collect();
        let selector = Some(LabelSelector { requirements, error: None });
        Question { matches: vec![PodMatch { namespaces: vec![Sym(namespace)], selector }], skip_terminating }
    }

    fn questions() -> Vec<Question> {
        let values = [None, Some(0), Some(1), Some(2)];
        let both = values.into_iter().flat_map(|value| [false, true].map(|skip| question(30, value, skip)));
        both.chain([question(31, Some(1), false)]).collect()
    }

    proptest! {
        #[test]
        fn counts_equal_a_recount(steps in prop::collection::vec((0..12u32, 0..5u32, 0..24u32, 0..9usize), 1..200)) {
            let mut table = PodTable::default();
            let mut counts = PodCounts::default();
            for (slot, node, variant, asked) in steps {
                if variant % 4 == 3 {
                    table.remove(PodIdx(slot));
                } else {
                    let pod = Pod {
                        namespace: Sym(30 + variant % 2),
                        labels: vec![(Sym(20), Sym(variant % 3))],
                        terminating: variant > 15,
                        ..Pod::default()
                    };
                    table.place(PodIdx(slot), Arc::new(pod), NodeIdx(node));
                }
                let question = &questions()[asked];
                let fresh = PodCounts::default().ask(&table, question).clone();
                let kept = counts.ask(&table, question);
                prop_assert_eq!(kept.total(), fresh.total());
                prop_assert_eq!(kept.iter().collect::<Vec<_>>(), fresh.iter().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn forgotten_questions_are_answered_afresh() {
        let mut table = PodTable::default();
        table.place(PodIdx(0), Arc::new(Pod { namespace: Sym(30), ..Pod::default() }), NodeIdx(1));
        let mut counts = PodCounts::default();
        for namespace in 0..3000 {
            counts.ask(&table, &question(namespace + 100, None, false));
        }
        assert!(counts.answers.len() <= CAPACITY);
        assert_eq!(counts.ask(&table, &question(30, None, false)).at(NodeIdx(1)), 1);
    }
}
