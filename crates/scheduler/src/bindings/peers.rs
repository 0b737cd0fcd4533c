//! The other pods between Reserve and PostBind, as a plugin's effects reach them.

use std::sync::Arc;

use berth_model::{Pod, PodUid};
use rustc_hash::FxHashMap;

use super::{
    binding::{Binding, Input, PodAttempt},
    inbox::Inbox,
};

/// All pods that are not being stepped. What is sent to them is delivered when the step is over, so that a chain of pods
/// that release each other needs no stack.
pub(crate) struct Peers<'a> {
    /// The pod whose step it is, and its attempt; `None` if that pod has no node yet.
    pub(super) stepping: Option<PodAttempt>,
    pub(super) bindings: &'a FxHashMap<PodUid, Binding>,
    pub(super) inbox: &'a mut Inbox,
}

impl Peers<'_> {
    /// Whether the pod is between Reserve and PostBind, this one included.
    pub(crate) fn is_binding(&self, uid: &str) -> bool {
        self.find(uid).is_some()
    }

    /// A pod that does not wait for the plugin ignores it.
    pub(crate) fn allow(&mut self, uid: &str, plugin: &Arc<str>) {
        self.send(uid, Input::Allowed { plugin: Arc::clone(plugin) });
    }

    /// A pod that does not wait on Permit ignores it.
    pub(crate) fn reject(&mut self, uid: &str, plugin: &Arc<str>, reason: String) {
        self.send(uid, Input::Rejected { plugin: Arc::clone(plugin), reason });
    }

    /// The pod, if it is between Reserve and PostBind, and its attempt.
    fn find(&self, uid: &str) -> Option<PodAttempt> {
        let waiting = self.bindings.get(uid).map(Binding::attempt);
        waiting.or_else(|| self.stepping.clone().filter(|stepping| *stepping.uid == *uid))
    }

    fn send(&mut self, uid: &str, input: Input) {
        if let Some(attempt) = self.find(uid) {
            self.inbox.push(attempt, input);
        }
    }

    /// Takes a victim back that no request to bind it was sent for: the API server need not hear of it. Tells whether
    /// it is one.
    pub(crate) fn preempt(&mut self, uid: &str, preemptor: &Arc<Pod>, plugin: &Arc<str>) -> bool {
        let Some(victim) = self.bindings.get(uid).filter(|binding| !binding.is_sent()) else { return false };
        let input = Input::Preempted { preemptor: Arc::clone(preemptor), plugin: Arc::clone(plugin) };
        self.inbox.push(victim.attempt(), input);
        true
    }
}
