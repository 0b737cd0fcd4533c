//! Plugins are replaced while pods are being bound.

use std::sync::Arc;

use berth_framework::{Effect, Grants, PatchType, PermitVerdict, Point};

use super::kit::{Bench, Factory, Fake, Shared, bind_finished, binds, events, pod};
use crate::{Action, Event, Notice, PluginEffects, PodRequest, Request, StatusChange, Supervision};

fn ready(bench: &mut Bench, version: &str, works: bool) -> Result<String, String> {
    let factory = Factory::new(version, &bench.script, works);
    let ready = Event::plugin_ready(bench.scheduler.objects(), "Fake".to_owned(), None, factory, None);
    bench.event(ready);
    let swapped = bench.scheduler.drain_actions().find_map(|action| match action {
        Action::Supervise(Supervision::Swapped { version, result, .. }) => Some(result.map(|()| version.version)),
        _ => None,
    });
    swapped.expect("a profile uses it").map_err(|error| error.to_string())
}

#[test]
fn the_new_binary_learns_of_pods_on_their_way() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(60_000)));
    bench.apply(pod("waiting", 1));
    bench.settle();
    bench.script(|script| script.permit = None);
    bench.apply(pod("sent", 1));
    let sent = bench.settle();
    bench.script(|script| script.calls.clear());
    assert_eq!(ready(&mut bench, "2", true), Ok("2".to_owned()));
    assert_eq!(bench.script(|script| script.calls.clone()), ["2 reserve sent 0", "2 reserve waiting 0"]);
    assert_eq!(bench.scheduler.plugins()[0].1[0].version, "2");
    bench.event(bind_finished(&sent, "sent", Ok(())));
    assert!(bench.script(|script| script.calls.contains(&"2 post-bind sent".to_owned())));
}

#[test]
fn a_new_binary_learns_of_pods_on_their_way_as_it_has_time() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(60_000)));
    for name in ["a", "b", "c"] {
        bench.apply(pod(name, 1));
    }
    bench.settle();
    bench.script(|script| {
        script.calls.clear();
        script.time_for_reserve = Some(1);
        script.without = vec![Point::PreEnqueue];
    });
    assert_eq!(ready(&mut bench, "2", true), Ok("2".to_owned()));
    assert_eq!(bench.script(|script| script.calls.clone()), ["2 reserve a 0"]);
    bench.script(|script| script.permit = None);
    bench.apply(pod("later", 1));
    bench.advance(1000);
    let actions = bench.settle();
    assert!(binds(&actions).is_empty(), "the plugin does not know all reservations");
    let note = "has used up its time, and has not received all pods";
    assert!(events(&actions)[0].1.contains(note), "{actions:?}");
    bench.event(Event::PodDeleted { namespace: "default".to_owned(), name: "b".to_owned(), uid: "uid-b".to_owned() });
    bench.script(|script| {
        script.calls.clear();
        script.time_for_reserve = None;
    });
    bench.advance(10_000);
    assert_eq!(binds(&bench.settle()).len(), 1);
    let reserved = bench.script(|script| script.calls.clone()).into_iter().filter(|call| call.contains(" reserve "));
    assert_eq!(reserved.collect::<Vec<_>>(), ["2 reserve c 0", "2 reserve later 0"]);
}

#[test]
fn a_binary_that_cannot_be_built_leaves_the_old_one() {
    let mut bench = Bench::with_nodes(1, 4);
    assert_eq!(ready(&mut bench, "2", false), Err("bad arguments".to_owned()));
    assert_eq!(bench.scheduler.plugins()[0].1[0].version, "1");
    bench.apply(pod("a", 1));
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn pods_that_the_old_binary_turned_down_are_tried_again() {
    let mut bench = Bench::with_nodes(1, 1);
    bench.apply(pod("big", 2));
    bench.settle();
    assert_eq!(bench.scheduler.metrics().pending_pods.unschedulable, 1);
    ready(&mut bench, "2", true).expect("it works");
    let before = bench.scheduler.metrics().attempts.values().sum::<u64>();
    bench.advance(15_000);
    bench.settle();
    assert_eq!(bench.scheduler.metrics().attempts.values().sum::<u64>(), before + 1);
}

/// The new binary is not asked at Permit about a pod that the old binary holds. If the time of the hold is over, no
/// event is needed for the new binary to be asked.
#[test]
fn a_pod_that_the_old_binary_held_for_too_long_is_tried_again() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(10_000)));
    bench.apply(pod("held", 1));
    bench.settle();
    ready(&mut bench, "2", true).expect("it works");
    bench.script(|script| script.permit = None);
    bench.advance(10_000);
    assert!(binds(&bench.settle()).is_empty(), "the time of the hold is over");
    bench.advance(15_000);
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn the_new_binary_runs_at_the_points_that_it_implements() {
    let mut bench = Bench::with_nodes(1, 1);
    bench.script(|script| script.without = vec![Point::Filter]);
    ready(&mut bench, "2", true).expect("it works");
    bench.apply(pod("big", 2));
    let sent = bench.settle();
    assert_eq!(binds(&sent).len(), 1, "no plugin filters");
    bench.event(bind_finished(&sent, "big", Ok(())));
    bench.script(|script| script.without.clear());
    ready(&mut bench, "3", true).expect("it works");
    bench.apply(pod("big-too", 2));
    assert!(binds(&bench.settle()).is_empty(), "the filter is back");
}

#[test]
fn pods_wait_for_a_plugin_that_is_out_of_service() {
    let mut bench = Bench::with_nodes(2, 4);
    bench.script(|script| {
        script.out_of_service = Some("plugin \"Fake\" is missing".to_owned());
        script.without = Point::ALL.into();
    });
    assert_eq!(ready(&mut bench, "2", true), Ok("2".to_owned()), "a placeholder may take over");
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert_eq!(events(&actions)[0].1, "0/2 nodes are available: plugin \"Fake\" is missing.");
    let condition = actions.iter().find_map(|action| match action {
        Action::Pod(PodRequest { request: Request::PatchStatus(StatusChange { condition, .. }), .. }) => {
            condition.clone()
        }
        _ => None,
    });
    assert_eq!(condition.expect("a condition").reason, "Unschedulable");
    bench.advance(60_000);
    assert!(bench.settle().is_empty(), "nothing but another binary brings the pod back");
    bench.script(|script| {
        script.out_of_service = None;
        script.without.clear();
    });
    ready(&mut bench, "3", true).expect("it works");
    bench.advance(15_000);
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn state_goes_from_one_binary_to_the_next() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.state = Some(vec![7]));
    ready(&mut bench, "2", true).expect("it works");
    assert_eq!(bench.script(|script| std::mem::take(&mut script.calls)), ["2 restore [7]"]);
    bench.script(|script| script.refuse_state = true);
    let factory = Factory::new("3", &bench.script, true);
    let ready = Event::plugin_ready(bench.scheduler.objects(), "Fake".to_owned(), None, factory, None);
    bench.event(ready);
    let actions: Vec<_> = bench.scheduler.drain_actions().collect();
    let lines: Vec<_> = actions.iter().filter(|action| matches!(action, Action::Notice(Notice::Log { .. }))).collect();
    assert!(format!("{lines:?}").contains("without the state of the earlier binary: too old"), "{lines:?}");
    assert_eq!(bench.scheduler.plugins()[0].1[0].version, "3");
}

fn two_profiles() -> Bench {
    let script = Shared::default();
    let profiles = ["berth", "other"].map(|name| Bench::profile(name, &script, Grants::ALL));
    Bench::with_profiles(profiles.into(), script)
}

fn versions(bench: &Bench) -> Vec<String> {
    bench.scheduler.plugins().into_iter().map(|(_, plugins)| plugins[0].version.clone()).collect()
}

#[test]
fn a_swap_can_concern_one_profile_alone() {
    let mut bench = two_profiles();
    let factory = Factory::new("2", &bench.script, true);
    let scheduler_names = Some(vec!["other".to_owned()]);
    let ready = Event::plugin_ready(bench.scheduler.objects(), "Fake".to_owned(), scheduler_names, factory, None);
    bench.event(ready);
    assert_eq!(versions(&bench), ["1", "2"]);
}

#[test]
fn all_profiles_change_over_or_none() {
    let mut bench = two_profiles();
    let factory = Factory::new("2", &bench.script, true);
    factory.builds_left.set(1).expect("not set yet");
    let ready = Event::plugin_ready(bench.scheduler.objects(), "Fake".to_owned(), None, factory, None);
    bench.event(ready);
    assert_eq!(versions(&bench), ["1", "1"]);
    let refused =
        bench.scheduler.drain_actions().filter(
            |action| matches!(action, Action::Supervise(Supervision::Swapped { result: Err(reason), .. }) if reason.to_string() == "no more"),
        );
    assert_eq!(refused.count(), 2);
}

/// The preparation of the next swap, if one was requested.
pub(super) fn preparation(bench: &mut Bench) -> Option<crate::Preparation> {
    let handle = bench.scheduler.drain_actions().find_map(|action| match action {
        Action::PreparePlugin { preparation, .. } => Some(preparation),
        _ => None,
    });
    bench.scheduler.objects().take(handle?)
}

fn slow(bench: &mut Bench, version: &str) {
    let factory = Factory::new(version, &bench.script, true);
    factory.is_slow.set(()).expect("not set yet");
    let ready = Event::plugin_ready(bench.scheduler.objects(), "Fake".to_owned(), None, factory, None);
    bench.event(ready);
}

#[test]
fn the_old_binary_goes_on_while_the_new_one_is_prepared() {
    let mut bench = two_profiles();
    bench.event(Event::NodeApplied(Box::new(super::kit::node("n0", 4))));
    bench.event(Event::Synced);
    slow(&mut bench, "2");
    let preparation = preparation(&mut bench).expect("to be prepared");
    bench.apply(pod("a", 1));
    assert_eq!(binds(&bench.settle()).len(), 1);
    assert_eq!(versions(&bench), ["1", "1"]);
    let prepared = Event::plugin_prepared(bench.scheduler.objects(), preparation.run());
    bench.event(prepared);
    assert_eq!(versions(&bench), ["2", "2"]);
    assert_eq!(bench.scheduler.drain_retired().len(), 2);
    assert!(
        bench.script(|script| script.calls.contains(&"2 reserve a 0".to_owned())),
        "it learns of pods on their way"
    );
}

#[test]
fn swaps_of_a_plugin_keep_their_order() {
    let mut bench = Bench::with_nodes(1, 4);
    slow(&mut bench, "2");
    let second = preparation(&mut bench).expect("to be prepared");
    let factory = Factory::new("3", &bench.script, true);
    let ready = Event::plugin_ready(bench.scheduler.objects(), "Fake".to_owned(), None, factory, None);
    bench.event(ready);
    slow(&mut bench, "4");
    assert!(preparation(&mut bench).is_none(), "one at a time");
    assert_eq!(versions(&bench), ["1"]);
    let prepared = Event::plugin_prepared(bench.scheduler.objects(), second.run());
    bench.event(prepared);
    assert_eq!(versions(&bench), ["3"], "the quick one came at once");
    let fourth = preparation(&mut bench).expect("to be prepared");
    let prepared = Event::plugin_prepared(bench.scheduler.objects(), fourth.run());
    bench.event(prepared);
    assert_eq!(versions(&bench), ["4"]);
}

#[test]
fn a_preparation_that_fails_leaves_the_old_binary() {
    let mut bench = two_profiles();
    slow(&mut bench, "2");
    let failed = preparation(&mut bench).expect("to be prepared").failed("no thread");
    let prepared = Event::plugin_prepared(bench.scheduler.objects(), failed);
    bench.event(prepared);
    assert_eq!(versions(&bench), ["1", "1"]);
    let refused =
        bench.scheduler.drain_actions().filter(
            |action| matches!(action, Action::Supervise(Supervision::Swapped { result: Err(reason), .. }) if reason.to_string() == "no thread"),
        );
    assert_eq!(refused.count(), 2);
}

#[test]
fn a_prepared_binary_takes_the_state_over_that_the_old_one_has_at_the_swap() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.state = Some(vec![7]));
    slow(&mut bench, "2");
    let prepared = preparation(&mut bench).expect("to be prepared").run();
    bench.script(|script| script.state = Some(vec![8]));
    let prepared = Event::plugin_prepared(bench.scheduler.objects(), prepared);
    bench.event(prepared);
    assert_eq!(bench.script(|script| std::mem::take(&mut script.calls)), ["2 restore [8]"]);
}

#[test]
fn what_the_old_binary_kept_out_is_let_in_by_the_new_one() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.gate = true);
    bench.apply(pod("a", 1));
    assert!(bench.settle().is_empty());
    bench.script(|script| script.gate = false);
    ready(&mut bench, "2", true).expect("it works");
    bench.advance(15_000);
    assert_eq!(binds(&bench.settle()).len(), 1);
}

/// A bench whose profile has the fake plugin, and after it a second plugin. Both plugins ask for effects in PreBind.
fn two_pre_binds() -> (Bench, Shared) {
    let (script, other) = (Shared::default(), Shared::default());
    let patch = |name: &str| Effect::Patch {
        kind: "v1/PersistentVolumeClaim".to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        subresource: None,
        patch: b"{}".to_vec(),
        patch_type: PatchType::Merge,
    };
    script.lock().expect("one thread").pre_bind = vec![patch("first")];
    other.lock().expect("one thread").pre_bind = vec![patch("second")];
    let mut profile = Bench::profile("berth", &script, Grants::ALL);
    let second = profile.add(Box::new(Fake::new("Second", "1", &other)), "null", Grants::ALL);
    profile.want(Point::PreBind, second);
    let mut bench = Bench::with_profiles(vec![profile], script);
    bench.event(Event::NodeApplied(Box::new(super::kit::node("n0", 4))));
    bench.event(Event::Synced);
    (bench, other)
}

/// The plugin whose effects are being carried out, and the event that they succeeded.
fn awaited(actions: &[Action]) -> (String, Event) {
    let awaited = actions.iter().find_map(|action| match action {
        Action::Pod(PodRequest {
            pod, request: Request::AwaitedEffects(PluginEffects { cycle, plugin, .. }), ..
        }) => {
            let (uid, name) = (pod.uid.clone(), plugin.to_string());
            Some((name, Event::EffectsFinished { cycle: *cycle, uid, plugin: Arc::clone(plugin), result: Ok(()) }))
        }
        _ => None,
    });
    awaited.expect("effects to wait for")
}

#[test]
fn a_swap_in_the_middle_of_pre_bind_skips_nobody() {
    let (mut bench, _) = two_pre_binds();
    bench.apply(pod("a", 1));
    let (plugin, done) = awaited(&bench.settle());
    assert_eq!(plugin, "Fake");
    bench.script(|script| script.without = vec![Point::PreBind]);
    ready(&mut bench, "2", true).expect("it works");
    bench.event(done);
    let (plugin, done) = awaited(&bench.settle());
    assert_eq!(plugin, "Second", "although it is the first one now");
    // The plugin returns. Its effects are not carried out twice.
    bench.script(|script| script.without.clear());
    ready(&mut bench, "3", true).expect("it works");
    bench.event(done);
    assert_eq!(binds(&bench.settle()).len(), 1);
}
