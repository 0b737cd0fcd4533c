//! Events: what the scheduler tells users about a pod, as `events.k8s.io/v1` objects.
//!
//! [`EventRecorder::record`] never waits: it queues the event for a background task, which folds repetitions into
//! series (`event/series.rs`) and sends the rest. Profiles take turns, and within a profile namespaces, so that a flood of
//! events from one plugin delays no other profile's. An event that the API server won't have is forgotten, and so is one that
//! finds tens of thousands waiting, which is counted: events are a courtesy, and must not hold up scheduling.

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

/// Events that may wait to be sent, some 600 bytes each. Bindings come faster than an API server takes their events beside
/// them; kube-scheduler keeps a goroutine for each event, without a bound. As many may have come that the task has not looked
/// at yet.
const QUEUE_LEN: usize = 50_000;

/// A profile of which fewer wait may have one more, although others fill the queue.
const FEW: usize = 1000;

/// What the event is about. Its resource version counts: the same event about a changed object starts a new series.
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

/// An event to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    pub type_: EventType,
    /// `Scheduled`, `FailedScheduling`, ...
    pub reason: Cow<'static, str>,
    /// `Binding`, `Scheduling`, ...
    pub action: Cow<'static, str>,
    /// The message. Cut off at 1024 bytes.
    pub note: String,
    /// Whether events with other messages are other events. Else they are folded into one, which keeps the first message, as
    /// kube-scheduler's are.
    pub note_counts: bool,
    pub regarding: ObjectReference,
    pub related: Option<ObjectReference>,
    /// The `schedulerName` of the profile that speaks.
    pub reporting_controller: Arc<str>,
}

/// Tells events in the background. Cheap to clone; the task behind it ends, once everything queued is sent, when the
/// last clone is dropped.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<Command>,
    n_dropped: Arc<AtomicU64>,
    /// Events that wait for their turn, requests under way, and those that wait between two tries.
    n_unwritten: Arc<AtomicUsize>,
    throttle: Arc<Throttle>,
}

#[derive(Debug)]
enum Command {
    Record(Box<NewEvent>),
    /// Answer when all that was queued before is sent or given up.
    Flush(oneshot::Sender<()>),
}

impl EventRecorder {
    /// Starts a recorder. Events say that they come from the instance `<schedulerName>-<hostname>`, and go out no faster than
    /// `rate`: kube-scheduler's client for events has a rate of its own, too.
    ///
    /// Must be called inside a tokio runtime.
    pub fn spawn(client: Client, hostname: impl Into<String>, rate: RequestRate) -> Self {
        let (queue, commands) = mpsc::channel(QUEUE_LEN);
        let (n_dropped, n_unwritten) = (Arc::default(), Arc::default());
        let poster = Poster::new(client, hostname.into(), rate, Arc::clone(&n_dropped), Arc::clone(&n_unwritten));
        let throttle = poster.throttle();
        tokio::spawn(poster.run(commands));
        Self { queue, n_dropped, n_unwritten, throttle }
    }

    /// Sends events no faster than this from here on.
    pub fn set_rate(&self, rate: RequestRate) {
        self.throttle.set(rate);
    }

    /// Queues an event, or drops it if 50,000 are waiting already, unless its profile has few of them. Its texts are cut to what the API takes. Never waits.
    pub fn record(&self, event: NewEvent) {
        if self.queue.try_send(Command::Record(Box::new(series::shorten(event)))).is_err() {
            self.n_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the task behind it is gone, which happens before the last clone is dropped only if it panics.
    pub async fn closed(&self) {
        self.queue.closed().await;
    }

    /// How many events found the queue full.
    pub fn n_dropped(&self) -> u64 {
        self.n_dropped.load(Ordering::Relaxed)
    }

    /// How many events are neither written nor given up.
    pub fn n_unwritten(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity() + self.n_unwritten.load(Ordering::Relaxed)
    }

    /// Waits until all events recorded before are sent or given up. False if `timeout` came first.
    pub async fn flush(&self, timeout: Duration) -> bool {
        let flushed = async {
            let (done, wait) = oneshot::channel();
            self.queue.send(Command::Flush(done)).await.ok()?;
            wait.await.ok()
        };
        tokio::time::timeout(timeout, flushed).await.is_ok_and(|flushed| flushed.is_some())
    }
}
