//! Events: the scheduler's messages to users about a pod, as `events.k8s.io/v1` objects.
//!
//! [`EventRecorder::record`] never waits. It queues the event for a background task, which folds repetitions into
//! series (`event/series.rs`) and sends the other events. Profiles take turns, and namespaces within a profile take
//! turns, so a flood of events from one plugin delays no other profile's events. An event that the API server refuses
//! is dropped. If tens of thousands of events wait, a new event is dropped and counted: events are not essential, and
//! must not delay scheduling.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use kube::Client;
use tokio::sync::{mpsc, oneshot};

use post::Poster;

use crate::rate::{RequestRate, Throttle};

mod body;
mod post;
mod series;
#[cfg(test)]
mod tests;

/// The number of events that may wait to be sent, some 600 bytes each. Bindings can come faster than an API server
/// takes their events; kube-scheduler keeps a goroutine for each event, without a bound. The channel to the task may
/// hold as many again.
const QUEUE_LEN: usize = 50_000;

/// A profile with fewer waiting events than this may queue one more, although the queue is full.
const FEW: usize = 1000;

/// The object of the event. Its resource version matters: the same event about a changed object starts a new series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectReference {
    pub kind: Cow<'static, str>,
    pub api_version: Cow<'static, str>,
    /// Empty for objects without a namespace.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub resource_version: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

/// An event to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    pub type_: EventType,
    /// `Scheduled`, `FailedScheduling`, ...
    pub reason: Cow<'static, str>,
    /// `Binding`, `Scheduling`, ...
    pub action: Cow<'static, str>,
    /// The message. Cut off at 1024 bytes.
    pub note: String,
    /// Whether a different message makes a different event. If not, events are combined into one event, which keeps the
    /// first message, as in kube-scheduler.
    pub note_counts: bool,
    pub regarding: ObjectReference,
    pub related: Option<ObjectReference>,
    /// The `schedulerName` of the profile that sends the event.
    pub reporting_controller: Arc<str>,
}

/// Sends events in the background. A recorder is cheap to clone. The background task ends when the last clone is
/// dropped and all queued events are sent.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<Command>,
    n_dropped: Arc<AtomicU64>,
    /// The number of events that wait for their turn, that are being sent, or that wait between two tries.
    n_unwritten: Arc<AtomicUsize>,
    throttle: Arc<Throttle>,
}

#[derive(Debug)]
enum Command {
    Record(Box<NewEvent>),
    /// Answers once all events that were queued before are sent or dropped.
    Flush(oneshot::Sender<()>),
}

impl EventRecorder {
    /// Starts a recorder. Events have the reporting instance `<schedulerName>-<hostname>`, and go out no faster than
    /// `rate`. kube-scheduler's client for events also has a separate rate.
    ///
    /// This must be called inside a tokio runtime.
    pub fn spawn(client: Client, hostname: impl Into<String>, rate: RequestRate) -> Self {
        let (queue, commands) = mpsc::channel(QUEUE_LEN);
        let (n_dropped, n_unwritten) = (Arc::default(), Arc::default());
        let poster = Poster::new(client, hostname.into(), rate, Arc::clone(&n_dropped), Arc::clone(&n_unwritten));
        let throttle = poster.throttle();
        tokio::spawn(poster.run(commands));
        Self { queue, n_dropped, n_unwritten, throttle }
    }

    /// Limits the rate of events from this call on.
    pub fn set_rate(&self, rate: RequestRate) {
        self.throttle.set(rate);
    }

    /// Queues an event and cuts its texts to the API's limits. Drops the event if 50,000 are already waiting, unless
    /// its profile has few waiting events. Never waits.
    pub fn record(&self, event: NewEvent) {
        if self.queue.try_send(Command::Record(Box::new(series::shorten(event)))).is_err() {
            self.n_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the task behind the recorder has ended. While clones exist, the task ends only by a panic.
    pub async fn closed(&self) {
        self.queue.closed().await;
    }

    /// The number of events that found the queue full.
    pub fn n_dropped(&self) -> u64 {
        self.n_dropped.load(Ordering::Relaxed)
    }

    /// The number of events that are still to be written.
    pub fn n_unwritten(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity() + self.n_unwritten.load(Ordering::Relaxed)
    }

    /// Waits until all events recorded before are sent or dropped. Returns false if `timeout` came first.
    pub async fn flush(&self, timeout: Duration) -> bool {
        let flushed = async {
            let (done, wait) = oneshot::channel();
            self.queue.send(Command::Flush(done)).await.ok()?;
            wait.await.ok()
        };
        tokio::time::timeout(timeout, flushed).await.is_ok_and(|flushed| flushed.is_some())
    }
}
