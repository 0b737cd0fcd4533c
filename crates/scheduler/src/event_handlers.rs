//! The handlers of changes to objects at the API server. They enter the changes into cache and queue.

use std::{collections::BTreeMap, sync::Arc};

use berth_cache::Added;
use berth_framework::ClusterEvent;
use berth_model::{Node, ObjectKey, Pod, PodUid, Sym, api, intern};
use berth_queue::{EventObjects, ObjectEvent};
use rustc_hash::FxHashMap;

use crate::{
    action::Level,
    bindings::{Bindings, Input},
    changes,
    context::Context,
    occurrence::ChangeType,
    pending_pods::PendingPod,
};

/// The uid of each pod, by namespace and name. A pod that was deleted and created again has another uid.
#[derive(Debug, Default)]
struct UidsByName(FxHashMap<Arc<str>, FxHashMap<Arc<str>, PodUid>>);

impl UidsByName {
    fn get(&self, namespace: &str, name: &str) -> Option<&PodUid> {
        self.0.get(namespace)?.get(name)
    }

    /// Returns the uid of the pod that had the name before.
    fn insert(&mut self, namespace: &str, pod: &Pod) -> Option<PodUid> {
        let (name, uid) = (Arc::clone(&pod.name), pod.uid.clone());
        match self.0.get_mut(namespace) {
            Some(uids) => uids.insert(name, uid),
            None => self.0.entry(Arc::from(namespace)).or_default().insert(name, uid),
        }
    }

    fn remove(&mut self, namespace: &str, name: &str) -> Option<PodUid> {
        let uids = self.0.get_mut(namespace)?;
        let uid = uids.remove(name);
        if uids.is_empty() {
            self.0.remove(namespace);
        }
        uid
    }
}

/// The data about earlier events that the handlers need and that cache and queue do not have.
#[derive(Debug, Default)]
pub(crate) struct EventHandlers {
    uids: UidsByName,
    /// The status of each node's conditions, by type. Their order in the node's object does not matter.
    node_conditions: FxHashMap<Sym, BTreeMap<String, String>>,
}

impl EventHandlers {
    /// Handles a pod that appeared or changed. A pod in a terminal phase has left its node. If no profile serves a
    /// pending pod, no data about the pod is kept.
    pub(crate) fn pod_applied(&mut self, api: &api::Pod, bindings: &mut Bindings, context: &mut Context) {
        let (namespace, name) = (api.metadata.namespace.as_str(), api.metadata.name.as_str());
        let is_served = context.profiles().serves_text(&api.spec.scheduler_name, context.table());
        if api.spec.node_name.is_empty() && !is_served && !bindings.contains(&api.metadata.uid) {
            if let Some(known) = self.uids.remove(namespace, name) {
                remove_pod(known, bindings, context);
            }
            return;
        }
        let intern = if is_served { intern::pod } else { intern::pod_of_others };
        let features = context.queue().features();
        let pod = Arc::new(intern(api, features, context.symbols_mut()));
        let earlier = self.uids.insert(namespace, &pod);
        if let Some(replaced) = earlier.filter(|earlier| *earlier != pod.uid) {
            remove_pod(replaced, bindings, context);
        }
        if matches!(api.status.phase.as_str(), "Succeeded" | "Failed") {
            return self.pod_deleted(namespace, name, pod.uid.clone(), bindings, context);
        }
        context.set_limits(&pod.uid, api);
        if pod.node_name.is_none() {
            pending_pod_applied(PendingPod::new(Arc::clone(&pod), api), &pod, bindings, context);
        } else {
            assigned_pod_applied(&pod, bindings, context);
        }
    }

    pub(crate) fn pod_deleted(
        &mut self,
        namespace: &str,
        name: &str,
        uid: PodUid,
        bindings: &mut Bindings,
        context: &mut Context,
    ) {
        // Another pod may have taken the name already.
        if self.uids.get(namespace, name) == Some(&uid) {
            self.uids.remove(namespace, name);
        }
        remove_pod(uid, bindings, context);
    }

    pub(crate) fn node_applied(&mut self, api: &api::Node, bindings: &mut Bindings, context: &mut Context) {
        let node = intern::node(api, context.symbols_mut());
        let conditions = api.status.conditions.iter().map(|it| (it.type_.clone(), it.status.clone())).collect();
        let old_conditions = self.node_conditions.insert(node.name, conditions);
        let conditions_differ = old_conditions.as_ref() != self.node_conditions.get(&node.name);
        let (name, old) = (node.name, context.cache_mut().set_node(node.clone()));
        context.note_node_event(name, if old.is_none() { ChangeType::Add } else { ChangeType::Update });
        match old {
            None => context.move_all(&changes::node_added(node)),
            Some(old) => {
                for object_event in changes::node_updates(old, node, conditions_differ) {
                    context.also_handling(&object_event.label);
                    context.move_all(&object_event);
                }
            }
        }
        bindings.node_changed(&api.metadata.name, context);
    }

    /// Handles the deletion of a node. A node that was never seen is ignored.
    pub(crate) fn node_deleted(&mut self, name: &str, bindings: &mut Bindings, context: &mut Context) {
        let Some(symbol) = context.table().symbols.lookup(name) else { return };
        self.node_conditions.remove(&symbol);
        let node = context.cache().node(symbol).and_then(|node| node.row()).map(|(_, node)| node.clone());
        if let Some(node) = node {
            context.move_all(&changes::node_deleted(node));
            context.note_node_event(symbol, ChangeType::Delete);
        }
        context.cache_mut().remove_node(symbol);
        bindings.node_changed(name, context);
    }
}

/// Handles a change to an object of another kind. `None` is its deletion. `resource` is the name under which plugins
/// register for events of the object.
pub(crate) fn object_changed(
    resource: &str,
    key: ObjectKey,
    new: Option<Arc<[u8]>>,
    bindings: &mut Bindings,
    context: &mut Context,
) {
    let old = context.cache_mut().set_object(key.clone(), new.clone());
    let action = match (&old, &new) {
        (None, Some(_)) => ClusterEvent::ADD,
        (Some(old), Some(new)) if old == new => return,
        (Some(_), Some(_)) => ClusterEvent::UPDATE,
        (Some(_), None) => ClusterEvent::DELETE,
        (None, None) => return,
    };
    bindings.object_changed(&key, context);
    let (resource, action) = if is_device_taint_rule(&key) { TAINTED_SLICES } else { (resource, action) };
    let object_event = Arc::new(ObjectEvent::new(resource, action, EventObjects::Object { key, old, new }));
    // Some kinds, such as services, cause no events: plugins only read their objects.
    if context.queue().hears(&object_event.event) {
        context.move_all(&object_event);
    }
}

/// The event of a changed DeviceTaintRule. Plugins get it as an update of the slices whose devices the rule taints, as
/// in kube-scheduler (`staging/src/k8s.io/dynamic-resource-allocation/resourceslice/tracker`).
const TAINTED_SLICES: (&str, u32) = ("resource.k8s.io/ResourceSlice", ClusterEvent::UPDATE);

fn is_device_taint_rule(key: &ObjectKey) -> bool {
    key.kind == "DeviceTaintRule" && key.api_version.starts_with("resource.k8s.io/")
}

/// Handles a pod that has the form of this scheduler's own table, and that does not come from the API server.
pub(crate) fn known_pod_applied(pod: &Arc<Pod>, bindings: &mut Bindings, context: &mut Context) {
    if pod.node_name.is_none() {
        let pending = PendingPod::new(Arc::clone(pod), &api::Pod::default());
        pending_pod_applied(pending, pod, bindings, context);
    } else {
        assigned_pod_applied(pod, bindings, context);
    }
}

/// Handles a node that comes back, and that has the form of this scheduler's own table.
pub(crate) fn known_node_applied(node: Node, context: &mut Context) {
    if context.cache_mut().set_node(node.clone()).is_none() {
        context.move_all(&changes::node_added(node));
    }
}

fn pending_pod_applied(pending: PendingPod, pod: &Arc<Pod>, bindings: &mut Bindings, context: &mut Context) {
    let resource_version = Arc::clone(&pending.resource_version);
    let old = context.set_pending(pending);
    if let Some(old) = &old
        && !resource_version.is_empty()
        && old.resource_version == resource_version
    {
        // The watch has begun to keep the JSON of pods.
        if old.pod.json.is_none() && pod.json.is_some() {
            context.with_queue(|queue, policy| queue.replace(pod, policy));
        }
        return;
    }
    if bindings.contains(&pod.uid) {
        if pod.terminating {
            bindings.send(&pod.uid, Input::Terminating, context);
        } else {
            bindings.pod_changed(pod, context);
        }
        return;
    }
    match context.cache().pod(&pod.uid) {
        // The API server has bound the pod, but the watch has not shown the binding yet.
        Some(cached) if cached.is_assumed() => return,
        // The version goes back if the API server's storage was restored from a backup.
        Some(_) => context.leave_node(&pod.uid),
        None => {}
    }
    if !context.profiles().serves(pod.scheduler_name) {
        return;
    }
    let now = context.now();
    let labels = context.queue().pod_event_labels();
    context.also_handling(if old.is_none() { &labels.added } else { &labels.updated });
    context.note_pod_event(pod, if old.is_none() { ChangeType::Add } else { ChangeType::Update }, false);
    let Some(old) = old.map(|old| old.pod) else {
        return context.with_queue(|queue, policy| queue.add(Arc::clone(pod), now, policy));
    };
    let updates = changes::pod_updates(&old, pod, labels);
    for update in &updates {
        context.also_handling(&update.label);
    }
    context.with_queue(|queue, policy| queue.update(pod, &updates, now, policy));
    if !old.nominated_node_name.is_none() && old.nominated_node_name != pod.nominated_node_name {
        nomination_ended(&old, context);
    }
}

fn assigned_pod_applied(pod: &Arc<Pod>, bindings: &mut Bindings, context: &mut Context) {
    let added = match context.cache_mut().add_pod(Arc::clone(pod)) {
        Ok(added) => added,
        Err(inconsistency) => return context.log(Level::Error, inconsistency.to_string()),
    };
    match added {
        Added::Updated { old } => {
            context.note_pod_event(pod, ChangeType::Update, true);
            for object_event in changes::pod_updates(&old, pod, context.queue().pod_event_labels()) {
                context.also_handling(&object_event.label);
                context.move_all(&object_event);
            }
        }
        Added::New | Added::Confirmed { .. } => {
            context.note_pod_event(pod, ChangeType::Add, true);
            bindings.send(&pod.uid, Input::SeenOnNode(pod.node_name), context);
            context.move_all(&changes::pod_added(pod));
        }
    }
    if context.no_longer_pending(&pod.uid).is_some() {
        // In kube-scheduler, a pod whose profile changes moves from the handlers of one informer to the handlers of
        // another.
        context.also_handling(&context.queue().pod_event_labels().deleted);
        context.note_pod_event(pod, ChangeType::Delete, false);
    }
    bindings.pod_changed(pod, context);
}

/// Removes a pod from cache, queue and bindings, because the pod no longer exists.
fn remove_pod(uid: PodUid, bindings: &mut Bindings, context: &mut Context) {
    let was_nominated = context.queue().nominator().node_of(&uid).is_some();
    let pending = context.forget_pod(&uid);
    if let Some(pending) = &pending {
        context.also_handling(&context.queue().pod_event_labels().deleted);
        context.note_pod_event(&pending.pod, ChangeType::Delete, false);
    }
    let on_node = context.cache().pod(&uid).map(|cached| Arc::clone(cached.pod()));
    let gone = on_node.as_ref().or(pending.as_ref().map(|pending| &pending.pod)).cloned();
    if bindings.contains(&uid) {
        bindings.send(&uid, Input::Deleted, context);
    } else if let Some(pod) = on_node {
        context.note_pod_event(&pod, ChangeType::Delete, true);
        context.leave_node(&uid);
    } else if let Some(pending) = pending.filter(|it| was_nominated || !it.pod.nominated_node_name.is_none()) {
        // The queue does not count the nomination of a gated pod in 1.36. The pod's status has it nevertheless.
        nomination_ended(&pending.pod, context);
    }
    if let Some(gone) = gone {
        bindings.pod_changed(&gone, context);
    }
}

/// Tries pods of the same or a lower priority, because the pod gave up the room on the node to which it was nominated.
fn nomination_ended(pod: &Arc<Pod>, context: &mut Context) {
    let priority = pod.priority;
    context.move_some(&changes::pod_deleted(pod), |other| other.priority <= priority);
}
