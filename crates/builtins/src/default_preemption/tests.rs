//! Preemption with a dry run that lets a fixed number of pods onto each node.

use std::{cell::Cell, sync::Arc};

use berth_framework::{RejectedNodes, Removal};
use berth_model::{ClusterTable, ObjectKey, PodIdx, PodUid, Release, Sym, ThinVec};
use proptest::prelude::*;

use super::*;
use crate::{built_in::StaticKind, testing::TestCluster};

/// Nodes that each have room for `capacity` pods.
struct Fixture {
    cluster: TestCluster,
    capacity: usize,
    /// The number of cases of all dry runs.
    n_cases: Cell<usize>,
    nominated: Vec<(NodeIdx, Arc<Pod>)>,
}

/// A dry run that counts the pods on the node of each case.
struct FixedCapacity<'a> {
    table: &'a ClusterTable,
    capacity: usize,
    n_cases: &'a Cell<usize>,
}

impl DryRun for FixedCapacity<'_> {
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status> {
        self.n_cases.set(self.n_cases.get() + cases.len());
        let fits = |case: &Removal| {
            let left = self.table.pods().on(case.node).filter(|(idx, _)| !case.pods.contains(idx)).count();
            if left < self.capacity { Status::success() } else { Status::unschedulable("Insufficient cpu") }
        };
        Ok(cases.iter().map(fits).collect())
    }
}

impl Fixture {
    fn new(n_nodes: usize, capacity: usize) -> Self {
        let mut cluster = TestCluster::default();
        for index in 0..n_nodes {
            cluster.edit_node(&format!("n{index}"), |_| ());
        }
        Self { cluster, capacity, n_cases: Cell::new(0), nominated: Vec::new() }
    }

    fn place(&mut self, node: u32, name: &str, edit: impl FnOnce(&mut Pod)) {
        let pod = self.pod(name, 0, edit);
        self.cluster.place(NodeIdx(node), pod);
    }

    fn pod(&mut self, name: &str, priority: i32, edit: impl FnOnce(&mut Pod)) -> Pod {
        let namespace = self.cluster.sym("default");
        let mut pod = Pod { name: Arc::from(name), uid: PodUid::from(name), namespace, priority, ..Pod::default() };
        edit(&mut pod);
        pod
    }

    fn budget(&mut self, name: &str, json: serde_json::Value) {
        let StaticKind { api_version, kind } = budgets::KIND;
        let key = ObjectKey {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        };
        self.cluster.cache_mut().set_object(key, Some(json.to_string().into_bytes().into()));
    }

    /// Runs preemption after every node rejected the pod as full.
    fn preempt(&self, pod: &Pod, args: &str) -> PostFilterOutcome {
        let rejection = RejectedNodes {
            status: Status::unschedulable("Insufficient cpu"),
            nodes: self.cluster.table().nodes().clone(),
        };
        self.preempt_after(pod, args, &[rejection], None)
    }

    fn preempt_after(
        &self,
        pod: &Pod,
        args: &str,
        rejections: &[RejectedNodes],
        absent: Option<&Status>,
    ) -> PostFilterOutcome {
        let table = self.cluster.table();
        let mut dry_run = FixedCapacity { table, capacity: self.capacity, n_cases: &self.n_cases };
        let failure = Failure { rejections, absent, nominated: &self.nominated };
        let call = self.cluster.call(7, pod);
        DefaultPreemption::new(args).unwrap().post_filter(&call, &failure, &mut dry_run).unwrap()
    }
}

fn labelled(fixture: &mut Fixture, value: &str) -> ThinVec<(Sym, Sym)> {
    fixture.cluster.labels(&[("app", value)])
}

fn evicted(outcome: &PostFilterOutcome) -> Vec<String> {
    let name = |effect: &Effect| if let Effect::Evict { uid, .. } = effect { Some(uid.clone()) } else { None };
    outcome.effects.iter().filter_map(name).collect()
}

fn victims_of(fixture: &Fixture, pod: &Pod) -> Vec<String> {
    evicted(&fixture.preempt(pod, ""))
}

#[test]
fn the_least_important_pods_are_evicted() {
    let mut fixture = Fixture::new(1, 3);
    fixture.place(0, "low", |pod| pod.priority = 1);
    fixture.place(0, "not-started", |pod| pod.priority = 2);
    fixture.place(0, "old", |pod| (pod.priority, pod.started_at) = (2, Some(1000)));
    let pod = fixture.pod("pod", 10, |pod| pod.scheduler_name = Sym::CPU);
    let outcome = fixture.preempt(&pod, "");
    assert_eq!((outcome.nominate, &outcome.status), (Some(Some(NodeIdx(0))), &Status::success()));
    let expected = Effect::Evict {
        namespace: "default".to_owned(),
        name: "low".to_owned(),
        uid: "low".to_owned(),
        message: "cpu: preempting to accommodate a higher priority pod".to_owned(),
    };
    assert_eq!(outcome.effects, [expected]);
    fixture.capacity = 1;
    assert_eq!(victims_of(&fixture, &pod), ["old", "not-started", "low"]);
    fixture.capacity = 2;
    assert_eq!(victims_of(&fixture, &pod), ["not-started", "low"]);
}

#[test]
fn a_preemption_that_helps_says_so_from_1_37_on() {
    let mut fixture = Fixture::new(1, 1);
    fixture.place(0, "low", |_| {});
    let pod = fixture.pod("pod", 10, |_| {});
    let texts = Release::ALL.map(|release| {
        let args = serde_json::json!({Features::IN_ARGS: Features::of(release)}).to_string();
        fixture.preempt(&pod, &args).status
    });
    let text = "preemption: found a potential placement for pod on node n0, preempting 1 victims";
    assert_eq!(texts, [Status::success(), Status::new(Code::Success, vec![text.to_owned()])]);
}

#[test]
fn pods_of_equal_priority_are_no_victims() {
    let mut fixture = Fixture::new(2, 1);
    fixture.place(0, "equal", |pod| pod.priority = 10);
    fixture.place(1, "higher", |pod| pod.priority = 11);
    let pod = fixture.pod("pod", 10, |_| {});
    let outcome = fixture.preempt(&pod, "");
    let text = "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.";
    assert_eq!(outcome, PostFilterOutcome { nominate: Some(None), ..only_status(Status::unschedulable(text)) });
    assert_eq!(fixture.n_cases.get(), 0);
}

#[test]
fn only_resolvable_nodes_are_tried() {
    let mut fixture = Fixture::new(3, 1);
    (0..3).for_each(|node| fixture.place(node, &format!("p{node}"), |_| {}));
    let pod = fixture.pod("pod", 10, |_| {});
    let on = |node, status| RejectedNodes { status, nodes: NodeSet::from_iter([NodeIdx(node)]) };
    let hopeless = [on(0, Status::unresolvable("no")), on(1, Status::unresolvable("no"))];
    let absent = Status::unresolvable("never");
    let text = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    for absent in [None, Some(&absent)] {
        let outcome = fixture.preempt_after(&pod, "", &hopeless, absent);
        assert_eq!(outcome, PostFilterOutcome { nominate: Some(None), ..only_status(Status::unschedulable(text)) });
    }
    let outcome = fixture.preempt_after(&pod, "", &hopeless, Some(&Status::unschedulable("later")));
    assert_eq!(evicted(&outcome), ["p2"]);
    fixture.capacity = 0;
    let outcome = fixture.preempt_after(&pod, "", &[on(1, Status::unschedulable("full"))], None);
    let text = "preemption: 0/3 nodes are available: 1 Insufficient cpu, 2 Preemption is not helpful for scheduling.";
    assert_eq!(outcome.status, Status::unschedulable(text));
}

#[test]
fn preemption_policy_never_is_respected() {
    let mut fixture = Fixture::new(1, 1);
    fixture.place(0, "low", |_| {});
    let pod = fixture.pod("pod", 10, |pod| pod.never_preempts = true);
    let text = "preemption: not eligible due to preemptionPolicy=Never.";
    assert_eq!(fixture.preempt(&pod, ""), only_status(Status::unschedulable(text)));
}

#[test]
fn a_pod_gets_no_more_victims_while_its_victims_terminate() {
    let mut fixture = Fixture::new(2, 1);
    fixture.place(0, "terminating", |pod| (pod.terminating, pod.is_preempted) = (true, true));
    fixture.place(1, "low", |_| {});
    let node = fixture.cluster.sym("n0");
    let pod = fixture.pod("pod", 10, |pod| pod.nominated_node_name = node);
    let text = "preemption: not eligible due to a terminating pod on the nominated node.";
    assert_eq!(fixture.preempt(&pod, ""), only_status(Status::unschedulable(text)));
    // The pod may preempt on other nodes once its nominated node is unresolvable.
    let both = |status| RejectedNodes { status, nodes: NodeSet::from_iter([NodeIdx(0)]) };
    let outcome = fixture.preempt_after(
        &pod,
        "",
        &[both(Status::unresolvable("cordoned"))],
        Some(&Status::unschedulable("Insufficient cpu")),
    );
    assert_eq!(evicted(&outcome), ["low"]);
}

#[test]
fn terminating_victims_are_not_evicted_again() {
    let mut fixture = Fixture::new(1, 1);
    fixture.place(0, "terminating", |pod| pod.terminating = true);
    let lower = Arc::new(fixture.pod("lower", 5, |_| {}));
    fixture.nominated = vec![(NodeIdx(0), lower)];
    let pod = fixture.pod("pod", 10, |_| {});
    let outcome = fixture.preempt(&pod, "");
    assert_eq!((outcome.nominate, outcome.effects.len()), (Some(Some(NodeIdx(0))), 0));
}

#[test]
fn nominations_of_lower_priority_are_cleared() {
    let mut fixture = Fixture::new(2, 1);
    fixture.place(0, "low", |_| {});
    fixture.place(1, "middle", |pod| pod.priority = 5);
    for (node, name, priority) in [(0, "lower", 5), (0, "equal", 10), (1, "elsewhere", 5)] {
        let pod = fixture.pod(name, priority, |_| {});
        fixture.nominated.push((NodeIdx(node), Arc::new(pod)));
    }
    let pod = fixture.pod("pod", 10, |_| {});
    let outcome = fixture.preempt(&pod, "");
    assert_eq!(outcome.effects.first(), Some(&Effect::Nominate { uid: "lower".to_owned(), node: None }));
    assert_eq!(outcome.effects.len(), 2);
}

#[test]
fn violations_of_budgets_are_avoided_if_possible() {
    let mut fixture = Fixture::new(1, 2);
    let (web, other) = (labelled(&mut fixture, "web"), labelled(&mut fixture, "other"));
    fixture.place(0, "web-0", |pod| pod.labels = web.clone());
    fixture.place(0, "other", |pod| (pod.labels, pod.priority) = (other.clone(), 1));
    let pod = fixture.pod("pod", 10, |_| {});
    assert_eq!(victims_of(&fixture, &pod), ["web-0"]);
    let budget = |allowed, disrupted: serde_json::Value| {
        serde_json::json!({
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted}
        })
    };
    fixture.budget("web", budget(0, serde_json::Value::Null));
    assert_eq!(victims_of(&fixture, &pod), ["other"]);
    fixture.budget("web", budget(1, serde_json::json!({})));
    assert_eq!(victims_of(&fixture, &pod), ["web-0"]);
    fixture.budget("web", budget(0, serde_json::json!({"web-0": "2026-03-01T06:40:00Z"})));
    assert_eq!(victims_of(&fixture, &pod), ["web-0"]);
    for protects_nobody in [
        serde_json::json!({"spec": {"selector": {}}}),
        serde_json::json!({"spec": {}}),
        serde_json::json!({"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}}),
        serde_json::json!({"spec": 7}),
        serde_json::json!([]),
    ] {
        fixture.budget("web", protects_nobody);
        assert_eq!(victims_of(&fixture, &pod), ["web-0"]);
    }
}

#[test]
fn every_matching_budget_counts_a_victim() {
    let mut fixture = Fixture::new(1, 1);
    let web = labelled(&mut fixture, "web");
    for name in ["a", "b"] {
        fixture.place(0, name, |pod| pod.labels.clone_from(&web));
    }
    let selector = serde_json::json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
    for (name, allowed) in [("tight", 0), ("wide", 1)] {
        let status = serde_json::json!({"disruptionsAllowed": allowed});
        fixture.budget(name, serde_json::json!({"spec": {"selector": selector}, "status": status}));
    }
    let mut budgets = DisruptionBudgets::default();
    let table = fixture.cluster.table();
    budgets.refresh(table.objects());
    let pods: Vec<&Pod> = table.pods().iter().map(|(_, pod, _)| &**pod).collect();
    assert_eq!(budgets::violated(&budgets, table, pods.into_iter()), [true, true]);
}

#[test]
fn candidates_are_ranked_by_cost() {
    let victim = |priority, started_at| {
        let pod = Arc::new(Pod { priority, started_at, ..Pod::default() });
        Victim { idx: PodIdx(0), pod }
    };
    let candidate = |n_violations, victims: &[(i32, Option<i64>)]| Candidate {
        node: NodeIdx(0),
        victims: victims.iter().map(|&(priority, started_at)| victim(priority, started_at)).collect(),
        n_violations,
    };
    // Each candidate is better than the next.
    let ranked = [
        candidate(0, &[(-10, Some(5)), (-10, Some(5))]),
        candidate(0, &[(5, None)]),
        candidate(0, &[(5, Some(9))]),
        candidate(0, &[(5, Some(8))]),
        candidate(0, &[(5, Some(9)), (-20, Some(1))]),
        candidate(0, &[(5, Some(9)), (5, Some(9))]),
        candidate(0, &[(5, Some(9)), (5, Some(8))]),
        candidate(0, &[(6, Some(9))]),
        candidate(1, &[(-100, Some(9))]),
    ];
    for pair in ranked.windows(2) {
        let [better, worse] = pair else { unreachable!() };
        for order in [[better.clone(), worse.clone()], [worse.clone(), better.clone()]] {
            let best = ranking::best(&order).unwrap();
            assert_eq!(best.victims, better.victims, "{better:?} against {worse:?}");
        }
    }
}

#[test]
fn a_node_that_needs_no_victim_is_an_error() {
    let mut fixture = Fixture::new(1, 2);
    fixture.place(0, "low", |_| {});
    let pod = fixture.pod("pod", 10, |_| {});
    let text = r#"preemption: expected at least one victim pod on node "n0""#;
    assert_eq!(fixture.preempt(&pod, ""), only_status(Status::error(text)));
}

#[test]
fn enough_candidates_end_the_search() {
    let mut fixture = Fixture::new(50, 1);
    (0..50).for_each(|node| fixture.place(node, &format!("p{node}"), |_| {}));
    let pod = fixture.pod("pod", 10, |_| {});
    let few = r#"{"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 1}"#;
    let outcome = fixture.preempt(&pod, few);
    assert_eq!(fixture.n_cases.get(), 10, "five nodes, in two rounds");
    assert_eq!(fixture.preempt(&pod, few), outcome, "the same cycle decides the same");
    fixture.n_cases.set(0);
    fixture.preempt(&pod, "");
    assert_eq!(fixture.n_cases.get(), 100, "all of them");
}

#[test]
fn a_search_goes_on_while_every_candidate_violates_a_budget() {
    let mut fixture = Fixture::new(50, 1);
    let web = labelled(&mut fixture, "web");
    fixture.budget("web", serde_json::json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}}));
    for node in 0..49 {
        fixture.place(node, &format!("p{node}"), |pod| pod.labels.clone_from(&web));
    }
    fixture.place(49, "free", |pod| pod.priority = 9);
    let pod = fixture.pod("pod", 10, |_| {});
    for absolute in 1..20 {
        let args = format!(r#"{{"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": {absolute}}}"#);
        assert_eq!(evicted(&fixture.preempt(&pod, &args)), ["free"]);
    }
}

#[test]
fn args_are_checked() {
    for args in ["", "null", r#"{"minCandidateNodesPercentage": 0}"#, r#"{"minCandidateNodesAbsolute": 0}"#] {
        assert!(DefaultPreemption::new(args).is_ok(), "{args}");
    }
    for args in [
        r#"{"minCandidateNodesPercentage": 101}"#,
        r#"{"minCandidateNodesAbsolute": -1}"#,
        r#"{"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}"#,
        r#"{"nonsense": 1}"#,
    ] {
        assert!(DefaultPreemption::new(args).is_err(), "{args}");
    }
}

/// A dry run with pseudo-random results that a guess cannot predict.
struct RandomFit {
    seed: u64,
    n_calls: usize,
}

impl RandomFit {
    /// The pod always fits on an empty node.
    fn fits(&self, removed: &[PodIdx], n_pods: usize) -> bool {
        let bits = removed.iter().fold(self.seed, |bits, idx| bits ^ (1 << (idx.0 % 64)));
        removed.len() == n_pods || start_offset(bits, 3) == 0
    }
}

impl DryRun for RandomFit {
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status> {
        self.n_calls += 1;
        let status = |fits| if fits { Status::success() } else { Status::unschedulable("Insufficient cpu") };
        Ok(cases.iter().map(|case| status(self.fits(&case.pods, 24))).collect())
    }
}

/// A dry run that counts its calls. It does not count the cases.
struct Counted<'a>(FixedCapacity<'a>, usize);

impl DryRun for Counted<'_> {
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status> {
        self.1 += 1;
        self.0.dry_run(cases)
    }
}

#[test]
fn many_victims_take_few_dry_runs() {
    let mut fixture = Fixture::new(1, 1);
    (0..100).for_each(|index| fixture.place(0, &format!("p{index}"), |_| {}));
    let pod = fixture.pod("pod", 10, |_| {});
    let call = fixture.cluster.call(1, &pod);
    for capacity in [1, 50, 100] {
        let dry_run = FixedCapacity { table: fixture.cluster.table(), capacity, n_cases: &fixture.n_cases };
        let mut counted = Counted(dry_run, 0);
        let answers = victims::dry_run(&call, &[NodeIdx(0)], &DisruptionBudgets::default(), &mut counted).unwrap();
        assert_eq!(answers.first().unwrap().as_ref().unwrap().victims.len(), 101 - capacity);
        assert!(counted.1 < 20, "{} dry runs", counted.1);
    }
}

proptest! {
    /// Guesses do not change the result. The victims are the same as in a search with one case at a time.
    #[test]
    fn victims_are_those_of_asking_one_by_one(seed: u64) {
        let mut fixture = Fixture::new(1, 1);
        (0..24).for_each(|index| fixture.place(0, &format!("p{index:02}"), |_| {}));
        let pod = fixture.pod("pod", 10, |_| {});
        let call = fixture.cluster.call(1, &pod);
        let mut dry_run = RandomFit { seed, n_calls: 0 };
        let answers = victims::dry_run(&call, &[NodeIdx(0)], &DisruptionBudgets::default(), &mut dry_run).unwrap();
        let mut removed: Vec<PodIdx> = (0..24).map(PodIdx).collect();
        for idx in (0..24).map(PodIdx) {
            let others: Vec<PodIdx> = removed.iter().copied().filter(|other| *other != idx).collect();
            if dry_run.fits(&others, 24) {
                removed = others;
            }
        }
        let expected: Vec<String> = removed.iter().map(|idx| format!("p{:02}", idx.0)).collect();
        match answers.first().unwrap() {
            Ok(candidate) => {
                let names: Vec<String> = candidate.victims.iter().map(|victim| victim.pod.uid.to_string()).collect();
                prop_assert_eq!(names, expected);
            }
            Err(_) => prop_assert!(expected.is_empty()),
        }
        prop_assert!(dry_run.n_calls <= 25);
    }

    /// A dry run over all nodes gives each node the same result as a dry run of that node alone. The pod would not fit
    /// if any victim stayed.
    #[test]
    fn victims_are_needed_and_suffice(
        pods in prop::collection::vec((0u32..4, 0i32..12, prop::option::of(0i64..5)), 0..24),
        capacity in 1usize..6,
    ) {
        let mut fixture = Fixture::new(4, capacity);
        for (index, (node, priority, started_at)) in pods.iter().enumerate() {
            fixture.place(*node, &format!("p{index}"), |pod| (pod.priority, pod.started_at) = (*priority, *started_at));
        }
        let pod = fixture.pod("pod", 6, |_| {});
        let table = fixture.cluster.table();
        let call = fixture.cluster.call(1, &pod);
        let mut dry_run = FixedCapacity { table, capacity, n_cases: &fixture.n_cases };
        let nodes: Vec<NodeIdx> = table.nodes().iter().collect();
        let budgets = DisruptionBudgets::default();
        let together = victims::dry_run(&call, &nodes, &budgets, &mut dry_run).unwrap();
        for (&node, answer) in nodes.iter().zip(together) {
            let alone = victims::dry_run(&call, &[node], &budgets, &mut dry_run).unwrap().remove(0);
            let n_pods = table.pods().on(node).count();
            let n_lower = table.pods().on(node).filter(|(_, other)| other.priority < 6).count();
            match (answer, alone) {
                (Ok(together), Ok(alone)) => {
                    prop_assert_eq!(&together.victims, &alone.victims);
                    prop_assert_eq!(together.victims.len(), n_pods + 1 - capacity);
                    let highest = together.victims.first().unwrap().pod.priority;
                    let is_reprieved = |other: &Pod| !together.victims.iter().any(|victim| victim.pod.uid == other.uid);
                    let lower = table.pods().on(node).filter(|(_, other)| other.priority < highest);
                    prop_assert!(lower.into_iter().all(|(_, other)| !is_reprieved(other)));
                }
                (Err(together), Err(alone)) => {
                    prop_assert_eq!(together, alone);
                    prop_assert!(n_lower == 0 || n_pods - n_lower >= capacity || n_pods < capacity);
                }
                (together, alone) => prop_assert!(false, "{:?} and {:?}", together, alone),
            }
        }
    }
}
