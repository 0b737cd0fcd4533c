//! Pods that stay out of activeQ because a PreEnqueue plugin could not be asked about them.
//!
//! A plugin without time is asked again as soon as it has some, and users are not told. A plugin that says no has its own ways to tell users, and registered for the events that change its mind. One that broke,
//! or whose replica could not be brought up to date, has neither: the scheduler tells in its place, and asks again.

use std::{collections::BTreeSet, mem, sync::Arc};

use berth_framework::Status;
use berth_model::{PodUid, Sym, Time};

/// After so many milliseconds the plugins are asked again.
const RETRY_AFTER: u64 = 10_000;

#[derive(Debug, Default)]
pub(crate) struct UnaskedGates {
    /// Not told yet.
    new: Vec<(PodUid, Status)>,
    to_retry: BTreeSet<PodUid>,
    retry_at: Option<Time>,
    /// Plugins, by profile, that had no time to look at some pod. The gate was closed to it, and no event opens it.
    without_time: BTreeSet<(Sym, Arc<str>)>,
}

impl UnaskedGates {
    /// A plugin broke, or is out of service.
    pub(crate) fn note_failure(&mut self, uid: &PodUid, status: Status, now: Time) {
        // Another binary of a plugin that is out of service brings its pods back.
        if !status.code.is_rejected() {
            self.to_retry.insert(uid.clone());
            self.retry_at.get_or_insert(now + RETRY_AFTER);
        }
        self.new.push((uid.clone(), status));
    }

    /// The profile's plugin had no time.
    pub(crate) fn note_no_time(&mut self, scheduler_name: Sym, plugin: Arc<str>) {
        self.without_time.insert((scheduler_name, plugin));
    }

    /// The plugins that had no time and have some now.
    pub(crate) fn take_with_time(&mut self, mut has_time: impl FnMut(Sym, &str) -> bool) -> Vec<Arc<str>> {
        let ready = self.without_time.extract_if(.., |(scheduler_name, name)| has_time(*scheduler_name, name));
        ready.map(|(_, name)| name).collect()
    }

    /// The pod's failed attempt is reported instead.
    pub(crate) fn leave_untold(&mut self, uid: &PodUid) {
        self.new.retain(|(other, _)| other != uid);
    }

    pub(crate) fn take_new(&mut self) -> Vec<(PodUid, Status)> {
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
