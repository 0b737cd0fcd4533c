//! The rules of each point, with scripted plugins.

mod bad_scores;
mod decision;
mod dry_run;
mod extend;
mod unlisted;

use std::sync::Arc;

use berth_model::{ClusterTable, Node, NodeIdx, NodeSet, Pod, Sym, Time, pod::Resources};

use super::*;
use crate::{
    Call, CycleId, DryRun, DryRunCase, Failure, Filter, Manifest, Normalize, Plugin, PluginVersion, Point, PointRef,
    Points, PostFilter, PostFilterOutcome, PreFilter, PreScore, RejectedNodes, Score,
};

type PreFilterSays = Result<Option<Vec<String>>, Status>;

/// A plugin that gives scripted answers. The plugin implements only the points for which the script has an answer.
#[derive(Default)]
struct Scripted {
    manifest: Manifest,
    pre_filter: Option<PreFilterSays>,
    /// The nodes that the plugin rejects, and the status.
    filter: Option<(Vec<u32>, Status)>,
    /// The nodes that the plugin rejects once nominated pods are there.
    with_nominated: Vec<u32>,
    pre_score: Option<Result<(), Status>>,
    score: Option<Vec<i64>>,
    /// A score for all nodes. Score must not be called in this case.
    common_score: Option<i64>,
    normalize: Option<i64>,
    post_filter: Option<(Status, Option<Option<NodeIdx>>)>,
}

impl Scripted {
    fn called(name: &str) -> Self {
        Self { manifest: Manifest { name: name.to_owned(), ..Manifest::default() }, ..Self::default() }
    }

    fn pre_filter(mut self, says: PreFilterSays) -> Self {
        self.pre_filter = Some(says);
        self
    }

    fn rejecting(mut self, nodes: &[u32], status: Status) -> Self {
        self.filter = Some((nodes.to_vec(), status));
        self
    }

    fn scoring(mut self, scores: &[i64]) -> Self {
        self.score = Some(scores.to_vec());
        self
    }
}

impl Plugin for Scripted {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn points(&self) -> Points {
        let points = [
            (Point::PreFilter, self.pre_filter.is_some()),
            (Point::Filter, self.filter.is_some()),
            (Point::PreScore, self.pre_score.is_some()),
            (Point::Score, self.score.is_some()),
            (Point::Normalize, self.normalize.is_some()),
            (Point::PostFilter, self.post_filter.is_some()),
        ];
        points.into_iter().filter(|(_, implements)| *implements).map(|(point, _)| point).collect()
    }
    fn version(&self) -> PluginVersion {
        PluginVersion::default()
    }
    fn at(&mut self, point: Point) -> Option<PointRef<'_>> {
        if !self.points().contains(point) {
            return None;
        }
        match point {
            Point::PreFilter => Some(PointRef::PreFilter(self)),
            Point::Filter => Some(PointRef::Filter(self)),
            Point::PreScore => Some(PointRef::PreScore(self)),
            Point::Score => Some(PointRef::Score(self)),
            Point::Normalize => Some(PointRef::Normalize(self)),
            Point::PostFilter => Some(PointRef::PostFilter(self)),
            Point::PreEnqueue
            | Point::QueueSort
            | Point::Reserve
            | Point::Permit
            | Point::PreBindPreFlight
            | Point::PreBind
            | Point::Bind
            | Point::PostBind
            | Point::QueueingHint
            | Point::Sign
            | Point::Explain => None,
        }
    }
    crate::hooks!();
}

impl PreFilter for Scripted {
    fn pre_filter(&mut self, _call: &Call<'_>) -> PreFilterSays {
        self.pre_filter.clone().unwrap_or(Ok(None))
    }
}

impl Filter for Scripted {
    fn filter(&mut self, _call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        let Some((nodes, status)) = &self.filter else { return Ok(()) };
        if status.code == Code::Error {
            return Err(status.clone());
        }
        nodes.iter().for_each(|&node| candidates.remove(NodeIdx(node)));
        Ok(())
    }
    fn node_to_status(&mut self, _call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        let status = self.filter.as_ref().map(|(_, status)| status.clone()).unwrap_or_else(Status::success);
        Ok(vec![RejectedNodes { status, nodes: rejected.clone() }])
    }
    fn dry_run(&mut self, _call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        let status = |case: &DryRunCase| match self.with_nominated.contains(&case.node.0) {
            true => Status::unschedulable("promised to others"),
            false => Status::success(),
        };
        Ok(cases.iter().map(status).collect())
    }
}

impl PreScore for Scripted {
    fn pre_score(&mut self, _call: &Call<'_>, _nodes: &NodeSet) -> Result<(), Status> {
        self.pre_score.clone().unwrap_or(Ok(()))
    }
}

impl Score for Scripted {
    fn score(&mut self, _call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        let given = self.score.clone().unwrap_or_default();
        scores.extend(nodes.iter().filter_map(|node| given.get(node.index())));
        Ok(())
    }
    fn common_score(&mut self, _call: &Call<'_>, _nodes: &NodeSet) -> Option<i64> {
        self.common_score
    }
}

impl Normalize for Scripted {
    fn normalize(&mut self, _call: &Call<'_>, _nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status> {
        scores.iter_mut().for_each(|score| *score /= self.normalize.unwrap_or(1));
        Ok(())
    }
}

impl PostFilter for Scripted {
    fn post_filter(
        &mut self,
        _call: &Call<'_>,
        _failure: &Failure<'_>,
        _dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        let (status, nominate) = self.post_filter.clone().ok_or_else(Status::skip)?;
        Ok(PostFilterOutcome { status, nominate, effects: Vec::new() })
    }
}

fn profile(plugins: Vec<Scripted>) -> Profile {
    let mut profile = Profile::new("test");
    for plugin in plugins {
        profile.add_everywhere(Box::new(plugin), "null");
    }
    profile
}

fn table(n_nodes: u32) -> ClusterTable {
    let mut table = ClusterTable::default();
    for index in 0..n_nodes {
        let node = Node { name: table.symbols.intern(&format!("n{index}")), ..Node::default() };
        table.add_node(NodeIdx(index));
        table.set_name(NodeIdx(index), node.name);
        table.set_allocatable(NodeIdx(index), &Resources::default(), 110);
    }
    table
}

fn place_in(n_nodes: u32, profile: &mut Profile, pod: &Pod, nominated: &NominatedPods<'_>) -> Decision {
    let table = table(n_nodes);
    let order: Vec<NodeIdx> = table.nodes().iter().collect();
    let pod = Pod {
        nominated_node_name: if pod.nominated_node_name.is_none() {
            Sym::NONE
        } else {
            table.symbols.lookup("n1").expect("a node")
        },
        ..pod.clone()
    };
    let call = Call::new(CycleId(1), Time::default(), &pod, &table);
    let search =
        NodeSearch { order: &order, start: 0, percentage_of_nodes_to_score: 0, nominated, hint: None, extenders: None };
    let mut attempt = Attempt::default();
    place(profile, &call, &search, None, &mut attempt)
}

fn place_on(n_nodes: u32, plugins: Vec<Scripted>) -> (Decision, Profile) {
    let mut profile = profile(plugins);
    (place_in(n_nodes, &mut profile, &Pod::default(), &NominatedPods::default()), profile)
}

/// The message of a pod that fits on no node, and the plugins that rejected it.
fn rejection(n_nodes: u32, plugins: Vec<Scripted>) -> (String, Vec<Arc<str>>) {
    let (placed, profile) = place_on(n_nodes, plugins);
    match placed.outcome {
        Err(NoNode::Rejected(diagnosis)) => {
            let blamed = diagnosis.rejectors.iter().map(|plugin| Arc::clone(profile.name(plugin))).collect();
            (diagnosis.message(), blamed)
        }
        other => panic!("not rejected: {other:?}"),
    }
}

fn broken(n_nodes: u32, plugins: Vec<Scripted>) -> String {
    match place_on(n_nodes, plugins).0.outcome {
        Err(NoNode::Broken(status)) => status.message(),
        other => panic!("not broken: {other:?}"),
    }
}

fn names(names: &[&str]) -> PreFilterSays {
    Ok(Some(names.iter().map(|&name| name.to_owned()).collect()))
}

#[test]
fn node_names_are_intersected() {
    let plugins = vec![
        Scripted::called("A").pre_filter(names(&["n0", "n1", "gone"])),
        Scripted::called("B").pre_filter(names(&["n1", "n2", "gone"])),
    ];
    let (placed, _) = place_on(4, plugins);
    assert_eq!(placed.findings.sample.n_visited, 1, "no other node is a candidate");
    assert!(matches!(placed.outcome, Ok(NodeIdx(1))));
}

#[test]
fn an_empty_intersection_turns_the_pod_down() {
    let alone = vec![Scripted::called("A").pre_filter(names(&[]))];
    let message = "0/3 nodes are available: node(s) didn't satisfy plugin A.";
    assert_eq!(rejection(3, alone), (message.to_owned(), vec![Arc::from("A")]));
    let together =
        vec![Scripted::called("B").pre_filter(names(&["n0"])), Scripted::called("A").pre_filter(names(&["n1"]))];
    let message = "0/3 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously.";
    assert_eq!(rejection(3, together), (message.to_owned(), vec![Arc::from("B"), Arc::from("A")]));
}

#[test]
fn excluded_nodes_count_in_the_message() {
    let plugins = vec![
        Scripted::called("A").pre_filter(names(&["n0"])),
        Scripted::called("F").rejecting(&[0], Status::unschedulable("Insufficient cpu")),
    ];
    let message = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [A].";
    assert_eq!(rejection(3, plugins), (message.to_owned(), vec![Arc::from("A"), Arc::from("F")]));
}

#[test]
fn unresolvable_stops_pre_filter_and_unschedulable_does_not() {
    let stop = || Scripted::called("Stop").pre_filter(Err(Status::unresolvable("never")));
    let weak = || Scripted::called("Weak").pre_filter(Err(Status::unschedulable("not yet")));
    assert_eq!(rejection(1, vec![weak(), stop()]).0, "0/1 nodes are available: never.");
    assert_eq!(rejection(1, vec![stop(), weak()]).0, "0/1 nodes are available: never.");
    let fine = Scripted::called("Fine").pre_filter(Ok(None));
    let (placed, _) = place_on(1, vec![weak(), fine]);
    assert_eq!(placed.findings.pre_filters.len(), 2, "the others are asked all the same");
    assert!(matches!(placed.outcome, Err(NoNode::Rejected(_))));
    let pending = Scripted::called("P").pre_filter(Err(Status::new(Code::Pending, ["soon"])));
    assert_eq!(broken(1, vec![pending]), "running PreFilter plugin \"P\": soon");
}

/// kube-scheduler returns the restricting plugins beside a remembered `Unschedulable`, but not beside
/// `UnschedulableAndUnresolvable` (`RunPreFilterPlugins` in `pkg/scheduler/framework/runtime/framework.go`).
#[test]
fn plugins_that_restricted_the_nodes_count_beside_an_unschedulable_pre_filter() {
    let narrow = || Scripted::called("Narrow").pre_filter(names(&["n0"]));
    let weak = || Scripted::called("Weak").pre_filter(Err(Status::unschedulable("not yet")));
    let stop = Scripted::called("Stop").pre_filter(Err(Status::unresolvable("never")));
    let message = "0/2 nodes are available: not yet.".to_owned();
    let both = vec![Arc::from("Narrow"), Arc::from("Weak")];
    assert_eq!(rejection(2, vec![narrow(), weak()]), (message, both));
    assert_eq!(rejection(2, vec![weak(), narrow()]).1, [Arc::from("Weak"), Arc::from("Narrow")]);
    assert_eq!(rejection(2, vec![narrow(), stop]).1, [Arc::from("Stop")]);
}

#[test]
fn a_skipped_filter_is_not_asked() {
    let plugin = Scripted::called("A").pre_filter(Err(Status::skip())).rejecting(&[0], Status::unschedulable("no"));
    assert!(place_on(1, vec![plugin]).0.outcome.is_ok());
}

#[test]
fn reasons_are_counted_and_sorted_as_text() {
    let plugins = vec![
        Scripted::called("A").rejecting(&[0, 1], Status::new(Code::Unschedulable, ["x", "y"])),
        Scripted::called("B").rejecting(&(1..12).collect::<Vec<_>>(), Status::unresolvable("z")),
    ];
    let (message, blamed) = rejection(12, plugins);
    assert_eq!(message, "0/12 nodes are available: 10 z, 2 x, 2 y.");
    assert_eq!(blamed, [Arc::from("A"), Arc::from("B")]);
    let broken_filter = Scripted::called("A").rejecting(&[], Status::error("boom"));
    assert_eq!(broken(1, vec![broken_filter]), "running \"A\" filter plugin: boom");
}

#[test]
fn promised_nodes_must_pass_with_the_promise_kept() {
    let mut plugin = Scripted::called("A").rejecting(&[1], Status::unschedulable("full"));
    plugin.with_nominated = vec![0];
    let mut profile = profile(vec![plugin]);
    let (table, other) = (table(2), Arc::new(Pod { uid: "other".into(), ..Pod::default() }));
    let nominated = NominatedPods::new(&table, &Pod::default(), [(table.name(NodeIdx(0)), &other)]);
    let placed = place_in(2, &mut profile, &Pod::default(), &nominated);
    let Err(NoNode::Rejected(diagnosis)) = placed.outcome else { panic!("it fits nowhere") };
    assert_eq!(diagnosis.message(), "0/2 nodes are available: 1 full, 1 promised to others.");
}

#[test]
fn the_pods_own_nomination_comes_first() {
    let scoring = || Scripted::called("A").scoring(&[100, 0, 100]);
    let pod = Pod { nominated_node_name: Sym(1), ..Pod::default() };
    let placed = place_in(3, &mut profile(vec![scoring()]), &pod, &NominatedPods::default());
    assert!(matches!(placed.outcome, Ok(NodeIdx(1))));
    assert_eq!(placed.findings.sample.n_visited, 0, "the rotation does not move on");
    let full = Scripted::called("F").rejecting(&[1], Status::unschedulable("full"));
    let placed = place_in(3, &mut profile(vec![scoring(), full]), &pod, &NominatedPods::default());
    assert!(matches!(placed.outcome, Ok(NodeIdx(0))));
}

#[test]
fn scores_are_normalised_weighted_and_summed() {
    let mut large = Scripted::called("Large").scoring(&[10, 300, 500]);
    large.normalize = Some(10);
    let mut silent = Scripted::called("Silent").scoring(&[100, 100, 100]);
    silent.pre_score = Some(Err(Status::skip()));
    let plugins = vec![large, silent, Scripted::called("Small").scoring(&[7, 0, 9])];
    let mut profile = profile(plugins);
    profile.plugins.set_weight(PluginIdx(2), 3);
    let placed = place_in(3, &mut profile, &Pod::default(), &NominatedPods::default());
    assert_eq!(placed.findings.totals, [1 + 21, 30, 50 + 27]);
    let raw: Vec<_> = placed.findings.plugin_scores().map(|scores| scores.raw().collect::<Vec<_>>()).collect();
    assert_eq!(raw, [vec![10, 300, 500], vec![7, 0, 9]]);
    assert_eq!(placed.findings.skipped_scores.iter().collect::<Vec<_>>(), [PluginIdx(1)]);
    assert!(matches!(placed.outcome, Ok(NodeIdx(2))));
}

#[test]
fn a_common_score_counts_for_each_node() {
    let common =
        |score| Scripted { common_score: Some(score), normalize: Some(10), ..Scripted::called("Common").scoring(&[]) };
    let mut profile = profile(vec![common(70), Scripted::called("Small").scoring(&[7, 9, 0])]);
    profile.plugins.set_weight(PluginIdx(0), 3);
    let placed = place_in(3, &mut profile, &Pod::default(), &NominatedPods::default());
    assert_eq!(placed.findings.totals, [21 + 7, 21 + 9, 21]);
    let scores = placed.findings.plugin_scores().next().unwrap();
    assert!(scores.raw().eq([70; 3]) && scores.normalized().eq([7; 3]));
    let error = "applying score defaultWeights on Score plugins: plugin \"Common\" returns an invalid score 101, it should in the \
                 range of [0, 100] after normalizing";
    assert_eq!(broken(2, vec![common(1010)]), error);
}

#[test]
fn impossible_scores_break_the_attempt() {
    assert_eq!(
        broken(2, vec![Scripted::called("A").scoring(&[0, 101])]),
        "applying score defaultWeights on Score plugins: plugin \"A\" returns an invalid score 101, it should in the \
         range of [0, 100] after normalizing"
    );
    assert_eq!(
        broken(2, vec![Scripted::called("A").scoring(&[1])]),
        "running Score plugins: plugin \"A\" failed with: 1 scores for 2 nodes"
    );
    let mut plugin = Scripted::called("A").scoring(&[1, 1]);
    plugin.pre_score = Some(Err(Status::error("boom")));
    assert_eq!(broken(2, vec![plugin]), "running PreScore plugin \"A\": boom");
}

#[test]
fn one_feasible_node_is_not_scored() {
    let (placed, _) = place_on(1, vec![Scripted::called("A").scoring(&[-5])]);
    assert!(matches!(placed.outcome, Ok(NodeIdx(0))));
}

#[test]
fn post_filter_goes_on_until_someone_knows() {
    let answer = |name: &str, status: Status, nominate| {
        let mut plugin = Scripted::called(name);
        plugin.post_filter = Some((status, nominate));
        plugin
    };
    let no = || answer("No", Status::unschedulable("no victims"), Some(None));
    let yes = || answer("Yes", Status::success(), Some(Some(NodeIdx(1))));
    let run = |plugins| {
        let (table, pod, mut diagnosis) =
            (table(2), Pod::default(), Diagnosis { n_all_nodes: 2, ..Diagnosis::default() });
        let call = Call::new(CycleId(1), Time::default(), &pod, &table);
        let (findings, nobody) = (Findings::default(), NominatedPods::default());
        post_filter(&mut profile(plugins), &call, &findings, &nobody, None, &mut diagnosis);
        (diagnosis.post_filter.nominate, diagnosis.message())
    };
    assert_eq!(run(vec![no(), yes(), no()]), (Some(Some(NodeIdx(1))), "0/2 nodes are available:".to_owned()));
    let twice = "0/2 nodes are available: no victims, no victims".to_owned();
    assert_eq!(run(vec![no(), no()]), (Some(None), twice));
    let never = |nominate| answer("Never", Status::unresolvable("hopeless"), nominate);
    let hopeless = "0/2 nodes are available: hopeless".to_owned();
    assert_eq!(run(vec![never(None), yes()]), (None, hopeless.clone()));
    assert_eq!(run(vec![no(), never(None)]), (None, hopeless.clone()), "only the last answer nominates");
    assert_eq!(run(vec![never(Some(None)), yes()]), (Some(None), hopeless));
    let fails = answer("Fails", Status::error("boom"), Some(Some(NodeIdx(1))));
    let boom = "0/2 nodes are available: boom".to_owned();
    assert_eq!(run(vec![no(), fails, yes()]), (None, boom), "an error leaves the nomination as it is");
    let soon = answer("Soon", Status::new(Code::Pending, ["soon"]), None);
    assert_eq!(run(vec![no(), soon]), (Some(None), "0/2 nodes are available: no victims, soon".to_owned()));
    assert_eq!(run(Vec::new()), (Some(None), "0/2 nodes are available:".to_owned()), "nothing can make room");
}

#[test]
fn a_nomination_outlives_the_restriction_of_pre_filter() {
    let narrow = || Scripted::called("A").pre_filter(names(&["n0"]));
    let pod = Pod { nominated_node_name: Sym(1), ..Pod::default() };
    let placed = place_in(3, &mut profile(vec![narrow()]), &pod, &NominatedPods::default());
    assert!(matches!(placed.outcome, Ok(NodeIdx(1))));
    let full = Scripted::called("F").rejecting(&[0, 1], Status::unschedulable("full"));
    let placed = place_in(3, &mut profile(vec![narrow(), full]), &pod, &NominatedPods::default());
    let Err(NoNode::Rejected(diagnosis)) = placed.outcome else { panic!("it fits nowhere") };
    assert_eq!(diagnosis.message(), "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [A], 2 full.");
}
