//! A copy of the scheduler's data on a separate thread, from which pods and nodes are shown to people.
//!
//! While there are readers, the thread asks the scheduling thread for its changes ([`Scheduler::changes`]), one batch
//! per turn. A new copy arrives in portions of the same size, so that readers never stop a cycle. If there was no
//! reader for a while, the copy is dropped, and the scheduling thread no longer records changes.
//!
//! The work follows what is read. While readers read only pods, no pod is put on its node. For a few numbers there is no
//! copy at all ([`Scheduler::totals`]).

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self as channel, Receiver, RecvTimeoutError, SyncSender},
    },
    time::{Duration, Instant},
};

use berth_model::Time;
use berth_scheduler::{ChangeBatch, ClusterView, CopyKind, PodList, Scheduler, Totals};
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

/// The time between two updates of the copy while no reader waits. Only a few batches of changes then wait on the
/// scheduling thread, and a pod that changed several times is sent only once.
const EVERY: Duration = Duration::from_millis(500);

/// The copy is dropped if there was no reader for this long. Pods are taken off their nodes if there was no reader of
/// nodes for this long.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// A request to the scheduling thread.
#[derive(Debug)]
pub(crate) enum FollowRequest {
    /// Sends the changes since the last batch for this copy.
    Changes(CopyKind, SyncSender<ChangeBatch>),
    /// Stops recording changes for this copy.
    End(CopyKind),
    /// Sends the state in a few numbers.
    Totals(oneshot::Sender<Totals>),
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
            // The channel has room for this one answer, unless the follower has ended.
            Self::Changes(copy, answer) => drop(answer.try_send(scheduler.changes_for(copy, now))),
            Self::End(copy) => scheduler.end_following_of(copy),
            Self::Totals(answer) => {
                // The reader may have stopped waiting.
                let _ = answer.send(scheduler.totals(now));
            }
        }
    }
}

/// A reader, by what it reads.
enum Read {
    Pods(Box<dyn FnOnce(PodList<'_>) + Send>),
    Nodes(Box<dyn FnOnce(&mut ClusterView) + Send>),
}

/// Provides the copy. Cheap to clone. The thread ends with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    reads: SyncSender<Read>,
    requests: mpsc::Sender<FollowRequest>,
    /// The last totals, for the time in which the scheduling thread does not answer.
    last_totals: Arc<Mutex<Option<Totals>>>,
}

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
        /// The time of the last reader of nodes, or of the first reader.
        nodes_read_at: Instant,
    },
}

impl Follower {
    /// Starts the thread, which sends `requests` to the scheduling thread.
    ///
    /// # Errors
    /// The system cannot start more threads.
    pub(crate) fn start(requests: mpsc::Sender<FollowRequest>) -> io::Result<Self> {
        let (read, reads) = channel::sync_channel(MAX_WAITING);
        let following = FollowerThread { reads, requests: requests.clone(), copy: Copy::None };
        berth_threads::spawn_background("follower", move || following.run())?;
        Ok(Self { reads: read, requests, last_totals: Arc::default() })
    }
}

impl Follower {
    /// Reads as [`ReadModel::read`] does, for a reader that changes the copy temporarily and then restores it.
    pub(crate) async fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut ClusterView) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, answered) = oneshot::channel();
        let asking = move |view: &mut ClusterView| answer_with(answer, || ask(view));
        self.reads.try_send(Read::Nodes(Box::new(asking))).ok()?;
        timeout(READ_TIMEOUT, answered).await.ok()?.ok()
    }

    /// The scheduler's state in a few numbers, as it is now. If the scheduling thread does not answer for
    /// [`CATCH_UP`], it is the state of the last answer; `None` if there was none.
    pub(crate) async fn totals(&self) -> Option<Totals> {
        let (answer, answered) = oneshot::channel();
        let asking = async {
            self.requests.send(FollowRequest::Totals(answer)).await.ok()?;
            answered.await.ok()
        };
        let present = timeout(CATCH_UP, asking).await.ok().flatten();
        let mut last = self.last_totals.lock().unwrap_or_else(PoisonError::into_inner);
        *last = present.or(*last);
        *last
    }
}

/// Sends the result of a reader, unless the reader has stopped waiting.
fn answer_with<R>(answer: oneshot::Sender<R>, read: impl FnOnce() -> R) {
    if !answer.is_closed() {
        drop(answer.send(read()));
    }
}

impl ReadModel for Follower {
    async fn read<R: Send + 'static>(&self, read: impl FnOnce(&ClusterView) -> R + Send + 'static) -> Option<R> {
        self.ask(move |view| read(view)).await
    }

    async fn read_pods<R: Send + 'static>(&self, read: impl FnOnce(PodList<'_>) -> R + Send + 'static) -> Option<R> {
        let (answer, answered) = oneshot::channel();
        let reading = move |pods: PodList<'_>| answer_with(answer, || read(pods));
        self.reads.try_send(Read::Pods(Box::new(reading))).ok()?;
        timeout(READ_TIMEOUT, answered).await.ok()?.ok()
    }
}

impl FollowerThread {
    fn run(mut self) {
        while let Some(read) = self.next_reader() {
            match read {
                Read::Pods(read) => read(self.up_to_date_pods()),
                Read::Nodes(read) => read(self.up_to_date()),
            }
        }
    }

    /// Waits for a reader, and keeps the copy up to date while it waits. `None` means that no more readers will come.
    fn next_reader(&mut self) -> Option<Read> {
        loop {
            let Copy::Kept { view, awaited, read_at, .. } = &mut self.copy else { return self.reads.recv().ok() };
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

    /// The pods as the scheduler knows them now.
    fn up_to_date_pods(&mut self) -> PodList<'_> {
        let (view, nodes_read_at) = self.brought_up_to_date();
        if nodes_read_at.elapsed() >= KEPT_FOR {
            view.take_pods_off_nodes();
        }
        view.pod_list()
    }

    /// The copy as the scheduler is now.
    fn up_to_date(&mut self) -> &mut ClusterView {
        let (view, nodes_read_at) = self.brought_up_to_date();
        *nodes_read_at = Instant::now();
        view.put_pods_on_nodes();
        view
    }

    /// The copy after an update, and the time of the last reader of nodes.
    fn brought_up_to_date(&mut self) -> (&mut ClusterView, &mut Instant) {
        if let Copy::None = self.copy {
            let now = Instant::now();
            let view = ClusterView::of_pods_only();
            self.copy = Copy::Kept { view, awaited: None, read_at: now, nodes_read_at: now };
        }
        let Copy::Kept { view, awaited, read_at, nodes_read_at } = &mut self.copy else {
            unreachable!("it was made just now")
        };
        *read_at = Instant::now();
        // A batch that was awaited may have been made before the reader came.
        let n_updates = 1 + usize::from(awaited.is_some());
        let until = Instant::now() + CATCH_UP;
        for _ in 0..n_updates {
            catch_up(view, awaited, &self.requests, until.saturating_duration_since(Instant::now()));
        }
        (view, nodes_read_at)
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
        follower.read_pods(names_in).await
    }

    fn names_in(pods: PodList<'_>) -> Vec<String> {
        let mut names: Vec<String> = pods.pods().map(|pod| pod.name().to_owned()).collect();
        names.sort();
        names
    }

    fn n_on_nodes(view: &ClusterView) -> usize {
        view.cache().sizes().pods
    }

    /// A scheduling thread that handles earlier events before each request. Returns the number of copies that ended.
    fn scheduling_thread(
        mut requests: mpsc::Receiver<FollowRequest>,
        incoming: Receiver<Event>,
    ) -> thread::JoinHandle<usize> {
        thread::spawn(move || {
            let mut scheduler = Scheduler::new(Settings::default(), Vec::new());
            let mut n_ended = 0;
            while let Some(request) = requests.blocking_recv() {
                incoming.try_iter().for_each(|event| scheduler.handle(event, Time(1)));
                n_ended += usize::from(matches!(request, FollowRequest::End(_)));
                request.answer(&mut scheduler, Time(1));
            }
            n_ended
        })
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_reader_sees_what_the_scheduler_knows_when_it_asks() {
        let (sender, requests) = mpsc::channel(1);
        let follower = Follower::start(sender).expect("a thread");
        let (events, incoming) = channel::channel::<Event>();
        let scheduling = scheduling_thread(requests, incoming);
        let expected = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        events.send(pod("a")).expect("the thread lives");
        assert_eq!(names(&follower).await, expected(&["a"]));
        events.send(pod("b")).expect("the thread lives");
        assert_eq!(names(&follower).await, expected(&["a", "b"]));
        events.send(pod("c")).expect("the thread lives");
        assert_eq!(follower.read(n_on_nodes).await, Some(3), "a reader of nodes sees the pods on them");
        events.send(pod("d")).expect("the thread lives");
        assert_eq!(names(&follower).await, expected(&["a", "b", "c", "d"]));
        assert_eq!(follower.read(n_on_nodes).await, Some(4));
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
        assert_eq!(follower.totals().await, None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn totals_need_no_copy() {
        let (sender, mut requests) = mpsc::channel(1);
        let follower = Follower::start(sender).expect("a thread");
        let scheduling = thread::spawn(move || {
            let mut scheduler = Scheduler::new(Settings::default(), Vec::new());
            let request = requests.blocking_recv().expect("a request");
            assert!(matches!(request, FollowRequest::Totals(_)), "{request:?}");
            request.answer(&mut scheduler, Time(7));
        });
        let totals = Some(Totals { as_of: Time(7), ..Totals::default() });
        assert_eq!(follower.totals().await, totals);
        scheduling.join().expect("no panic");
        assert_eq!(follower.totals().await, totals, "those of the last answer say how old they are");
    }

    /// The scheduling thread made a batch before the reader came, and it arrives only now.
    #[test]
    fn a_late_batch_is_not_what_a_reader_waits_for() {
        let mut scheduler = Scheduler::new(Settings::default(), Vec::new());
        let (sender, mut requests) = mpsc::channel(1);
        let (late, awaited) = channel::sync_channel(1);
        FollowRequest::Changes(CopyKind::Shown, late).answer(&mut scheduler, Time(1));
        let now = Instant::now();
        let view = ClusterView::of_pods_only();
        let copy = Copy::Kept { view, awaited: Some(awaited), read_at: now, nodes_read_at: now };
        let (_, reads) = channel::sync_channel(1);
        let mut following = FollowerThread { reads, requests: sender, copy };
        let (events, incoming) = channel::channel::<Event>();
        events.send(pod("a")).expect("the receiver is here");
        let scheduling = thread::spawn(move || {
            while let Some(request) = requests.blocking_recv() {
                incoming.try_iter().for_each(|event| scheduler.handle(event, Time(2)));
                request.answer(&mut scheduler, Time(2));
            }
        });
        assert_eq!(names_in(following.up_to_date_pods()), ["a"]);
        drop(following);
        scheduling.join().expect("no panic");
    }

    #[test]
    fn pods_are_taken_off_nodes_that_nobody_reads() {
        let (sender, requests) = mpsc::channel(1);
        let (events, incoming) = channel::channel::<Event>();
        let scheduling = scheduling_thread(requests, incoming);
        let (_, reads) = channel::sync_channel(1);
        let mut following = FollowerThread { reads, requests: sender, copy: Copy::None };
        events.send(pod("a")).expect("the thread lives");
        assert_eq!(n_on_nodes(following.up_to_date()), 1);
        let long_ago = Instant::now().checked_sub(KEPT_FOR).expect("the machine has been up for a minute");
        let Copy::Kept { nodes_read_at, .. } = &mut following.copy else { panic!("it was read") };
        *nodes_read_at = long_ago;
        assert_eq!(names_in(following.up_to_date_pods()), ["a"]);
        let Copy::Kept { view, .. } = &following.copy else { panic!("it was read") };
        assert_eq!(n_on_nodes(view), 0);
        assert_eq!(n_on_nodes(following.up_to_date()), 1, "until somebody reads them again");
        drop(following);
        scheduling.join().expect("no panic");
    }
}
