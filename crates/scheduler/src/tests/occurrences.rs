//! Events, attempts and moves are recorded for the log, up to the verbosity that the host asks for.

use berth_framework::{Effect, PostFilterOutcome, Status};
use berth_model::NodeIdx;

use super::kit::{Bench, assigned, bind_finished, node, pod, terminating};
use crate::{Event, Occurrence};

/// A bench with one node that records occurrences.
fn recording(verbosity: u8) -> Bench {
    let mut bench = Bench::with_nodes(1, 4);
    bench.scheduler.record_occurrences(verbosity);
    bench
}

/// The occurrences since the last time, as short texts.
fn told(bench: &mut Bench) -> Vec<String> {
    let text = |occurrence: Occurrence| match occurrence {
        Occurrence::PodEvent { pod, change, is_scheduled } => {
            format!("{change:?} {} {}", if is_scheduled { "scheduled" } else { "unscheduled" }, pod.name)
        }
        Occurrence::NodeEvent { node, change } => format!("{change:?} {node}"),
        Occurrence::PodMoved(moved) => format!("{} to {:?}: {}", moved.pod.name, moved.queue, moved.event),
        Occurrence::PodPopped(pod) => format!("popped {}", pod.name),
        Occurrence::DeletingPodSkipped(pod) => format!("skipped {}", pod.name),
        Occurrence::AttemptBegan(pod) => format!("tried {}", pod.name),
        Occurrence::PostFilterRan { pod, status } => format!("post-filtered {}: {status}", pod.name),
        Occurrence::PreemptionTarget { pod, node } => format!("room for {} on {node}", pod.name),
    };
    bench.scheduler.drain_occurrences().map(text).collect()
}

fn deleted(name: &str) -> Event {
    Event::PodDeleted { namespace: "default".to_owned(), name: name.to_owned(), uid: format!("uid-{name}") }
}

#[test]
fn nothing_is_recorded_unless_the_host_asks() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.apply(pod("a", 1));
    bench.apply(pod("big", 5));
    bench.settle();
    bench.event(deleted("big"));
    assert!(told(&mut bench).is_empty());
}

#[test]
fn the_way_of_a_pod_is_recorded_in_order() {
    let mut bench = recording(5);
    bench.apply(pod("a", 1));
    bench.settle();
    let begin = ["Add unscheduled a", "a to Active: UnschedulablePodAdd", "popped a", "tried a"];
    assert_eq!(told(&mut bench), begin);

    let finished = bind_finished(&bench.actions, "a", Ok(()));
    bench.event(finished);
    bench.settle();
    bench.apply(assigned("a", 1, "n0"));
    bench.settle();
    assert_eq!(told(&mut bench), ["Add scheduled a", "Delete unscheduled a"]);

    bench.event(deleted("a"));
    assert_eq!(told(&mut bench), ["Delete scheduled a"]);
}

#[test]
fn lower_verbosities_record_less() {
    let mut bench = recording(3);
    bench.apply(pod("big", 5));
    bench.settle();
    assert_eq!(told(&mut bench), ["Add unscheduled big", "tried big", "big to Unschedulable: ScheduleAttemptFailure"]);
    bench.event(Event::NodeApplied(Box::new(node("n0", 3))));
    assert!(told(&mut bench).is_empty(), "updates have verbosity 4");
    bench.event(Event::NodeApplied(Box::new(node("n1", 3))));
    bench.event(Event::NodeDeleted { name: "n1".to_owned() });
    assert_eq!(told(&mut bench), ["Add n1", "Delete n1"]);
}

#[test]
fn a_pod_that_is_being_deleted_is_skipped() {
    let mut bench = recording(4);
    bench.apply(terminating("a", 1));
    bench.settle();
    assert_eq!(told(&mut bench), ["Add unscheduled a", "popped a", "skipped a"]);
}

#[test]
fn the_node_on_which_pods_are_evicted_is_recorded() {
    let mut bench = recording(2);
    bench.apply(assigned("low", 4, "n0"));
    let evict = Effect::Evict {
        namespace: "default".to_owned(),
        name: "low".to_owned(),
        uid: "uid-low".to_owned(),
        message: "berth: preempting to accommodate a higher priority pod".to_owned(),
    };
    let nominate = Some(Some(NodeIdx(0)));
    let outcome = PostFilterOutcome { status: Status::success(), nominate, effects: vec![evict] };
    bench.script(|script| script.post_filter = Some(outcome));
    bench.apply(pod("high", 4));
    bench.settle();
    assert_eq!(told(&mut bench), ["room for high on n0"]);
}
