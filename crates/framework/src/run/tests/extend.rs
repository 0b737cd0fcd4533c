//! Tests of extenders: how extenders filter, and how their scores count.

use berth_model::PodIdx;

use super::*;
use crate::{
    Code,
    extender::{ExtenderError, ExtenderIdx, ExtenderProfile, ExtenderVerdict, ExtenderVictims, Extenders, binder},
    points::Preemption,
    run::extend::preempt_by_extenders,
};

/// An extender and its answers.
#[derive(Clone, Debug, Default)]
struct Played {
    profile: ExtenderProfile,
    is_not_interested: bool,
    /// The verdict; `None` if the extender fails.
    verdict: Option<ExtenderVerdict>,
    scores: Vec<(String, i64)>,
    /// The nodes that the extender agrees to, with the uids of victims; `None` if the extender fails.
    victims: Option<Vec<(&'static str, Vec<&'static str>)>>,
}

#[derive(Debug)]
struct Group(Vec<Played>, Vec<ExtenderProfile>);

impl Extenders for Group {
    fn list(&self) -> &[ExtenderProfile] {
        &self.1
    }
    fn is_interested(&self, extender: ExtenderIdx, _: &Pod) -> bool {
        !self.0[extender.0].is_not_interested
    }
    fn filter(&self, extender: ExtenderIdx, _: &Call<'_>, _: &[NodeIdx]) -> Result<ExtenderVerdict, ExtenderError> {
        self.0[extender.0].verdict.clone().ok_or_else(|| ExtenderError::new("it hangs"))
    }
    fn preempt(
        &self,
        extender: ExtenderIdx,
        _: &Call<'_>,
        _: &[Preemption],
    ) -> Result<Vec<ExtenderVictims>, ExtenderError> {
        let victims = self.0[extender.0].victims.clone().ok_or_else(|| ExtenderError::new("it hangs"))?;
        let victims = victims.into_iter().map(|(node, uids)| ExtenderVictims {
            node: node.to_owned(),
            uids: uids.into_iter().map(str::to_owned).collect(),
            n_violations: 1,
        });
        Ok(victims.collect())
    }
    fn prioritize(
        &self,
        extenders: &[ExtenderIdx],
        _: &Call<'_>,
        _: &[NodeIdx],
    ) -> Vec<(ExtenderIdx, Vec<(String, i64)>)> {
        extenders.iter().map(|extender| (*extender, self.0[extender.0].scores.clone())).collect()
    }
}

fn names(nodes: &[u32]) -> Vec<String> {
    nodes.iter().map(|node| format!("n{node}")).collect()
}

fn passing(nodes: &[u32]) -> Played {
    let verdict = ExtenderVerdict { passed: names(nodes), ..ExtenderVerdict::default() };
    let profile = ExtenderProfile { filters: true, ..ExtenderProfile::default() };
    Played { profile, verdict: Some(verdict), ..Played::default() }
}

fn scoring(weight: i64, scores: &[i64]) -> Played {
    let profile = ExtenderProfile { weight: Some(weight), ..ExtenderProfile::default() };
    let scores = (0..).zip(scores).map(|(node, score)| (format!("n{node}"), *score)).collect();
    Played { profile, scores, ..Played::default() }
}

fn group(extenders: Vec<Played>) -> Group {
    let profiles = extenders.iter().map(|extender| extender.profile.clone()).collect();
    Group(extenders, profiles)
}

fn place_with(plugins: Vec<Scripted>, extenders: Vec<Played>) -> Decision {
    let table = table(3);
    let order: Vec<NodeIdx> = table.nodes().iter().collect();
    let (mut profile, extenders, nominated) = (profile(plugins), group(extenders), NominatedPods::default());
    let pod = Pod::default();
    let call = Call::new(CycleId(1), Time::default(), &pod, &table);
    let search = NodeSearch {
        order: &order,
        start: 0,
        percentage_of_nodes_to_score: 0,
        nominated: &nominated,
        hint: None,
        extenders: Some(&extenders),
    };
    let mut attempt = Attempt::default();
    place(&mut profile, &call, &search, None, &mut attempt)
}

#[test]
fn scores_are_weighed_and_stretched_to_the_plugins_range() {
    let plugin = || vec![Scripted::called("A").scoring(&[100, 30, 30])];
    let placed = place_with(plugin(), vec![scoring(1, &[0, 5, 10]), scoring(2, &[0, 1, 0])]);
    assert_eq!(placed.findings.totals, [100, 30 + 10 * (5 + 2), 30 + 10 * 10]);
    assert_eq!(placed.outcome.expect("a node"), NodeIdx(2));
    let silent = Played { is_not_interested: true, ..scoring(9, &[0, 10, 0]) };
    assert_eq!(place_with(plugin(), vec![silent]).findings.totals, [100, 30, 30]);
}

#[test]
fn each_extender_filters_what_the_one_before_left() {
    let placed = place_with(vec![], vec![passing(&[0, 1]), passing(&[1, 2])]);
    assert_eq!(placed.outcome.expect("a node"), NodeIdx(1));
    let silent = Played { is_not_interested: true, ..passing(&[]) };
    assert_eq!(place_with(vec![], vec![silent, passing(&[2])]).outcome.expect("a node"), NodeIdx(2));
}

#[test]
fn rejections_of_extenders_are_told_and_nobody_else_is_blamed() {
    let mut picky = passing(&[]);
    picky.verdict = Some(ExtenderVerdict {
        failed: vec![("n0".to_owned(), "busy".to_owned()), ("n1".to_owned(), "busy".to_owned())],
        unresolvable: vec![("n1".to_owned(), "too old".to_owned())],
        ..ExtenderVerdict::default()
    });
    let Err(NoNode::Rejected(diagnosis)) = place_with(vec![], vec![picky]).outcome else { panic!("a rejection") };
    assert_eq!(diagnosis.message(), "0/3 nodes are available: 1 busy, 1 too old.");
    assert!(diagnosis.rejected_by_extender && diagnosis.rejectors.iter().next().is_none());
    let codes: Vec<Code> = diagnosis.rejections.iter().map(|rejection| rejection.status.code).collect();
    assert_eq!(codes, [Code::Unschedulable, Code::UnschedulableAndUnresolvable]);
}

#[test]
fn an_extender_that_fails_is_passed_over_only_if_it_may_be() {
    let mut failing = passing(&[]);
    failing.verdict = None;
    let Err(NoNode::Broken(status)) = place_with(vec![], vec![failing.clone()]).outcome else { panic!("an error") };
    assert_eq!(status, Status::error("it hangs"));
    failing.profile.is_ignorable = true;
    assert!(place_with(vec![], vec![failing]).outcome.is_ok());
}

#[test]
fn the_first_interested_binder_binds() {
    let binding = |is_not_interested| {
        let profile = ExtenderProfile { binds: true, ..ExtenderProfile::default() };
        Played { profile, is_not_interested, ..Played::default() }
    };
    let extenders = group(vec![passing(&[]), binding(true), binding(false)]);
    assert_eq!(binder(&extenders, &Pod::default(), None), Some(ExtenderIdx(2)));
    assert_eq!(binder(&extenders, &Pod::default(), Some(ExtenderIdx(2))), None);
}

fn preempting(victims: Vec<(&'static str, Vec<&'static str>)>) -> Played {
    let profile = ExtenderProfile { name: "http://x".to_owned(), preempts: true, ..ExtenderProfile::default() };
    Played { profile, victims: Some(victims), ..Played::default() }
}

/// The remaining preemptions of pod `p0` on n0 and `p1` on n1, by slots.
fn preempt(extenders: Vec<Played>) -> Result<Vec<(u32, Vec<u32>)>, String> {
    let mut table = table(3);
    for slot in 0..2 {
        let pod = Pod { uid: format!("p{slot}").as_str().into(), ..Pod::default() };
        table.pods_mut().place(PodIdx(slot), Arc::new(pod), NodeIdx(slot));
    }
    let pod = Pod::default();
    let call = Call::new(CycleId(1), Time::default(), &pod, &table);
    let asked = (0..2).map(|slot| Preemption { node: NodeIdx(slot), victims: vec![PodIdx(slot)], n_violations: 0 });
    let agreed = preempt_by_extenders(Some(&group(extenders)), &call, asked.collect());
    let slots = |it: Preemption| (it.node.0, it.victims.into_iter().map(|victim| victim.0).collect());
    agreed.map(|agreed| agreed.into_iter().map(slots).collect()).map_err(|status| status.message())
}

#[test]
fn extenders_narrow_what_is_preempted_one_after_the_other() {
    let (both, second) = (vec![("n0", vec!["p0"]), ("n1", vec!["p1"])], vec![("n1", vec!["p1"])]);
    assert_eq!(preempt(vec![]), Ok(vec![(0, vec![0]), (1, vec![1])]));
    assert_eq!(preempt(vec![preempting(both), preempting(second.clone())]), Ok(vec![(1, vec![1])]));
    let silent = Played { is_not_interested: true, ..preempting(vec![]) };
    assert_eq!(preempt(vec![silent, passing(&[]), preempting(second)]), Ok(vec![(1, vec![1])]));
    assert_eq!(preempt(vec![preempting(vec![]), preempting(vec![("n0", vec!["p0"])])]), Ok(vec![]));
}

#[test]
fn victims_that_are_not_there_are_refused() {
    let broken = Played { victims: None, ..preempting(vec![]) };
    let elsewhere =
        "extender: http://x claims to preempt pod (UID: &{p1}) on node: n0, but the pod is not found on that node";
    let cases = [
        (broken, "it hangs"),
        (preempting(vec![("n9", vec!["p0"])]), "nodeinfo not found for node name \"n9\""),
        (preempting(vec![("n0", vec!["p1"])]), elsewhere),
        (preempting(vec![("n0", vec![]), ("n1", vec!["p1"])]), "expected at least one victim pod on node \"n0\""),
    ];
    for (mut extender, message) in cases {
        assert_eq!(preempt(vec![extender.clone()]), Err(message.to_owned()));
        extender.profile.is_ignorable = true;
        let left = preempt(vec![extender]).expect("it may fail");
        assert!(left.contains(&(1, vec![1])), "{message}: {left:?}");
    }
}
