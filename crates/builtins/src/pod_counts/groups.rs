//! Placed pods in groups that no question can tell apart, to be found by namespace and label.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use berth_model::{NodeIdx, Pod, PodChange, PodTable, Sym, pod::Operator};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Answer, AnswerIdx, NodeCounts, PodMatch, Question};

/// A namespace with a key and a value of a label. [`NO_LABEL`] stands for any labels.
type Place = (Sym, Sym, Sym);

/// No label has an empty key.
const NO_LABEL: (Sym, Sym) = (Sym::NONE, Sym::NONE);

/// All that a question can ask about a pod; any pod of the group will do.
#[derive(Clone, Debug)]
struct Looks(Arc<Pod>);

impl Looks {
    fn parts(&self) -> (Sym, bool, &[(Sym, Sym)]) {
        (self.0.namespace, self.0.terminating, &self.0.labels)
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        let namespace = self.0.namespace;
        self.0.labels.iter().chain([&NO_LABEL]).map(move |&(key, value)| (namespace, key, value))
    }
}

impl PartialEq for Looks {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Looks {}

impl Hash for Looks {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GroupIdx(usize);

#[derive(Debug)]
struct Group {
    looks: Looks,
    counts: NodeCounts,
    /// The answers in which its pods are counted.
    answers: Vec<AnswerIdx>,
}

/// All groups that have pods.
#[derive(Debug, Default)]
pub(super) struct Groups {
    ids: FxHashMap<Looks, GroupIdx>,
    /// By [`GroupIdx`]; `None` for slots that are free.
    groups: Vec<Option<Group>>,
    free: Vec<GroupIdx>,
    by_place: FxHashMap<Place, FxHashSet<GroupIdx>>,
    /// Answers by the places that they cover.
    answers_at: FxHashMap<Place, Vec<AnswerIdx>>,
    /// Answers that cover everything.
    answers_everywhere: Vec<AnswerIdx>,
}

impl Groups {
    pub(super) fn of(pods: &PodTable) -> Self {
        let mut groups = Self::default();
        for (_, pod, node) in pods.iter() {
            groups.add(pod, node, 1, &[]);
        }
        groups
    }

    /// Follows the pod table; tells in which answers the pod counts.
    pub(super) fn change(&mut self, change: &PodChange, answers: &[Option<Answer>]) -> Vec<AnswerIdx> {
        self.add(&change.pod, change.node, i64::from(change.sign), answers)
    }

    /// Counts the pods that `question` means. They count in the answer `idx` from then on.
    pub(super) fn count(&mut self, question: &Question, idx: AnswerIdx) -> NodeCounts {
        let candidates: Vec<GroupIdx> = if let Some(places) = self.narrowest(question) {
            for &place in &places {
                self.answers_at.entry(place).or_default().push(idx);
            }
            places.iter().filter_map(|place| self.by_place.get(place)).flatten().copied().collect()
        } else {
            self.answers_everywhere.push(idx);
            self.ids.values().copied().collect()
        };
        let mut counts = NodeCounts::default();
        for group in candidates {
            if let Some(Some(group)) = self.groups.get_mut(group.0)
                && question.matches(&group.looks.0)
            {
                counts.add_all(&group.counts);
                group.answers.push(idx);
            }
        }
        counts
    }

    /// Forgets the answers that are gone.
    pub(super) fn forget(&mut self, is_gone: impl Fn(AnswerIdx) -> bool) {
        for group in self.groups.iter_mut().flatten() {
            group.answers.retain(|&idx| !is_gone(idx));
        }
        self.answers_at.retain(|_, answers| {
            answers.retain(|&idx| !is_gone(idx));
            !answers.is_empty()
        });
        self.answers_everywhere.retain(|&idx| !is_gone(idx));
    }

    fn add(&mut self, pod: &Arc<Pod>, node: NodeIdx, amount: i64, answers: &[Option<Answer>]) -> Vec<AnswerIdx> {
        let looks = Looks(Arc::clone(pod));
        let idx = match self.ids.get(&looks) {
            Some(&idx) => idx,
            None => self.open(looks, answers),
        };
        let Some(Some(group)) = self.groups.get_mut(idx.0) else { return Vec::new() };
        group.counts.add(node, amount);
        if group.counts.total() == 0 { self.close(idx) } else { group.answers.clone() }
    }

    fn open(&mut self, looks: Looks, answers: &[Option<Answer>]) -> GroupIdx {
        let idx = self.free.pop().unwrap_or(GroupIdx(self.groups.len()));
        for place in looks.places() {
            self.by_place.entry(place).or_default().insert(idx);
        }
        self.ids.insert(looks.clone(), idx);
        let here = looks.places().filter_map(|place| self.answers_at.get(&place)).flatten();
        let covering = here.chain(&self.answers_everywhere).copied();
        let means = |answer: &Answer| answer.question.matches(&looks.0);
        let matching = covering.filter(|idx| answers.get(idx.0).and_then(Option::as_ref).is_some_and(means));
        let answers = matching.collect();
        let group = Some(Group { looks, counts: NodeCounts::default(), answers });
        match self.groups.get_mut(idx.0) {
            Some(slot) => *slot = group,
            None => self.groups.push(group),
        }
        idx
    }

    /// Takes a group without pods away; tells in which answers they counted.
    fn close(&mut self, idx: GroupIdx) -> Vec<AnswerIdx> {
        let Some(group) = self.groups.get_mut(idx.0).and_then(Option::take) else { return Vec::new() };
        self.free.push(idx);
        self.ids.remove(&group.looks);
        for place in group.looks.places() {
            if let Some(groups) = self.by_place.get_mut(&place) {
                groups.remove(&idx);
                if groups.is_empty() {
                    self.by_place.remove(&place);
                }
            }
        }
        group.answers
    }

    /// Places that cover all pods that `question` means, as few groups as can be; `None` if it means all pods.
    fn narrowest(&self, question: &Question) -> Option<Vec<Place>> {
        let n_groups = |places: &Vec<Place>| -> usize {
            places.iter().filter_map(|place| self.by_place.get(place)).map(FxHashSet::len).sum()
        };
        question.matches.iter().flat_map(places).min_by_key(n_groups)
    }
}

/// Sets of places, without repetitions, each of which covers all pods that match.
fn places(pods: &PodMatch) -> Vec<Vec<Place>> {
    let mut namespaces = pods.namespaces.clone();
    namespaces.dedup();
    let requirements = pods.selector.iter().flat_map(|selector| &selector.requirements);
    let listing = requirements.filter(|requirement| requirement.operator == Operator::In);
    let mut alternatives: Vec<Vec<(Sym, Sym)>> =
        listing.map(|requirement| requirement.values.iter().map(|&value| (requirement.key, value)).collect()).collect();
    alternatives.push(vec![NO_LABEL]);
    let in_namespaces = |mut labels: Vec<(Sym, Sym)>| {
        labels.sort_unstable();
        labels.dedup();
        let in_each = |&namespace: &Sym| labels.iter().map(move |&(key, value)| (namespace, key, value));
        namespaces.iter().flat_map(in_each).collect()
    };
    alternatives.into_iter().map(in_namespaces).collect()
}
