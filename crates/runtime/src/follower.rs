//! A copy of the scheduler's data. Everything that is shown to people is read from it.
//!
//! While there are readers, a thread asks the scheduling thread for its changes ([`Scheduler::changes`]), one batch
//! per turn. A new copy arrives in portions of the same size, so that readers never stop a cycle. If there was no
//! reader for a while, the copy is dropped, and the scheduling thread no longer records changes.
//!
//! Two threads use the copy, one at a time:
//!
//! - The *follower* has a low priority. It fills the copy and keeps it up to date, and it serves readers that come again
//!   and again, such as browsers.
//! - The *explainer* has the usual priority, and answers questions of people, one at a time. While all processors are
//!   busy, a thread of low priority gets about a twentieth of one, so an answer would take twenty times its processor
//!   time. For a question, the explainer also brings the copy up to date, which is at most [`EVERY`] behind. It has the
//!   follower fill a new copy. While further questions wait, the explainer rests after each for as long as it worked, so
//!   that many questions take at most half of a processor from the scheduling thread.
//!
//! The explainer waits for a follower that is busy with the copy, so a question may sometimes wait for one batch or one
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
use berth_scheduler::{ChangeBatch, ClusterView, CopyKind, Scheduler};
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

/// The time between two updates of the copy while no reader waits. Only few changes then wait on the scheduling thread,
/// and a pod that changed several times is sent only once.
const EVERY: Duration = Duration::from_millis(200);

/// The copy is dropped if there was no reader for this long.
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
}

/// A copy that changes bring up to date.
pub(crate) trait Following {
    const KIND: CopyKind;
    fn apply(&mut self, batch: ChangeBatch);
    /// Whether the copy equals the scheduler's data at the time of the last batch.
    fn is_complete(&self) -> bool;
}

/// The copy, with the plugins that answer questions about it.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    pub view: ClusterView,
    pub plugins: KeptPlugins,
    /// Whether the copy has been complete since it began. It then lacks at most the newest changes.
    is_filled: bool,
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
            // The channel has room for this one answer, unless the follower has ended.
            Self::Changes(copy, answer) => drop(answer.try_send(scheduler.changes_for(copy, now))),
            Self::End(copy) => scheduler.end_following_of(copy),
        }
    }
}

type Read = Box<dyn FnOnce(&mut Copied) + Send>;

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
    read: Read,
}

/// Provides the copy. Cheap to clone. The threads end with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    reads: SyncSender<Read>,
    questions: SyncSender<Question>,
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
        let shared = SharedCopy { kept: Arc::default(), requests };
        let (reads, incoming) = channel::sync_channel(MAX_WAITING);
        let following = FollowerThread { reads: incoming, shared: shared.clone() };
        berth_threads::spawn_background("follower", move || following.run())?;
        let (questions, incoming) = channel::sync_channel(MAX_WAITING);
        let explaining = ExplainerThread { questions: incoming, reads: reads.clone(), shared };
        thread::Builder::new().name("explainer".to_owned()).spawn(move || explaining.run()).map(drop)?;
        Ok(Self { reads, questions })
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
        let (read, answered) = answering(ask);
        self.questions.try_send(Question { as_of, read }).ok()?;
        timeout(READ_TIMEOUT, answered).await.ok()?.ok()
    }
}

impl ReadModel for Follower {
    async fn read<R: Send + 'static>(&self, read: impl FnOnce(&ClusterView) -> R + Send + 'static) -> Option<R> {
        let (read, answered) = answering(move |copied| read(&copied.view));
        self.reads.try_send(read).ok()?;
        timeout(READ_TIMEOUT, answered).await.ok()?.ok()
    }
}

/// A read that sends its result, unless nobody waits for it any more.
fn answering<R: Send + 'static>(ask: impl FnOnce(&mut Copied) -> R + Send + 'static) -> (Read, oneshot::Receiver<R>) {
    let (answer, answered) = oneshot::channel();
    let read = move |copied: &mut Copied| {
        if !answer.is_closed() {
            drop(answer.send(ask(copied)));
        }
    };
    (Box::new(read), answered)
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
            self.shared.read(as_of, read);
            worked = begun.elapsed();
        }
    }

    /// Waits for a question. If one waits already, the thread first rests for as long as it `worked` for the last one.
    /// `None` means that no more questions will come.
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

    /// Has the follower fill the copy if it is new. Returns whether the follower did so.
    fn has_it_filled(&self) -> bool {
        if self.shared.is_filled() {
            return false;
        }
        let (filled, wait) = channel::sync_channel(1);
        let read = Box::new(move |_: &mut Copied| {
            // The explainer may have stopped waiting.
            let _ = filled.try_send(());
        });
        self.reads.try_send(read).is_ok() && wait.recv_timeout(READ_TIMEOUT).is_ok()
    }
}

impl SharedCopy {
    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_kept(&self) -> bool {
        self.lock().is_some()
    }

    fn is_filled(&self) -> bool {
        self.lock().as_ref().is_some_and(|kept| kept.copied.is_filled)
    }

    /// Lets `read` read the copy, which is made if there is none.
    fn read(&self, as_of: AsOf, read: Read) {
        let mut shared = self.lock();
        let is_new = shared.is_none();
        let kept = shared.get_or_insert_with(Kept::new);
        kept.read_at = Instant::now();
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            if is_new || as_of == AsOf::Now {
                kept.catch_up(&self.requests, CATCH_UP);
            }
            read(&mut kept.copied);
        }));
        if outcome.is_err() {
            error!("an answer from the copy of the scheduler's data panicked; the scheduler is not affected");
            // The copy may be in any state.
            self.end(&mut shared);
        }
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
        Self { copied: Copied::default(), awaited: None, read_at: now, updated_at: now }
    }

    fn catch_up(&mut self, requests: &mpsc::Sender<FollowRequest>, limit: Duration) {
        catch_up(&mut self.copied, &mut self.awaited, requests, limit);
        self.updated_at = Instant::now();
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
    }
}
