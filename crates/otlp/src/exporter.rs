//! The queue of spans, and the task that sends them in batches.
//!
//! No caller waits for the collector. A span for which the queue has no room is dropped. The task sends one batch at a
//! time. The task sends a batch again after some failures, and drops the batch after [`MAX_TRIES`].

use std::{fmt, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    client::{Collector, ExportError},
    destination::Destination,
    messages,
    span::{Resource, Span},
};

/// The maximum number of waiting spans. A span takes some 500 bytes. This is enough for about 100 attempts.
const MAX_WAITING: usize = 8192;
/// The number of spans in a batch, as in the libraries of OpenTelemetry.
const MAX_BATCH: usize = 512;
/// The time after which a batch is sent that is not full.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// The number of times that a batch is sent.
const MAX_TRIES: u32 = 3;
/// The pause before the second try. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// An observer of spans that were exported, refused or dropped. The calls must not block.
pub trait ExportObserver: Send + Sync + 'static {
    /// The collector took this many spans.
    fn exported(&self, n_spans: usize);
    /// The collector did not take this many spans.
    fn failed(&self, n_spans: usize, error: &ExportError);
    /// A span was dropped because the queue was full. Called on the thread that sends the span.
    fn dropped(&self);
}

enum Message {
    Span(Box<Span>),
    /// Answer once all earlier spans were sent or dropped.
    Flush(oneshot::Sender<()>),
}

/// The way to the task. Cheap to clone.
#[derive(Clone)]
pub struct SpanSender {
    messages: mpsc::Sender<Message>,
    observer: Arc<dyn ExportObserver>,
}

impl fmt::Debug for SpanSender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SpanSender").finish_non_exhaustive()
    }
}

impl SpanSender {
    /// Sends a span if there is room for it. Never waits.
    pub fn send(&self, span: Span) {
        if self.messages.try_send(Message::Span(Box::new(span))).is_err() {
            self.observer.dropped();
        }
    }

    /// Waits until all spans were sent or dropped, for at most `limit`.
    pub async fn flush(&self, limit: Duration) {
        let (done, finished) = oneshot::channel();
        let flushed = async {
            if self.messages.send(Message::Flush(done)).await.is_ok() {
                // There is no answer if the task has ended.
                let _ = finished.await;
            }
        };
        let _ = timeout(limit, flushed).await;
    }
}

/// The sender of spans to `destination`, and the task that exports them. The task ends with the last sender.
///
/// # Errors
/// TLS cannot be set up.
pub fn exporter(
    destination: Destination,
    resource: Resource,
    observer: Arc<dyn ExportObserver>,
) -> Result<(SpanSender, impl Future<Output = ()> + Send + 'static), rustls::Error> {
    let (messages, waiting) = mpsc::channel(MAX_WAITING);
    let exporter =
        Exporter { collector: Collector::new(destination)?, resource, observer: Arc::clone(&observer), waiting };
    Ok((SpanSender { messages, observer }, exporter.run()))
}

struct Exporter {
    collector: Collector,
    resource: Resource,
    observer: Arc<dyn ExportObserver>,
    waiting: mpsc::Receiver<Message>,
}

/// Spans that are sent together.
#[derive(Default)]
struct Batch {
    spans: Vec<Span>,
    flush: Option<oneshot::Sender<()>>,
}

impl Batch {
    fn add(&mut self, message: Message) {
        match message {
            Message::Span(span) => self.spans.push(*span),
            Message::Flush(done) => self.flush = Some(done),
        }
    }

    fn is_complete(&self) -> bool {
        self.spans.len() >= MAX_BATCH || self.flush.is_some()
    }
}

impl Exporter {
    async fn run(mut self) {
        while let Some(Batch { spans, flush }) = self.next_batch().await {
            if !spans.is_empty() {
                self.export(spans).await;
            }
            if let Some(done) = flush {
                // The caller may no longer wait.
                let _ = done.send(());
            }
        }
    }

    /// The next batch; `None` once all senders are dropped.
    async fn next_batch(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        batch.add(self.waiting.recv().await?);
        let until = Instant::now() + MAX_DELAY;
        while !batch.is_complete() {
            match timeout_at(until, self.waiting.recv()).await {
                Ok(Some(message)) => batch.add(message),
                Ok(None) | Err(_) => break,
            }
        }
        Some(batch)
    }

    async fn export(&self, spans: Vec<Span>) {
        let n_spans = spans.len();
        let request = messages::request(&self.resource, spans);
        let mut pause = FIRST_PAUSE;
        for n_left in (0..MAX_TRIES).rev() {
            match self.collector.export(&request).await {
                Ok(()) => return self.observer.exported(n_spans),
                Err(error) if n_left > 0 && error.may_pass() => sleep(pause).await,
                Err(error) => return self.give_up(n_spans, &error),
            }
            pause *= 2;
        }
    }

    fn give_up(&self, n_spans: usize, error: &ExportError) {
        let n_lost = match error {
            ExportError::Rejected { n_spans: n_rejected, .. } => {
                usize::try_from(*n_rejected).unwrap_or(usize::MAX).min(n_spans)
            }
            ExportError::TimedOut
            | ExportError::Unreachable(_)
            | ExportError::Http(_)
            | ExportError::Grpc { .. }
            | ExportError::Answer(_) => n_spans,
        };
        if n_lost < n_spans {
            self.observer.exported(n_spans - n_lost);
        }
        self.observer.failed(n_lost, error);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::span::{SpanId, SpanKind, TraceId};

    #[derive(Default)]
    struct Counts {
        dropped: AtomicUsize,
    }

    impl ExportObserver for Counts {
        fn exported(&self, _: usize) {}

        fn failed(&self, _: usize, _: &ExportError) {}

        fn dropped(&self) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn span() -> Span {
        Span {
            trace: TraceId(1),
            id: SpanId(1),
            parent: None,
            name: "a".into(),
            kind: SpanKind::Internal,
            start: 0,
            end: 0,
            attributes: Vec::new(),
            events: Vec::new(),
            error: None,
        }
    }

    #[tokio::test]
    async fn spans_beyond_the_room_are_dropped_and_counted() {
        let counts = Arc::new(Counts::default());
        let destination = Destination::new(None, |_| None).unwrap();
        // The task is not polled, like a task that waits for a collector.
        let (sender, _task) = exporter(destination, Resource::default(), Arc::clone(&counts) as _).unwrap();
        (0..MAX_WAITING + 5).for_each(|_| sender.send(span()));
        assert_eq!(counts.dropped.load(Ordering::Relaxed), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flush_ends_when_its_time_is_over() {
        let destination = Destination::new(None, |_| None).unwrap();
        let (sender, _task) = exporter(destination, Resource::default(), Arc::new(Counts::default())).unwrap();
        let began = Instant::now();
        sender.flush(Duration::from_secs(1)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }
}
