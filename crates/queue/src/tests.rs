//! The rules of the queue, one by one: order, backoff, and which event moves which pod. `model` compares the queue with
//! a plain reference.

mod model;
mod reference;

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::ClusterEvent;
use berth_model::{Features, Pod, PodUid, Release, Sym, Time};

use crate::{
    EventObjects, Gate, ObjectEvent, PluginEvents, PodEventLabels, Policy, Queue, QueuedPod, RejectedBy, Settings,
    SubQueue,
    in_flight::{MAX_BYTES, MAX_EVENTS},
};

/// A policy that gates the pods it is given, sorts by priority and age, and gives every hint the same answer.
#[derive(Debug)]
struct Fake {
    gate: bool,
    hint: bool,
    hints_alike: bool,
    hints_asked: usize,
}

impl Default for Fake {
    fn default() -> Self {
        Self { gate: false, hint: true, hints_alike: false, hints_asked: 0 }
    }
}

impl Policy for Fake {
    fn pre_enqueue(&mut self, _pod: &Pod, _gated_by: Option<&str>) -> Gate {
        if self.gate { Gate::Closed(Arc::from("Gate")) } else { Gate::Open }
    }

    fn sort_key(&mut self, pod: &Pod, queued_at: Time) -> (i64, i64) {
        (-i64::from(pod.priority), i64::try_from(queued_at.0).expect("a small time"))
    }

    fn hint(&mut self, _plugin: &Arc<str>, _pod: &Pod, _occurrence: &ObjectEvent) -> bool {
        self.hints_asked += 1;
        self.hint
    }

    fn hints_alike(&mut self, _plugin: &str, _pod: &Pod, _occurrence: &ObjectEvent) -> bool {
        self.hints_alike
    }
}

fn pod(uid: &str, priority: i32) -> Arc<Pod> {
    Arc::new(Pod { uid: PodUid::from(uid), name: Arc::from(uid), priority, ..Pod::default() })
}

fn queue() -> Queue {
    let node = |actions| vec![ClusterEvent::new("Node", actions)];
    let plugins = vec![
        PluginEvents::new(Arc::from("Fit"), Some(node(ClusterEvent::ADD))),
        PluginEvents::new(Arc::from("Gate"), Some(node(ClusterEvent::UPDATE_NODE_LABEL))),
        PluginEvents::new(Arc::from("Claims"), Some(node(ClusterEvent::ADD))),
    ];
    let mut queue = Queue::new(Settings::default());
    queue.register([(Sym::NONE, plugins)]);
    queue
}

fn node_event(actions: u32) -> Arc<ObjectEvent> {
    Arc::new(ObjectEvent::new("Node", actions, EventObjects::Cluster))
}

fn rejected_by(plugin: &str) -> RejectedBy {
    RejectedBy { rejectors: vec![Arc::from(plugin)], pending: Vec::new() }
}

fn pop_name(queue: &mut Queue) -> Option<String> {
    queue.pop(Time(u64::MAX)).map(|record| record.pod.uid.to_string())
}

fn fail(queue: &mut Queue, record: QueuedPod, failure: RejectedBy, now: Time, policy: &mut Fake) {
    let pod = Arc::clone(&record.pod);
    queue.requeue(record, pod, failure, now, policy).expect("it waits nowhere else");
}

fn place_of(queue: &Queue, uid: &str) -> Option<SubQueue> {
    queue.iter().find(|(record, _)| *record.pod.uid == *uid).map(|(_, place)| place)
}

const NOON: Time = Time(43_200_000);

#[test]
fn higher_priority_first_then_older_then_earlier_arrival() {
    let (mut queue, mut policy) = (queue(), Fake::default());
    for (uid, priority, at) in [("late", 0, 5), ("early", 0, 1), ("twin", 0, 1), ("urgent", 9, 9)] {
        queue.add(pod(uid, priority), Time(at), &mut policy);
    }
    let order: Vec<_> = std::iter::from_fn(|| pop_name(&mut queue)).collect();
    assert_eq!(order, ["urgent", "early", "twin", "late"]);
}

#[test]
fn a_rejected_pod_waits_for_its_plugins_event_and_its_backoff() {
    let (mut queue, mut policy) = (queue(), Fake::default());
    queue.add(pod("p", 0), NOON, &mut policy);
    queue.add(pod("other", -1), NOON, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("it is ready");
    fail(&mut queue, record, rejected_by("Fit"), NOON + 700, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Unschedulable));
    queue.move_all(&node_event(ClusterEvent::UPDATE_NODE_LABEL), |_| true, NOON + 800, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Unschedulable), "Fit did not ask for labels");
    queue.move_all(&node_event(ClusterEvent::ADD), |_| true, NOON + 900, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Backoff));
    assert_eq!(queue.next_wakeup(), Some(NOON + 2000));
    queue.flush(NOON + 1999, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Backoff));
    queue.flush(NOON + 2000, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Active));
    assert_eq!(pop_name(&mut queue).as_deref(), Some("p"));
}

/// The event that moved a pod is the reason for its attempt. The end of the backoff after that event is not the reason.
#[test]
fn a_pod_names_the_event_that_brought_it_back() {
    let (mut queue, mut policy) = (queue(), Fake::default());
    queue.add(pod("p", 0), NOON, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("it is ready");
    assert_eq!(record.brought_by.as_deref(), Some(&*queue.pod_event_labels().added));
    fail(&mut queue, record, rejected_by("Fit"), NOON, &mut policy);
    queue.move_all(&node_event(ClusterEvent::ADD), |_| true, NOON + 100, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Backoff));
    queue.flush(NOON + 2000, &mut policy);
    let record = queue.pop(NOON + 2000).expect("its backoff is over");
    assert_eq!((record.attempts, record.brought_by.as_deref()), (2, Some("NodeAdd")));
    // An event during the attempt counts, too.
    queue.move_all(&node_event(ClusterEvent::ADD), |_| true, NOON + 2000, &mut policy);
    fail(&mut queue, record, rejected_by("Fit"), NOON + 2000, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("an idle queue does not wait for the backoff");
    assert_eq!(record.brought_by.as_deref(), Some("NodeAdd"));
    fail(&mut queue, record, RejectedBy::default(), NOON + 2001, &mut policy);
    queue.flush(NOON + 100_000, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("its backoff is over");
    assert_eq!(record.brought_by, None, "nothing but time brought it back");
}

#[test]
fn an_idle_queue_gives_rejected_pods_out_of_their_backoff_but_not_broken_ones() {
    let (mut queue, mut policy) = (queue(), Fake::default());
    queue.add(pod("broken", 0), NOON, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("it is ready");
    fail(&mut queue, record, RejectedBy::default(), NOON, &mut policy);
    assert_eq!(place_of(&queue, "broken"), Some(SubQueue::Backoff));
    assert!(queue.pop(NOON + 500).is_none());
    queue.add(pod("rejected", 0), NOON, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("it is ready");
    queue.move_all(&node_event(ClusterEvent::ADD), |_| true, NOON, &mut policy);
    fail(&mut queue, record, rejected_by("Fit"), NOON, &mut policy);
    assert_eq!(place_of(&queue, "rejected"), Some(SubQueue::Backoff), "the event came during the attempt");
    assert!(queue.pop(NOON).is_none(), "not in the same millisecond");
    assert_eq!(queue.ready_at(), Some(NOON + 1));
    assert_eq!(pop_name(&mut queue).as_deref(), Some("rejected"));
    queue.flush(NOON + 2000, &mut policy);
    assert_eq!(pop_name(&mut queue).as_deref(), Some("broken"));
}

#[test]
fn without_its_gate_a_pod_waits_for_the_end_of_its_backoff_and_is_asked_about_then() {
    let (mut queue, mut policy) = (queue(), Fake::default());
    queue.set_settings(Settings { pops_from_backoff: false, ..Settings::default() });
    queue.add(pod("p", 0), NOON, &mut policy);
    let record = queue.pop(NOON).expect("it is ready");
    queue.move_all(&node_event(ClusterEvent::ADD), |_| true, NOON, &mut policy);
    policy.gate = true;
    fail(&mut queue, record, rejected_by("Fit"), NOON + 700, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Backoff), "PreEnqueue is not asked yet");
    assert!(queue.pop(Time(u64::MAX)).is_none(), "not early");
    assert_eq!((queue.ready_at(), queue.next_wakeup()), (None, Some(NOON + 1701)), "to the millisecond");
    queue.flush(NOON + 1701, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Unschedulable));
}

#[test]
fn a_pending_plugins_event_skips_the_backoff() {
    let (mut queue, mut policy) = (queue(), Fake::default());
    queue.add(pod("p", 0), NOON, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("it is ready");
    let failure = RejectedBy { rejectors: vec![Arc::from("Fit")], pending: vec![Arc::from("Claims")] };
    fail(&mut queue, record, failure, NOON, &mut policy);
    queue.move_all(&node_event(ClusterEvent::ADD), |_| true, NOON, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Active));
}

#[test]
fn a_hint_may_say_no() {
    let (mut queue, mut policy) = (queue(), Fake { hint: false, ..Fake::default() });
    queue.add(pod("p", 0), NOON, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("it is ready");
    fail(&mut queue, record, rejected_by("Fit"), NOON, &mut policy);
    queue.move_all(&node_event(ClusterEvent::ADD), |_| true, NOON, &mut policy);
    assert_eq!((place_of(&queue, "p"), policy.hints_asked), (Some(SubQueue::Unschedulable), 1));
}

#[test]
fn gated_pods_hear_only_of_their_gates_events() {
    let (mut queue, mut policy) = (queue(), Fake { gate: true, ..Fake::default() });
    queue.add(pod("p", 0), NOON, &mut policy);
    assert_eq!(queue.pending_pods().gated, 1);
    policy.gate = false;
    queue.move_all(&node_event(ClusterEvent::ADD), |_| true, NOON, &mut policy);
    queue.flush(NOON + 10_000_000, &mut policy);
    assert_eq!(queue.pending_pods().gated, 1, "neither another's event nor time opens the gate");
    queue.move_all(&node_event(ClusterEvent::UPDATE_NODE_LABEL), |_| true, NOON, &mut policy);
    assert_eq!(queue.pending_pods().active, 1);
}

#[test]
fn five_minutes_are_enough() {
    let (mut queue, mut policy) = (queue(), Fake::default());
    queue.flush(NOON, &mut policy);
    queue.add(pod("p", 0), NOON, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("it is ready");
    fail(&mut queue, record, rejected_by("Fit"), NOON, &mut policy);
    queue.flush(NOON + 300_000, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Unschedulable));
    queue.flush(NOON + 330_000, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("it was flushed");
    assert!(record.was_flushed);
    queue.done(&record.pod.uid);
}

fn settings_of(release: Release) -> Settings {
    Settings { features: Features::of(release), ..Settings::default() }
}

/// A pod was rejected and flushed after five minutes. On its way to activeQ, a plugin gated the pod. This plugin
/// registered for every event.
#[test]
fn a_pod_that_was_flushed_and_gated_waits_another_five_minutes_from_1_37_on() {
    for (release, n_asked) in [(Release::V1_36, 5), (Release::V1_37, 1)] {
        let mut queue = Queue::new(settings_of(release));
        let mut policy = Fake::default();
        let gate = PluginEvents::new(Arc::from("Gate"), None);
        queue.register([(Sym::NONE, vec![PluginEvents::new(Arc::from("Fit"), Some(Vec::new())), gate])]);
        queue.flush(NOON, &mut policy);
        queue.add(pod("p", 0), NOON, &mut policy);
        let record = queue.pop(Time(u64::MAX)).expect("it is ready");
        fail(&mut queue, record, rejected_by("Fit"), NOON, &mut policy);
        policy.gate = true;
        for half_minutes in 1..=15 {
            queue.flush(NOON + half_minutes * 30_000, &mut policy);
        }
        assert_eq!(queue.pending_pods().gated, 1);
        let by_time = (SubQueue::Unschedulable, Arc::from("UnschedulableTimeout"));
        assert_eq!(queue.metrics().incoming.get(&by_time), Some(&n_asked), "{}", release.as_str());
    }
}

#[test]
fn nominations_of_gated_pods_count_from_1_37_on() {
    for (release, counts) in [(Release::V1_36, false), (Release::V1_37, true)] {
        let mut queue = Queue::new(settings_of(release));
        let mut policy = Fake { gate: true, ..Fake::default() };
        let nominated = Arc::new(Pod { nominated_node_name: Sym(77), ..(*pod("p", 0)).clone() });
        queue.add(Arc::clone(&nominated), NOON, &mut policy);
        assert_eq!(queue.nominator().node_of("p").is_some(), counts, "{}", release.as_str());
        policy.gate = false;
        queue.update(&nominated, &[], NOON, &mut policy);
        assert!(queue.nominator().node_of("p").is_some(), "an update of the pod enters it");
    }
}

#[test]
fn events_of_pods_without_a_node_are_called_by_kind_from_1_37_on() {
    let labels = |release| {
        let labels = PodEventLabels::of(Features::of(release));
        let own = labels.own_update(ClusterEvent::UPDATE_POD_LABEL, EventObjects::Cluster);
        [&*labels.added, &*labels.updated, &*labels.deleted, &*own.label].map(str::to_owned)
    };
    let old =
        ["UnschedulablePodAdd", "UnschedulablePodUpdate", "UnschedulablePodDelete", "UnschedulablePodUpdatePodLabel"];
    assert_eq!(labels(Release::V1_36), old);
    let new = ["UnscheduledPodAdd", "UnscheduledPodUpdate", "UnscheduledPodDelete", "TargetPodUpdatePodLabel"];
    assert_eq!(labels(Release::V1_37), new);
}

#[test]
fn activation_needs_no_event() {
    let (mut queue, mut policy) = (queue(), Fake::default());
    queue.add(pod("p", 0), NOON, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("it is ready");
    queue.activate(&[PodUid::from("p")], NOON, &mut policy);
    fail(&mut queue, record, rejected_by("Fit"), NOON, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Backoff), "activated in flight: after its backoff");
    queue.activate(&[PodUid::from("p")], NOON, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Active));
}

/// A plugin may have held the pod at Permit, and its next binary was not asked about the pod.
#[test]
fn a_pod_in_flight_is_tried_again_if_the_plugin_that_rejects_it_was_replaced() {
    for (rejector, place) in [("Fit", SubQueue::Backoff), ("Claims", SubQueue::Unschedulable)] {
        let (mut queue, mut policy) = (queue(), Fake::default());
        queue.add(pod("p", 0), NOON, &mut policy);
        let record = queue.pop(Time(u64::MAX)).expect("it is ready");
        queue.retry_rejected_by("Fit", "PluginReplaced", NOON, &mut policy);
        fail(&mut queue, record, rejected_by(rejector), NOON, &mut policy);
        assert_eq!(place_of(&queue, "p"), Some(place), "Fit was replaced, and {rejector} rejects the pod");
    }
}

/// While a plugin holds a pod at Permit, the plugin may activate the pod any number of times.
#[test]
fn a_pod_in_flight_is_activated_once() {
    let (mut queue, mut policy) = (queue(), Fake::default());
    queue.add(pod("p", 0), NOON, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("it is ready");
    for _ in 0..10 {
        queue.activate(&vec![PodUid::from("p"); 1024], NOON, &mut policy);
    }
    assert_eq!(queue.metrics().in_flight_events, BTreeMap::from([(Arc::from("ForceActivate"), 1)]));
    fail(&mut queue, record, rejected_by("Fit"), NOON, &mut policy);
    assert_eq!(place_of(&queue, "p"), Some(SubQueue::Backoff));
    assert!(queue.metrics().in_flight_events.is_empty());
}

#[test]
fn a_pod_that_is_held_for_long_keeps_so_many_events_and_no_more() {
    let (mut queue, mut policy) = (queue(), Fake { hint: false, ..Fake::default() });
    queue.add(pod("held", 0), NOON, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("it is ready");
    let n_kept = |queue: &Queue| queue.metrics().in_flight_events.values().sum::<usize>();
    for _ in 0..MAX_EVENTS + 100 {
        queue.move_all(&node_event(ClusterEvent::ADD), |_| true, NOON, &mut policy);
    }
    assert_eq!(n_kept(&queue), MAX_EVENTS);
    let large = Arc::new(Pod { json: Some(vec![b' '; 1 << 20].into()), ..Pod::default() });
    let subject = EventObjects::Pod { old: None, new: Some(large) };
    let event = Arc::new(ObjectEvent::new(ObjectEvent::NODE, ClusterEvent::ADD, subject));
    for _ in 0..100 {
        queue.move_all(&event, |_| true, NOON, &mut policy);
    }
    assert_eq!(n_kept(&queue), (MAX_BYTES >> 20) - 1, "they hold a megabyte each, and a little more");
    // No hint returns true for the remaining events. A hint may have returned true for the dropped events.
    fail(&mut queue, record, rejected_by("Fit"), NOON, &mut policy);
    assert_eq!(place_of(&queue, "held"), Some(SubQueue::Backoff));
}

#[test]
fn a_pod_with_more_data_of_the_same_version_stays_where_it_is() {
    let (mut queue, mut policy) = (queue(), Fake::default());
    queue.add(pod("first", 0), NOON, &mut policy);
    queue.add(pod("second", 0), NOON, &mut policy);
    let whole = |uid: &str| Arc::new(Pod { json: Some(Arc::from(*b"{}")), ..Pod::clone(&pod(uid, 0)) });
    for uid in ["first", "unknown"] {
        queue.replace(&whole(uid), &mut policy);
    }
    assert!(!queue.contains("unknown"));
    let record = queue.pop(NOON).expect("it is ready");
    assert_eq!((&*record.pod.uid, record.pod.json.as_deref()), ("first", Some(&b"{}"[..])));
    queue.replace(&whole("first"), &mut policy);
    assert!(!queue.contains("first"), "it is in flight");
}

#[test]
fn metrics_tell_where_pods_went_and_who_holds_them() {
    let (mut queue, mut policy) = (queue(), Fake::default());
    queue.add(pod("p", 0), NOON, &mut policy);
    let record = queue.pop(Time(u64::MAX)).expect("it is ready");
    assert_eq!(queue.metrics().in_flight_pods, 1);
    fail(&mut queue, record, rejected_by("Fit"), NOON, &mut policy);
    let metrics = queue.metrics();
    assert_eq!(metrics.incoming.get(&(SubQueue::Active, Arc::from("UnschedulablePodAdd"))), Some(&1));
    assert_eq!(metrics.incoming.get(&(SubQueue::Unschedulable, Arc::from("ScheduleAttemptFailure"))), Some(&1));
    assert_eq!(metrics.unschedulable.get(&(Arc::from("Fit"), Sym::NONE)), Some(&1));
    let _gone = queue.delete("p");
    assert_eq!(queue.metrics().unschedulable.get(&(Arc::from("Fit"), Sym::NONE)), Some(&0));
}

#[test]
fn a_nomination_in_memory_outlives_updates_without_one() {
    let (mut queue, mut policy) = (queue(), Fake::default());
    let first = pod("p", 0);
    queue.add(Arc::clone(&first), NOON, &mut policy);
    queue.nominator_mut().set(&first, Sym(77));
    queue.update(&pod("p", 3), &[], NOON, &mut policy);
    assert_eq!(queue.nominator().pods_on(Sym(77)).iter().map(|pod| pod.priority).collect::<Vec<_>>(), [3]);
    let _gone = queue.delete("p");
    assert!(queue.nominator().is_empty());
}

#[test]
fn of_pods_that_are_alike_one_is_asked_about() {
    for (hint, hints_alike, hints_asked) in [(false, true, 2), (true, true, 2), (false, false, 5), (true, false, 5)] {
        let (mut queue, mut policy) = (queue(), Fake { hint, hints_alike, ..Fake::default() });
        for (uid, priority) in [("a", 1), ("b", 2), ("c", 1), ("d", 1), ("e", 2)] {
            queue.add(pod(uid, priority), NOON, &mut policy);
        }
        while let Some(record) = queue.pop(NOON) {
            fail(&mut queue, record, rejected_by("Fit"), NOON, &mut policy);
        }
        queue.move_all(&node_event(ClusterEvent::ADD), |_| true, NOON + 100, &mut policy);
        assert_eq!(policy.hints_asked, hints_asked);
        assert_eq!(queue.pending_pods().unschedulable, if hint { 0 } else { 5 });
    }
}

#[test]
fn an_event_of_a_pod_is_asked_about_each_of_its_like() {
    let (mut queue, mut policy) = (queue(), Fake { hint: false, hints_alike: true, ..Fake::default() });
    for uid in ["a", "b", "c"] {
        queue.add(pod(uid, 1), NOON, &mut policy);
    }
    while let Some(record) = queue.pop(NOON) {
        fail(&mut queue, record, rejected_by("Fit"), NOON, &mut policy);
    }
    for (uid, hints_asked) in [("b", 3), ("elsewhere", 4)] {
        let subject = EventObjects::Pod { old: None, new: Some(pod(uid, 1)) };
        let event = Arc::new(ObjectEvent::new("Node", ClusterEvent::ADD, subject));
        queue.move_all(&event, |_| true, NOON + 100, &mut policy);
        assert_eq!(policy.hints_asked, hints_asked);
    }
}
