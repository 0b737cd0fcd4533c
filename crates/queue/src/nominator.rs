//! Pods that are nominated to a node and not bound to it yet.

use std::sync::Arc;

use berth_model::{ChangedKeys, Pod, PodUid, Sym};
use rustc_hash::FxHashMap;

/// Nominations by pod and by node. A pod is nominated to one node at most.
#[derive(Debug, Default)]
pub struct Nominator {
    nodes: FxHashMap<PodUid, Sym>,
    pods: FxHashMap<Sym, Vec<Arc<Pod>>>,
    pub(crate) changed: ChangedKeys<PodUid>,
}

impl Nominator {
    /// Nominates `pod` to `node`, or removes its nomination if `node` is [`Sym::NONE`]. A new nomination replaces an
    /// earlier one.
    pub fn set(&mut self, pod: &Arc<Pod>, node: Sym) {
        self.remove(&pod.uid);
        if !node.is_none() {
            self.changed.note(&pod.uid);
            self.nodes.insert(pod.uid.clone(), node);
            self.pods.entry(node).or_default().push(Arc::clone(pod));
        }
    }

    /// Updates the nominations after a change to the pod's object. If neither the old nor the new object has a
    /// nomination, the nominator keeps the nomination that it has.
    pub fn update(&mut self, old: &Pod, new: &Arc<Pod>) {
        let both_empty = old.nominated_node_name.is_none() && new.nominated_node_name.is_none();
        let node = if both_empty { self.node_of(&new.uid).unwrap_or_default() } else { new.nominated_node_name };
        self.set(new, node);
    }

    /// Removes the nomination of a nominated pod.
    pub fn remove(&mut self, uid: &str) {
        let Some((uid, node)) = self.nodes.remove_entry(uid) else { return };
        self.changed.note(&uid);
        let Some(pods) = self.pods.get_mut(&node) else {
            debug_assert!(false, "pod {uid} is nominated to a node that no pod is nominated to");
            return;
        };
        pods.retain(|pod| pod.uid != uid);
        if pods.is_empty() {
            self.pods.remove(&node);
        }
    }

    /// The node that the pod is nominated to.
    #[must_use]
    pub fn node_of(&self, uid: &str) -> Option<Sym> {
        self.nodes.get(uid).copied()
    }

    /// The pods that are nominated to the node.
    #[must_use]
    pub fn pods_on(&self, node: Sym) -> &[Arc<Pod>] {
        self.pods.get(&node).map_or(&[], |pods| pods)
    }

    /// Nodes with the pods nominated to them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Sym, &[Arc<Pod>])> {
        self.pods.iter().map(|(node, pods)| (*node, pods.as_slice()))
    }

    /// Whether no pod is nominated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}
