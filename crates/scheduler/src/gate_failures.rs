//! Pods that stay out of activeQ because a PreEnqueue plugin could not be asked about them.
//!
//! A plugin that says no has its own ways to tell users, and registered for the events that change its mind. One that broke,
//! or whose replica could not be brought up to date, has neither: the scheduler tells in its place, and asks again.

use std::{collections::BTreeSet, mem};

use berth_framework::Status;
use berth_model::{PodUid, Time};

/// After so many milliseconds the plugins are asked again.
const RETRY_AFTER: u64 = 10_000;

#[derive(Debug, Default)]
pub(crate) struct GateFailures {
    /// Not told yet.
    new: Vec<(PodUid, Status)>,
    to_retry: BTreeSet<PodUid>,
    retry_at: Option<Time>,
}

impl GateFailures {
    pub(crate) fn note(&mut self, uid: &PodUid, status: Status, now: Time) {
        // Another binary of a plugin that is out of service brings its pods back.
        if !status.code.is_rejected() {
            self.to_retry.insert(uid.clone());
            self.retry_at.get_or_insert(now + RETRY_AFTER);
        }
        self.new.push((uid.clone(), status));
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
