//! For a copy that follows the queue pod by pod: what changed, and everything in portions.

use berth_model::{PodUid, Time};

use super::Queue;
use crate::{
    metrics::SubQueue,
    places::{Place, Visited, WaitingPod},
    record::QueuedPod,
};

/// A pod that waits for a node.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The pod with the history of its attempts.
    pub record: QueuedPod,
    /// Where the pod waits.
    pub queue: SubQueue,
    /// When its backoff ends; `None` outside backoffQ.
    pub backoff_until: Option<Time>,
}

impl Queue {
    /// Notes what changes from here on, or with `false` nothing any more.
    pub fn follow(&mut self, is_followed: bool) {
        self.changed.follow(is_followed);
        self.nominator.changed.follow(is_followed);
    }

    /// Pods that entered or left a part of the queue, or were nominated otherwise, since the last call.
    pub fn changed_pods(&mut self) -> impl Iterator<Item = PodUid> + '_ {
        let Self { changed, nominator, .. } = self;
        changed.drain().chain(nominator.changed.drain())
    }

    /// The pod as it waits here; `None` if it does not.
    #[must_use]
    pub fn waiting(&self, uid: &str) -> Option<Waiting> {
        let WaitingPod { record, place } = self.places.get(uid)?;
        let backoff_until = match *place {
            Place::Backoff(expiry, ..) | Place::ErrorBackoff(expiry, _) => Some(expiry),
            Place::Active(..) | Place::Unschedulable(_) => None,
        };
        Some(Waiting { record: record.clone(), queue: place.sub_queue(), backoff_until })
    }

    /// Waiting pods behind those that `visited` has seen, `limit` at most. Pods that move meanwhile are among
    /// [`Self::changed_pods`], so that all are seen in the end. Fewer than `limit`: there are no more.
    pub fn next_portion(&self, visited: &mut Visited, limit: usize) -> Vec<PodUid> {
        self.places.next_portion(visited, limit)
    }
}
