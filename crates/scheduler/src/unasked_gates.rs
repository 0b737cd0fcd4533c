//! Pods that stay out of activeQ because a PreEnqueue plugin could not be asked about them.
//!
//! A plugin without time is asked again as soon as it has some, about the pod that has waited longest first, and users are not
//! told. A plugin that says no has its own ways to tell users, and registered for the events that change its mind. One that
//! broke, or whose replica could not be brought up to date, has neither: the scheduler tells in its place, and asks again.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
};

use berth_framework::Status;
use berth_model::{PodUid, Sym, Time};

/// After so many milliseconds the plugins are asked again.
const RETRY_AFTER: u64 = 10_000;

/// What a pod is to be told.
#[derive(Debug)]
pub(crate) struct Untold {
    pub(crate) uid: PodUid,
    pub(crate) status: Status,
    /// Whether a plugin broke, and not just has no time.
    pub(crate) is_failure: bool,
}

/// A profile and one of its plugins.
pub(crate) type ProfilePlugin = (Sym, Arc<str>);

#[derive(Debug, Default)]
pub(crate) struct UnaskedGates {
    /// Not told yet.
    new: Vec<Untold>,
    to_retry: BTreeSet<PodUid>,
    retry_at: Option<Time>,
    /// The pods for which a profile's plugin had no time, in the order in which it is to be asked. The gate was closed to them,
    /// and no event opens it.
    without_time: BTreeMap<ProfilePlugin, VecDeque<PodUid>>,
}

impl UnaskedGates {
    /// A plugin broke, or is out of service.
    pub(crate) fn note_failure(&mut self, uid: &PodUid, status: Status, now: Time) {
        // Another binary of a plugin that is out of service brings its pods back.
        if !status.code.is_rejected() {
            self.to_retry.insert(uid.clone());
            self.retry_at.get_or_insert(now + RETRY_AFTER);
        }
        self.new.push(Untold { uid: uid.clone(), status, is_failure: true });
    }

    /// A pod has waited for a while for plugins to have time: it is told so.
    pub(crate) fn tell(&mut self, uid: &PodUid, status: Status) {
        self.new.push(Untold { uid: uid.clone(), status, is_failure: false });
    }

    /// The profile's plugin had no time for the pod.
    pub(crate) fn note_no_time(&mut self, scheduler_name: Sym, plugin: Arc<str>, uid: &PodUid) {
        self.without_time.entry((scheduler_name, plugin)).or_default().push_back(uid.clone());
    }

    /// Whether the profile's plugin has other pods to be asked about before.
    pub(crate) fn are_before(&self, scheduler_name: Sym, plugin: &Arc<str>) -> bool {
        !self.without_time.is_empty() && self.without_time.contains_key(&(scheduler_name, Arc::clone(plugin)))
    }

    /// Whether pods wait for a plugin to have time.
    pub(crate) fn is_any_without_time(&self) -> bool {
        !self.without_time.is_empty()
    }

    /// The plugins that had no time for some pods, and those pods, which are left out from here on.
    pub(crate) fn take_without_time(&mut self) -> BTreeMap<ProfilePlugin, VecDeque<PodUid>> {
        mem::take(&mut self.without_time)
    }

    /// The plugin had no time for these pods either.
    pub(crate) fn give_back(&mut self, key: ProfilePlugin, mut pods: VecDeque<PodUid>) {
        let late = self.without_time.remove(&key).unwrap_or_default();
        pods.extend(late);
        if !pods.is_empty() {
            self.without_time.insert(key, pods);
        }
    }

    /// The pod's failed attempt is reported instead.
    pub(crate) fn leave_untold(&mut self, uid: &PodUid) {
        self.new.retain(|untold| untold.uid != *uid);
    }

    pub(crate) fn take_new(&mut self) -> Vec<Untold> {
        mem::take(&mut self.new)
    }

    /// The pods about which plugins are to be asked again now.
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
