//! A copy of the scheduler's data on a separate thread. Everything that is shown to people is read from it.
//!
//! While there are readers, the thread asks the scheduling thread for its changes ([`Scheduler::changes`]), one batch
//! per turn. A new copy arrives in portions of the same size, so that readers never stop a cycle. If there was no
//! reader for a while, the copy is dropped, and the scheduling thread no longer records changes.

use std::{
    io,
    sync::mpsc::{self as channel, Receiver, RecvTimeoutError, SyncSender},
    time::{Duration, Instant},
};

use berth_model::Time;
use berth_scheduler::{ChangeBatch, ClusterView, CopyKind, Scheduler};
use berth_serving::ReadModel;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// The maximum number of readers that wait. Further readers are turned away.
const MAX_WAITING: usize = 64;

/// The maximum time for which a reader waits.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for which the copy is updated before it is read in its current state.
const CATCH_UP: Duration = Duration::from_secs(5);

/// The time between two updates of the copy while no reader waits. Only few changes then wait on the scheduling thread,
/// and a pod that changed several times is sent only once.
const EVERY: Duration = Duration::from_millis(200);

/// The copy is dropped if there was no reader for this long.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// A request to the scheduling thread.
#[derive(Debug)]
pub(crate) enum FollowRequest {
    /// Sends the changes since the last batch for this copy.
    Changes(CopyKind, SyncSender<ChangeBatch>),
    /// Stops recording changes for this copy.
    End(CopyKind),
}

/// A copy that changes bring up to date.
pub(crate) trait Following {
    const KIND: CopyKind;
    fn apply(&mut self, batch: ChangeBatch);
    /// Whether the copy equals the scheduler's data at the time of the last batch.
    fn is_complete(&self) -> bool;
}

impl Following for ClusterView {
    const KIND: CopyKind = CopyKind::Shown;

    fn apply(&mut self, batch: ChangeBatch) {
        Self::apply(self, batch);
    }

    fn is_complete(&self) -> bool {
        Self::is_complete(self)
    }
}

impl FollowRequest {
    /// Answers the request.
    pub(crate) fn answer(self, scheduler: &mut Scheduler, now: Time) {
        match self {
            // The channel has room for one answer, and it is closed only if the follower has ended.
            Self::Changes(copy, answer) => drop(answer.try_send(scheduler.changes_for(copy, now))),
            Self::End(copy) => scheduler.end_following_of(copy),
        }
    }
}

type Read = Box<dyn FnOnce(&mut ClusterView) + Send>;

/// Provides the copy. Cheap to clone. The thread ends with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Follower(SyncSender<Read>);

/// The data of the thread.
struct FollowerThread {
    reads: Receiver<Read>,
    requests: mpsc::Sender<FollowRequest>,
    copy: Copy,
}

/// The copy, if there is one.
#[expect(clippy::large_enum_variant, reason = "there is one of it, on its own thread")]
enum Copy {
    None,
    Kept {
        view: ClusterView,
        /// An answer that had not arrived at the last check.
        awaited: Option<Receiver<ChangeBatch>>,
        read_at: Instant,
    },
}

impl Follower {
    /// Starts the thread, which sends `requests` to the scheduling thread.
    ///
    /// # Errors
    /// The system cannot start more threads.
    pub(crate) fn start(requests: mpsc::Sender<FollowRequest>) -> io::Result<Self> {
        let (read, reads) = channel::sync_channel(MAX_WAITING);
        let following = FollowerThread { reads, requests, copy: Copy::None };
        berth_threads::spawn_background("follower", move || following.run())?;
        Ok(Self(read))
    }
}

impl Follower {
    /// Reads as [`ReadModel::read`] does, for a reader that changes the copy temporarily and then restores it.
    pub(crate) async fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut ClusterView) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, answered) = oneshot::channel();
        let asking = Box::new(move |view: &mut ClusterView| {
            // The reader may have stopped waiting.
            if !answer.is_closed() {
                drop(answer.send(ask(view)));
            }
        });
        self.0.try_send(asking).ok()?;
        timeout(READ_TIMEOUT, answered).await.ok()?.ok()
    }
}

impl ReadModel for Follower {
    async fn read<R: Send + 'static>(&self, read: impl FnOnce(&ClusterView) -> R + Send + 'static) -> Option<R> {
        self.ask(move |view| read(view)).await
    }
}

impl FollowerThread {
    fn run(mut self) {
        while let Some(read) = self.next_reader() {
            read(self.up_to_date());
        }
    }

    /// Waits for a reader, and keeps the copy up to date while it waits. Returns `None` once no more readers can come.
    fn next_reader(&mut self) -> Option<Read> {
        loop {
            let Copy::Kept { view, awaited, read_at } = &mut self.copy else { return self.reads.recv().ok() };
            match self.reads.recv_timeout(EVERY) {
                Ok(read) => return Some(read),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if read_at.elapsed() < KEPT_FOR => {
                    catch_up(view, awaited, &self.requests, EVERY);
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.copy = Copy::None;
                    // The scheduling thread may have ended.
                    let _ = self.requests.blocking_send(FollowRequest::End(CopyKind::Shown));
                }
            }
        }
    }

    fn up_to_date(&mut self) -> &mut ClusterView {
        if let Copy::None = self.copy {
            self.copy = Copy::Kept { view: ClusterView::default(), awaited: None, read_at: Instant::now() };
        }
        let Copy::Kept { view, awaited, read_at } = &mut self.copy else { unreachable!("it was made just now") };
        *read_at = Instant::now();
        catch_up(view, awaited, &self.requests, CATCH_UP);
        view
    }
}

/// Applies changes until the copy equals the scheduler's data, or until `limit` is over.
pub(crate) fn catch_up<C: Following>(
    copy: &mut C,
    awaited: &mut Option<Receiver<ChangeBatch>>,
    requests: &mpsc::Sender<FollowRequest>,
    limit: Duration,
) {
    let until = Instant::now() + limit;
    loop {
        let receiver = match awaited.take() {
            Some(receiver) => receiver,
            None => {
                let (answer, receiver) = channel::sync_channel(1);
                // If the scheduling thread has ended, the copy stays unchanged.
                if requests.blocking_send(FollowRequest::Changes(C::KIND, answer)).is_err() {
                    return;
                }
                receiver
            }
        };
        match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(batch) => {
                copy.apply(batch);
                if copy.is_complete() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                *awaited = Some(receiver);
                return;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use berth_scheduler::{Event, Settings};
    use serde_json::json;

    use super::*;

    fn pod(name: &str) -> Event {
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"nodeName": "n1", "schedulerName": "other", "containers": []},
        });
        Event::PodApplied(Box::new(serde_json::from_value(pod).expect("a pod")))
    }

    async fn names(follower: &Follower) -> Option<Vec<String>> {
        let names = |view: &ClusterView| {
            let mut names: Vec<String> = view.pods().map(|pod| pod.name().to_owned()).collect();
            names.sort();
            names
        };
        follower.read(names).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_reader_sees_what_the_scheduler_knows_when_it_asks() {
        let (sender, mut requests) = mpsc::channel(1);
        let follower = Follower::start(sender).expect("a thread");
        let (events, incoming) = channel::channel::<Event>();
        // A scheduling thread that handles earlier events before each request.
        let scheduling = thread::spawn(move || {
            let mut scheduler = Scheduler::new(Settings::default(), Vec::new());
            let mut n_ended = 0;
            while let Some(request) = requests.blocking_recv() {
                incoming.try_iter().for_each(|event| scheduler.handle(event, Time(1)));
                n_ended += usize::from(matches!(request, FollowRequest::End(_)));
                request.answer(&mut scheduler, Time(1));
            }
            n_ended
        });
        events.send(pod("a")).expect("the thread lives");
        assert_eq!(names(&follower).await, Some(vec!["a".to_owned()]));
        events.send(pod("b")).expect("the thread lives");
        assert_eq!(names(&follower).await, Some(vec!["a".to_owned(), "b".to_owned()]));
        drop(follower);
        assert_eq!(scheduling.join().expect("no panic"), 0, "with the last reader the follower ends");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_scheduling_thread_that_has_ended_is_no_reason_to_wait() {
        let (sender, requests) = mpsc::channel(1);
        let follower = Follower::start(sender).expect("a thread");
        drop(requests);
        assert_eq!(names(&follower).await, Some(Vec::new()), "an empty copy, which says that it is not whole");
        assert_eq!(follower.read(ClusterView::is_complete).await, Some(false));
    }
}
