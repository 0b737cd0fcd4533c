//! The API server's news, entered into cache and queue.

use std::sync::Arc;

use berth_cache::Added;
use berth_framework::{ClusterEvent, ObjectKind};
use berth_model::{ObjectKey, Pod, Time, api, intern};
use berth_queue::{Occurrence, Subject};

use crate::{action::Level, changes, pending::PendingPod, permit::Resolution, scheduler::Scheduler};

impl Scheduler {
    pub(crate) fn pod_applied(&mut self, api: &api::Pod, now: Time) {
        let pod = Arc::new(intern::pod(api, self.cache.symbols_mut()));
        if let Some(replaced) = self.pods.name(&api.metadata, &pod.uid) {
            self.pod_deleted(&replaced, now);
        }
        if matches!(api.status.phase.as_str(), "Succeeded" | "Failed") {
            self.pods.unname(&api.metadata.namespace, &api.metadata.name, &pod.uid);
            self.pod_deleted(&pod.uid, now);
        } else if pod.node_name.is_none() {
            self.pending_pod_applied(api, &pod, now);
        } else {
            self.assigned_pod_applied(&pod, now);
        }
    }

    fn pending_pod_applied(&mut self, api: &api::Pod, pod: &Arc<Pod>, now: Time) {
        let known = PendingPod::new(Arc::clone(pod), api);
        let resource_version = known.resource_version.clone();
        let old = self.pods.insert(known);
        if old.as_ref().is_some_and(|old| !resource_version.is_empty() && old.resource_version == resource_version) {
            return;
        }
        if self.bindings.contains_key(&pod.uid) {
            if pod.terminating {
                self.resolve_wait(&pod.uid, Resolution::Removed, now);
            }
            return;
        }
        if !self.profiles.serves(pod.scheduler_name) || self.cache.pod(&pod.uid).is_some() {
            return;
        }
        let Some(old) = old.map(|old| old.pod) else {
            return self.with_queue(|queue, policy| queue.add(Arc::clone(pod), now, policy));
        };
        let updates = changes::pod_updates(&old, pod);
        self.with_queue(|queue, policy| queue.update(pod, &updates, now, policy));
        if !old.nominated_node_name.is_none() && old.nominated_node_name != pod.nominated_node_name {
            self.claim_given_up(&old, now);
        }
    }

    fn assigned_pod_applied(&mut self, pod: &Arc<Pod>, now: Time) {
        let added = match self.cache.add_pod(Arc::clone(pod)) {
            Ok(added) => added,
            Err(inconsistency) => return self.log(Level::Error, inconsistency.to_string()),
        };
        match added {
            Added::Updated { old } => {
                for occurrence in changes::pod_updates(&old, pod) {
                    self.move_all(&occurrence, now);
                }
            }
            Added::New | Added::Confirmed { .. } => {
                self.placement_seen(pod, now);
                self.move_all(&changes::pod_added(pod), now);
            }
        }
        self.queue.delete(&pod.uid);
        self.pods.remove(&pod.uid);
    }

    /// The pod is gone, wherever it was.
    pub(crate) fn pod_deleted(&mut self, uid: &str, now: Time) {
        let nominated = self.queue.nominator().node_of(uid).is_some();
        let pending = self.pods.remove(uid);
        self.preemptions.forget(uid);
        self.queue.delete(uid);
        if let Some(binding) = self.bindings.remove(uid) {
            return self.abandon(binding, now);
        }
        if let Some(removed) = self.cache.remove_pod(uid) {
            self.move_all(&changes::pod_deleted(&removed.pod), now);
        } else if let Some(pending) = pending.filter(|_| nominated) {
            self.claim_given_up(&pending.pod, now);
        }
    }

    /// A pod no longer claims the node that it was nominated to: pods it held back may try.
    fn claim_given_up(&mut self, pod: &Arc<Pod>, now: Time) {
        let occurrence = changes::pod_deleted(pod);
        let priority = pod.priority;
        self.with_queue(|queue, policy| queue.move_all(&occurrence, |other| other.priority <= priority, now, policy));
    }

    pub(crate) fn node_applied(&mut self, api: &api::Node, now: Time) {
        let node = intern::node(api, self.cache.symbols_mut());
        let conditions = api.status.conditions.iter().map(|it| (it.type_.clone(), it.status.clone())).collect();
        let old_conditions = self.node_conditions.insert(node.name, conditions);
        let conditions_differ = old_conditions.as_ref() != self.node_conditions.get(&node.name);
        match self.cache.set_node(node.clone()) {
            None => self.move_all(&changes::node_added(node), now),
            Some(old) => {
                for occurrence in changes::node_updates(old, node, conditions_differ) {
                    self.move_all(&occurrence, now);
                }
            }
        }
    }

    pub(crate) fn node_deleted(&mut self, name: &str, now: Time) {
        let Some(name) = self.cache.table().symbols.lookup(name) else { return };
        self.node_conditions.remove(&name);
        let node = self.cache.node(name).and_then(|node| node.row()).map(|(_, node)| node.clone());
        if let Some(node) = node {
            self.move_all(&changes::node_deleted(node), now);
        }
        self.cache.remove_node(name);
    }

    pub(crate) fn object_changed(&mut self, resource: &str, key: ObjectKey, new: Option<Arc<[u8]>>, now: Time) {
        let old = self.cache.set_object(key.clone(), new.clone());
        let action = match (&old, &new) {
            (None, Some(_)) => ClusterEvent::ADD,
            (Some(old), Some(new)) if old == new => return,
            (Some(_), Some(_)) => ClusterEvent::UPDATE,
            (Some(_), None) => ClusterEvent::DELETE,
            (None, None) => return,
        };
        self.wake_watchers(&key, now);
        let kind = ObjectKind { api_version: key.api_version, kind: key.kind };
        self.move_all(&Arc::new(Occurrence::new(resource, action, Subject::Object { kind, old, new })), now);
    }

    pub(crate) fn move_all(&mut self, occurrence: &Arc<Occurrence>, now: Time) {
        self.with_queue(|queue, policy| queue.move_all(occurrence, |_| true, now, policy));
    }
}
