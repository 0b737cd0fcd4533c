//! What happens to waiting pods: they come, change and go, events concern them, time passes.

use std::sync::Arc;

use berth_model::{Pod, PodUid, Time};

use crate::{
    occurrence::Occurrence,
    policy::Policy,
    queue::{Entry, Place, Queue, QueuedPod},
    requeue::Worth,
};

/// Milliseconds between looks for pods that have waited too long.
const LEFTOVER_PERIOD: u64 = 30_000;

impl Queue {
    /// A pending pod appeared. One that is known already, waiting or in flight, stays as it is.
    pub fn add(&mut self, pod: Arc<Pod>, now: Time, policy: &mut dyn Policy) {
        self.add_as(pod, "UnschedulablePodAdd", now, policy);
    }

    fn add_as(&mut self, pod: Arc<Pod>, label: &str, now: Time, policy: &mut dyn Policy) {
        if self.contains(&pod.uid) || self.is_in_flight(&pod.uid) {
            return;
        }
        self.nominator.set(&pod, pod.nominated_node_name);
        self.enter_active(QueuedPod::new(pod, now), &Arc::from(label), now, policy);
    }

    /// A pending pod changed; `occurrences` say how. Only a pod in the pool is moved by them, one in flight remembers
    /// them for when its attempt fails.
    pub fn update(&mut self, pod: &Arc<Pod>, occurrences: &[Arc<Occurrence>], now: Time, policy: &mut dyn Policy) {
        if self.is_in_flight(&pod.uid) {
            occurrences.iter().for_each(|occurrence| self.in_flight.record(occurrence));
            return;
        }
        let Some(Entry { place, .. }) = self.entries.get(&pod.uid) else {
            return self.add_as(Arc::clone(pod), "UnschedulablePodUpdate", now, policy);
        };
        let place = *place;
        let Some(mut record) = self.take(&pod.uid) else { return };
        self.nominator.update(&record.pod, pod);
        record.pod = Arc::clone(pod);
        if let Place::Unschedulable(_) = place {
            for occurrence in occurrences {
                let worth = self.worth(&record, occurrence, policy);
                if worth != Worth::Nothing {
                    return self.place(record, worth, &occurrence.label, now, policy);
                }
            }
        }
        self.put_back(record, place, policy);
    }

    /// The pod is gone, or has a node. A record in flight stays with whoever popped it, until [`Queue::done`].
    pub fn delete(&mut self, uid: &str) -> Option<QueuedPod> {
        self.nominator.remove(uid);
        self.take(uid)
    }

    /// Something happened: every pod in the pool for which it is worth another attempt is moved. `concerned` limits it
    /// to some pods; attempts under way hear of it in any case.
    pub fn move_all(
        &mut self,
        occurrence: &Arc<Occurrence>,
        concerned: impl Fn(&Pod) -> bool,
        now: Time,
        policy: &mut dyn Policy,
    ) {
        if !occurrence.is_wildcard() && !self.registrations.anyone_hears(&occurrence.event) {
            return;
        }
        let pool: Vec<PodUid> = self.unschedulable.values().cloned().collect();
        for uid in pool {
            let Some(Entry { record, .. }) = self.entries.get(&uid) else { continue };
            if !concerned(&record.pod) || !self.opens_gate(record, occurrence) {
                continue;
            }
            let worth = self.worth(record, occurrence, policy);
            self.move_if(&uid, worth, &occurrence.label, now, policy);
        }
        self.in_flight.record(occurrence);
    }

    /// Moves these pods out of the pool or their backoff without delay; one in flight is tried again soon if its
    /// attempt fails.
    pub fn activate(&mut self, uids: &[PodUid], now: Time, policy: &mut dyn Policy) {
        let label: Arc<str> = Arc::from("ForceActivate");
        for uid in uids {
            match self.entries.get(uid).map(|entry| entry.place) {
                Some(Place::Active(..)) => {}
                Some(Place::Unschedulable(_)) => {
                    if let Some(record) = self.take(uid) {
                        self.enter_active(record, &label, now, policy);
                    }
                }
                Some(Place::Backoff(..) | Place::ErrorBackoff(..)) => {
                    if let Some(record) = self.take(uid) {
                        self.enter_active_ungated(record, &label, now, policy);
                    }
                }
                None if self.is_in_flight(uid) => {
                    let pod = Pod { uid: uid.clone(), ..Pod::default() };
                    self.in_flight.record(&Arc::new(Occurrence::wildcard(&label, Some(Arc::new(pod)))));
                }
                None => {}
            }
        }
    }

    /// Another binary answers for `plugin`: what the old one turned down is tried again after its backoff.
    pub fn plugin_replaced(&mut self, plugin: &str, now: Time, policy: &mut dyn Policy) {
        let pool: Vec<PodUid> = self.unschedulable.values().cloned().collect();
        let label: Arc<str> = Arc::from("PluginReplaced");
        for uid in pool {
            let Some(Entry { record, .. }) = self.entries.get(&uid) else { continue };
            if record.rejectors.iter().chain(&record.pending).any(|rejector| **rejector == *plugin) {
                self.move_if(&uid, Worth::AfterBackoff, &label, now, policy);
            }
        }
    }

    /// Time passed: pods whose backoff is over become ready, and pods that waited too long are tried again.
    pub fn flush(&mut self, now: Time, policy: &mut dyn Policy) {
        let label: Arc<str> = Arc::from("BackoffComplete");
        for uid in self.backoff_over(now) {
            if let Some(record) = self.take(&uid) {
                self.enter_active_ungated(record, &label, now, policy);
            }
        }
        if now >= self.next_leftover_flush {
            self.next_leftover_flush = now + LEFTOVER_PERIOD;
            self.flush_leftover(now, policy);
        }
    }

    fn flush_leftover(&mut self, now: Time, policy: &mut dyn Policy) {
        let timeout = Occurrence::wildcard("UnschedulableTimeout", None);
        let pool: Vec<PodUid> = self.unschedulable.values().cloned().collect();
        for uid in pool {
            let Some(Entry { record, .. }) = self.entries.get_mut(&uid) else { continue };
            let is_due = now.since(record.queued_at) > self.settings.max_in_unschedulable_pool;
            if is_due && record.gated_by.is_none() {
                record.was_flushed = true;
                self.move_if(&uid, Worth::AfterBackoff, &timeout.label, now, policy);
            }
        }
    }

    fn move_if(&mut self, uid: &str, worth: Worth, label: &Arc<str>, now: Time, policy: &mut dyn Policy) {
        if worth != Worth::Nothing
            && let Some(record) = self.take(uid)
        {
            self.place(record, worth, label, now, policy);
        }
    }

    /// A gated pod hears only of events for which the plugin that keeps it out registered.
    fn opens_gate(&self, record: &QueuedPod, occurrence: &Occurrence) -> bool {
        record.gated_by.as_ref().is_none_or(|plugin| {
            !occurrence.is_wildcard() && self.registrations.hears(record.pod.scheduler_name, plugin, &occurrence.event)
        })
    }
}
