//! PreBind plugins that announce their work, and PreBind plugins that work in parallel (KEP-5278).

use std::sync::Arc;

use berth_framework::{Code, Effect, Grants, ObjectRef, PatchType, PermitVerdict, Point, PreFlight, Status};
use berth_model::ObjectKey;

use super::kit::{Bench, Fake, Shared, binds, events, node, pod};
use crate::{Action, Event, Observation, PluginEffects, PodRequest, Request, RequestError, StatusChange, WaitResult};

/// A profile with these plugins at PreBind. The first one implements all other points.
fn bench(names: &[&str]) -> (Bench, Vec<Shared>) {
    let scripts: Vec<Shared> = names.iter().map(|_| Shared::default()).collect();
    let mut profile = Bench::profile("berth", &scripts[0], Grants::ALL);
    for (name, script) in names.iter().zip(&scripts).skip(1) {
        let plugin = profile.add(Box::new(Fake::new(name, "1", script)), "null", Grants::ALL);
        profile.want(Point::PreBind, plugin);
    }
    let mut bench = Bench::with_profiles(vec![profile], Arc::clone(&scripts[0]));
    bench.event(Event::NodeApplied(Box::new(node("n0", 4))));
    bench.event(Event::Synced);
    (bench, scripts)
}

fn patch(name: &str) -> Effect {
    Effect::Patch {
        kind: "v1/ConfigMap".to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        subresource: None,
        patch: b"{}".to_vec(),
        patch_type: PatchType::Merge,
    }
}

fn wait_for(name: &str) -> Effect {
    let object = ObjectRef { kind: "v1/ConfigMap".to_owned(), namespace: "default".to_owned(), name: name.to_owned() };
    Effect::Wait { objects: vec![object], timeout_ms: 10_000, timeout_message: format!("{name} is not ready") }
}

fn changed(name: &str) -> Event {
    changed_to(name, "{}")
}

fn changed_to(name: &str, json: &str) -> Event {
    let key = ObjectKey {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
    };
    Event::ObjectApplied { resource: "configmaps.v1.".to_owned(), key, json: Arc::from(json.as_bytes()) }
}

/// Makes the plugin ask for these effects, and announce this answer.
fn wants(script: &Shared, effects: Vec<Effect>, allow_parallel: bool) {
    let mut script = script.lock().expect("one thread");
    script.pre_bind = effects;
    script.pre_flight = Some(Ok(PreFlight { allow_parallel }));
}

/// The nodes that were written into `nominatedNodeName`.
fn published(actions: &[Action]) -> Vec<String> {
    let node = |action: &Action| match action {
        Action::Pod(PodRequest { request: Request::PatchStatus(StatusChange { nominated_node_name, .. }), .. }) => {
            nominated_node_name.clone()
        }
        _ => None,
    };
    actions.iter().filter_map(node).collect()
}

/// The plugins whose effects are requested, each with the event that the effects were carried out, or were not.
fn asked(actions: &[Action], result: Result<(), &str>) -> Vec<(String, Event)> {
    let asked = |action: &Action| match action {
        Action::Pod(PodRequest {
            pod, request: Request::AwaitedEffects(PluginEffects { cycle, plugin, .. }), ..
        }) => {
            let (cycle, uid, plugin) = (*cycle, pod.uid.clone(), Arc::clone(plugin));
            let result = result.map_err(RequestError::new);
            Some((plugin.to_string(), Event::EffectsFinished { cycle, uid, plugin, result }))
        }
        _ => None,
    };
    actions.iter().filter_map(asked).collect()
}

fn calls(script: &Shared) -> usize {
    script.lock().expect("one thread").calls.iter().filter(|call| *call == "pre-bind a").count()
}

#[test]
fn a_pod_for_which_nothing_is_to_be_done_is_bound_at_once() {
    let (mut bench, scripts) = bench(&["Fake", "Second"]);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert_eq!(binds(&actions).len(), 1);
    assert_eq!((published(&actions), calls(&scripts[0]), calls(&scripts[1])), (vec![], 0, 0));
}

#[test]
fn the_node_is_shown_before_work_that_takes_a_while() {
    let (mut bench, scripts) = bench(&["Fake", "Second"]);
    wants(&scripts[1], vec![patch("x")], false);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert_eq!((published(&actions), calls(&scripts[0])), (vec!["n0".to_owned()], 0));
    assert!(matches!(&actions[0], Action::Pod(PodRequest { request: Request::PatchStatus(_), .. })), "{actions:?}");
}

#[test]
fn a_plugin_that_says_nothing_before_counts_as_one_that_has_work() {
    let script = Shared::default();
    script.lock().expect("one thread").without = vec![Point::PreBindPreFlight];
    let mut bench = Bench::with_profiles(vec![Bench::profile("berth", &script, Grants::ALL)], script);
    bench.event(Event::NodeApplied(Box::new(node("n0", 4))));
    bench.event(Event::Synced);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert_eq!((published(&actions), binds(&actions).len()), (vec!["n0".to_owned()], 1));
}

#[test]
fn what_is_said_before_holds_for_the_time_on_permit() {
    let (mut bench, scripts) = bench(&["Fake"]);
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(10_000)));
    bench.apply(pod("a", 1));
    assert_eq!(published(&bench.settle()), ["n0"]);
    bench.script(|script| {
        script.permit = None;
        script.pre_bind = vec![patch("x")];
        script.permit_effects = vec![Effect::Allow { uid: "uid-a".to_owned() }];
        script.pre_flight = Some(Err(Status::skip()));
    });
    bench.apply(pod("b", 1));
    assert_eq!(binds(&bench.settle()).len(), 2);
    assert_eq!(calls(&scripts[0]), 0);
}

#[test]
fn a_plugin_that_fails_before_permit_fails_the_binding() {
    let unsupported = "PreBindPreFlight Fake returned \"Unschedulable\", which is unsupported. \
                       It is supposed to return Success, Skip, or Error status";
    let cases = [
        (Status::error("no volumes"), "running PreBindPreFlight \"Fake\": no volumes"),
        (Status::unschedulable("no"), unsupported),
    ];
    for (status, message) in cases {
        let mut bench = Bench::with_nodes(1, 4);
        bench.script(|script| {
            script.permit = Some(PermitVerdict::Wait(10_000));
            script.pre_flight = Some(Err(status));
        });
        bench.apply(pod("a", 1));
        let actions = bench.settle();
        assert_eq!((events(&actions)[0].1.as_str(), published(&actions)), (message, vec![]));
        assert_eq!(bench.scheduler.cache().sizes().assumed_pods, 0);
        assert_eq!(bench.scheduler.metrics().pending_pods.backoff, 1);
    }
}

#[test]
fn neighbours_that_allow_it_work_side_by_side() {
    let (mut bench, scripts) = bench(&["Fake", "Second", "Third"]);
    wants(&scripts[0], vec![patch("x")], true);
    wants(&scripts[1], vec![patch("y")], true);
    wants(&scripts[2], vec![patch("z")], false);
    bench.apply(pod("a", 1));
    let answers = asked(&bench.settle(), Ok(()));
    let names: Vec<&str> = answers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Fake", "Second"]);
    // The order of the answers does not matter, and the third plugin begins after both answers.
    for (_, answer) in answers.into_iter().rev() {
        assert_eq!(calls(&scripts[2]), 0);
        bench.event(answer);
    }
    let answers = asked(&bench.settle(), Ok(()));
    assert_eq!(answers[0].0, "Third");
    answers.into_iter().for_each(|(_, answer)| bench.event(answer));
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn a_plugin_between_them_keeps_neighbours_apart() {
    for between in [Err(Status::skip()), Ok(PreFlight::default())] {
        let (mut bench, scripts) = bench(&["Fake", "Second", "Third"]);
        wants(&scripts[0], vec![patch("x")], true);
        scripts[1].lock().expect("one thread").pre_flight = Some(between);
        wants(&scripts[2], vec![patch("z")], true);
        bench.apply(pod("a", 1));
        assert_eq!(asked(&bench.settle(), Ok(())).len(), 1);
        assert_eq!(calls(&scripts[2]), 0);
    }
}

#[test]
fn the_first_failure_ends_the_work_of_all() {
    let (mut bench, scripts) = bench(&["Fake", "Second"]);
    wants(&scripts[0], vec![patch("x")], true);
    wants(&scripts[1], vec![patch("y")], true);
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    let (_, failed) = asked(&actions, Err("denied")).remove(1);
    bench.event(failed);
    let after = bench.settle();
    assert_eq!(events(&after)[0].1, "running PreBind plugin \"Second\": denied");
    assert_eq!(published(&after), [""], "the expectation is taken back");
    let (_, late) = asked(&actions, Ok(())).remove(0);
    bench.event(late);
    assert!(binds(&bench.settle()).is_empty());
}

#[test]
fn an_object_wakes_only_the_plugin_that_waits_for_it() {
    let (mut bench, scripts) = bench(&["Fake", "Second"]);
    wants(&scripts[0], vec![wait_for("x")], true);
    wants(&scripts[1], vec![wait_for("y")], true);
    bench.apply(pod("a", 1));
    bench.settle();
    bench.advance(4_000);
    bench.event(changed("y"));
    assert_eq!((calls(&scripts[0]), calls(&scripts[1])), (1, 2));
    scripts[0].lock().expect("one thread").pre_bind.clear();
    bench.event(changed("x"));
    assert!(binds(&bench.settle()).is_empty(), "the other one is not done");
    assert_eq!(bench.scheduler.next_wakeup(), Some(bench.now + 6_000), "asking again wins no time");
    bench.advance(6_000);
    assert_eq!(events(&bench.settle())[0].1, "running PreBind plugin \"Second\": y is not ready");
}

/// The waits of plugins for objects, with their lengths and results.
fn waited(bench: &mut Bench) -> Vec<(String, WaitResult, u64, usize)> {
    let observations = bench.scheduler.drain_observations().into_iter();
    let wait = |observation| match observation {
        Observation::ObjectWait { plugin, result, milliseconds, objects, .. } => {
            Some((plugin.to_string(), result, milliseconds, objects.len()))
        }
        _ => None,
    };
    observations.filter_map(wait).collect()
}

#[test]
fn a_wait_for_objects_is_measured_once() {
    let (mut bench, scripts) = bench(&["Fake", "Second"]);
    wants(&scripts[1], vec![wait_for("x")], true);
    bench.apply(pod("a", 1));
    bench.settle();
    bench.advance(2_000);
    bench.event(changed("x"));
    assert_eq!(waited(&mut bench), [], "it waits on");
    bench.advance(3_000);
    scripts[1].lock().expect("one thread").pre_bind.clear();
    bench.event(changed_to("x", r#"{"data": {}}"#));
    assert_eq!(waited(&mut bench), [("Second".to_owned(), WaitResult::Success, 5_000, 1)]);
}

#[test]
fn waits_that_lead_nowhere_are_told_apart() {
    let late = |bench: &mut Bench, _: &Shared| bench.advance(10_000);
    let refused = |bench: &mut Bench, script: &Shared| {
        script.lock().expect("one thread").refuse_pre_bind = Some(Status::error("broken"));
        bench.event(changed("x"));
    };
    let unfed = |bench: &mut Bench, script: &Shared| {
        script.lock().expect("one thread").broken_sync = Some("no memory".to_owned());
        bench.event(changed("x"));
    };
    type End = fn(&mut Bench, &Shared);
    let cases: [(End, WaitResult); 3] =
        [(late, WaitResult::Timeout), (refused, WaitResult::Failure), (unfed, WaitResult::Error)];
    for (ends, wanted) in cases {
        let (mut bench, scripts) = bench(&["Fake", "Second"]);
        wants(&scripts[1], vec![wait_for("x")], true);
        bench.apply(pod("a", 1));
        bench.settle();
        ends(&mut bench, &scripts[1]);
        bench.settle();
        let results: Vec<WaitResult> = waited(&mut bench).into_iter().map(|(_, result, ..)| result).collect();
        assert_eq!(results, [wanted]);
    }
}

#[test]
fn codes_of_pre_flights_are_told_apart() {
    let (mut bench, scripts) = bench(&["Fake", "Second"]);
    scripts[1].lock().expect("one thread").pre_flight = Some(Err(Status::new(Code::Wait, ["later"])));
    bench.apply(pod("a", 1));
    assert!(events(&bench.settle())[0].1.starts_with("PreBindPreFlight Second returned \"Wait\""));
}
