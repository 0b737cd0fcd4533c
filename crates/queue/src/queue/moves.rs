//! The moves of waiting pods for each cause: pods that were added, changed or deleted, cluster events, and time.

use std::sync::{Arc, LazyLock};

use berth_framework::ClusterEvent;
use berth_model::{Feature, Pod, PodUid, Time};

use super::Queue;
use crate::{
    in_flight::FORCE_ACTIVATE,
    movement::{MoveCause, MoveReason, QueueingStrategy},
    object_event::{EventObjects, ObjectEvent},
    places::{Place, WaitingPod},
    policy::Policy,
    pool::{Arrival, GroupId},
    record::QueuedPod,
};

/// The milliseconds between two searches for pods that have waited too long.
pub(super) const LEFTOVER_PERIOD: u64 = 30_000;

/// The label under which metrics count pods whose backoff is over.
static BACKOFF_COMPLETE: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("BackoffComplete"));

impl Queue {
    /// Adds a pending pod that appeared. If the pod already waits or is in flight, nothing changes.
    pub fn add(&mut self, pod: Arc<Pod>, now: Time, policy: &mut dyn Policy) {
        self.add_as(pod, &self.pod_event_labels().added, now, policy);
    }

    fn add_as(&mut self, pod: Arc<Pod>, label: &Arc<str>, now: Time, policy: &mut dyn Policy) {
        if self.contains(&pod.uid) || self.is_in_flight(&pod.uid) {
            return;
        }
        let record = QueuedPod::new(Arc::clone(&pod), now).after(label);
        self.enter_active(record, MoveReason::event(label), now, policy);
        let is_gated = self.places.get(&pod.uid).is_some_and(|waiting| waiting.record.gated_by.is_some());
        if !is_gated || self.settings.features.has(Feature::GatedPodsKeepNominations) {
            self.nominator.set(&pod, pod.nominated_node_name);
        }
    }

    /// Handles a change of a pending pod. `object_events` describe the change. These events can move only a pod in the
    /// pool. For a pod in flight, the events are kept until its attempt fails.
    pub fn update(&mut self, pod: &Arc<Pod>, object_events: &[Arc<ObjectEvent>], now: Time, policy: &mut dyn Policy) {
        if self.is_in_flight(&pod.uid) {
            object_events.iter().for_each(|object_event| self.in_flight.record(object_event));
            return;
        }
        let Some(WaitingPod { mut record, place }) = self.take(&pod.uid) else {
            return self.add_as(Arc::clone(pod), &self.pod_event_labels().updated, now, policy);
        };
        self.nominator.update(&record.pod, pod);
        record.pod = Arc::clone(pod);
        if let Place::Unschedulable(_) = place {
            for object_event in object_events {
                let strategy = self.strategy(&record, object_event, policy);
                if strategy != QueueingStrategy::Skip {
                    let reason = MoveReason { label: &object_event.label, cause: MoveCause::Updated };
                    return self.place(record, strategy, reason, now, policy);
                }
            }
        }
        self.put_back(record, place, policy);
    }

    /// Gives a waiting pod the same version of its object with more data. The pod stays where it is. A pod in flight gets
    /// its newest object when its attempt fails.
    pub fn replace(&mut self, pod: &Arc<Pod>, policy: &mut dyn Policy) {
        if let Some(WaitingPod { mut record, place }) = self.take(&pod.uid) {
            record.pod = Arc::clone(pod);
            self.put_back(record, place, policy);
        }
    }

    /// Removes a pod that is gone or has a node. If the pod is in flight, the caller that popped it keeps the record
    /// until [`Queue::done`].
    pub fn delete(&mut self, uid: &str) -> Option<QueuedPod> {
        self.nominator.remove(uid);
        self.take(uid).map(|pod| pod.record)
    }

    /// Whether a plugin of any profile registered for the event.
    #[must_use]
    pub fn hears(&self, event: &ClusterEvent) -> bool {
        self.registrations.anyone_hears(event)
    }

    /// Moves every unschedulable pod that the event may have made schedulable. `concerned` selects the pods that may
    /// move. For running attempts, the event is always recorded.
    pub fn move_all(
        &mut self,
        object_event: &Arc<ObjectEvent>,
        concerned: impl Fn(&Pod) -> bool,
        now: Time,
        policy: &mut dyn Policy,
    ) {
        if !object_event.is_wildcard() && !self.hears(&object_event.event) {
            return;
        }
        let moving = if object_event.is_wildcard() {
            self.moved_by_wildcard(object_event, concerned, policy)
        } else {
            self.moved_by(object_event, concerned, policy)
        };
        for (_, uid, strategy) in moving {
            self.move_if(&uid, strategy, &object_event.label, now, policy);
        }
        self.in_flight.record(object_event);
    }

    /// The pods that the event moves, in the order of their arrival. If all pods of a group get the same answers,
    /// plugins are asked only about the first pod.
    fn moved_by(
        &self,
        object_event: &ObjectEvent,
        concerned: impl Fn(&Pod) -> bool,
        policy: &mut dyn Policy,
    ) -> Vec<(Arrival, PodUid, QueueingStrategy)> {
        let mut moved = Vec::new();
        for group in self.places.pool().groups_rejected_by(self.registrations.hearing(&object_event.event)) {
            let mut pods = self.places.group(group).filter(|(_, record)| concerned(&record.pod)).peekable();
            let Some((_, first)) = pods.peek() else { continue };
            if self.goes_for_all(first, group, object_event, policy) {
                let strategy = self.strategy_if_open(first, object_event, policy);
                if strategy != QueueingStrategy::Skip {
                    moved.extend(pods.map(|(arrival, record)| (arrival, record.pod.uid.clone(), strategy)));
                }
                continue;
            }
            for (arrival, record) in pods {
                let strategy = self.strategy_if_open(record, object_event, policy);
                if strategy != QueueingStrategy::Skip {
                    moved.push((arrival, record.pod.uid.clone(), strategy));
                }
            }
        }
        moved.sort_unstable_by_key(|(arrival, ..)| *arrival);
        moved
    }

    fn moved_by_wildcard(
        &self,
        object_event: &ObjectEvent,
        concerned: impl Fn(&Pod) -> bool,
        policy: &mut dyn Policy,
    ) -> Vec<(Arrival, PodUid, QueueingStrategy)> {
        let pool = self.places.in_pool().filter(|(_, record)| concerned(&record.pod));
        let strategies =
            pool.map(|(at, record)| (at, record.pod.uid.clone(), self.strategy_if_open(record, object_event, policy)));
        strategies.collect()
    }

    fn strategy_if_open(
        &self,
        record: &QueuedPod,
        object_event: &ObjectEvent,
        policy: &mut dyn Policy,
    ) -> QueueingStrategy {
        if self.opens_gate(record, object_event) {
            self.strategy(record, object_event, policy)
        } else {
            QueueingStrategy::Skip
        }
    }

    /// Whether the event has the same consequence for every pod of the group.
    fn goes_for_all(
        &self,
        record: &QueuedPod,
        group: GroupId,
        object_event: &ObjectEvent,
        policy: &mut dyn Policy,
    ) -> bool {
        let is_about_one = match &object_event.objects {
            EventObjects::Pod { old, new } => old.iter().chain(new).any(|pod| self.places.is_in_group(&pod.uid, group)),
            EventObjects::Cluster | EventObjects::Node { .. } | EventObjects::Object { .. } => false,
        };
        let pod = &record.pod;
        let hears = |plugin: &&Arc<str>| self.registrations.hears(pod.scheduler_name, plugin, &object_event.event);
        !is_about_one && record.rejected_by().filter(hears).all(|plugin| policy.hints_alike(plugin, pod, object_event))
    }

    /// Moves these pods to activeQ without waiting for their backoff. A pod in flight is not moved. If its attempt
    /// fails, the pod is tried again after its backoff.
    pub fn activate(&mut self, uids: &[PodUid], now: Time, policy: &mut dyn Policy) {
        for uid in uids {
            match self.take(uid) {
                Some(WaitingPod { record, place: place @ Place::Active(..) }) => self.put(record, place),
                Some(WaitingPod { record, place: Place::Unschedulable(_) }) => {
                    self.enter_active(record.after(&FORCE_ACTIVATE), MoveReason::event(&FORCE_ACTIVATE), now, policy);
                }
                Some(WaitingPod { record, place: Place::Backoff(..) | Place::ErrorBackoff(..) }) => {
                    self.leave_backoff(record.after(&FORCE_ACTIVATE), MoveReason::event(&FORCE_ACTIVATE), now, policy);
                }
                None => self.in_flight.activate(uid),
            }
        }
    }

    /// Tries the pods that `plugin` rejected again after their backoff, because the plugin would give another answer
    /// from this time on. If the plugin rejects a pod whose attempt is running, for example because the pod waited too
    /// long at Permit, this pod is tried again as well. `label` names the reason in metrics.
    pub fn retry_rejected_by(&mut self, plugin: &str, label: &str, now: Time, policy: &mut dyn Policy) {
        let label: Arc<str> = Arc::from(label);
        for uid in self.places.rejected_by(plugin) {
            self.move_if(&uid, QueueingStrategy::AfterBackoff, &label, now, policy);
        }
        self.in_flight.plugin_changed(plugin);
    }

    /// Tries a pod again that is kept out of activeQ because `plugin` could not be asked. The plugin can be asked
    /// again. Pods that other plugins gate, and pods that no plugin gates, keep their places.
    pub fn retry_gated(&mut self, uid: &str, plugin: &str, label: &str, now: Time, policy: &mut dyn Policy) {
        let gated_by = self.places.get(uid).and_then(|pod| pod.record.gated_by.as_deref());
        if gated_by == Some(plugin) {
            self.move_if(uid, QueueingStrategy::AfterBackoff, &Arc::from(label), now, policy);
        }
    }

    /// Moves the pods whose time has come. Pods whose backoff is over become ready, and pods that waited too long are
    /// tried again.
    pub fn flush(&mut self, now: Time, policy: &mut dyn Policy) {
        for uid in self.places.backoff_over(self.settings.window(now)) {
            if let Some(WaitingPod { record, .. }) = self.take(&uid) {
                self.leave_backoff(record, MoveReason::event(&BACKOFF_COMPLETE), now, policy);
            }
        }
        if now >= self.next_leftover_flush {
            self.next_leftover_flush = now + LEFTOVER_PERIOD;
            self.flush_leftover(now, policy);
        }
    }

    fn flush_leftover(&mut self, now: Time, policy: &mut dyn Policy) {
        let timeout = ObjectEvent::wildcard("UnschedulableTimeout");
        let counts_flushes = self.settings.features.has(Feature::FlushesCountForAge);
        let is_due = |record: &QueuedPod| {
            let since = if counts_flushes { record.queued_at.max(record.flushed_at) } else { record.queued_at };
            now.since(since) > self.settings.max_in_unschedulable_pool && self.leaves_by_flush(record, &timeout)
        };
        let due = self.places.in_pool().filter(|(_, record)| is_due(record));
        let due: Vec<PodUid> = due.map(|(_, record)| record.pod.uid.clone()).collect();
        for uid in due {
            if let Some(WaitingPod { mut record, .. }) = self.take(&uid) {
                record.was_flushed = true;
                record.flushed_at = now;
                let reason = MoveReason::event(&timeout.label);
                self.place(record, QueueingStrategy::AfterBackoff, reason, now, policy);
            }
        }
    }

    /// Whether a pod that waited too long leaves the pool. A gated pod leaves the pool only if the plugin that gates
    /// the pod registered for every event.
    fn leaves_by_flush(&self, record: &QueuedPod, timeout: &ObjectEvent) -> bool {
        let hears = |plugin: &Arc<str>| self.registrations.hears(record.pod.scheduler_name, plugin, &timeout.event);
        record.gated_by.as_ref().is_none_or(hears)
    }

    fn move_if(&mut self, uid: &str, strategy: QueueingStrategy, label: &Arc<str>, now: Time, policy: &mut dyn Policy) {
        if strategy != QueueingStrategy::Skip
            && let Some(WaitingPod { record, .. }) = self.take(uid)
        {
            self.place(record, strategy, MoveReason::event(label), now, policy);
        }
    }

    /// Whether the event may move the pod. A gated pod is moved only by events for which the plugin that gates the pod
    /// registered.
    fn opens_gate(&self, record: &QueuedPod, object_event: &ObjectEvent) -> bool {
        record.gated_by.as_ref().is_none_or(|plugin| {
            !object_event.is_wildcard()
                && self.registrations.hears(record.pod.scheduler_name, plugin, &object_event.event)
        })
    }
}
