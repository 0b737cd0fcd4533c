//! The calls of plugins when a PostFilter plugin asks about nodes without some of their pods.

use std::sync::Mutex;

use berth_model::{PodIdx, Time};

use super::*;
use crate::{DeltaSource, Hosted, Removal};

/// A plugin for nodes that hold two pods. It remembers its calls.
#[derive(Default)]
struct Room {
    manifest: Manifest,
    answer: Option<Result<Vec<Status>, Status>>,
    asked: Arc<Mutex<Vec<String>>>,
    /// The number of calls for which the plugin has time; unlimited by default.
    time: Option<usize>,
    /// Whether pods may do without the plugin.
    may_be_passed_over: bool,
    is_passed_over: bool,
    is_out_of_service: bool,
}

impl Plugin for Room {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn version(&self) -> PluginVersion {
        PluginVersion::default()
    }
    fn points(&self) -> Points {
        Points::of(&[Point::Filter])
    }
    fn at(&mut self, point: Point) -> Option<PointRef<'_>> {
        (point == Point::Filter && !self.is_passed_over).then_some(PointRef::Filter(self))
    }
    crate::hooks!(Hosted);
}

impl Hosted for Room {
    fn sync(&mut self, _source: &dyn DeltaSource) -> Result<(), Status> {
        Ok(())
    }
    fn out_of_service(&self) -> Option<Status> {
        self.is_out_of_service.then(|| Status::unresolvable("trapped"))
    }
    fn has_time(&mut self) -> Result<(), Status> {
        self.is_passed_over = self.may_be_passed_over && self.is_out_of_time();
        if self.is_out_of_time() && !self.is_passed_over { Err(Status::error("no time")) } else { Ok(()) }
    }
    fn is_out_of_time(&self) -> bool {
        self.time == Some(0)
    }
    fn answered_badly(&mut self, _reason: &str) {}
}

impl Filter for Room {
    fn filter(&mut self, _call: &Call<'_>, _candidates: &mut NodeSet) -> Result<(), Status> {
        Ok(())
    }
    fn node_to_status(&mut self, _call: &Call<'_>, _rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        Ok(Vec::new())
    }
    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        let named = |indices: &[u32]| indices.iter().map(|&at| &*pods[at as usize].name).collect::<Vec<_>>().join(",");
        self.time = self.time.map(|time| time.saturating_sub(1));
        let mut asked = self.asked.lock().expect("one thread");
        asked.extend(cases.iter().map(|it| format!("n{} -{} +{}", it.node.0, named(&it.minus), named(&it.plus))));
        let fits = |case: &DryRunCase| {
            let n_pods = call.table.pods().on(case.node).count() + case.plus.len() - case.minus.len();
            if n_pods < 2 { Status::success() } else { Status::unschedulable(format!("{n_pods} pods")) }
        };
        self.answer.clone().unwrap_or_else(|| Ok(cases.iter().map(fits).collect()))
    }
}

/// A PostFilter plugin that asks about a node.
struct Preempts(Manifest);

impl Plugin for Preempts {
    fn manifest(&self) -> &Manifest {
        &self.0
    }
    fn version(&self) -> PluginVersion {
        PluginVersion::default()
    }
    fn points(&self) -> Points {
        Points::of(&[Point::PostFilter])
    }
    fn at(&mut self, point: Point) -> Option<PointRef<'_>> {
        (point == Point::PostFilter).then_some(PointRef::PostFilter(self))
    }
    crate::hooks!();
}

impl PostFilter for Preempts {
    fn post_filter(
        &mut self,
        _call: &Call<'_>,
        _failure: &Failure<'_>,
        dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        let statuses = dry_run.dry_run(&[removal(0, &[])])?;
        Ok(PostFilterOutcome { status: statuses[0].clone(), nominate: None, effects: Vec::new() })
    }
}

/// A cluster of two nodes with two pods each; `rival` is nominated to the second node.
fn ask(plugins: Vec<Room>, skipped: Option<u32>, cases: &[Removal]) -> (Result<Vec<Status>, Status>, Vec<String>) {
    let asked = plugins.first().map(|plugin| Arc::clone(&plugin.asked)).unwrap_or_default();
    let mut profile = Profile::new("test");
    for plugin in plugins {
        profile.add_everywhere(Box::new(plugin), "null");
    }
    let mut table = table(2);
    for (idx, name) in (0u32..).zip(["a", "b", "c", "d"]) {
        let pod = Arc::new(Pod { name: Arc::from(name), ..Pod::default() });
        table.pods_mut().place(PodIdx(idx), pod, NodeIdx(idx / 2));
    }
    let pod = Pod::default();
    let rival = Arc::new(Pod { name: Arc::from("rival"), uid: "rival".into(), ..Pod::default() });
    let call = Call::new(CycleId(1), Time::default(), &pod, &table);
    let mut findings = Findings::default();
    skipped.into_iter().for_each(|plugin| findings.skipped_filters.insert(PluginIdx(plugin)));
    let nominated = NominatedPods::new(&table, &pod, [(table.name(NodeIdx(1)), &rival)]);
    let statuses = dry_run(&mut profile, &call, &findings, &nominated, cases);
    let asked = std::mem::take(&mut *asked.lock().expect("one thread"));
    (statuses, asked)
}

fn removal(node: u32, pods: &[u32]) -> Removal {
    Removal { node: NodeIdx(node), pods: pods.iter().map(|&idx| PodIdx(idx)).collect() }
}

#[test]
fn nominated_pods_count_and_then_do_not() {
    let cases = [removal(0, &[]), removal(0, &[1]), removal(1, &[3]), removal(1, &[2, 3]), removal(1, &[99])];
    let (statuses, asked) = ask(vec![Room::default()], None, &cases);
    let texts: Vec<String> = statuses.expect("statuses").iter().map(Status::message).collect();
    assert_eq!(texts, ["2 pods", "", "2 pods", "", "3 pods"]);
    let crowded = ["n1 -d +rival", "n1 -c,d +rival", "n1 - +rival"];
    let alone = ["n0 - +", "n0 -b +", "n1 -c,d +"];
    assert_eq!(asked, [&crowded[..], &alone[..]].concat());
}

#[test]
fn the_first_plugin_that_objects_speaks() {
    let saying = |text: &str| Room { answer: Some(Ok(vec![Status::unresolvable(text)])), ..Room::default() };
    let case = [removal(0, &[0])];
    let (statuses, _) = ask(vec![Room::default(), saying("first"), saying("second")], None, &case);
    assert_eq!(statuses, Ok(vec![Status::unresolvable("first")]));
    let (statuses, _) = ask(vec![Room::default(), saying("first"), saying("second")], Some(1), &case);
    assert_eq!(statuses, Ok(vec![Status::unresolvable("second")]), "a plugin that skipped is not asked");
    assert_eq!(ask(vec![saying("first")], None, &[]).0, Ok(Vec::new()));
}

#[test]
fn a_broken_plugin_ends_the_dry_run() {
    let answering = |answer| Room { answer: Some(answer), ..Room::default() };
    let cases = [removal(0, &[0]), removal(0, &[1])];
    for (answer, text) in
        [(Err(Status::error("boom")), "boom"), (Ok(vec![Status::success()]), "1 statuses for 2 cases")]
    {
        let (statuses, _) = ask(vec![answering(answer)], None, &cases);
        assert_eq!(statuses, Err(Status::error(format!("running \"\" filter plugin: {text}"))));
    }
    // A failure about one node does not affect other nodes.
    let (statuses, _) = ask(vec![answering(Ok(vec![Status::error("boom"), Status::success()]))], None, &cases);
    assert_eq!(statuses, Ok(vec![Status::error("running \"\" filter plugin: boom"), Status::success()]));
}

#[test]
fn a_pod_waits_for_the_next_instance_of_a_plugin_that_faulted_in_its_preemption() {
    let blamed = |is_out_of_service| {
        let manifest = |name: &str| Manifest { name: name.to_owned(), ..Manifest::default() };
        let answer = Some(Err(Status::error("boom")));
        let room = Room { manifest: manifest("Room"), answer, is_out_of_service, ..Room::default() };
        let mut profile = Profile::new("test");
        profile.add_everywhere(Box::new(room), "null");
        profile.add_everywhere(Box::new(Preempts(manifest("Preempts"))), "null");
        let (table, pod, mut diagnosis) = (table(2), Pod::default(), Diagnosis::default());
        let call = Call::new(CycleId(1), Time::default(), &pod, &table);
        post_filter(&mut profile, &call, &Findings::default(), &NominatedPods::default(), None, &mut diagnosis);
        let blamed: Vec<String> = diagnosis.rejectors.iter().map(|plugin| profile.name(plugin).to_string()).collect();
        (diagnosis.post_filter.status.map(|status| status.message()), blamed)
    };
    let broken = Some("running \"Room\" filter plugin: boom".to_owned());
    assert_eq!(blamed(true), (broken.clone(), vec!["Room".to_owned()]));
    assert_eq!(blamed(false), (broken, Vec::new()), "an error is not a fault");
}

#[test]
fn a_plugin_is_asked_for_as_long_as_it_has_time() {
    // Cases with nominated pods come first.
    let cases = [removal(1, &[2, 3]), removal(0, &[0])];
    let hurried = || Room { time: Some(1), ..Room::default() };
    let (statuses, asked) = ask(vec![hurried()], None, &cases);
    assert_eq!(statuses, Err(Status::error("running \"\" filter plugin: no time")));
    assert_eq!(asked, ["n1 -c,d +rival"]);
    let (statuses, asked) = ask(vec![Room { may_be_passed_over: true, ..hurried() }], None, &cases);
    assert_eq!(statuses, Ok(vec![Status::success(); 2]), "pods do without it from there on");
    assert_eq!(asked.len(), 1);
}

#[test]
fn questions_that_make_no_sense_are_turned_down() {
    let (statuses, asked) = ask(vec![Room::default()], None, &[removal(0, &[]), removal(7, &[])]);
    assert_eq!(statuses, Err(Status::error("dry run for row 7, which contains no node")));
    assert!(asked.is_empty());
    let many = vec![removal(0, &[]); 129];
    let (statuses, _) = ask(vec![Room::default()], None, &many);
    assert_eq!(statuses, Err(Status::error("129 dry runs at once exceed the limit of 128")));
}
