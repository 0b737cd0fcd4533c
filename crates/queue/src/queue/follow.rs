//! Support for a copy that follows the queue pod by pod. The copy reads the changes, and it reads the whole content in
//! portions.

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
    /// The part of the queue in which the pod waits.
    pub queue: SubQueue,
    /// The end of the pod's backoff; `None` outside backoffQ.
    pub backoff_until: Option<Time>,
}

impl Queue {
    /// Starts to note changes. With `false`, stops and forgets the notes.
    pub fn follow(&mut self, is_followed: bool) {
        self.changed.follow(is_followed);
        self.nominator.changed.follow(is_followed);
    }

    /// The pods that entered or left a part of the queue, or whose nomination changed, since the last call.
    pub fn changed_pods(&mut self) -> impl Iterator<Item = PodUid> + '_ {
        let Self { changed, nominator, .. } = self;
        changed.drain().chain(nominator.changed.drain())
    }

    /// The pod with its place in the queue; `None` if the pod does not wait.
    #[must_use]
    pub fn waiting(&self, uid: &str) -> Option<Waiting> {
        let WaitingPod { record, place } = self.places.get(uid)?;
        let backoff_until = match *place {
            Place::Backoff(expiry, ..) | Place::ErrorBackoff(expiry, _) => Some(expiry),
            Place::Active(..) | Place::Unschedulable(_) => None,
        };
        Some(Waiting { record: record.clone(), queue: place.sub_queue(), backoff_until })
    }

    /// The waiting pods that follow the pods in `visited`, at most `limit`. Pods that move between two calls are in
    /// [`Self::changed_pods`], so a reader of both methods sees all pods. If the result has fewer than `limit` pods, no
    /// more pods follow.
    pub fn next_portion(&self, visited: &mut Visited, limit: usize) -> Vec<PodUid> {
        self.places.next_portion(visited, limit)
    }
}
