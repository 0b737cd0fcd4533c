//! The content of a decision after its cycle.

use super::*;
use crate::run::{EarlierAnswers, NodeVerdict, PluginScores};

fn full() -> Status {
    Status::unschedulable("full")
}

#[test]
fn a_placement_says_of_each_node_what_became_of_it() {
    let plugins = vec![Scripted::called("A").rejecting(&[1], full()), Scripted::called("B").scoring(&[5, 0, 9])];
    let mut profile = profile(plugins);
    profile.plugins.set_weight(PluginIdx(1), 3);
    let decision = place_in(3, &mut profile, &Pod::default(), &NominatedPods::default());
    assert!(matches!(decision.outcome, Ok(NodeIdx(2))));
    assert_eq!(decision.verdict(NodeIdx(0)), NodeVerdict::Passed { total: Some(15) });
    assert_eq!(decision.verdict(NodeIdx(1)), NodeVerdict::Rejected { plugin: PluginIdx(0), status: None });
    assert_eq!(decision.verdict(NodeIdx(2)), NodeVerdict::Passed { total: Some(27) });
    assert_eq!(decision.verdict(NodeIdx(9)), NodeVerdict::Unknown);
    let weighted = |scores: PluginScores<'_>| (scores.plugin, scores.weighted().collect());
    let scores: Vec<(_, Vec<_>)> = decision.findings.plugin_scores().map(weighted).collect();
    assert_eq!(scores, [(PluginIdx(1), vec![15, 27])]);
    assert_eq!(decision.findings.earlier_answers(), &EarlierAnswers::default());
}

#[test]
fn a_rejection_names_the_plugin_and_its_status_for_each_node() {
    let (full, gone) = (full(), Status::unresolvable("gone"));
    let plugins = vec![
        Scripted::called("Narrow").pre_filter(names(&["n0", "n1"])),
        Scripted::called("A").rejecting(&[0], full.clone()),
        Scripted::called("B").rejecting(&[0, 1], gone.clone()),
    ];
    let (decision, _) = place_on(3, plugins);
    let rejected = |plugin, status| NodeVerdict::Rejected { plugin: PluginIdx(plugin), status: Some(status) };
    assert_eq!(decision.verdict(NodeIdx(0)), rejected(1, &full));
    assert_eq!(decision.verdict(NodeIdx(1)), rejected(2, &gone));
    let NodeVerdict::LeftOut { status: Some(status) } = decision.verdict(NodeIdx(2)) else { panic!("left out") };
    assert_eq!(status.message(), "node(s) didn't satisfy plugin(s) [Narrow]");
}

#[test]
fn a_decision_outlasts_the_next_cycle_and_leaves_nothing_in_it() {
    let table = table(3);
    let order: Vec<NodeIdx> = table.nodes().iter().collect();
    let (pod, nominated) = (Pod::default(), NominatedPods::default());
    let call = Call::new(CycleId(1), Time::default(), &pod, &table);
    let search = NodeSearch {
        order: &order,
        start: 1,
        percentage_of_nodes_to_score: 0,
        nominated: &nominated,
        hint: None,
        extenders: None,
    };
    let mut attempt = Attempt::default();
    let mut picky = profile(vec![Scripted::called("A").rejecting(&[0, 1], full())]);
    let mut generous = profile(vec![Scripted::called("B").scoring(&[1, 2, 3])]);
    let first = place(&mut picky, &call, &search, None, &mut attempt);
    let second = place(&mut generous, &call, &search, None, &mut attempt);
    assert_eq!(first.verdict(NodeIdx(0)), NodeVerdict::Rejected { plugin: PluginIdx(0), status: None });
    assert_eq!(second.findings.totals(), [1, 2, 3]);
    attempt.recycle(first);
    let third = place(&mut generous, &call, &search, None, &mut attempt);
    assert_eq!(third.findings.removed().count(), 0, "the third cycle has no nodes that the first cycle removed");
    assert_eq!(
        (third.findings.totals(), third.findings.sample()),
        (second.findings.totals(), second.findings.sample())
    );
    assert_eq!(third.findings.feasible_order(), [NodeIdx(1), NodeIdx(2), NodeIdx(0)]);
}
