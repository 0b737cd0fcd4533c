//! Tests of the questions that plugins are asked again, and of decisions with earlier answers, which must not differ.

use std::sync::{Arc, Mutex};

use berth_model::{Node, NodeIdx, NodeSet, Pod, Sym, Time, pod::NonZero, pod::Resources};

use super::*;
use crate::{
    equivalence::EquivalenceCache,
    hooks::Reuse,
    manifest::Manifest,
    plugin::{Plugin, PluginVersion},
    points::{CycleId, DryRunCase, Filter, Normalize, RejectedNodes, Score},
    run::{
        Attempt, Decision, Findings, NoNode, NodeSearch, NodeVerdict, NominatedPods, PluginScores, place,
        signs_by_class,
    },
    status::Status,
};

/// A plugin that fits the pod's CPU. Its score is the remaining CPU, relative to the node with the most.
struct Room {
    manifest: Manifest,
    asked: Arc<Mutex<Asked>>,
}

#[derive(Debug, Default)]
struct Asked {
    /// The number of nodes in each call of Filter.
    filter: Vec<usize>,
    score: Vec<usize>,
    /// The version of the answers; `None` if answers are not reused.
    version: Option<u64>,
}

impl Plugin for Room {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn version(&self) -> PluginVersion {
        PluginVersion::native(&self.manifest)
    }
    crate::points!(Filter, Score, Normalize);
    crate::hooks!(Reuse);
}

impl Room {
    fn left(call: &Call<'_>, node: NodeIdx) -> i64 {
        call.table.allocatable().get(Sym::CPU, node) - call.table.requested().get(Sym::CPU, node)
    }
}

impl Reuse for Room {
    fn reach(&mut self, _call: &Call<'_>) -> Reach {
        self.asked.lock().unwrap().version.map_or(Reach::Cluster, |version| Reach::Row { version })
    }
}

impl Filter for Room {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        self.asked.lock().unwrap().filter.push(candidates.len());
        candidates.retain(|node| Self::left(call, node) >= call.pod.requests.milli_cpu);
        Ok(())
    }
    fn node_to_status(&mut self, _call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        Ok(vec![RejectedNodes { status: Status::unschedulable("full"), nodes: rejected.clone() }])
    }
    fn dry_run(&mut self, _call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(cases.iter().map(|_| Status::success()).collect())
    }
}

impl Score for Room {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        self.asked.lock().unwrap().score.push(nodes.len());
        scores.extend(nodes.iter().map(|node| Self::left(call, node)));
        Ok(())
    }
}

impl Normalize for Room {
    fn normalize(&mut self, _call: &Call<'_>, _nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status> {
        let most = scores.iter().copied().max().unwrap_or(0).max(1);
        scores.iter_mut().for_each(|score| *score = *score * 100 / most);
        Ok(())
    }
}

/// A plugin that rejects the first node, and prefers the later nodes.
struct Later {
    manifest: Manifest,
    asked: Arc<Mutex<Asked>>,
}

impl Plugin for Later {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn version(&self) -> PluginVersion {
        PluginVersion::native(&self.manifest)
    }
    crate::points!(Filter, Score);
    crate::hooks!(Reuse);
}

impl Reuse for Later {
    fn reach(&mut self, _call: &Call<'_>) -> Reach {
        self.asked.lock().unwrap().version.map_or(Reach::Cluster, |version| Reach::Row { version })
    }
}

impl Filter for Later {
    fn filter(&mut self, _call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        candidates.remove(NodeIdx(0));
        Ok(())
    }
    fn node_to_status(&mut self, _call: &Call<'_>, _rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        Ok(Vec::new())
    }
    fn dry_run(&mut self, _call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(cases.iter().map(|_| Status::success()).collect())
    }
}

impl Score for Later {
    fn score(&mut self, _call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        scores.extend(nodes.iter().map(|node| i64::from(node.0)));
        Ok(())
    }
}

/// A bench with a cluster and one profile.
struct Bench {
    table: ClusterTable,
    profile: Profile,
    cache: EquivalenceCache<ClassAnswers>,
    asked: Arc<Mutex<Asked>>,
    attempt: Attempt,
    last: Decision,
}

impl Bench {
    fn new(n_nodes: u32, version: Option<u64>) -> Self {
        let mut table = ClusterTable::default();
        for index in 0..n_nodes {
            let name = table.symbols.intern(&format!("n{index}"));
            table.set_node(NodeIdx(index), &Node { name, allocatable: cpu(4), ..Node::default() });
        }
        let asked = Arc::new(Mutex::new(Asked { version, ..Asked::default() }));
        let manifest = Manifest { name: "Room".to_owned(), ..Manifest::default() };
        let mut profile = Profile::new("test");
        profile.add_everywhere(Box::new(Room { manifest, asked: Arc::clone(&asked) }), "null");
        let last = Decision { outcome: Err(NoNode::EmptyCluster), findings: Findings::default() };
        Self { table, profile, cache: EquivalenceCache::default(), asked, attempt: Attempt::default(), last }
    }

    /// Adds a second plugin. Its scores count three times and are not normalised.
    fn with_later(mut self) -> Self {
        let manifest = Manifest { name: "Later".to_owned(), ..Manifest::default() };
        self.profile.add_everywhere(Box::new(Later { manifest, asked: Arc::clone(&self.asked) }), "null");
        self.profile.plugins.set_weight(PluginIdx(1), 3);
        self
    }

    /// Places one more pod that is equivalent to the earlier pods; `None` if the pod fits on no node.
    fn place(&mut self, milli_cpu: i64) -> Option<NodeIdx> {
        let uid = format!("pod-{}", self.cache.n_hits());
        let pod = Pod { uid: uid.as_str().into(), requests: cpu(milli_cpu), ..Pod::default() };
        let order: Vec<NodeIdx> = self.table.nodes().iter().collect();
        let nominated = NominatedPods::default();
        let call = Call::new(CycleId(1), Time::default(), &pod, &self.table);
        let search = NodeSearch {
            order: &order,
            start: 0,
            percentage_of_nodes_to_score: 0,
            nominated: &nominated,
            hint: None,
            extenders: None,
        };
        self.last = place(&mut self.profile, &call, &search, Some(&mut self.cache), &mut self.attempt);
        let node = *self.last.outcome.as_ref().ok()?;
        self.table.add_requested(node, &cpu(milli_cpu), NonZero::default(), 1);
        Some(node)
    }

    fn take_asked(&self) -> (Vec<usize>, Vec<usize>) {
        let mut asked = self.asked.lock().unwrap();
        (std::mem::take(&mut asked.filter), std::mem::take(&mut asked.score))
    }
}

fn cpu(milli_cpu: i64) -> Resources {
    Resources { milli_cpu, ..Resources::default() }
}

#[test]
fn only_nodes_that_changed_are_asked_about() {
    let mut bench = Bench::new(5, Some(0));
    bench.place(1);
    assert_eq!(bench.take_asked(), (vec![5], vec![5]), "the first pod of its class has no entry");
    bench.place(1);
    assert_eq!(bench.take_asked(), (vec![5], vec![5]), "the second one fills it");
    let last = bench.place(1).unwrap();
    assert_eq!(bench.take_asked(), (vec![1], vec![1]), "where the pod before went");
    let earlier = bench.last.findings.earlier_answers();
    assert!(earlier.filters.contains(PluginIdx(0)) && earlier.scores.contains(PluginIdx(0)));
    assert_eq!((earlier.n_filtered, earlier.n_scored), (1, 1), "the decision says so");
    bench.table.set_unschedulable(NodeIdx((last.0 + 1) % 5), false);
    bench.table.add_node(NodeIdx(5));
    bench.table.set_allocatable(NodeIdx(5), &cpu(4), 10);
    bench.place(1);
    assert_eq!(bench.take_asked(), (vec![2, 1], vec![3]), "two that changed, and a new one");
    bench.asked.lock().unwrap().version = Some(1);
    bench.place(1);
    assert_eq!(bench.take_asked(), (vec![6], vec![6]), "answers of another version");
    bench.profile.plugins.set_weight(PluginIdx(0), 2);
    bench.place(1);
    assert_eq!(bench.take_asked().1, [6], "scores of another weight");
    bench.cache.clear();
    bench.place(1);
    assert_eq!(bench.take_asked(), (vec![6], vec![6]));
}

#[test]
fn placements_and_totals_are_those_without_earlier_answers() {
    let (mut with, mut without) = (Bench::new(7, Some(0)), Bench::new(7, None));
    for step in 0..40 {
        let milli_cpu = 1 + i64::from(step % 3 == 0);
        let (one, other) = (with.place(milli_cpu), without.place(milli_cpu));
        assert_eq!(one, other, "step {step}");
        let seen = |bench: &Bench| {
            let Findings { feasible, feasible_order, totals, sample, .. } = bench.last.findings.clone();
            (feasible, feasible_order, totals, sample)
        };
        if one.is_some() {
            assert_eq!(seen(&with), seen(&without), "step {step}");
        }
    }
    assert_eq!(with.place(1), None, "every node is full");
    let sum = |bench: &Bench| bench.take_asked().0.iter().sum::<usize>();
    assert!(sum(&with) * 2 < sum(&without));
}

#[test]
fn a_decision_says_what_earlier_answers_were() {
    let (mut with, mut without) = (Bench::new(4, Some(0)).with_later(), Bench::new(4, None).with_later());
    let scores = |bench: &Bench| -> Vec<(PluginIdx, [Vec<i64>; 3])> {
        let of_plugin = |it: PluginScores<'_>| {
            (it.plugin, [it.raw().collect(), it.normalized().collect(), it.weighted().collect()])
        };
        bench.last.findings.plugin_scores().map(of_plugin).collect()
    };
    let mut n_kept = 0;
    for step in 0..10 {
        let milli_cpu = 1 + i64::from(step % 3 == 0);
        let one = with.place(milli_cpu);
        assert_eq!(one, without.place(milli_cpu), "step {step}");
        if one.is_none() {
            break;
        }
        assert_eq!(scores(&with), scores(&without), "step {step}");
        for node in (0..4).map(NodeIdx) {
            assert_eq!(with.last.verdict(node), without.last.verdict(node), "step {step}, node {node:?}");
        }
        n_kept += usize::from(!with.last.findings.earlier_answers().filters.is_empty());
    }
    let full = with.last.verdict(NodeIdx(3));
    assert!(matches!(full, NodeVerdict::Rejected { plugin: PluginIdx(0), .. }), "{full:?}");
    assert!(n_kept > 3);
}

#[test]
fn a_decision_that_somebody_holds_stays_as_it_is() {
    let mut bench = Bench::new(2, Some(0)).with_later();
    (0..3).for_each(|_| assert_eq!(bench.place(1), Some(NodeIdx(1))));
    let held = bench.last.clone();
    assert!(matches!(held.verdict(NodeIdx(1)), NodeVerdict::Passed { .. }));
    bench.place(1);
    assert_eq!(bench.place(1), None, "the node is full");
    assert!(matches!(held.verdict(NodeIdx(1)), NodeVerdict::Passed { .. }));
    assert_eq!(
        held.findings.removed().map(|(plugin, nodes)| (plugin, nodes.len())).collect::<Vec<_>>(),
        [(PluginIdx(1), 1)]
    );
}

#[test]
fn equivalent_pods_have_one_signature_where_every_plugin_promises_that() {
    assert!(signs_by_class(&Bench::new(1, Some(0)).with_later().profile));
    let mut profile = Bench::new(1, Some(0)).profile;
    profile.add_everywhere(Box::new(NotReused(Manifest::default())), "null");
    assert!(!signs_by_class(&profile));
}

/// A plugin that scores nodes and does not have the hook `Reuse`.
struct NotReused(Manifest);

impl Plugin for NotReused {
    fn manifest(&self) -> &Manifest {
        &self.0
    }
    fn version(&self) -> PluginVersion {
        PluginVersion::native(&self.0)
    }
    crate::points!(Score);
    crate::hooks!();
}

impl Score for NotReused {
    fn score(&mut self, _call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        scores.resize(nodes.len(), 0);
        Ok(())
    }
}

/// A plugin that has nothing to do for any pod.
struct Unconcerned(Manifest);

impl Plugin for Unconcerned {
    fn manifest(&self) -> &Manifest {
        &self.0
    }
    fn version(&self) -> PluginVersion {
        PluginVersion::native(&self.0)
    }
    crate::points!(Score);
    crate::hooks!(Reuse);
}

impl Reuse for Unconcerned {
    fn reach(&mut self, _call: &Call<'_>) -> Reach {
        Reach::Nothing
    }
}

impl Score for Unconcerned {
    fn score(&mut self, _call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        scores.resize(nodes.len(), 0);
        Ok(())
    }
}

/// kube-scheduler logs a line for each of these scores.
#[test]
fn a_decision_has_the_zeros_of_plugins_that_are_not_asked() {
    let mut bench = Bench::new(3, Some(0));
    bench.profile.add_everywhere(Box::new(Unconcerned(Manifest::default())), "null");
    bench.profile.plugins.set_weight(PluginIdx(1), 2);
    for step in 0..4 {
        assert!(bench.place(1).is_some(), "step {step}");
        let mut scores = bench.last.findings.plugin_scores().filter(|scores| scores.plugin == PluginIdx(1));
        let zeros = scores.next().map(|scores| (scores.weight, scores.weighted().collect::<Vec<_>>()));
        assert_eq!(zeros, Some((2, vec![0; 3])), "step {step}");
        assert_eq!(scores.count(), 0, "step {step}");
    }
}
