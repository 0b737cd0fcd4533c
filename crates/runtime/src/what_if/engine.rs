//! The thread that answers what-if questions. While there are questions, it keeps a second scheduler with separate
//! instances of the plugins, which follows the running scheduler by its changes. Each variant of a question is a fork
//! of this scheduler, which is reverted with an effort that follows the changes.
//!
//! If there was no question for a while, the second scheduler is dropped with its plugins, and the scheduling thread no
//! longer records changes for this scheduler.

use std::{
    io,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{self as channel, Receiver, RecvTimeoutError, SyncSender},
    },
    time::{Duration, Instant},
};

use axum::body::Bytes;
use berth_framework::Profile;
use berth_scheduler::{ChangeBatch, CopyKind, Settings};
use berth_telemetry::clock;
use berth_what_if::{Batch, BatchBounds, BatchError, Cluster, Placing, WhatIfAnswer, WhatIfRequest, what_if_followed};
use serde::Serialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tracing::error;

use super::{NoAnswer, bounds::Bounds};
use crate::follower::{FollowRequest, Following, catch_up};

/// The time for which the copy is updated before a question is refused.
const CATCH_UP: Duration = Duration::from_secs(10);

/// The time between two updates of the copy while there is no question.
const EVERY: Duration = Duration::from_millis(500);

/// The copy is dropped if there was no question for this long.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// The maximum size of an answer.
const MAX_ANSWER: usize = 64 << 20;

/// The stack of the thread, which is as large as the scheduling thread's.
const STACK: usize = 8 * berth_wasm_host::MAX_STACK;

/// The number of copies so far, so that the tokens of different copies differ.
static N_COPIES: AtomicU64 = AtomicU64::new(0);

/// The time of the first token. This time distinguishes the tokens of two processes.
static FIRST_ASKED: LazyLock<u64> = LazyLock::new(|| clock::wall(clock::now()));

/// The way to the thread, which ends with the last clone.
#[derive(Clone, Debug)]
pub(super) struct Engine(SyncSender<Inquiry>);

/// A question, and the data for its answer.
pub(super) struct Inquiry {
    pub question: Bytes,
    /// The profiles in force, with new instances.
    pub profiles: Vec<Profile>,
    pub settings: Settings,
    /// The profile that serves every pod, if there is one.
    pub scheduler_name: Option<String>,
    pub surroundings: Arc<Cluster>,
    pub bounds: Bounds,
    pub answer: oneshot::Sender<Result<Vec<u8>, NoAnswer>>,
    /// The permit to ask, which ends before the answer is sent.
    pub turn: OwnedSemaphorePermit,
}

/// The data of the thread.
struct EngineThread {
    inquiries: Receiver<Inquiry>,
    requests: mpsc::Sender<FollowRequest>,
    kept: Option<Kept>,
}

/// The copy, and the state of its updates.
struct Kept {
    copy: Followed,
    /// An answer that had not arrived at the last check.
    awaited: Option<Receiver<ChangeBatch>>,
    asked_at: Instant,
}

/// A scheduler that follows the running scheduler.
struct Followed {
    placing: Placing<'static>,
    settings: Settings,
    number: u64,
    /// The number of batches after which the cluster differed from before.
    n_changes: u64,
    is_complete: bool,
}

impl Engine {
    /// Starts the thread, which sends `requests` to the scheduling thread.
    ///
    /// # Errors
    /// The system cannot start more threads.
    pub(super) fn start(requests: mpsc::Sender<FollowRequest>) -> io::Result<Self> {
        // Only the holder of the permit asks, so a channel for one question is enough.
        let (ask, inquiries) = channel::sync_channel(1);
        let work = move || EngineThread { inquiries, requests, kept: None }.run();
        berth_threads::spawn_background_with_stack("what-if", STACK, work)?;
        Ok(Self(ask))
    }

    /// Passes a question on.
    ///
    /// # Errors
    /// The thread has ended.
    pub(super) fn ask(&self, inquiry: Inquiry) -> Result<(), NoAnswer> {
        self.0.try_send(inquiry).map_err(|_| NoAnswer::Broken("the thread that answers has ended".to_owned()))
    }
}

impl EngineThread {
    fn run(mut self) {
        while let Some(inquiry) = self.next() {
            let Inquiry { question, profiles, settings, scheduler_name, surroundings, bounds, answer, turn } = inquiry;
            let asked = Asked { question, profiles, settings, scheduler_name, surroundings, bounds };
            let answered = panic::catch_unwind(AssertUnwindSafe(|| self.answer(asked))).unwrap_or_else(|_| {
                // The copy may be in any state.
                self.end();
                error!("the answer to a what-if question panicked; the scheduler is not affected");
                Err(NoAnswer::Broken("a defect of the simulation; the scheduler's log has the reason".to_owned()))
            });
            drop(turn);
            // The caller may have stopped waiting.
            let _ = answer.send(answered);
        }
    }

    /// Waits for a question, and keeps the copy up to date while it waits. Returns `None` once no more questions can
    /// come.
    fn next(&mut self) -> Option<Inquiry> {
        loop {
            let Some(kept) = &mut self.kept else { return self.inquiries.recv().ok() };
            match self.inquiries.recv_timeout(EVERY) {
                Ok(inquiry) => return Some(inquiry),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if kept.asked_at.elapsed() < KEPT_FOR => {
                    catch_up(&mut kept.copy, &mut kept.awaited, &self.requests, EVERY);
                }
                Err(RecvTimeoutError::Timeout) => self.end(),
            }
        }
    }

    /// Drops the copy with its plugins.
    fn end(&mut self) {
        if self.kept.take().is_some() {
            // The scheduling thread may have ended.
            let _ = self.requests.blocking_send(FollowRequest::End(CopyKind::Asked));
        }
    }

    fn answer(&mut self, asked: Asked) -> Result<Vec<u8>, NoAnswer> {
        let bounds = asked.bounds.clone();
        let request = asked.request()?;
        let copy = self.up_to_date(asked.settings)?;
        if let Some(unknown) = copy.unknown(&asked.profiles) {
            let reason = format!("the scheduler is about to serve {unknown}, and does not serve it yet; try again");
            return Err(NoAnswer::Broken(reason));
        }
        let answered = copy.answer(&request, asked);
        let is_spent = copy.placing.has_lost_plugin() || matches!(answered, Err(BatchError::Place(_)));
        let answered = answered.map_err(|error| match (error, bounds.exceeded()) {
            (BatchError::Place(_), Some(bound)) => NoAnswer::BeyondBounds(bound.to_owned()),
            (BatchError::Place(error), None) => NoAnswer::Broken(error.to_string()),
            (of_request, _) => NoAnswer::Refused(of_request.to_string()),
        });
        if is_spent {
            self.end();
        }
        to_json(&answered?, MAX_ANSWER)
    }

    /// The copy, as the scheduler is now.
    fn up_to_date(&mut self, settings: Settings) -> Result<&mut Followed, NoAnswer> {
        let kept = self.kept.get_or_insert_with(|| Kept {
            copy: Followed::new(settings),
            awaited: None,
            asked_at: Instant::now(),
        });
        (kept.copy.settings, kept.asked_at) = (settings, Instant::now());
        let Kept { copy, awaited, .. } = kept;
        // A batch that was awaited may have been made before the question.
        let n_updates = 1 + usize::from(awaited.is_some());
        for _ in 0..n_updates {
            copy.is_complete = false;
            catch_up(copy, awaited, &self.requests, CATCH_UP);
        }
        if copy.is_complete {
            Ok(copy)
        } else {
            Err(NoAnswer::Broken("the scheduler did not answer in time; try again".to_owned()))
        }
    }
}

/// The answer as JSON, which is bounded while it is written.
fn to_json(answer: &impl Serialize, limit: usize) -> Result<Vec<u8>, NoAnswer> {
    let mut json = Limited { written: Vec::new(), limit };
    match serde_json::to_writer(&mut json, answer) {
        Ok(()) => Ok(json.written),
        Err(error) if error.is_io() => Err(NoAnswer::BeyondBounds(format!("more than {} MiB", limit >> 20))),
        Err(error) => Err(NoAnswer::Broken(error.to_string())),
    }
}

/// Takes at most `limit` bytes.
struct Limited {
    written: Vec<u8>,
    limit: usize,
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.written.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A question without the way of its answer.
struct Asked {
    question: Bytes,
    profiles: Vec<Profile>,
    settings: Settings,
    scheduler_name: Option<String>,
    surroundings: Arc<Cluster>,
    bounds: Bounds,
}

impl Asked {
    fn request(&self) -> Result<WhatIfRequest, NoAnswer> {
        let text = std::str::from_utf8(&self.question).map_err(|error| NoAnswer::Refused(error.to_string()))?;
        WhatIfRequest::read(text).map_err(|error| NoAnswer::Refused(error.to_string()))
    }
}

impl Followed {
    fn new(settings: Settings) -> Self {
        let number = N_COPIES.fetch_add(1, Ordering::Relaxed);
        // Components see the time that the scheduling thread gives to the plugins of this process.
        let placing = Placing::following(settings, Box::new(|_| ()));
        Self { placing, settings, number, n_changes: 0, is_complete: false }
    }

    /// The name of a profile that the scheduler does not know yet, because the configuration is changing. `None` if the
    /// scheduler knows all profiles.
    fn unknown<'p>(&self, profiles: &'p [Profile]) -> Option<&'p str> {
        profiles.iter().map(|profile| profile.scheduler_name.as_str()).find(|name| !self.placing.knows(name))
    }

    fn answer(&mut self, request: &WhatIfRequest, asked: Asked) -> Result<WhatIfAnswer, BatchError> {
        let Asked { question: _, profiles, settings, scheduler_name, surroundings, bounds } = asked;
        let mut cluster = Cluster::clone(&surroundings);
        // A StatefulSet of the question uses the claims that exist.
        let claims = self.placing.names_of_kind("PersistentVolumeClaim").map(|(namespace, name)| {
            Arc::new(json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": namespace, "name": name}}))
        });
        claims.for_each(|claim| cluster.add_object(claim));
        self.placing.reconfigure(settings, profiles);
        self.placing.give_up_when(Box::new(move || bounds.are_exceeded()));
        let batch = Batch { bounds: BatchBounds::DEFAULT, scheduler_name: scheduler_name.as_deref() };
        let token = self.token(&surroundings);
        let answered = what_if_followed(&mut self.placing, &cluster, request, &batch, token);
        self.placing.give_up_when(Box::new(|| false));
        answered
    }

    /// A token that changes when a node, a pod or an object that the scheduler sees comes, changes or goes, and when the
    /// surroundings change. Tokens of two copies differ.
    fn token(&self, surroundings: &Cluster) -> String {
        let (process, surroundings) = (std::process::id(), surroundings.state_token());
        format!("{:x}-{process:x}-{:x}-{:x}-{surroundings}", *FIRST_ASKED, self.number, self.n_changes)
    }
}

impl Following for Followed {
    const KIND: CopyKind = CopyKind::Asked;

    fn apply(&mut self, batch: ChangeBatch) {
        if batch.is_first {
            *self = Self::new(self.settings);
        }
        self.is_complete = batch.is_complete;
        self.n_changes += u64::from(self.placing.follow(batch));
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_bounded_while_it_is_written() {
        assert_eq!(to_json(&json!([1, 2]), 5).expect("it has five bytes"), b"[1,2]");
        let refused = to_json(&vec!["x".repeat(1 << 20); 3], 2 << 20).expect_err("it has more than three MiB");
        assert_eq!(refused.to_string(), "the answer took more than 2 MiB");
    }
}
