//! How many placed pods match, node by node: counted once for each question and corrected by the journal of the pod
//! table from then on, so that asking again costs what changed and not the number of pods.
//!
//! Pods that no question can tell apart, usually those of one workload, form a group. A new question looks at groups
//! with a label that it asks for, a pod that comes or goes at the questions that its group answers.

mod groups;
mod node_counts;

use berth_model::{Pod, PodTable, Sym, pod::LabelSelector};
use rustc_hash::FxHashMap;

use self::groups::Groups;
pub(crate) use self::node_counts::NodeCounts;

/// Questions kept at a time. Pods of one workload ask the same ones; this many workloads may take turns.
const CAPACITY: usize = 4096;

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

/// Questions asked before, with their answers.
#[derive(Debug, Default)]
pub(crate) struct PodCounts {
    position: Option<u64>,
    groups: Groups,
    ids: FxHashMap<Question, AnswerIdx>,
    /// By [`AnswerIdx`]; `None` for slots that are free.
    answers: Vec<Option<Answer>>,
    free: Vec<AnswerIdx>,
    /// Counts the calls of [`Self::ask`]: what was asked longest ago makes room.
    n_asked: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AnswerIdx(usize);

#[derive(Debug)]
struct Answer {
    question: Question,
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

impl PodCounts {
    /// How many pods of `pods` the question means, by node.
    pub(crate) fn ask(&mut self, pods: &PodTable, question: &Question) -> &NodeCounts {
        self.follow(pods);
        self.n_asked += 1;
        let idx = match self.ids.get(question) {
            Some(&idx) => idx,
            None => self.answer(question),
        };
        match self.answers.get_mut(idx.0) {
            Some(Some(answer)) => {
                answer.last_asked = self.n_asked;
                &answer.counts
            }
            Some(None) | None => NodeCounts::none(),
        }
    }

    fn follow(&mut self, pods: &PodTable) {
        if let Some(changes) = self.position.and_then(|position| pods.since(position)) {
            for change in changes {
                let answers = self.groups.change(change, &self.answers);
                for idx in answers {
                    if let Some(Some(answer)) = self.answers.get_mut(idx.0) {
                        answer.counts.add(change.node, i64::from(change.sign));
                    }
                }
            }
        } else {
            self.ids.clear();
            self.answers.clear();
            self.free.clear();
            self.groups = Groups::of(pods);
        }
        self.position = Some(pods.position());
    }

    /// Counts anew.
    fn answer(&mut self, question: &Question) -> AnswerIdx {
        self.make_room();
        let idx = self.free.pop().unwrap_or(AnswerIdx(self.answers.len()));
        let counts = self.groups.count(question, idx);
        let answer = Some(Answer { question: question.clone(), counts, last_asked: self.n_asked });
        match self.answers.get_mut(idx.0) {
            Some(slot) => *slot = answer,
            None => self.answers.push(answer),
        }
        self.ids.insert(question.clone(), idx);
        idx
    }

    fn make_room(&mut self) {
        if self.ids.len() < CAPACITY {
            return;
        }
        let newest_to_go = self.n_asked.saturating_sub(CAPACITY as u64 / 2);
        for (idx, slot) in self.answers.iter_mut().enumerate() {
            if let Some(answer) = slot.take_if(|answer| answer.last_asked <= newest_to_go) {
                self.ids.remove(&answer.question);
                self.free.push(AnswerIdx(idx));
            }
        }
        let answers = &self.answers;
        self.groups.forget(|idx| answers.get(idx.0).is_none_or(Option::is_none));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_model::{
        NodeIdx, PodIdx,
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
        let selector = |operator, values: &[u32]| {
            let values = values.iter().copied().map(Sym).collect();
            let requirements = vec![Requirement { key: Sym(20), operator, values }];
            Some(LabelSelector { requirements, error: None })
        };
        let in_both = |selector| PodMatch { namespaces: vec![Sym(30), Sym(31)], selector };
        let all = |matches| Question { matches, skip_terminating: false };
        let some = || in_both(selector(Operator::In, &[0, 2]));
        both.chain([
            question(31, Some(1), false),
            all(vec![some()]),
            all(vec![some(), in_both(selector(Operator::NotIn, &[0]))]),
            all(vec![in_both(selector(Operator::Exists, &[]))]),
            all(vec![in_both(None)]),
            all(vec![]),
        ])
        .collect()
    }

    proptest! {
        #[test]
        fn counts_equal_a_recount(steps in prop::collection::vec((0..12u32, 0..5u32, 0..24u32, 0..14usize), 1..200)) {
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
        let in_namespace = |namespace| Arc::new(Pod { namespace: Sym(namespace), ..Pod::default() });
        table.place(PodIdx(0), in_namespace(30), NodeIdx(1));
        let mut counts = PodCounts::default();
        for namespace in 0..10_000 {
            counts.ask(&table, &question(namespace + 100, None, false));
        }
        assert!(counts.ids.len() <= CAPACITY && counts.answers.len() <= CAPACITY);
        assert_eq!(counts.ask(&table, &question(30, None, false)).at(NodeIdx(1)), 1);
        for (slot, namespace) in (1..).zip([30, 100, 5_000, 10_000, 10_099]) {
            table.place(PodIdx(slot), in_namespace(namespace), NodeIdx(2));
        }
        for namespace in [30, 100, 5_000, 10_000, 10_099] {
            assert_eq!(counts.ask(&table, &question(namespace, None, false)).at(NodeIdx(2)), 1, "{namespace}");
        }
    }
}
