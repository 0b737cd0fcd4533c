//! The requests for pending pods with their whole JSON, and the answers to these requests.

use std::mem::replace;

use tokio::sync::oneshot;

/// Whether pending pods are sent with their whole JSON.
#[derive(Debug)]
pub(super) enum WholePods {
    NotWanted,
    /// The next complete list of whole pods answers these requests.
    Listing(Vec<oneshot::Sender<()>>),
    Sent,
}

impl WholePods {
    pub(super) fn new(pod_json: bool) -> Self {
        if pod_json { Self::Listing(Vec::new()) } else { Self::NotWanted }
    }

    /// Answers the request as soon as all pods were sent whole. Returns whether pods must be listed again for this.
    pub(super) fn request(&mut self, answer: oneshot::Sender<()>) -> bool {
        match self {
            Self::NotWanted => {
                *self = Self::Listing(vec![answer]);
                return true;
            }
            Self::Listing(answers) => answers.push(answer),
            Self::Sent => {
                // The caller may have stopped waiting.
                let _ = answer.send(());
            }
        }
        false
    }

    /// Notes that all pods were sent whole.
    pub(super) fn sent(&mut self) {
        if let Self::Listing(answers) = replace(self, Self::Sent) {
            for answer in answers {
                // The caller may have stopped waiting.
                let _ = answer.send(());
            }
        }
    }
}
