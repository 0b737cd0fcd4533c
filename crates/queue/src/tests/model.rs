//! The queue compared with its reference, with time. After every operation, both must give the same answer about every
//! pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_framework::ClusterEvent;
use berth_model::{Features, Pod, PodUid, Sym, Time};
use proptest::prelude::*;

use super::reference::{Answers, Happening, PLUGINS, Place, Reference, Why, kind};
use crate::{
    EventObjects, Gate, ObjectEvent, PluginEvents, PodEventLabels, Policy, Queue, QueuedPod, RejectedBy, Settings,
    SubQueue,
};

/// The number of pods that come and go. It is small, so that operations often meet the same pod.
const PODS: u8 = 16;

/// The reasons for which attempts fail.
const FAILURES: [Why; 6] = [
    Why { rejectors: &[], pending: &[] },
    Why { rejectors: &["Fit"], pending: &[] },
    Why { rejectors: &["Fit", "Claims"], pending: &[] },
    Why { rejectors: &["Deaf"], pending: &[] },
    Why { rejectors: &["Fit"], pending: &["Claims"] },
    Why { rejectors: &[], pending: &["Claims"] },
];

#[derive(Clone, Debug)]
enum Operation {
    Add(u8, i8),
    Update(u8, i8, Vec<Happening>),
    Delete(u8),
    Pop,
    /// The attempt with this number succeeds, or its pod is deleted.
    Done(usize),
    Fail(usize, usize),
    Happen(Happening),
    /// The event concerns only pods of an even number.
    HappenToSome(Happening),
    Activate(u8),
    ReplacePlugin(usize),
    Wait(u64),
    Flush,
    /// `Gate` starts or stops keeping the pod out.
    TurnGate(u8),
    TurnHints(u8),
}

fn operation() -> impl Strategy<Value = Operation> {
    let happening = || {
        prop_oneof![
            Just(Happening::NodeAdd),
            Just(Happening::NodeLabel),
            Just(Happening::PodDelete),
            Just(Happening::PodLabel)
        ]
    };
    let own = prop::collection::vec(prop_oneof![Just(Happening::PodLabel), Just(Happening::PodDelete)], 0..3);
    prop_oneof![
        6 => (0..PODS, -3..3i8).prop_map(|(pod, priority)| Operation::Add(pod, priority)),
        3 => (0..PODS, -3..3i8, own).prop_map(|(pod, priority, events)| Operation::Update(pod, priority, events)),
        2 => (0..PODS).prop_map(Operation::Delete),
        10 => Just(Operation::Pop),
        2 => any::<usize>().prop_map(Operation::Done),
        9 => (any::<usize>(), 0..FAILURES.len()).prop_map(|(which, why)| Operation::Fail(which, why)),
        4 => happening().prop_map(Operation::Happen),
        1 => happening().prop_map(Operation::HappenToSome),
        1 => (0..PODS).prop_map(Operation::Activate),
        1 => (0..PLUGINS.len()).prop_map(Operation::ReplacePlugin),
        // Most waits end within a backoff. Some waits are longer than five minutes.
        6 => prop_oneof![8 => 0..3000u64, 2 => 0..20_000u64, 1 => 0..400_000u64].prop_map(Operation::Wait),
        5 => Just(Operation::Flush),
        1 => (0..PODS).prop_map(Operation::TurnGate),
        1 => any::<u8>().prop_map(Operation::TurnHints),
    ]
}

/// The plugins' side of the real queue.
impl Policy for Answers {
    fn pre_enqueue(&mut self, pod: &Pod, _gated_by: Option<&str>) -> Gate {
        if self.gated.contains(&number(pod)) { Gate::Closed(Arc::from("Gate")) } else { Gate::Open }
    }

    fn sort_key(&mut self, pod: &Pod, queued_at: Time) -> (i64, i64) {
        (-i64::from(pod.priority), i64::try_from(queued_at.0).expect("a small time"))
    }

    fn hint(&mut self, plugin: &Arc<str>, pod: &Pod, object_event: &ObjectEvent) -> bool {
        let all = [Happening::NodeAdd, Happening::NodeLabel, Happening::PodDelete, Happening::PodLabel];
        let event = all.into_iter().find(|event| event.label() == &*object_event.label).expect("one of those");
        Answers::hint(self, plugin, number(pod), event)
    }

    fn hints_alike(&mut self, plugin: &str, _pod: &Pod, _occurrence: &ObjectEvent) -> bool {
        Answers::hints_alike(plugin)
    }
}

fn number(pod: &Pod) -> u8 {
    pod.uid.parse().expect("a number")
}

fn pod(number: u8, priority: i8) -> Arc<Pod> {
    let uid = PodUid::from(number.to_string());
    let owner = Sym(u32::from(kind(number)));
    Arc::new(Pod { uid, priority: i32::from(priority), labels: [(owner, owner)].into(), ..Pod::default() })
}

fn event(happening: Happening) -> ClusterEvent {
    let (resource, actions) = match happening {
        Happening::NodeAdd => ("Node", ClusterEvent::ADD),
        Happening::NodeLabel => ("Node", ClusterEvent::UPDATE_NODE_LABEL),
        Happening::PodDelete => (ObjectEvent::ASSIGNED_POD, ClusterEvent::DELETE),
        Happening::PodLabel => (ObjectEvent::TARGET_POD, ClusterEvent::UPDATE_POD_LABEL),
    };
    ClusterEvent::new(resource, actions)
}

fn object_event(happening: Happening) -> Arc<ObjectEvent> {
    let ClusterEvent { resource, actions } = event(happening);
    if resource == ObjectEvent::TARGET_POD {
        let labels = PodEventLabels::of(Features::default());
        return Arc::new(labels.own_update(actions, EventObjects::Cluster));
    }
    Arc::new(ObjectEvent::new(&resource, actions, EventObjects::Cluster))
}

struct Pair {
    queue: Queue,
    reference: Reference,
    in_flight: Vec<QueuedPod>,
    now: Time,
}

impl Pair {
    fn new() -> Self {
        let registered = |events: &[Happening]| events.iter().map(|happening| event(*happening)).collect();
        let plugins = PLUGINS
            .map(|(plugin, events)| PluginEvents { plugin: Arc::from(plugin), events: Some(registered(events)) });
        let mut queue = Queue::new(Settings::default());
        queue.register([(Sym::NONE, plugins.to_vec())]);
        Self { queue, reference: Reference::default(), in_flight: Vec::new(), now: Time(43_200_000) }
    }

    fn perform(&mut self, operation: &Operation) {
        let (now, mut answers) = (self.now, self.reference.answers.clone());
        let Self { queue, reference, .. } = self;
        match operation {
            Operation::Add(number, priority) => {
                queue.add(pod(*number, *priority), now, &mut answers);
                reference.add(*number, *priority, now.0, "UnschedulablePodAdd");
            }
            Operation::Update(number, priority, happenings) => {
                let object_events: Vec<_> = happenings.iter().map(|happening| object_event(*happening)).collect();
                queue.update(&pod(*number, *priority), &object_events, now, &mut answers);
                reference.update(*number, *priority, happenings, now.0);
            }
            Operation::Delete(number) => self.delete(*number),
            Operation::Pop => {
                let popped = queue.pop(now);
                assert_eq!(popped.as_ref().map(|record| self::number(&record.pod)), reference.pop(now.0));
                self.in_flight.extend(popped);
            }
            Operation::Done(which) => {
                if let Some(record) = self.attempt(*which) {
                    self.queue.done(&record.pod.uid);
                    self.reference.pods.remove(&self::number(&record.pod));
                }
            }
            Operation::Fail(which, why) => {
                if let Some(record) = self.attempt(*which) {
                    self.fail(record, FAILURES[*why]);
                }
            }
            Operation::Happen(happening) => {
                queue.move_all(&object_event(*happening), |_| true, now, &mut answers);
                reference.happen(*happening, |_| true, now.0);
            }
            Operation::HappenToSome(happening) => {
                queue.move_all(&object_event(*happening), |pod| self::number(pod).is_multiple_of(2), now, &mut answers);
                reference.happen(*happening, |number| number.is_multiple_of(2), now.0);
            }
            Operation::Activate(number) => {
                queue.activate(&[PodUid::from(number.to_string())], now, &mut answers);
                reference.activate(*number, now.0);
            }
            Operation::ReplacePlugin(which) => {
                let (plugin, _) = PLUGINS[*which];
                queue.retry_rejected_by(plugin, "PluginReplaced", now, &mut answers);
                reference.replace_plugin(plugin, now.0);
            }
            Operation::Wait(milliseconds) => self.now = now + *milliseconds,
            Operation::Flush => {
                queue.flush(now, &mut answers);
                reference.flush(now.0);
            }
            Operation::TurnGate(number) => {
                if !reference.answers.gated.remove(number) {
                    reference.answers.gated.insert(*number);
                }
            }
            Operation::TurnHints(mood) => reference.answers.mood = *mood,
        }
    }

    /// Deletes a pod. A pod that is deleted in flight stays known until its attempt ends.
    fn delete(&mut self, number: u8) {
        let waits = self.reference.pods.get(&number).is_some_and(super::reference::PodEntry::is_waiting);
        assert_eq!(self.queue.delete(&number.to_string()).is_some(), waits);
        if waits {
            self.reference.pods.remove(&number);
        }
    }

    fn attempt(&mut self, which: usize) -> Option<QueuedPod> {
        let n_attempts = self.in_flight.len();
        (n_attempts > 0).then(|| self.in_flight.swap_remove(which % n_attempts))
    }

    fn fail(&mut self, record: QueuedPod, why: Why) {
        let (number, pod) = (number(&record.pod), Arc::clone(&record.pod));
        let names = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        let failure = RejectedBy { rejectors: names(why.rejectors), pending: names(why.pending) };
        let mut answers = self.reference.answers.clone();
        self.queue.requeue(record, pod, failure, self.now, &mut answers).expect("it waits nowhere else");
        self.reference.fail(number, why, self.now.0);
    }

    /// Checks that each pod is in the same single place in both queues with the same history, and that counts and times
    /// agree.
    fn check(&self) {
        let Self { queue, reference, in_flight, .. } = self;
        let mut n_waiting = 0;
        for (record, place) in queue.iter() {
            n_waiting += 1;
            let entry = reference.pods.get(&number(&record.pod)).expect("the reference knows it");
            let expected = match entry.place {
                Place::Active => SubQueue::Active,
                Place::Backoff { .. } | Place::ErrorBackoff { .. } => SubQueue::Backoff,
                Place::Pool => SubQueue::Unschedulable,
                Place::InFlight => panic!("in flight, and in {place:?}: {record:?}"),
            };
            let past = (record.attempts, record.queued_at.0, record.was_flushed, record.gated_by.is_some());
            let same = expected == place
                && i32::from(entry.priority) == record.pod.priority
                && past == (entry.attempts, entry.queued_at, entry.was_flushed, entry.is_gated)
                && record.rejectors.iter().map(|name| &**name).eq(entry.rejectors.iter().copied())
                && record.pending.iter().map(|name| &**name).eq(entry.pending.iter().copied());
            assert!(same, "in {place:?}: {record:?}\nshould be {entry:?}");
        }
        // No pod is listed twice, so equal numbers mean equal sets.
        assert_eq!(n_waiting, reference.pods.values().filter(|entry| entry.is_waiting()).count());
        assert_eq!(queue.pending_pods(), reference.sizes());
        assert_eq!(queue.longest_waits_since(), queue.iter().map(|(record, _)| record.queued_at).min());
        assert_eq!(queue.next_wakeup().map(|time| time.0), reference.next_wakeup());
        assert_eq!(in_flight.len() + n_waiting, reference.pods.len());
        for record in in_flight {
            let entry = reference.pods.get(&number(&record.pod)).expect("the reference knows it");
            assert!(!entry.is_waiting() && queue.is_in_flight(&record.pod.uid), "{record:?}");
        }
    }

    fn check_metrics(&self) {
        let metrics = self.queue.metrics();
        assert_eq!(metrics.in_flight_pods, self.in_flight.len());
        assert!(
            !self.in_flight.is_empty() || metrics.in_flight_events.is_empty(),
            "no events are kept without pods in flight"
        );
        let incoming: BTreeMap<_, _> =
            metrics.incoming.into_iter().map(|((queue, label), n)| ((queue, label.to_string()), n)).collect();
        assert_eq!(incoming, self.reference.incoming);
        for (plugin, _) in PLUGINS {
            let waiting = self.reference.pods.values().filter(|entry| entry.is_waiting());
            let of = |entry: &super::reference::PodEntry| {
                entry.rejectors.iter().chain(&entry.pending).filter(|name| **name == plugin).count()
            };
            let expected = i64::try_from(waiting.map(of).sum::<usize>()).expect("a few");
            let gauge = metrics.unschedulable.get(&(Arc::from(plugin), Sym::NONE)).copied().unwrap_or_default();
            assert_eq!(gauge, expected, "{plugin}");
        }
    }

    /// Opens every gate, then lets time pass without further events. Each pod must leave the queue.
    fn drain(&mut self) {
        while let Some(record) = self.attempt(0) {
            self.fail(record, FAILURES[3]);
        }
        self.reference.answers.gated.clear();
        self.perform(&Operation::ReplacePlugin(1));
        for _ in 0..2 {
            self.perform(&Operation::Wait(400_000));
            self.perform(&Operation::Flush);
            self.check();
        }
        for _ in 0..self.reference.pods.len() {
            self.perform(&Operation::Pop);
        }
        self.check();
        assert!(
            self.reference.pods.values().all(|entry| !entry.is_waiting()),
            "pods are left: {:?}",
            self.reference.pods
        );
    }
}

proptest! {
    // The test makes a hundred thousand operations.
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_its_reference_does(operations in prop::collection::vec(operation(), 1..800)) {
        let mut pair = Pair::new();
        for operation in &operations {
            pair.perform(operation);
            pair.check();
        }
        pair.check_metrics();
        pair.drain();
        pair.check_metrics();
    }
}
