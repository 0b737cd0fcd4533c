//! The answer to a watch after the rules were applied: the answer may be cut or silenced, or events may be sent twice.
//!
//! Rules that are added while the watch is open also apply to the watch. Events are lines of JSON. A watch in another
//! format can only be cut and silenced.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, BodyDataStream};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{engine::Faults, request_info::RequestInfo, stopping::stopped};

/// The error that ends a connection in the middle of its answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("a fault rule breaks this connection")]
    ByRule,
    #[error("the API server's answer ended early: {0}")]
    Behind(#[source] axum::Error),
}

struct WatchStream {
    /// The answer; `None` once the watch is silent.
    answer: Option<BodyDataStream>,
    request: RequestInfo,
    faults: Arc<Faults>,
    changed: watch::Receiver<u64>,
    stopping: watch::Receiver<bool>,
    n_rules_seen: u64,
    cut_at: Option<Instant>,
    silent_at: Option<Instant>,
    lines: Lines,
    is_over: bool,
}

/// The position of the stream within its lines.
#[derive(Debug, Default)]
struct Lines {
    /// The beginning of an incomplete line.
    begun: BytesMut,
    /// Whether the beginning of the current line was already sent.
    is_passing: bool,
}

/// Wraps the answer to a watch.
pub(crate) fn wrap(body: Body, request: RequestInfo, faults: &Arc<Faults>, stopping: watch::Receiver<bool>) -> Body {
    let changed = faults.subscribe();
    let watch = WatchStream {
        answer: Some(body.into_data_stream()),
        request,
        faults: Arc::clone(faults),
        changed,
        stopping,
        n_rules_seen: 0,
        cut_at: None,
        silent_at: None,
        lines: Lines::default(),
        is_over: false,
    };
    Body::from_stream(stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next().await?;
        Some((chunk, watch))
    }))
}

impl WatchStream {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        while !self.is_over {
            self.changed.borrow_and_update();
            self.take_new_rules();
            tokio::select! {
                biased;
                () = stopped(&mut self.stopping) => self.is_over = true,
                () = until(self.cut_at) => {
                    self.is_over = true;
                    return Some(Err(Broken::ByRule));
                }
                () = until(self.silent_at) => {
                    self.silent_at = None;
                    self.answer = None;
                }
                // The sender lives as long as `faults`.
                _ = self.changed.changed() => {}
                chunk = next_chunk(&mut self.answer) => match chunk {
                    None => self.is_over = true,
                    Some(Err(error)) => {
                        self.is_over = true;
                        return Some(Err(Broken::Behind(error)));
                    }
                    Some(Ok(chunk)) => {
                        let chunk = self.repeat_events(chunk);
                        if !chunk.is_empty() {
                            return Some(Ok(chunk));
                        }
                    }
                },
            }
        }
        None
    }

    fn take_new_rules(&mut self) {
        let (verdict, n_rules) = self.faults.judge_watch(&self.request, self.n_rules_seen);
        self.n_rules_seen = n_rules;
        let now = Instant::now();
        let sooner =
            |old: Option<Instant>, after: Option<Duration>| old.into_iter().chain(after.map(|after| now + after)).min();
        self.cut_at = sooner(self.cut_at, verdict.cut_after);
        if self.answer.is_some() {
            self.silent_at = sooner(self.silent_at, verdict.silent_after);
        }
        // A timer may be a millisecond late, and one event too many would then be sent.
        if self.silent_at.is_some_and(|at| at <= now) {
            self.silent_at = None;
            self.answer = None;
        }
    }

    fn repeat_events(&mut self, chunk: Bytes) -> Bytes {
        if self.lines.begun.is_empty() && !self.faults.may_repeat(&self.request) {
            self.lines.is_passing = chunk.last().map_or(self.lines.is_passing, |last| *last != b'\n');
            return chunk;
        }
        self.lines.split(&chunk, |line| is_event(line) && self.faults.repeats_event(&self.request))
    }
}

impl Lines {
    /// Returns the whole lines that have arrived. Lines for which `comes_twice` is true are repeated.
    fn split(&mut self, chunk: &[u8], mut comes_twice: impl FnMut(&[u8]) -> bool) -> Bytes {
        let mut out = BytesMut::with_capacity(chunk.len() * 2);
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end + 1);
            rest = after;
            if self.is_passing {
                out.extend_from_slice(line);
                self.is_passing = false;
                continue;
            }
            self.begun.extend_from_slice(line);
            out.extend_from_slice(&self.begun);
            if comes_twice(&self.begun) {
                out.extend_from_slice(&self.begun);
            }
            self.begun.clear();
        }
        let unfinished = if self.is_passing { &mut out } else { &mut self.begun };
        unfinished.extend_from_slice(rest);
        out.freeze()
    }
}

/// Whether the line is about an object. A line may also be a bookmark or an error.
fn is_event(line: &[u8]) -> bool {
    [&br#"{"type":"ADDED""#[..], br#"{"type":"MODIFIED""#, br#"{"type":"DELETED""#]
        .iter()
        .any(|start| line.starts_with(start))
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn next_chunk(answer: &mut Option<BodyDataStream>) -> Option<Result<Bytes, axum::Error>> {
    match answer {
        Some(answer) => answer.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_events_come_twice_however_they_are_cut() {
        let text = b"{\"type\":\"ADDED\",\"object\":1}\n{\"type\":\"BOOKMARK\"}\n{\"type\":\"DELETED\",\"object\":2}\n";
        let wanted = "{\"type\":\"ADDED\",\"object\":1}\n{\"type\":\"ADDED\",\"object\":1}\n{\"type\":\"BOOKMARK\"}\n\
                      {\"type\":\"DELETED\",\"object\":2}\n{\"type\":\"DELETED\",\"object\":2}\n";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let out: Vec<u8> = text.chunks(size).flat_map(|chunk| lines.split(chunk, is_event)).collect();
            assert_eq!(String::from_utf8_lossy(&out), wanted, "chunks of {size}");
        }
    }

    #[test]
    fn a_line_whose_beginning_is_sent_is_left_alone() {
        let mut lines = Lines { is_passing: true, ..Lines::default() };
        assert_eq!(
            &lines.split(b"tail\n{\"type\":\"ADDED\"}\n", is_event)[..],
            b"tail\n{\"type\":\"ADDED\"}\n{\"type\":\"ADDED\"}\n"
        );
    }
}
