//! The order of pods once a share of the scheduling thread is used up.

use std::{sync::Arc, time::Duration};

use berth_framework::{Grants, PermitVerdict, SchedulingTime, Share, TimeBounds, TimeReport};
use serde_json::json;

use super::kit::{Bench, Shared, bind_finished, binds, bound, events, node, pod, pod_maker};
use crate::{Action, Event, Supervision};

/// Two profiles, and accounts whose clock the test advances. The plugin of the first profile is charged.
fn charged() -> (Bench, SchedulingTime) {
    let (script, free) = (Shared::default(), Shared::default());
    script.lock().expect("one thread").is_charged = true;
    let profiles = vec![Bench::profile("berth", &script, Grants::ALL), Bench::profile("free", &free, Grants::ALL)];
    let share = |per_second, burst| {
        let [per_second, burst] = [per_second, burst].map(Duration::from_millis);
        Some(Share { per_second, burst })
    };
    let time = SchedulingTime::default();
    time.set_bounds(TimeBounds { all_plugins: share(300, 300), namespace: share(500, 500), search: None });
    let mut bench = Bench::with_profiles(profiles, script);
    bench.scheduler = bench.scheduler.with_time(time.clone());
    bench.event(Event::NodeApplied(Box::new(node("n0", 30))));
    bench.event(Event::Synced);
    (bench, time)
}

fn reports(actions: &[Action]) -> Vec<TimeReport> {
    let report = |action: &Action| match action {
        Action::Supervise(Supervision::OutOfTime(report)) => Some(report.clone()),
        _ => None,
    };
    actions.iter().filter_map(report).collect()
}

#[test]
fn pods_without_plugins_go_first_once_all_plugins_have_used_up_their_time() {
    let (mut bench, time) = charged();
    let milliseconds = Duration::from_millis;
    time.plugin("Fake").take(milliseconds(300), Share { per_second: milliseconds(500), burst: milliseconds(1000) });
    bench.apply(pod("with-plugins", 1));
    bench.apply(pod_maker("without", 1).spec("schedulerName", json!("free")).build());
    let actions = bench.settle();
    let order: Vec<String> = binds(&actions).into_iter().map(|(pod, _)| pod).collect();
    assert_eq!(order, ["without", "with-plugins"], "the other pod is tried once the first is placed");
    let reports = reports(&actions);
    assert!(
        matches!(&reports[..], [TimeReport::AllPlugins { taken, .. }] if *taken[0].0 == *"Fake"),
        "it is told who took the time: {reports:?}"
    );
}

#[test]
fn pods_of_other_namespaces_go_first_once_one_has_used_up_its_time() {
    let (mut bench, time) = charged();
    time.searched(&Arc::from("greedy"), Duration::from_secs(2));
    bench.apply(pod_maker("searches", 1).metadata("namespace", json!("greedy")).build());
    bench.apply(pod("other", 1));
    let actions = bench.settle();
    assert_eq!(bound(&actions), ["other", "searches"]);
    let reports = reports(&actions);
    assert!(matches!(&reports[..], [TimeReport::Namespace { namespace, .. }] if **namespace == *"greedy"));
}

#[test]
fn a_profile_of_which_many_pods_are_being_bound_leaves_room_to_others() {
    let (mut bench, _) = charged();
    bench.event(Event::NodeApplied(Box::new(node("n1", 30_000))));
    let mut sent = Vec::new();
    for number in 0..2_100 {
        bench.apply(pod(&format!("many-{number}"), 1));
        if number % 100 == 0 {
            sent.extend(bench.settle());
        }
    }
    bench.apply(pod_maker("other", 1).spec("schedulerName", json!("free")).build());
    sent.extend(bench.settle());
    let names = bound(&sent);
    assert_eq!(names.iter().filter(|name| name.starts_with("many")).count(), 2_000);
    assert!(names.contains(&"other".to_owned()));
    assert_eq!(bench.scheduler.next_wakeup(), None, "there is nothing to do before an answer comes");
    bench.event(bind_finished(&sent, "many-7", Ok(())));
    assert_eq!(bound(&bench.settle()).len(), 1);
}

#[test]
fn waits_that_end_together_end_some_at_a_time() {
    let mut bench = Bench::with_nodes(1, 30_000);
    bench.script(|script| script.permit = Some(PermitVerdict::Wait(1_000)));
    let n_held = crate::Scheduler::EVENTS_PER_TURN + 100;
    for number in 0..n_held {
        bench.apply(pod(&format!("held-{number}"), 1));
    }
    bench.settle();
    bench.advance(1_000);
    bench.script(|script| script.permit = None);
    bench.apply(pod("other", 1));
    assert!(bench.scheduler.run(bench.now, false));
    let actions: Vec<Action> = bench.scheduler.drain_actions().collect();
    assert_eq!(binds(&actions).len(), 1, "the other pod need not wait for all of them");
    let n_expired = events(&actions).iter().filter(|(_, note)| note.contains("rejected due to timeout")).count();
    assert!((1..n_held).contains(&n_expired), "{n_expired}");
}
