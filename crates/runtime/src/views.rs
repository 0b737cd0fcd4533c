//! What other threads may see of cache and queue: the scheduling thread makes it between two turns of its loop.

use std::time::Duration;

use berth_scheduler::{PodsSnapshot, Scheduler};
use berth_serving::ReadModel;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::cache_dump::Dump;

/// The scheduling thread copies its pods between two turns of its loop.
const COPY_TIMEOUT: Duration = Duration::from_secs(10);

/// What the scheduling thread is asked to copy.
#[derive(Debug)]
pub(crate) enum View {
    /// Cache and queue, for the log.
    Dump(oneshot::Sender<Dump>),
    /// The pods that are known.
    Pods(oneshot::Sender<PodsSnapshot>),
}

/// Asks the scheduling thread. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Views(mpsc::Sender<View>);

impl View {
    /// Copies what is asked for.
    pub(crate) fn answer(self, scheduler: &Scheduler) {
        // The asker may have left.
        match self {
            Self::Dump(answer) => drop(answer.send(Dump::of(scheduler))),
            Self::Pods(answer) if !answer.is_closed() => drop(answer.send(PodsSnapshot::of(scheduler))),
            Self::Pods(_) => {}
        }
    }
}

impl Views {
    /// With the scheduling thread's end. One request waits at a time: each copies every pod.
    pub(crate) fn new() -> (Self, mpsc::Receiver<View>) {
        let (ask, asked) = mpsc::channel(1);
        (Self(ask), asked)
    }

    /// Cache and queue; `None` once the scheduling thread has ended.
    pub(crate) async fn dump(&self) -> Option<Dump> {
        let (answer, dump) = oneshot::channel();
        self.0.send(View::Dump(answer)).await.ok()?;
        dump.await.ok()
    }
}

impl ReadModel for Views {
    async fn pods(&self) -> Option<PodsSnapshot> {
        let (answer, pods) = oneshot::channel();
        let copied = async {
            self.0.send(View::Pods(answer)).await.ok()?;
            pods.await.ok()
        };
        timeout(COPY_TIMEOUT, copied).await.ok().flatten()
    }
}
