//! Pods that stay out of activeQ because a PreEnqueue plugin could not be asked about them.
//!
//! A plugin without time is asked again as soon as it has time, first about the pod that has waited longest. In this
//! case, users get no message. A plugin that rejects a pod informs users itself, and registered for the events that may
//! change its answer. A plugin that broke, or whose replica could not be updated, cannot inform users and has no such
//! events. Therefore the scheduler informs users, and asks this plugin again.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
};

use berth_framework::Status;
use berth_model::{PodUid, Sym, Time};

/// The milliseconds after which failed plugins are asked again.
const RETRY_AFTER: u64 = 10_000;

/// A message that a pod must still get.
#[derive(Debug)]
pub(crate) struct GateMessage {
    pub(crate) uid: PodUid,
    pub(crate) status: Status,
    /// Whether a plugin broke. Otherwise it only has no time.
    pub(crate) is_failure: bool,
}

/// A profile and one of its plugins.
pub(crate) type ProfilePlugin = (Sym, Arc<str>);

#[derive(Debug, Default)]
pub(crate) struct UnaskedGates {
    /// The messages that were not reported yet.
    new: Vec<GateMessage>,
    to_retry: BTreeSet<PodUid>,
    retry_at: Option<Time>,
    /// The pods for which a profile's plugin had no time, in the order in which the plugin must be asked about them.
    /// The pods stay gated, and no event makes the scheduler ask again.
    without_time: BTreeMap<ProfilePlugin, VecDeque<PodUid>>,
}

impl UnaskedGates {
    /// Notes that a plugin broke or is out of service.
    pub(crate) fn note_failure(&mut self, uid: &PodUid, status: Status, now: Time) {
        // If the plugin is out of service, its pods come back when another binary replaces the plugin.
        if !status.code.is_rejected() {
            self.to_retry.insert(uid.clone());
            self.retry_at.get_or_insert(now + RETRY_AFTER);
        }
        self.new.push(GateMessage { uid: uid.clone(), status, is_failure: true });
    }

    /// Notes a message for a pod that has waited for a while for plugins to have time.
    pub(crate) fn tell(&mut self, uid: &PodUid, status: Status) {
        self.new.push(GateMessage { uid: uid.clone(), status, is_failure: false });
    }

    /// Notes that the profile's plugin had no time for the pod.
    pub(crate) fn note_no_time(&mut self, scheduler_name: Sym, plugin: Arc<str>, uid: &PodUid) {
        self.without_time.entry((scheduler_name, plugin)).or_default().push_back(uid.clone());
    }

    /// Whether the profile's plugin must be asked about other pods before this pod.
    pub(crate) fn are_before(&self, scheduler_name: Sym, plugin: &Arc<str>) -> bool {
        !self.without_time.is_empty() && self.without_time.contains_key(&(scheduler_name, Arc::clone(plugin)))
    }

    /// Whether pods wait for a plugin to have time.
    pub(crate) fn is_any_without_time(&self) -> bool {
        !self.without_time.is_empty()
    }

    /// Takes out the plugins that had no time for some pods, with these pods.
    pub(crate) fn take_without_time(&mut self) -> BTreeMap<ProfilePlugin, VecDeque<PodUid>> {
        mem::take(&mut self.without_time)
    }

    /// Puts back the pods for which the plugin had no time again. They come before the pods that were added since then.
    pub(crate) fn give_back(&mut self, key: ProfilePlugin, mut pods: VecDeque<PodUid>) {
        let late = self.without_time.remove(&key).unwrap_or_default();
        pods.extend(late);
        if !pods.is_empty() {
            self.without_time.insert(key, pods);
        }
    }

    /// Drops the messages for the pod, because its failed attempt is reported instead.
    pub(crate) fn leave_unreported(&mut self, uid: &PodUid) {
        self.new.retain(|message| message.uid != *uid);
    }

    pub(crate) fn take_new(&mut self) -> Vec<GateMessage> {
        mem::take(&mut self.new)
    }

    /// The pods about which plugins must be asked again now.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<PodUid> {
        if self.retry_at.is_none_or(|retry_at| retry_at > now) {
            return Vec::new();
        }
        self.retry_at = None;
        mem::take(&mut self.to_retry).into_iter().collect()
    }

    pub(crate) fn retry_at(&self) -> Option<Time> {
        self.retry_at
    }
}
