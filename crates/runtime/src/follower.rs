//! A copy of the scheduler's data, from which pods and nodes are shown to people.
//!
//! While there are readers, a thread asks the scheduling thread for its changes ([`Scheduler::changes`]), one batch
//! per turn. A new copy arrives in portions of the same size, so that readers never stop a cycle. If there was no
//! reader for a while, the copy is dropped, and the scheduling thread no longer records changes.
//!
//! The work follows what is read. While readers read only pods, no pod is put on its node. For a few numbers there is no
//! copy at all ([`Scheduler::totals`]).
//!
//! Two threads use the copy, one at a time:
//!
//! - The *follower* has a low priority. It fills the copy and keeps it up to date, and it serves readers that come again
//!   and again, such as browsers.
//! - The *explainer* has the usual priority, and answers questions of people, one at a time. While all processors are
//!   busy, a thread of low priority gets about a twentieth of one, so an answer would take twenty times its processor
//!   time. For a question, the explainer also brings the copy up to date, which is at most [`EVERY`] behind. It has the
//!   follower fill a new copy. While further questions wait, the explainer rests after each for as long as it worked, at
//!   most for [`MAX_REST`]. Many short questions then take at most half of a processor from the scheduling thread.
//!
//! The explainer waits for a follower that is busy with the copy, so a question may sometimes wait for one update or one
//! view at low priority.

use std::{
    io,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self as channel, Receiver, RecvTimeoutError, SyncSender, TryRecvError},
    },
    thread,
    time::{Duration, Instant},
};

use berth_model::Time;
use berth_scheduler::{ChangeBatch, ClusterView, CopyKind, PodList, Scheduler, Totals};
use berth_serving::ReadModel;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tracing::error;

use crate::kept_plugins::KeptPlugins;

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

/// The maximum time for which the explainer rests between two questions.
const MAX_REST: Duration = Duration::from_millis(100);

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

/// The copy, with the plugins that answer questions about it.
#[derive(Debug)]
pub(crate) struct Copied {
    pub view: ClusterView,
    pub plugins: KeptPlugins,
    /// Whether the copy has been complete since it began. It then lacks at most the newest changes.
    is_filled: bool,
}

impl Default for Copied {
    fn default() -> Self {
        Self { view: ClusterView::of_pods_only(), plugins: KeptPlugins::default(), is_filled: false }
    }
}

impl Following for Copied {
    const KIND: CopyKind = CopyKind::Shown;

    fn apply(&mut self, batch: ChangeBatch) {
        if batch.is_first {
            // The view begins again with another table.
            self.plugins.clear();
            self.is_filled = false;
        }
        self.view.apply(batch);
        self.is_filled |= self.view.is_complete();
    }

    fn is_complete(&self) -> bool {
        self.view.is_complete()
    }
}

impl FollowRequest {
    /// Answers the request.
    pub(crate) fn answer(self, scheduler: &mut Scheduler, now: Time) {
        match self {
            // The channel has room for one answer, and it is closed only if the follower has ended.
            Self::Changes(copy, answer) => drop(answer.try_send(scheduler.changes_for(copy, now))),
            Self::End(copy) => scheduler.end_following_of(copy),
            Self::Totals(answer) => {
                // The reader may have stopped waiting.
                let _ = answer.send(scheduler.totals(now));
            }
        }
    }
}

/// A reader of nodes, or the part of a question that asks about them.
type ReadNodes = Box<dyn FnOnce(&mut Copied) + Send>;

/// A reader, by what it reads.
enum Read {
    Pods(Box<dyn FnOnce(PodList<'_>) + Send>),
    Nodes(ReadNodes),
}

/// The state of the copy that a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AsOf {
    /// The state of the scheduler when the question is answered.
    Now,
    /// The state that the copy has, for the next part of a question.
    Before,
}

/// A question for the explainer.
struct Question {
    as_of: AsOf,
    read: ReadNodes,
}

/// Provides the copy. Cheap to clone. The threads end with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    reads: SyncSender<Read>,
    questions: SyncSender<Question>,
    requests: mpsc::Sender<FollowRequest>,
    /// The last totals, for the time in which the scheduling thread does not answer.
    last_totals: Arc<Mutex<Option<Totals>>>,
}

/// The copy, if there is one, for both threads.
#[derive(Clone)]
struct SharedCopy {
    kept: Arc<Mutex<Option<Kept>>>,
    requests: mpsc::Sender<FollowRequest>,
}

/// The copy, and the state of its updates.
struct Kept {
    copied: Copied,
    /// An answer that had not arrived at the last check.
    awaited: Option<Receiver<ChangeBatch>>,
    read_at: Instant,
    /// The time of the last reader of nodes, or of the first reader.
    nodes_read_at: Instant,
    updated_at: Instant,
}

/// The data of the follower.
struct FollowerThread {
    reads: Receiver<Read>,
    shared: SharedCopy,
}

/// The data of the explainer.
struct ExplainerThread {
    questions: Receiver<Question>,
    /// The way to the follower.
    reads: SyncSender<Read>,
    shared: SharedCopy,
}

impl Follower {
    /// Starts the threads, which send `requests` to the scheduling thread.
    ///
    /// # Errors
    /// The system cannot start more threads.
    pub(crate) fn start(requests: mpsc::Sender<FollowRequest>) -> io::Result<Self> {
        let shared = SharedCopy { kept: Arc::default(), requests: requests.clone() };
        let (reads, incoming) = channel::sync_channel(MAX_WAITING);
        let following = FollowerThread { reads: incoming, shared: shared.clone() };
        berth_threads::spawn_background("follower", move || following.run())?;
        let (questions, incoming) = channel::sync_channel(MAX_WAITING);
        let explaining = ExplainerThread { questions: incoming, reads: reads.clone(), shared };
        thread::Builder::new().name("explainer".to_owned()).spawn(move || explaining.run()).map(drop)?;
        Ok(Self { reads, questions, requests, last_totals: Arc::default() })
    }

    /// Asks a question of a person about the scheduler's data as it is at the moment. The question may change the copy
    /// temporarily and then restore it. `None` if there is no answer in time, or if too many questions wait.
    pub(crate) async fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Copied) -> R + Send + 'static,
    ) -> Option<R> {
        self.ask_as_of(AsOf::Now, ask).await
    }

    /// The next part of a question, as [`Self::ask`], about the state of the copy that the first part left.
    pub(crate) async fn ask_further<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Copied) -> R + Send + 'static,
    ) -> Option<R> {
        self.ask_as_of(AsOf::Before, ask).await
    }

    async fn ask_as_of<R: Send + 'static>(
        &self,
        as_of: AsOf,
        ask: impl FnOnce(&mut Copied) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, answered) = oneshot::channel();
        let read = Box::new(move |copied: &mut Copied| answer_with(answer, || ask(copied)));
        self.questions.try_send(Question { as_of, read }).ok()?;
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
        let (answer, answered) = oneshot::channel();
        let reading = move |copied: &mut Copied| answer_with(answer, || read(&copied.view));
        self.reads.try_send(Read::Nodes(Box::new(reading))).ok()?;
        timeout(READ_TIMEOUT, answered).await.ok()?.ok()
    }

    async fn read_pods<R: Send + 'static>(&self, read: impl FnOnce(PodList<'_>) -> R + Send + 'static) -> Option<R> {
        let (answer, answered) = oneshot::channel();
        let reading = move |pods: PodList<'_>| answer_with(answer, || read(pods));
        self.reads.try_send(Read::Pods(Box::new(reading))).ok()?;
        timeout(READ_TIMEOUT, answered).await.ok()?.ok()
    }
}

impl FollowerThread {
    fn run(self) {
        while let Some(read) = self.next_reader() {
            self.shared.read(AsOf::Now, read);
        }
    }

    /// Waits for a reader, and keeps the copy up to date while it waits. `None` means that no more readers will come.
    fn next_reader(&self) -> Option<Read> {
        while self.shared.is_kept() {
            match self.reads.recv_timeout(EVERY) {
                Ok(read) => return Some(read),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.shared.follow(),
            }
        }
        self.reads.recv().ok()
    }
}

impl ExplainerThread {
    fn run(self) {
        let mut worked = Duration::ZERO;
        while let Some(Question { as_of, read }) = self.next_question(worked) {
            let begun = Instant::now();
            let as_of = if self.has_it_filled() { AsOf::Before } else { as_of };
            self.answer(as_of, read);
            worked = begun.elapsed();
        }
    }

    /// Answers a question. The copy may have been dropped since the explainer looked at it. The follower then waits for
    /// a reader, and a reader is sent to it so that it updates the new copy and drops it in time.
    fn answer(&self, as_of: AsOf, read: ReadNodes) {
        if self.shared.read(as_of, Read::Nodes(read)) {
            // If there is no room, the follower has readers.
            let _ = self.reads.try_send(Read::Pods(Box::new(|_: PodList<'_>| ())));
        }
    }

    /// Waits for a question. If one waits already, the thread first rests for as long as it `worked` for the last one,
    /// at most for [`MAX_REST`]. `None` means that no more questions will come.
    fn next_question(&self, worked: Duration) -> Option<Question> {
        match self.questions.try_recv() {
            Ok(question) => {
                thread::sleep(worked.min(MAX_REST));
                Some(question)
            }
            Err(TryRecvError::Empty) => self.questions.recv().ok(),
            Err(TryRecvError::Disconnected) => None,
        }
    }

    /// Has the follower fill the copy if it is new or lists only pods. Returns whether the follower did so.
    fn has_it_filled(&self) -> bool {
        if self.shared.is_filled() {
            return false;
        }
        let (filled, wait) = channel::sync_channel(1);
        let read = Box::new(move |_: &mut Copied| {
            // The explainer may have stopped waiting.
            let _ = filled.try_send(());
        });
        self.reads.try_send(Read::Nodes(read)).is_ok() && wait.recv_timeout(READ_TIMEOUT).is_ok()
    }
}

impl SharedCopy {
    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_kept(&self) -> bool {
        self.lock().is_some()
    }

    /// Whether the copy is complete, with the pods on their nodes, but for the newest changes.
    fn is_filled(&self) -> bool {
        self.lock().as_ref().is_some_and(|kept| kept.copied.is_filled && !kept.copied.view.lists_pods_only())
    }

    /// Lets `read` read the copy, which is made if there is none. Returns whether there is a new copy.
    fn read(&self, as_of: AsOf, read: Read) -> bool {
        let mut shared = self.lock();
        let is_new = shared.is_none();
        let kept = shared.get_or_insert_with(Kept::new);
        kept.read_at = Instant::now();
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            if is_new || as_of == AsOf::Now {
                kept.catch_up_for_reader(&self.requests);
            }
            match read {
                Read::Pods(read) => read(kept.pods()),
                Read::Nodes(read) => read(kept.nodes()),
            }
        }));
        if outcome.is_err() {
            error!("an answer from the copy of the scheduler's data panicked; the scheduler is not affected");
            // The copy may be in any state.
            self.end(&mut shared);
            return false;
        }
        is_new
    }

    /// Updates the copy while nobody reads it, or drops it if nobody has done so for a while.
    fn follow(&self) {
        let mut shared = self.lock();
        let Some(kept) = &mut *shared else { return };
        if kept.read_at.elapsed() >= KEPT_FOR {
            self.end(&mut shared);
        } else if kept.updated_at.elapsed() >= EVERY {
            kept.catch_up(&self.requests, EVERY);
            kept.copied.plugins.follow(kept.copied.view.table());
        }
    }

    fn end(&self, kept: &mut Option<Kept>) {
        *kept = None;
        // The scheduling thread may have ended.
        let _ = self.requests.blocking_send(FollowRequest::End(CopyKind::Shown));
    }
}

impl Kept {
    fn new() -> Self {
        let now = Instant::now();
        Self { copied: Copied::default(), awaited: None, read_at: now, nodes_read_at: now, updated_at: now }
    }

    /// Updates the copy until it equals the scheduler's data at the time of the call.
    fn catch_up_for_reader(&mut self, requests: &mpsc::Sender<FollowRequest>) {
        // A batch that was awaited may have been made before the reader came.
        let n_updates = 1 + usize::from(self.awaited.is_some());
        let until = Instant::now() + CATCH_UP;
        for _ in 0..n_updates {
            self.catch_up(requests, until.saturating_duration_since(Instant::now()));
        }
    }

    fn catch_up(&mut self, requests: &mpsc::Sender<FollowRequest>, limit: Duration) {
        catch_up(&mut self.copied, &mut self.awaited, requests, limit);
        self.updated_at = Instant::now();
    }

    /// The pods of the copy. They are taken off their nodes if nobody has read nodes for a while.
    fn pods(&mut self) -> PodList<'_> {
        if self.nodes_read_at.elapsed() >= KEPT_FOR {
            self.copied.plugins.clear();
            self.copied.view.take_pods_off_nodes();
        }
        self.copied.view.pod_list()
    }

    /// The copy, with the pods on their nodes.
    fn nodes(&mut self) -> &mut Copied {
        self.nodes_read_at = Instant::now();
        self.copied.view.put_pods_on_nodes();
        &mut self.copied
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
    use berth_scheduler::{Event, Settings};
    use serde_json::json;

    use super::*;
    use crate::kept_plugins::tests::asked;

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

    /// A scheduling thread that answers, until the follower is gone.
    fn scheduling(mut requests: mpsc::Receiver<FollowRequest>) -> thread::JoinHandle<()> {
        thread::spawn(move || {
            let mut scheduler = Scheduler::new(Settings::default(), Vec::new());
            scheduler.handle(pod("a"), Time(1));
            while let Some(request) = requests.blocking_recv() {
                request.answer(&mut scheduler, Time(1));
            }
        })
    }

    fn is_known(copied: &mut Copied) -> bool {
        copied.view.find_pod("default", "a").is_some()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_question_sees_the_whole_copy_and_has_parts() {
        let (sender, requests) = mpsc::channel(1);
        let follower = Follower::start(sender).expect("two threads");
        let scheduling = scheduling(requests);
        assert_eq!(follower.ask_further(is_known).await, Some(true), "the first copy is filled even for this");
        assert_eq!(follower.ask(|copied| asked(&mut copied.plugins)).await.as_deref(), Some("asked 1, followed 0"));
        let further = follower.ask_further(|copied| asked(&mut copied.plugins)).await;
        assert!(
            further.is_some_and(|answer| answer.starts_with("asked 2, ")),
            "with the plugins of the question before"
        );
        drop(follower);
        scheduling.join().expect("no panic");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_question_that_panics_costs_only_its_answer() {
        let (sender, requests) = mpsc::channel(1);
        let follower = Follower::start(sender).expect("two threads");
        let scheduling = scheduling(requests);
        assert_eq!(follower.ask::<()>(|_| panic!("a defect")).await, None);
        assert_eq!(follower.ask(is_known).await, Some(true));
        assert_eq!(names(&follower).await, Some(vec!["a".to_owned()]));
        drop(follower);
        scheduling.join().expect("no panic");
    }

    #[test]
    fn a_copy_that_begins_again_has_other_plugins() {
        let mut copied = Copied::default();
        for (is_first, expected) in
            [(true, "asked 1, followed 0"), (false, "asked 2, followed 0"), (true, "asked 1, followed 0")]
        {
            copied.apply(ChangeBatch { is_first, ..ChangeBatch::default() });
            assert_eq!(asked(&mut copied.plugins), expected);
        }
    }

    /// The niceness of the calling thread.
    #[cfg(target_os = "linux")]
    fn niceness() -> Option<String> {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("it is mounted");
        // The name of the thread is in parentheses, before the third field. The niceness is the 19th field.
        stat.rsplit_once(')')?.1.split_whitespace().nth(16).map(str::to_owned)
    }

    #[cfg(target_os = "linux")]
    #[tokio::test(flavor = "multi_thread")]
    async fn questions_of_people_have_the_priority_of_the_process() {
        let (sender, requests) = mpsc::channel(1);
        drop(requests);
        let follower = Follower::start(sender).expect("two threads");
        assert_eq!(follower.ask(|_| niceness()).await, Some(niceness()));
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

    /// A copy that belongs to no thread.
    fn shared(requests: mpsc::Sender<FollowRequest>) -> SharedCopy {
        SharedCopy { kept: Arc::default(), requests }
    }

    fn read_names(shared: &SharedCopy) -> Vec<String> {
        let (answer, names) = channel::sync_channel(1);
        let read = move |pods: PodList<'_>| answer.try_send(names_in(pods)).expect("the reader waits");
        shared.read(AsOf::Now, Read::Pods(Box::new(read)));
        names.recv().expect("an answer")
    }

    fn read_n_on_nodes(shared: &SharedCopy) -> usize {
        let (answer, number) = channel::sync_channel(1);
        let read = move |copied: &mut Copied| answer.try_send(n_on_nodes(&copied.view)).expect("the reader waits");
        shared.read(AsOf::Now, Read::Nodes(Box::new(read)));
        number.recv().expect("an answer")
    }

    /// A follower that waits for readers has no copy. Without a reader, it would never drop the copy of the explainer.
    #[test]
    fn the_follower_takes_care_of_a_copy_that_the_explainer_makes() {
        let (sender, requests) = mpsc::channel(1);
        drop(requests);
        let (reads, incoming) = channel::sync_channel(1);
        let (_, questions) = channel::sync_channel(1);
        let explaining = ExplainerThread { questions, reads, shared: shared(sender) };
        let is_sent = || {
            explaining.answer(AsOf::Now, Box::new(|_: &mut Copied| ()));
            incoming.try_recv().is_ok()
        };
        assert_eq!([is_sent(), is_sent()], [true, false], "the follower has the copy already at the second question");
    }

    /// The scheduling thread made a batch before the reader came, and it arrives only now.
    #[test]
    fn a_late_batch_is_not_what_a_reader_waits_for() {
        let mut scheduler = Scheduler::new(Settings::default(), Vec::new());
        let (sender, mut requests) = mpsc::channel(1);
        let (late, awaited) = channel::sync_channel(1);
        FollowRequest::Changes(CopyKind::Shown, late).answer(&mut scheduler, Time(1));
        let shared = shared(sender);
        *shared.lock() = Some(Kept { awaited: Some(awaited), ..Kept::new() });
        let (events, incoming) = channel::channel::<Event>();
        events.send(pod("a")).expect("the receiver is here");
        let scheduling = thread::spawn(move || {
            while let Some(request) = requests.blocking_recv() {
                incoming.try_iter().for_each(|event| scheduler.handle(event, Time(2)));
                request.answer(&mut scheduler, Time(2));
            }
        });
        assert_eq!(read_names(&shared), ["a"]);
        drop(shared);
        scheduling.join().expect("no panic");
    }

    #[test]
    fn pods_are_taken_off_nodes_that_nobody_reads() {
        let (sender, requests) = mpsc::channel(1);
        let (events, incoming) = channel::channel::<Event>();
        let scheduling = scheduling_thread(requests, incoming);
        let shared = shared(sender);
        events.send(pod("a")).expect("the thread lives");
        assert_eq!(read_n_on_nodes(&shared), 1);
        let long_ago = Instant::now().checked_sub(KEPT_FOR).expect("the machine has been up for a minute");
        shared.lock().as_mut().expect("it was read").nodes_read_at = long_ago;
        assert_eq!(read_names(&shared), ["a"]);
        assert_eq!(n_on_nodes(&shared.lock().as_ref().expect("it was read").copied.view), 0);
        assert!(!shared.is_filled(), "a question has it filled again");
        assert_eq!(read_n_on_nodes(&shared), 1, "until somebody reads them again");
        drop(shared);
        scheduling.join().expect("no panic");
    }
}
