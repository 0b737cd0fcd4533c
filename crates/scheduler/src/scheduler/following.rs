//! A scheduler that follows another scheduler by the [changes](ChangeBatch) of the other scheduler, with its own
//! plugins. It answers what-if questions.
//!
//! The nodes, the pods on nodes and the other objects are those of the followed scheduler. Both schedulers share the
//! interned objects and have the same symbols. Pods that wait are left out, because a question says which pods are to
//! be placed. Only their nominations count: pods of a question compete with them as in the followed scheduler. A
//! question makes its own symbols, which are [temporary](berth_model::Symbols::begin_temporary), because the followed
//! scheduler gives their numbers to other strings.

use std::sync::Arc;

use berth_model::{Node, ObjectKey, Pod, PodUid, Sym, TemporarySymbols, Time};
use berth_queue::Nominator;
use rustc_hash::FxHashMap;

use super::Scheduler;
use crate::{
    change_feed::{ChangeBatch, FollowedPod},
    context::Context,
    event_handlers,
};

/// The data of the followed scheduler that its cache and queue do not contain.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// The pods without a node. They show whether the cluster has changed.
    waiting: FxHashMap<PodUid, Arc<Pod>>,
    /// The pods without a node that are nominated, with their nodes. A question may end the nominations of its pods.
    nominated: FxHashMap<PodUid, (Arc<Pod>, Sym)>,
}

impl Scheduler {
    /// Applies a batch of changes in the followed scheduler. The batch must follow the batch of the last call, and no
    /// temporary symbols may exist. Returns whether a node, a pod or an object differs from before.
    pub fn follow(&mut self, batch: ChangeBatch) -> bool {
        let Self { context, cycle, followed, .. } = self;
        for (sym, text) in batch.symbols {
            context.symbols_mut().mirror(sym, text);
        }
        // Answers about earlier pods name symbols that may stand for other strings now.
        cycle.plugins_replaced();
        let mut differs = false;
        for (name, node) in batch.nodes {
            differs |= match node {
                Some(node) => {
                    let before = context.cache_mut().set_node(node.clone());
                    before.as_ref() != Some(&node)
                }
                None => context.cache_mut().remove_node(name).is_some(),
            };
        }
        for (key, json) in batch.objects {
            let before = context.cache_mut().set_object(ObjectKey::clone(&key), json.clone());
            differs |= before != json;
        }
        for (uid, pod) in batch.pods {
            differs |= followed.take(&uid, pod.as_ref(), context.queue_mut().nominator_mut());
            differs |= place(&uid, pod.as_ref(), context);
        }
        context.cache_mut().settle();
        context.profiles_mut().set_unlisted(batch.unlisted);
        differs
    }

    /// Handles a pod in the form of this scheduler's own table. The pod is on a node or waits for a node.
    pub fn show_pod(&mut self, pod: &Arc<Pod>, now: Time) {
        let Self { context, bindings, .. } = self;
        context.set_now(now);
        event_handlers::known_pod_applied(pod, bindings, context);
        context.tell_gate_failures();
    }

    /// Handles a node that was removed and comes back. The node has the form of this scheduler's own table.
    pub fn show_node(&mut self, node: Node, now: Time) {
        self.context.set_now(now);
        event_handlers::known_node_applied(node, &mut self.context);
        self.context.tell_gate_failures();
    }

    /// Makes new symbols temporary until [`Self::end_temporary_symbols`] removes them.
    pub fn begin_temporary_symbols(&self) -> TemporarySymbols {
        self.context.table().symbols.begin_temporary()
    }

    /// Removes the symbols since `begun`, and what plugins shared about pods. All pods and nodes with these symbols must be
    /// gone.
    pub fn end_temporary_symbols(&mut self, begun: TemporarySymbols) {
        self.context.symbols_mut().end_temporary(begun);
        self.context.forget_shared_facts();
        self.followed.nominate_again(self.context.queue_mut().nominator_mut());
        self.cycle.plugins_replaced();
    }

    /// Whether an instance of a plugin's binary was lost to a fault.
    pub fn has_lost_plugin(&mut self) -> bool {
        self.context.profiles_mut().has_lost_instance()
    }
}

impl Followed {
    /// Notes a pod that waits, with its nomination. Returns whether the pod or its nomination differs from before.
    fn take(&mut self, uid: &PodUid, pod: Option<&FollowedPod>, nominator: &mut Nominator) -> bool {
        let Some(waiting) = pod.filter(|pod| pod.place.node().is_none()) else {
            nominator.remove(uid);
            self.nominated.remove(uid);
            return self.waiting.remove(uid).is_some();
        };
        let FollowedPod { pod, nominated_node, .. } = waiting;
        nominator.set(pod, *nominated_node);
        let nominated_before = if nominated_node.is_none() {
            self.nominated.remove(uid)
        } else {
            self.nominated.insert(uid.clone(), (Arc::clone(pod), *nominated_node))
        };
        let before = self.waiting.insert(uid.clone(), Arc::clone(pod));
        let node_before = nominated_before.map(|(_, node)| node).unwrap_or_default();
        before.is_none_or(|before| *before != **pod) || node_before != *nominated_node
    }

    /// Gives the pods that wait the nominations that they had before a question.
    fn nominate_again(&self, nominator: &mut Nominator) {
        self.nominated.values().for_each(|(pod, node)| nominator.set(pod, *node));
    }
}

/// Puts a pod on its node, or removes it from the node. Returns whether anything changed. A pod that is assumed to be
/// on a node counts as a pod on the node.
fn place(uid: &PodUid, pod: Option<&FollowedPod>, context: &mut Context) -> bool {
    let cache = context.cache_mut();
    let Some((pod, node)) = pod.and_then(|followed| Some((&followed.pod, followed.place.node()?))) else {
        return cache.remove_pod(uid).is_some();
    };
    // The object of an assumed pod names no node.
    let pod =
        if pod.node_name == node { Arc::clone(pod) } else { Arc::new(Pod { node_name: node, ..Pod::clone(pod) }) };
    if let Some(before) = cache.pod(uid) {
        if **before.pod() == *pod {
            return false;
        }
        if before.node() != node {
            cache.remove_pod(uid);
        }
    }
    let added = cache.add_pod(pod);
    debug_assert!(added.is_ok(), "a pod of the other scheduler's cache cannot be cached: {added:?}");
    true
}
