//! Pods of PodGroups, which are scheduled alone while the feature gate GenericWorkload is off.

use berth_model::api;
use serde_json::json;

use super::kit::{Bench, bind_finished, binds, events, node, pod_maker};
use crate::{Action, Event, Level, Notice};

fn of_group(name: &str, cpu: u32) -> api::Pod {
    pod_maker(name, cpu).spec("schedulingGroup", json!({"podGroupName": "train"})).build()
}

/// The warnings about PodGroups in the log.
fn warnings(actions: &[Action]) -> Vec<&str> {
    let mut warnings = Vec::new();
    for action in actions {
        if let Action::Notice(Notice::Log { level: Level::Warn, message, .. }) = action {
            warnings.push(message.as_str());
        }
    }
    warnings.retain(|message| message.contains("PodGroup"));
    warnings
}

#[test]
fn a_pod_of_a_group_is_scheduled_alone_and_its_owner_told_once() {
    let mut bench = Bench::with_nodes(1, 1);
    bench.apply(of_group("a", 1));
    let mut actions = bench.settle();
    assert_eq!(binds(&actions), [("a".to_owned(), "n0".to_owned())], "it waits for no other pod of its group");
    let note = "The pod is scheduled alone: its PodGroup train is ignored, as without GenericWorkload";
    let told = ("PodGroupIgnored".to_owned(), note.to_owned());
    assert_eq!(events(&actions), std::slice::from_ref(&told));
    let rest = "pods of PodGroups are scheduled alone, as kube-scheduler does while GenericWorkload is off";
    assert_eq!(warnings(&actions), [format!("default/a is in the PodGroup train: {rest}")]);
    bench.event(bind_finished(&actions, "a", Ok(())));
    bench.apply(of_group("big", 2));
    actions = bench.settle();
    assert!(events(&actions).contains(&told), "each pod is told: {actions:?}");
    assert!(warnings(&actions).is_empty(), "the log says it once: {actions:?}");
    // The next attempt of the same pod does not repeat the event.
    bench.event(Event::NodeApplied(Box::new(node("small", 1))));
    bench.advance(20_000);
    actions = bench.settle();
    let told = events(&actions);
    assert!(!told.is_empty() && told.iter().all(|(reason, _)| reason == "FailedScheduling"), "{told:?}");
}

#[test]
fn a_pod_without_a_group_is_told_nothing() {
    let mut bench = Bench::with_nodes(1, 1);
    bench.apply(pod_maker("a", 1).build());
    let actions = bench.settle();
    assert!(events(&actions).is_empty() && warnings(&actions).is_empty(), "{actions:?}");
}
