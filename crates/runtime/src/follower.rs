//! A copy of the scheduler's data, from which pods and nodes are shown to people.
//!
//! While there are readers, a thread asks the scheduling thread for its changes ([`Scheduler::changes`]), one batch
//! per turn. A new copy arrives in portions of the same size, so that readers never stop a cycle. If there was no
//! reader for a while, the copy is dropped, and the scheduling thread no longer records changes.
//!
//! The thread does only the work that readers need. While readers read only pods, no pod is put on its node. For a few
//! numbers there is no copy at all ([`Scheduler::totals`]).
//!
//! Two threads use the copy, one at a time:
//!
//! - The *follower* has a low priority. It fills the copy and keeps it up to date, and it serves readers that come again
//!   and again, such as browsers.
//! - The *explainer* has the usual priority, and answers questions of people, one at a time. While all processors are
//!   busy, a thread of low priority gets about a twentieth of one, so an answer would take twenty times its processor
//!   time. For a question, the explainer also brings the copy up to date, which is at most [`EVERY`] behind. It has the
//!   follower fill a new copy. While further questions wait, the explainer rests after each for as long as it worked, at
//!   most for [`MAX_REST`]. Many short questions then take at most half of a processor from the scheduling thread. A
//!   question whose caller has stopped waiting costs nothing.
//!
//! The explainer waits for a follower that is busy with the copy, so a question may sometimes wait for one update or one
//! view at low priority.

#[cfg(test)]
mod tests;

use std::{
    io,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
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
            // The channel has room for one answer, and is closed only if the follower has ended.
            Self::Changes(copy, answer) => drop(answer.try_send(scheduler.changes_for(copy, now))),
            Self::End(copy) => scheduler.end_following_of(copy),
            Self::Totals(answer) => {
                // The reader may have stopped waiting.
                let _ = answer.send(scheduler.totals(now));
            }
        }
    }
}

/// A reader of nodes, or the part of a question that asks about nodes.
type ReadNodes = Box<dyn FnOnce(&mut Copied) + Send>;

/// A reader, by the data that it reads.
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
    /// The caller, which drops the value when it stops waiting.
    caller: Weak<()>,
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

    /// Asks a user's question about the scheduler's current data. The question may change the copy temporarily and then
    /// restore it. `None` if there is no answer in time, or if too many questions wait.
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
        let waiting = Arc::new(());
        self.questions.try_send(Question { as_of, caller: Arc::downgrade(&waiting), read }).ok()?;
        let answer = timeout(READ_TIMEOUT, answered).await;
        drop(waiting);
        answer.ok()?.ok()
    }

    /// The scheduler's current state in a few numbers. If the scheduling thread does not answer for [`CATCH_UP`],
    /// returns the state of the last answer, or `None` if there was no answer yet.
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

impl Question {
    /// Whether the caller still waits for the answer.
    fn is_awaited(&self) -> bool {
        self.caller.strong_count() > 0
    }
}

impl ExplainerThread {
    fn run(self) {
        let mut worked = Duration::ZERO;
        while let Some(question) = self.next_question(worked) {
            let begun = Instant::now();
            let as_of = if self.has_it_filled() { AsOf::Before } else { question.as_of };
            // The follower may have needed longer to fill the copy than the caller waits.
            if question.is_awaited() {
                self.answer(as_of, question.read);
            }
            worked = begun.elapsed();
        }
    }

    /// Answers a question. The copy may have been dropped since the explainer looked at it. The follower then waits for
    /// a reader. A reader is sent to the follower, so that the follower updates the new copy, and drops the copy in
    /// time.
    fn answer(&self, as_of: AsOf, read: ReadNodes) {
        if self.shared.read(as_of, Read::Nodes(read)) {
            // If there is no room, the follower has readers.
            let _ = self.reads.try_send(Read::Pods(Box::new(|_: PodList<'_>| ())));
        }
    }

    /// Waits for a question whose caller waits. If a question is there already, the thread first rests for as long as it
    /// `worked` for the last one, at most for [`MAX_REST`]. `None` means that no more questions will come.
    fn next_question(&self, worked: Duration) -> Option<Question> {
        loop {
            let question = match self.questions.try_recv() {
                Ok(question) => {
                    if question.is_awaited() {
                        thread::sleep(worked.min(MAX_REST));
                    }
                    question
                }
                Err(TryRecvError::Empty) => self.questions.recv().ok()?,
                Err(TryRecvError::Disconnected) => return None,
            };
            if question.is_awaited() {
                return Some(question);
            }
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

    /// Updates the copy between two readers, or drops the copy if the last reader came long ago ([`KEPT_FOR`]).
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

    /// The pods of the copy. If the last reader of nodes came long ago ([`KEPT_FOR`]), this takes the pods off their
    /// nodes.
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
