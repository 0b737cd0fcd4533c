//! A plugin that reads an unlisted kind judges no pod that it affects.

use super::*;
use crate::{ObjectKind, UnlistedKind, UnlistedKinds};

fn reader(name: &str) -> Scripted {
    let mut plugin = Scripted::called(name);
    plugin.manifest.needs.objects = vec![ObjectKind { api_version: "v1".to_owned(), kind: "Thing".to_owned() }];
    plugin
}

/// The decision about a pod on one node while a kind is not listed. `Spared` works without that kind.
fn placed(plugins: Vec<Scripted>) -> (Decision, Profile) {
    let mut profile = profile(plugins);
    let mut unlisted = UnlistedKinds::default();
    let kind = ObjectKind { api_version: "v1".to_owned(), kind: "Thing".to_owned() };
    let (reason, dispensable_for) = ("no things".to_owned(), vec!["Spared".to_owned()]);
    unlisted.insert(kind, UnlistedKind { reason, dispensable_for });
    profile.set_unlisted(Arc::new(unlisted));
    (place_in(1, &mut profile, &Pod::default(), &NominatedPods::default()), profile)
}

fn message(plugin: Scripted) -> String {
    match placed(vec![plugin]).0.outcome {
        Err(NoNode::Rejected(diagnosis)) => diagnosis.message(),
        other => panic!("not rejected: {other:?}"),
    }
}

#[test]
fn what_a_plugin_says_of_a_pod_without_seeing_does_not_count() {
    let waits = "0/1 nodes are available: plugin \"A\" cannot decide about this pod: no things.";
    assert_eq!(message(reader("A").pre_filter(Ok(None))), waits);
    assert_eq!(message(reader("A").pre_filter(Err(Status::unresolvable("thing \"x\" not found")))), waits);
    assert_eq!(message(reader("A").rejecting(&[], Status::unschedulable("no"))), waits, "it has no PreFilter");
    assert_eq!(message(reader("A").scoring(&[7])), waits);
}

#[test]
fn pods_with_which_it_has_nothing_to_do_are_placed() {
    let skipping = reader("A").pre_filter(Err(Status::skip())).rejecting(&[0], Status::unschedulable("no"));
    assert!(placed(vec![skipping]).0.outcome.is_ok());
    assert!(placed(vec![reader("Spared").pre_filter(Ok(None))]).0.outcome.is_ok());
    assert!(placed(vec![Scripted::called("Other").pre_filter(Ok(None))]).0.outcome.is_ok());
}

#[test]
fn a_post_filter_plugin_that_cannot_see_is_not_asked() {
    let mut preempts = reader("P");
    preempts.post_filter = Some((Status::success(), None));
    let (placed, mut profile) =
        placed(vec![Scripted::called("A").pre_filter(Err(Status::unresolvable("no"))), preempts]);
    let Err(NoNode::Rejected(mut diagnosis)) = placed.outcome else { panic!("not rejected") };
    let (table, pod, nominated) = (table(1), Pod::default(), NominatedPods::default());
    let call = Call::new(CycleId(1), Time::default(), &pod, &table);
    post_filter(&mut profile, &call, &placed.findings, &nominated, None, &mut diagnosis);
    let run = &diagnosis.post_filter;
    assert!(run.effects.is_empty() && run.nominate.is_none());
    let expected = "0/1 nodes are available: no. plugin \"P\" cannot decide about this pod: no things";
    assert_eq!(diagnosis.message(), expected);
    let blamed: Vec<&str> = diagnosis.rejectors.iter().map(|plugin| &**profile.name(plugin)).collect();
    assert_eq!(blamed, ["A", "P"], "the pod is tried again once it sees");
}
