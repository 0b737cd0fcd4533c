//! Extenders beside plugins: what they filter, and what their scores count.

use super::*;
use crate::{
    Code,
    extender::{ExtenderError, ExtenderIdx, ExtenderProfile, ExtenderVerdict, Extenders, binder},
};

/// An extender and its answers.
#[derive(Clone, Debug, Default)]
struct Played {
    profile: ExtenderProfile,
    is_not_interested: bool,
    /// `None`: it fails.
    verdict: Option<ExtenderVerdict>,
    scores: Vec<(String, i64)>,
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

fn place_with(plugins: Vec<Scripted>, extenders: Vec<Played>) -> Placed {
    let table = table(3);
    let order: Vec<NodeIdx> = table.nodes().iter().collect();
    let (mut profile, extenders, nominated) = (profile(plugins), group(extenders), NominatedPods::default());
    let call = Call { cycle: CycleId(1), now: Time::default(), pod: &Pod::default(), table: &table };
    let search = NodeSearch {
        order: &order,
        start: 0,
        percentage_of_nodes_to_score: 0,
        nominated: &nominated,
        hint: None,
        extenders: Some(&extenders),
    };
    let mut attempt = Attempt::default();
    let result = place(&mut profile, &call, &search, &mut attempt);
    Placed { result, attempt }
}

#[test]
fn scores_are_weighed_and_stretched_to_the_plugins_range() {
    let plugin = || vec![Scripted::called("A").scoring(&[100, 30, 30])];
    let placed = place_with(plugin(), vec![scoring(1, &[0, 5, 10]), scoring(2, &[0, 1, 0])]);
    assert_eq!(placed.attempt.totals, [100, 30 + 10 * (5 + 2), 30 + 10 * 10]);
    assert_eq!(placed.result.expect("a node"), NodeIdx(2));
    let silent = Played { is_not_interested: true, ..scoring(9, &[0, 10, 0]) };
    assert_eq!(place_with(plugin(), vec![silent]).attempt.totals, [100, 30, 30]);
}

#[test]
fn each_extender_filters_what_the_one_before_left() {
    let placed = place_with(vec![], vec![passing(&[0, 1]), passing(&[1, 2])]);
    assert_eq!(placed.result.expect("a node"), NodeIdx(1));
    let silent = Played { is_not_interested: true, ..passing(&[]) };
    assert_eq!(place_with(vec![], vec![silent, passing(&[2])]).result.expect("a node"), NodeIdx(2));
}

#[test]
fn rejections_of_extenders_are_told_and_nobody_else_is_blamed() {
    let mut picky = passing(&[]);
    picky.verdict = Some(ExtenderVerdict {
        failed: vec![("n0".to_owned(), "busy".to_owned()), ("n1".to_owned(), "busy".to_owned())],
        unresolvable: vec![("n1".to_owned(), "too old".to_owned())],
        ..ExtenderVerdict::default()
    });
    let Err(NoNode::Rejected(diagnosis)) = place_with(vec![], vec![picky]).result else { panic!("a rejection") };
    assert_eq!(diagnosis.message(), "0/3 nodes are available: 1 busy, 1 too old.");
    assert!(diagnosis.rejected_by_extender && diagnosis.rejectors.iter().next().is_none());
    let codes: Vec<Code> = diagnosis.rejections.iter().map(|rejection| rejection.status.code).collect();
    assert_eq!(codes, [Code::Unschedulable, Code::UnschedulableAndUnresolvable]);
}

#[test]
fn an_extender_that_fails_is_passed_over_only_if_it_may_be() {
    let mut failing = passing(&[]);
    failing.verdict = None;
    let Err(NoNode::Broken(status)) = place_with(vec![], vec![failing.clone()]).result else { panic!("an error") };
    assert_eq!(status, Status::error("it hangs"));
    failing.profile.is_ignorable = true;
    assert!(place_with(vec![], vec![failing]).result.is_ok());
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
