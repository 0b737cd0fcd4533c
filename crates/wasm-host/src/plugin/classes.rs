//! The answers of a component about the pods of an equivalence class, and the cycles that these pods share.
//!
//! A component that exports `reuse` says for which other pods its answers about a pod hold. The component is not called
//! for pods that it does not affect. If its answers about pods depend on nodes' rows, the pods of a class share one
//! open cycle. If the component follows neither pods nor the columns that pods change, its answers about a row hold as
//! long as the cycle is shared.

use berth_framework::{CycleId, Effect, EquivalenceCache, Reach, Status};
use berth_model::{ColumnData, Delta, NodeSet, Pod};

/// The maximum number of classes whose pods share a cycle. Answers about rows are kept for each of these classes.
const MAX_SHARED: usize = 16;

/// An answer of PreFilter.
type PreFilterAnswer = Result<Option<Vec<String>>, Status>;

/// An answer of Bind.
type BindAnswer = Result<Vec<Effect>, Status>;

/// The data that is kept for one instance.
#[derive(Debug, Default)]
pub(super) struct Classes {
    known: EquivalenceCache<Class>,
    /// Whether PreScore lets the plugin score pods of a class that it does not affect, so that a decision shows its
    /// zeros.
    shows_zeros: EquivalenceCache<bool>,
    /// The participation in the cycle that was asked about last.
    current: Option<(CycleId, Participation)>,
}

/// The data that is kept for one class.
#[derive(Debug)]
struct Class {
    reach: Reach,
    /// The answer of Sign.
    signature: Option<Option<String>>,
    shared: Option<SharedCycle>,
}

/// A cycle of the instance that several pods use.
#[derive(Debug)]
struct SharedCycle {
    cycle: CycleId,
    /// Whether the cycle's own pod has left the scheduler.
    is_over: bool,
    pre_filter: Option<PreFilterAnswer>,
    pre_score: Option<Result<(), Status>>,
    bind: Option<BindAnswer>,
    /// The result of NormalizeScore (second number) for scores that all equal the first number.
    normalized: Option<(i64, i64)>,
    rows: RowAnswers,
}

/// The answers about rows of a plugin that is blind to pods.
#[derive(Debug, Default)]
pub(super) struct RowAnswers {
    checked: NodeSet,
    passing: NodeSet,
    scored: NodeSet,
    /// Scores by row.
    scores: Vec<i64>,
}

impl RowAnswers {
    /// Removes the candidates that do not pass, if the verdict on each candidate is known. Returns whether all verdicts
    /// are known.
    pub(super) fn filter(&self, candidates: &mut NodeSet) -> bool {
        let are_known = candidates.is_subset(&self.checked);
        if are_known {
            candidates.intersect(&self.passing);
        }
        are_known
    }

    pub(super) fn keep_verdicts(&mut self, checked: &NodeSet, survivors: &NodeSet) {
        self.checked.union(checked);
        self.passing.union(survivors);
    }

    /// Appends the scores of these nodes, if all scores are known. Returns whether they are known.
    pub(super) fn score(&self, nodes: &NodeSet, scores: &mut Vec<i64>) -> bool {
        let are_known = nodes.is_subset(&self.scored);
        if are_known {
            scores.extend(nodes.iter().map(|node| self.scores.get(node.index()).copied().unwrap_or_default()));
        }
        are_known
    }

    pub(super) fn keep_scores(&mut self, nodes: &NodeSet, scores: &[i64]) {
        self.scored.union(nodes);
        let n_rows = nodes.words().len() * 64;
        if self.scores.len() < n_rows {
            self.scores.resize(n_rows, 0);
        }
        for (node, score) in nodes.iter().zip(scores) {
            if let Some(kept) = self.scores.get_mut(node.index()) {
                *kept = *score;
            }
        }
    }
}

/// The participation of an instance in the cycle of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Participation {
    /// The plugin does not affect the pod.
    Skipped,
    /// The instance takes part in this cycle, which it knows.
    In(CycleId),
}

/// The knowledge about the class of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClassState {
    /// The pod is the first of its class for a long time.
    New,
    /// Other pods of the class came before, but the plugin has not been asked.
    Seen,
    Known(Reach),
}

impl Classes {
    pub(super) fn participation(&self, cycle: CycleId) -> Option<Participation> {
        self.current.filter(|(current, _)| *current == cycle).map(|(_, participation)| participation)
    }

    pub(super) fn set_participation(&mut self, cycle: CycleId, participation: Participation) {
        self.current = Some((cycle, participation));
    }

    pub(super) fn state(&mut self, pod: &Pod) -> ClassState {
        match self.reach(pod) {
            Some(reach) => ClassState::Known(reach),
            None if self.known.was_seen(pod) => ClassState::Seen,
            None => ClassState::New,
        }
    }

    /// The reach of the answers about pods of this class, if the plugin has declared it.
    pub(super) fn reach(&mut self, pod: &Pod) -> Option<Reach> {
        self.known.get(pod).map(|class| class.reach)
    }

    /// Whether the plugin has said that pods of this class on nodes change none of its answers.
    pub(super) fn is_no_matter_anywhere(&self, placed: &Pod) -> bool {
        self.known.any_elsewhere(placed, |class| class.reach == Reach::NothingAnywhere)
    }

    /// Keeps the plugin's answer. The new class may replace another class. Returns the shared cycle of that class, if
    /// the cycle's own pod has left.
    #[must_use]
    pub(super) fn learn(&mut self, pod: &Pod, reach: Reach) -> Option<CycleId> {
        let evicted = self.known.insert(pod, Class { reach, signature: None, shared: None });
        evicted?.shared.and_then(SharedCycle::unused)
    }

    /// Whether the plugin scores pods of this class although it does not affect them; `None` if it was not asked.
    pub(super) fn shows_zeros(&mut self, pod: &Pod) -> Option<bool> {
        self.shows_zeros.get(pod).copied()
    }

    /// Keeps the answer of PreScore about a pod that the plugin does not affect. It holds as long as the instance: a
    /// decision may lack zeros, but the sums of scores are right.
    pub(super) fn keep_shows_zeros(&mut self, pod: &Pod, shows_zeros: bool) {
        match self.shows_zeros.get(pod) {
            Some(known) => *known = shows_zeros,
            None => {
                self.shows_zeros.insert(pod, shows_zeros);
            }
        }
    }

    /// The signature of pods of this class, if the plugin was asked about them; `None` if their reach is not known.
    pub(super) fn signature(&mut self, pod: &Pod) -> Option<&mut Option<Option<String>>> {
        self.known.get(pod).map(|class| &mut class.signature)
    }

    /// The open cycle of pods of this class.
    pub(super) fn shared_with(&mut self, pod: &Pod) -> Option<CycleId> {
        self.known.get(pod)?.shared.as_ref().map(|shared| shared.cycle)
    }

    /// Shares the cycle of `pod` with later pods of its class, whose reach is known. The cycle may replace the cycle
    /// that was least recently used. Returns the replaced cycle, if its own pod has left.
    #[must_use]
    pub(super) fn share(&mut self, cycle: CycleId, pod: &Pod) -> Option<CycleId> {
        let n_shared = self.known.values().filter(|class| class.shared.is_some()).count();
        let oldest = if n_shared < MAX_SHARED { None } else { self.known.oldest_mut(|class| class.shared.is_some()) };
        let replaced = oldest.and_then(|class| class.shared.take());
        if let Some(class) = self.known.get(pod) {
            class.shared = Some(SharedCycle::new(cycle));
        }
        replaced.and_then(SharedCycle::unused)
    }

    /// Notes that the cycle's own pod leaves the cycle. Returns whether other pods may still use the cycle.
    pub(super) fn outlives(&mut self, cycle: CycleId) -> bool {
        self.shared_mut(cycle).map(|shared| shared.is_over = true).is_some()
    }

    /// Forgets the answers about pods. Returns the shared cycles whose own pods have left.
    #[must_use]
    pub(super) fn forget(&mut self) -> Vec<CycleId> {
        self.current = None;
        self.known.drain().filter_map(|class| class.shared.and_then(SharedCycle::unused)).collect()
    }

    /// Whether the plugin has said that it does not affect pods like `placed`, which is on a node or will be on a node.
    pub(super) fn is_no_matter(&self, placed: &Pod) -> bool {
        self.known.any_elsewhere(placed, |class| class.reach.is_nothing())
    }

    /// Follows pods that came to nodes. If one of these pods may matter to the plugin, the answers that hold only
    /// without such a pod are forgotten. Classes for which the plugin is asked about each pod are also forgotten,
    /// because the plugin may no longer affect the pods of such a class.
    pub(super) fn pods_came<'a>(&mut self, mut placed: impl Iterator<Item = &'a Pod>) {
        let is_in_question = self.known.values().any(|class| class.reach == Reach::NothingYet);
        if is_in_question && placed.any(|pod| !self.is_no_matter(pod)) {
            self.current = None;
            self.known.retain(|class| !matches!(class.reach, Reach::NothingYet | Reach::Cluster));
        }
    }

    fn shared_mut(&mut self, cycle: CycleId) -> Option<&mut SharedCycle> {
        self.known.values_mut().filter_map(|class| class.shared.as_mut()).find(|shared| shared.cycle == cycle)
    }

    /// The answer that was given in a cycle, if other pods share it.
    pub(super) fn pre_filter(&mut self, cycle: CycleId) -> Option<&mut Option<PreFilterAnswer>> {
        self.shared_mut(cycle).map(|shared| &mut shared.pre_filter)
    }

    pub(super) fn pre_score(&mut self, cycle: CycleId) -> Option<&mut Option<Result<(), Status>>> {
        self.shared_mut(cycle).map(|shared| &mut shared.pre_score)
    }

    pub(super) fn bind(&mut self, cycle: CycleId) -> Option<&mut Option<BindAnswer>> {
        self.shared_mut(cycle).map(|shared| &mut shared.bind)
    }

    pub(super) fn normalized(&mut self, cycle: CycleId) -> Option<&mut Option<(i64, i64)>> {
        self.shared_mut(cycle).map(|shared| &mut shared.normalized)
    }

    pub(super) fn rows(&mut self, cycle: CycleId) -> Option<&mut RowAnswers> {
        self.shared_mut(cycle).map(|shared| &mut shared.rows)
    }
}

impl SharedCycle {
    fn new(cycle: CycleId) -> Self {
        Self {
            cycle,
            is_over: false,
            pre_filter: None,
            pre_score: None,
            bind: None,
            normalized: None,
            rows: RowAnswers::default(),
        }
    }

    /// The cycle, if its own pod has left. The caller must then end the cycle.
    fn unused(self) -> Option<CycleId> {
        self.is_over.then_some(self.cycle)
    }
}

/// Whether the delta contains only pods, and columns that pods change.
pub(super) fn is_about_pods_only(delta: &Delta) -> bool {
    let is_changed_by_pods = |data: &ColumnData| match data {
        ColumnData::Requested(_)
        | ColumnData::NonZeroRequested { .. }
        | ColumnData::PodCount(_)
        | ColumnData::HostPorts(_) => true,
        ColumnData::Name(_)
        | ColumnData::Unschedulable(_)
        | ColumnData::Labels(_)
        | ColumnData::Taints(_)
        | ColumnData::Allocatable(_)
        | ColumnData::Images(_)
        | ColumnData::DeclaredFeatures(_)
        | ColumnData::Annotations(_) => false,
    };
    !delta.full
        && delta.taint_sets.is_empty()
        && delta.image_sizes.is_empty()
        && delta.removed.is_empty()
        && delta.added.is_empty()
        && delta.objects.is_empty()
        && delta.columns.iter().all(|change| is_changed_by_pods(&change.data))
}

#[cfg(test)]
mod tests {
    use berth_model::NodeIdx;

    use super::*;

    fn pod(uid: &str, priority: i32) -> Pod {
        Pod { uid: uid.into(), priority, ..Pod::default() }
    }

    #[test]
    fn the_second_pod_of_a_class_is_worth_the_question() {
        let mut classes = Classes::default();
        assert_eq!(classes.state(&pod("1", 1)), ClassState::New);
        assert_eq!(classes.state(&pod("2", 2)), ClassState::New);
        assert_eq!(classes.state(&pod("3", 1)), ClassState::Seen);
        assert_eq!(classes.learn(&pod("3", 1), Reach::Nothing), None);
        assert_eq!(classes.learn(&pod("2", 2), Reach::Cluster), None);
        assert_eq!(classes.state(&pod("4", 1)), ClassState::Known(Reach::Nothing));
        assert_eq!(classes.state(&pod("5", 2)), ClassState::Known(Reach::Cluster));
        *classes.signature(&pod("4", 1)).unwrap() = Some(Some("one".to_owned()));
        assert_eq!(classes.signature(&pod("5", 2)), Some(&mut None));
        assert_eq!(classes.signature(&pod("6", 1)), Some(&mut Some(Some("one".to_owned()))));
        assert_eq!(classes.forget(), []);
        assert_eq!(classes.signature(&pod("6", 1)), None);
        assert_eq!(classes.state(&pod("6", 1)), ClassState::Seen);
    }

    #[test]
    fn what_holds_yet_holds_until_a_pod_comes_that_matters() {
        let reaches = [Reach::NothingYet, Reach::Nothing, Reach::NothingAnywhere, Reach::Cluster];
        let known_after = |placed: &[i32]| {
            let mut classes = Classes::default();
            for (priority, reach) in (1..).zip(reaches) {
                assert_eq!(classes.learn(&pod("1", priority), reach), None);
            }
            let placed: Vec<_> =
                placed.iter().map(|priority| Pod { node_name: berth_model::Sym(40), ..pod("2", *priority) }).collect();
            classes.pods_came(placed.iter());
            [1, 2, 3, 4].map(|priority| classes.reach(&pod("3", priority)).is_some())
        };
        assert_eq!(known_after(&[]), [true; 4]);
        assert_eq!(known_after(&[1, 2, 3]), [true; 4], "the plugin has nothing to do with these");
        let forgotten = [false, true, true, false];
        assert_eq!(known_after(&[1, 4]), forgotten, "it is asked about each pod of this class");
        assert_eq!(known_after(&[5]), forgotten, "it was not asked about this class");
    }

    #[test]
    fn pods_that_come_end_no_cycle_that_pods_share() {
        let mut classes = Classes::default();
        assert_eq!(classes.learn(&pod("0", 1), Reach::Row { version: 0 }), None);
        assert_eq!(classes.share(CycleId(1), &pod("1", 1)), None);
        assert_eq!(classes.learn(&pod("0", 2), Reach::NothingYet), None);
        classes.pods_came([&pod("2", 1)].into_iter());
        assert_eq!((classes.shared_with(&pod("3", 1)), classes.reach(&pod("3", 2))), (Some(CycleId(1)), None));
    }

    #[test]
    fn pods_on_nodes_are_left_out_where_their_like_are_no_matter_anywhere() {
        let mut classes = Classes::default();
        for (priority, reach) in [(1, Reach::Nothing), (2, Reach::NothingAnywhere)] {
            assert_eq!(classes.learn(&pod("1", priority), reach), None);
        }
        let placed = |priority| Pod { node_name: berth_model::Sym(40), ..pod("2", priority) };
        assert_eq!([1, 2, 3].map(|priority| classes.is_no_matter_anywhere(&placed(priority))), [false, true, false]);
        assert_eq!(classes.forget(), []);
        assert!(!classes.is_no_matter_anywhere(&placed(2)));
    }

    #[test]
    fn pods_of_each_class_share_a_cycle_which_outlives_its_pod() {
        let mut classes = Classes::default();
        let [first, second] = [CycleId(1), CycleId(2)];
        for priority in [1, 2] {
            assert_eq!(classes.learn(&pod("0", priority), Reach::Row { version: 0 }), None);
        }
        assert_eq!(classes.share(first, &pod("1", 1)), None);
        assert_eq!(classes.share(second, &pod("2", 2)), None);
        assert_eq!(classes.shared_with(&pod("3", 1)), Some(first));
        assert_eq!(classes.shared_with(&pod("4", 2)), Some(second));
        assert_eq!(classes.shared_with(&pod("5", 3)), None);
        *classes.pre_filter(first).unwrap() = Some(Ok(None));
        assert!(classes.pre_filter(CycleId(3)).is_none() && classes.pre_filter(second).unwrap().is_none());
        assert!(!classes.outlives(CycleId(3)) && classes.outlives(first));
        assert_eq!(classes.forget(), [first], "the other pod is still there");
        assert_eq!(classes.shared_with(&pod("3", 1)), None);
    }

    #[test]
    fn the_cycle_that_was_used_least_lately_makes_room() {
        let mut classes = Classes::default();
        let numbers = (1..).take(MAX_SHARED);
        for (cycle, priority) in (1..).zip(numbers) {
            assert_eq!(classes.learn(&pod("0", priority), Reach::Row { version: 0 }), None);
            assert_eq!(classes.share(CycleId(cycle), &pod("1", priority)), None);
            assert!(classes.outlives(CycleId(cycle)));
        }
        assert_eq!(classes.shared_with(&pod("2", 1)), Some(CycleId(1)));
        assert_eq!(classes.learn(&pod("0", 0), Reach::Row { version: 0 }), None);
        assert_eq!(classes.share(CycleId(100), &pod("3", 0)), Some(CycleId(2)));
        assert_eq!(classes.shared_with(&pod("2", 2)), None);
        assert_eq!(classes.shared_with(&pod("2", 1)), Some(CycleId(1)));
        assert_eq!(classes.shared_with(&pod("4", 0)), Some(CycleId(100)));
    }

    #[test]
    fn answers_about_rows_serve_where_all_are_known() {
        let set = |rows: &[u32]| {
            let mut set = NodeSet::default();
            rows.iter().for_each(|&row| set.insert(NodeIdx(row)));
            set
        };
        let mut rows = RowAnswers::default();
        rows.keep_verdicts(&set(&[1, 2, 70]), &set(&[2, 70]));
        let (mut known, mut unknown) = (set(&[1, 70]), set(&[2, 3]));
        assert!(rows.filter(&mut known) && known == set(&[70]));
        assert!(!rows.filter(&mut unknown) && unknown == set(&[2, 3]));
        rows.keep_scores(&set(&[70, 3]), &[30, 7]);
        let mut scores = vec![1];
        assert!(rows.score(&set(&[70]), &mut scores) && !rows.score(&set(&[2]), &mut scores));
        assert_eq!(scores, [1, 7]);
    }
}
