//! The other pods between Reserve and PostBind, on which a plugin's effects may act.

use std::sync::Arc;

use berth_model::{Pod, PodUid};
use rustc_hash::FxHashMap;

use super::{
    binding::{Binding, Input, PodAttempt},
    inbox::Inbox,
};

/// All pods except the pod that takes a step. Inputs for these pods are delivered after the step, so that a chain of
/// pods that release each other does not use up the stack.
pub(crate) struct Peers<'a> {
    /// The attempt that takes the step; `None` if its pod has no node yet.
    pub(super) stepping: Option<PodAttempt>,
    pub(super) bindings: &'a FxHashMap<PodUid, Binding>,
    pub(super) inbox: &'a mut Inbox,
}

impl Peers<'_> {
    /// Whether the pod is between Reserve and PostBind. This includes the pod that takes the step.
    pub(crate) fn is_binding(&self, uid: &str) -> bool {
        self.find(uid).is_some()
    }

    /// Releases a pod for the plugin. A pod that does not wait for the plugin ignores the call.
    pub(crate) fn allow(&mut self, uid: &str, plugin: &Arc<str>) {
        self.send(uid, Input::Allowed { plugin: Arc::clone(plugin) });
    }

    /// Rejects a pod for the plugin. A pod that does not wait at Permit ignores the call.
    pub(crate) fn reject(&mut self, uid: &str, plugin: &Arc<str>, reason: String) {
        self.send(uid, Input::Rejected { plugin: Arc::clone(plugin), reason });
    }

    /// Tells a pod that waits for the plugin that the plugin was not granted to release or reject the pod.
    pub(crate) fn refused(&mut self, uid: &str, plugin: &Arc<str>, message: &str) {
        // A plugin may name one pod a thousand times.
        let hears = self.bindings.get(uid).is_some_and(|binding| binding.hears_refusals_of(plugin));
        if hears {
            self.send(uid, Input::Refused { plugin: Arc::clone(plugin), message: message.to_owned() });
        }
    }

    /// The attempt of the pod, if the pod is between Reserve and PostBind.
    fn find(&self, uid: &str) -> Option<PodAttempt> {
        let waiting = self.bindings.get(uid).map(Binding::attempt);
        waiting.or_else(|| self.stepping.clone().filter(|stepping| *stepping.uid == *uid))
    }

    fn send(&mut self, uid: &str, input: Input) {
        if let Some(attempt) = self.find(uid) {
            self.inbox.push(attempt, input);
        }
    }

    /// Takes back a victim for which no binding request was sent, so that the API server need not be asked. Returns
    /// whether the pod is such a victim.
    pub(crate) fn preempt(&mut self, uid: &str, preemptor: &Arc<Pod>, plugin: &Arc<str>) -> bool {
        let Some(victim) = self.bindings.get(uid).filter(|binding| !binding.is_sent()) else { return false };
        let input = Input::Preempted { preemptor: Arc::clone(preemptor), plugin: Arc::clone(plugin) };
        self.inbox.push(victim.attempt(), input);
        true
    }
}
